package planview

import (
	"io"

	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/plan"
)

// ListChange is what the tests know of the inside.
var ListChange = listChange

// OutputChanges writes what a plan says of outputs.
func OutputChanges(w io.Writer, changes []plan.OutputChange) {
	outputChanges(view.Stream{Writer: w}, []*plan.Plan{{Outputs: changes}})
}
