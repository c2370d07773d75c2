package page

import (
	"fmt"
	"slices"
	"strings"

	"github.com/locktree/locktree/cmd/locktree/internal/view/lockview"
	"github.com/locktree/locktree/recipes/inspect"
)

// limits finds who is beyond what was declared of the lock. Where that has a cause that is told already, it is told there.
func (p *problemsOf) limits(in *inspect.Report) {
	own := -1
	for _, x := range lockview.Exceeded(in, p.e.Snapshot.At) {
		lock, of := in, ""
		if x.Key != nil {
			lock, of = x.Key, " (key "+lockview.KeyName(x.Key.Key)+")"
		}
		if x.Keys > 1 {
			of = fmt.Sprintf(" (key %s, one of %d that are beyond it)", lockview.KeyName(x.Key.Key), x.Keys)
		}
		s, does := p.e.sight(x.Who), "has held it"
		if x.Limit == "max_wait" {
			does = "has waited"
		}
		text := fmt.Sprintf("%s (%s) %s for %s%s; %s is %s.", s.Who(), s.Details(), does, x.Age, of, x.Limit, x.Declared)
		at, known := p.cause(lock, x)
		switch {
		case known:
		case x.Limit == "max_wait" && own >= 0 && slices.Contains(p.found[own].Locks, lock.Path): // held for too long
			at, known = own, true
		}
		if known {
			text = fmt.Sprintf("%s %s for %s%s at %s; %s is %s.", s.Who(), strings.Replace(does, " it", "", 1), x.Age, of, clip(lock.Path), x.Limit, x.Declared)
			p.found[at].Also = append(p.found[at].Also, text)
		} else {
			what, command := "longer than declared", p.e.evict("revoke", lock.Path, x.Who)
			if x.Limit == "max_wait" {
				what, command = "waits longer than declared", p.e.look(lock.Path)
			}
			at = len(p.found)
			p.add(true, what, lock.Path, text, command)
			own = at
		}
		found := &p.found[at]
		if over := x.Times; over > found.Over {
			found.Over, found.Limit = over, x.Limit
		}
		if found.Over >= urgentOver {
			found.Severity = Urgent
		}
	}
}

// cause is the problem that explains why a limit is exceeded: a deadlock, or a holder that is not connected.
func (p *problemsOf) cause(in *inspect.Report, x lockview.Excess) (at int, known bool) {
	if x.Limit == "max_hold" {
		at, known = p.causes[x.Who.Session]
		return at, known
	}
	for _, c := range in.Holders {
		if at, known = p.causes[c.Session]; known {
			return at, true
		}
	}
	at, known = p.causes[x.Who.Session]
	return at, known && p.found[at].What == "deadlock" && slices.Contains(p.found[at].Locks, in.Path)
}
