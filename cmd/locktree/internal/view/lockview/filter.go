package lockview

import (
	"fmt"
	"strings"
	"time"

	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/recipes/inspect"
)

// Filter says which locks are shown: those that fit all of it. The zero Filter shows everything.
type Filter struct {
	InUse  bool
	Owner  string        // as declared
	Longer time.Duration // a contender has held it or waited for it for longer
}

// of are the locks that fit. Nodes that contain locks are left out, unless everything is shown.
func (f Filter) of(locks []*inspect.Report, now time.Time) (out []*inspect.Report) {
	if f == (Filter{}) {
		return locks
	}
	for _, in := range locks {
		fits := f.Longer == 0
		for c := range in.Contenders {
			fits = fits || Age(*c, now) > f.Longer
		}
		if fits && !in.Kind.Container && (in.Busy() || !f.InUse) && (f.Owner == "" || in.Payload.Limits().Owner == f.Owner) {
			out = append(out, in)
		}
	}
	return out
}

// String is as it was given on the command line.
func (f Filter) String() string {
	var flags []string
	if f.InUse {
		flags = append(flags, "-in-use")
	}
	if f.Owner != "" {
		flags = append(flags, "-owner="+view.Clean(f.Owner))
	}
	if f.Longer != 0 {
		flags = append(flags, "-longer="+f.Longer.String())
	}
	return strings.Join(flags, " ")
}

// tally is the line below a list of locks.
func (f Filter) tally(shown, all []*inspect.Report) string {
	if f == (Filter{}) {
		return tally(all)
	}
	n := 0
	for _, in := range all {
		if !in.Kind.Container {
			n++
		}
	}
	return fmt.Sprintf("%s (of %d, with %s)", tally(shown), n, f)
}

// filterDoc is the filter in a document, whose locks are only those that fit.
type filterDoc struct {
	InUse    bool   `json:"in_use,omitempty"`
	Owner    string `json:"owner,omitempty"`
	LongerMs int64  `json:"longer_ms,omitempty"`
}
