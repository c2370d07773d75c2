package view

import (
	"io"

	"github.com/locktree/locktree/plan"
)

// What the tests, which are programs like any other, know of the inside.

const UIVersion = uiVersion

var (
	DiagnosticsJSON = diagnosticsJSON
	Explained       = explain
	ListChange      = listChange
	Snippet         = snippet
)

// OutputChanges writes what a plan says of outputs.
func OutputChanges(w io.Writer, changes []plan.OutputChange) {
	planText{Stream: Stream{Writer: w}}.outputs([]*plan.Plan{{Outputs: changes}})
}
