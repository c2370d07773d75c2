package view

// The tests use these internal names.

var (
	DiagnosticsJSON = diagnosticsJSON
	Explained       = partsOf
	Snippet         = snippet
)
