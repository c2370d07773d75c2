package view

import (
	"fmt"
	"time"

	"github.com/locktree/locktree/apply/event"
	"github.com/locktree/locktree/plan"
)

// Changes that are many and alike are one entry on a terminal.
const (
	manyChanges = 200 // more of them than that
	fewAlike    = 3   // no more alike than that stay whole; of others, so many are named
)

// Many reports whether plans have so many changes that a person reads those that are alike as one.
func Many(plans []*plan.Plan) bool {
	n := 0
	for _, p := range plans {
		for _, c := range p.Changes {
			if c.Action != plan.NoOp {
				n++
			}
		}
	}
	return n > manyChanges
}

// likeness is what changes have in common that are one entry.
type likeness struct {
	block  plan.Addr
	action plan.Action
	drift  bool
}

// plain reports whether a change is a creation of which there is nothing more to say than that.
func plain(c *plan.Change) bool {
	return c.Action == plan.Create && c.PreviousAddr == "" && c.Importing == "" && !c.Revive &&
		!c.Usage.Busy() && c.Relists() == ""
}

// alike finds the changes that are one entry: plain creations of one block, if they are more than a few.
func alike(changes []*plan.Change) map[likeness][]*plan.Change {
	out := map[likeness][]*plan.Change{}
	for _, c := range changes {
		if plain(c) {
			of := likenessOf(c)
			out[of] = append(out[of], c)
		}
	}
	for of, all := range out {
		if len(all) <= fewAlike {
			delete(out, of)
		}
	}
	return out
}

func likenessOf(c *plan.Change) likeness { return likeness{c.Addr.Block(), c.Action, c.Drift} }

// group is the entry for changes that are alike.
func (t planText) group(all []*plan.Change) {
	first := all[0]
	t.printf("\n  %s\n", t.loud(fmt.Sprintf("# %s %s, %d times", clean(first.Addr.Block()), verb(first), len(all))))
	if first.Drift {
		t.printf("  %s\n", deleted)
	}
	for _, c := range all[:fewAlike] {
		t.printf("%s %s\n", t.head(c), clean(c.Addr))
	}
	t.printf("    # (and %d more)\n", len(all)-fewAlike)
}

// AppliedGroup is the changes of one block that an apply made, in place of an event for each.
type AppliedGroup struct {
	Ensemble string
	Block    plan.Addr
	Action   plan.Action
	First    []event.Applied // the first few
	Count    int
	Elapsed  time.Duration // the longest
}

// Add counts one more.
func (g *AppliedGroup) Add(e event.Applied) {
	if g.Count++; len(g.First) < fewAlike {
		g.First = append(g.First, e)
	}
	g.Elapsed = max(g.Elapsed, e.Elapsed)
}

func (g AppliedGroup) text(h *Human) {
	if g.Count <= fewAlike {
		for _, e := range g.First {
			Event{g.Ensemble, e}.text(h)
		}
		return
	}
	h.out.printf("%s\n", h.out.paint(bold)(fmt.Sprintf("%s: %s after %s, %d times", clean(g.Block), progress[g.Action][1], elapsed(g.Elapsed), g.Count)))
}

// A stream has every event by itself, so this is only a line for people.
func (g AppliedGroup) json(s *machine) {
	s.message(fmt.Sprintf("%s: %s, %d times", g.Block, progress[g.Action][1], g.Count))
}
