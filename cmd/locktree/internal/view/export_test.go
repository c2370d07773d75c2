package view

// The tests use these names of the inside.

var (
	DiagnosticsJSON = diagnosticsJSON
	Explained       = partsOf
	Snippet         = snippet
)
