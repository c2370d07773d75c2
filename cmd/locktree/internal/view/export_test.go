package view

// The tests use these names of the inside.

const UIVersion = uiVersion

var (
	DiagnosticsJSON = diagnosticsJSON
	Explained       = partsOf
	Snippet         = snippet
)
