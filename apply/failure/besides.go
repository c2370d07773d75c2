package failure

import (
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/locktree/locktree/plan"
)

// Besides is what an apply has written that is not of its plan. The zero value is nothing.
type Besides struct {
	clauses []string
	keys    atomic.Int32
}

// Add adds a clause.
func (b *Besides) Add(clause string) { b.clauses = append(b.clauses, clause) }

// Swept counts the node of a key that nobody used, which was deleted. It is safe for concurrent use.
func (b *Besides) Swept() { b.keys.Add(1) }

// Say adds to an error what the apply has written although nothing of the plan was, more included.
func (b *Besides) Say(err error, more ...string) error {
	switch n := b.keys.Swap(0); n {
	case 0:
	case 1:
		b.Add("the node of a key, which nobody used, was deleted")
	default:
		b.Add(fmt.Sprintf("the nodes of %d keys, which nobody used, were deleted", n))
	}
	b.clauses = append(b.clauses, more...)
	if len(b.clauses) == 0 || len(more) == 0 && !strings.Contains(plan.Explain(err).Written, NothingWritten) {
		return err
	}
	return &besidesError{b.clauses, err}
}

// besidesError: nothing of the plan was written because of err, but what prepares it was.
type besidesError struct {
	prepared []string // clauses
	err      error
}

func (e *besidesError) Explain() plan.Explanation {
	x := plan.Explain(e.err)
	x.Written = strings.TrimSpace(strings.ReplaceAll(x.Written, NothingWritten, "") + " Nothing of the plan was written, but " + strings.Join(e.prepared, ", and ") + ".")
	return x
}

func (e *besidesError) Error() string { return message(e) }
func (e *besidesError) Unwrap() error { return e.err }
