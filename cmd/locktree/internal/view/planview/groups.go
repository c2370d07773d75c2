package planview

import (
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
