package apply

import (
	"fmt"

	"github.com/locktree/locktree/apply/failure"
)

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
	if len(more) == 0 && !failure.WrittenNothing(err) {
		return err
	}
	return failure.Besides(r.prepared, err)
}
