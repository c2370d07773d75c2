package apply

import (
	"fmt"
	"strings"

	"github.com/locktree/locktree/plan"
)

// besidesError: nothing of the plan was written because of err, but what prepares it was.
type besidesError struct {
	prepared []string // clauses
	err      error
}

func (e *besidesError) Explain() plan.Explanation {
	x := plan.Explain(e.err)
	x.Written = strings.TrimSpace(strings.ReplaceAll(x.Written, nothingWritten, "") + " Nothing of the plan was written, but " + strings.Join(e.prepared, ", and ") + ".")
	return x
}

// besides adds to an error what the apply has written although nothing of the plan was, more included.
func (r *job) besides(err error, more ...string) error {
	switch n := r.swept.Swap(0); n {
	case 0:
	case 1:
		r.prepared = append(r.prepared, "the node of a key, which nobody used, was deleted")
	default:
		r.prepared = append(r.prepared, fmt.Sprintf("the nodes of %d keys, which nobody used, were deleted", n))
	}
	r.prepared = append(r.prepared, more...)
	if len(r.prepared) == 0 || len(more) == 0 && !strings.Contains(plan.Explain(err).Written, nothingWritten) {
		return err
	}
	return &besidesError{r.prepared, err}
}

func (e *besidesError) Error() string { return message(e) }
func (e *besidesError) Unwrap() error { return e.err }
