package view

// What the tests, which are programs like any other, know of the inside.

const UIVersion = uiVersion

var (
	DiagnosticsJSON = diagnosticsJSON
	Explained       = partsOf
	Snippet         = snippet
)
