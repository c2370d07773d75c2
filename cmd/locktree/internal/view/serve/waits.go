package serve

import (
	"fmt"
	"strings"

	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/recipes/inspect"
	"github.com/locktree/locktree/recipes/kind"
)

// waitLine is one contender that waits, in words.
type waitLine struct{ Lock, Link, Text string }

// maxWaits is how many waits are listed.
const maxWaits = 500

// waits are who waits for whom, in words.
func (e *Ensemble) waits() (out []waitLine) {
	for _, w := range e.Snapshot.Waits.All[:min(maxWaits, len(e.Snapshot.Waits.All))] {
		verb, held := " waits for ", w.Held
		if w.Any {
			verb, held = " waits for one of ", kind.PerClient(w.Held)
		}
		names := []string{}
		for _, c := range held {
			names = append(names, who(c))
		}
		text := who(w.Waiter) + verb + view.FirstFew(names)
		if len(names) == 0 {
			text = who(w.Waiter) + " waits"
		}
		if n := len(w.Behind); n > 0 {
			text += fmt.Sprintf(", behind %d more", n)
		}
		out = append(out, waitLine{Lock: w.Lock, Link: lockLink(e.Name, w.Lock), Text: text})
	}
	return out
}

// sentence is a deadlock in words.
func sentence(d inspect.Deadlock) string {
	steps := make([]string, len(d))
	for i, s := range d {
		s.Who, s.Holds, s.Waits = clip(s.Who), clip(s.Holds), clip(s.Waits)
		steps[i] = s.String()
	}
	return strings.Join(steps, "; ")
}

// deadlocks are those of the ensemble, in words.
func (e *Ensemble) deadlocks() (out []string) {
	for _, d := range e.Snapshot.Waits.Deadlocks {
		out = append(out, sentence(d))
	}
	return out
}
