package page

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/recipes/inspect"
	"github.com/locktree/locktree/recipes/kind"
)

// waitLine is one contender that waits, in words.
type waitLine struct {
	Lock, Link, Text, For string
	Over                  bool // longer than declared
}

// maxWaits is how many waits are listed.
const maxWaits = 500

// waits are who waits for whom, in words, without the waits that are in a circle.
func waits(e *Ensemble) (out []waitLine) {
	in := map[inspect.Step]bool{}
	for _, d := range e.Snapshot.Waits.Deadlocks {
		for _, s := range d {
			in[inspect.Step{Owner: s.Owner, Waits: s.Waits}] = true
		}
	}
	for _, w := range e.Snapshot.Waits.All {
		if len(out) == maxWaits {
			break
		}
		if in[inspect.Step{Owner: w.Waiter.Session, Waits: w.Lock}] {
			continue
		}
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
		s, most := e.sight(w.Waiter), time.Duration(0)
		if in := e.find(w.Lock); in != nil {
			most = in.Payload.Limits().Wait()
		}
		out = append(out, waitLine{w.Lock, lockLink(e.Name, w.Lock), text, s.For(), beyond(s, most)})
	}
	return out
}

// beyond reports whether somebody has held or waited for longer than declared.
func beyond(s kind.Sight, most time.Duration) bool {
	return most > 0 && time.Duration(s.ForMs)*time.Millisecond > most
}

// party is a step of a deadlock, with what is known of who it is.
type party struct {
	inspect.Step
	Holder, Waiter       person // of the lock that it holds, and of the one that it waits for
	HoldsLink, WaitsLink string
	waiter               inspect.Contender
}

// circle is a deadlock with what is known of its parties.
func circle(e *Ensemble, d inspect.Deadlock) (out []party) {
	of := func(cs []inspect.Contender, s inspect.Step) (c inspect.Contender) {
		if i := slices.IndexFunc(cs, func(c inspect.Contender) bool { return c.Session == s.Owner && (s.Owner != 0 || who(c) == clip(s.Who)) }); i >= 0 {
			c = cs[i]
		}
		return c
	}
	for _, s := range d {
		p := party{Step: s, HoldsLink: lockLink(e.Name, s.Holds), WaitsLink: lockLink(e.Name, s.Waits)}
		if in := e.find(s.Holds); in != nil {
			held := in.Holders
			if s.Ahead {
				held = in.Waiters
			}
			p.Holder = e.person(of(held, s), 0)
			p.Holder.Over = !s.Ahead && beyond(p.Holder.Sight, in.Payload.Limits().Hold())
		}
		if in := e.find(s.Waits); in != nil {
			p.waiter = of(in.Waiters, s)
			p.Waiter = e.person(p.waiter, 0)
			p.Waiter.Over = beyond(p.Waiter.Sight, in.Payload.Limits().Wait())
		}
		p.Who = clip(s.Who)
		out = append(out, p)
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
