package view

import (
	"slices"
	"strings"

	"github.com/locktree/locktree/apply"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes/inspect"
)

// Checkup is what doctor found, by ensemble.
type Checkup struct{ Ensembles []CheckupOf }

// CheckupOf is about one ensemble.
type CheckupOf struct {
	Ensemble string
	Servers  []CheckupServer
	Together []inspect.Condition // of all servers
	Root     string
	apply.Checkup
}

// CheckupServer is one server: they may be configured differently.
type CheckupServer struct {
	Server     string
	Conditions []inspect.Condition
}

// Count is how many conditions there are of a verdict.
func (c Checkup) Count(v inspect.Verdict) (n int) {
	for _, e := range c.Ensembles {
		for _, k := range e.all() {
			if k.Verdict == v {
				n++
			}
		}
	}
	return n
}

func (e CheckupOf) all() []inspect.Condition {
	var out []inspect.Condition
	for _, s := range e.Servers {
		out = append(out, s.Conditions...)
	}
	return slices.Concat(out, e.Together, e.Locks)
}

func (c Checkup) text(h *Human) {
	for _, e := range c.Ensembles {
		for _, s := range e.Servers {
			h.out.printf("%s  %s\n\n", h.out.paint(bold)(e.Ensemble), clean(s.Server))
			h.conditions(s.Conditions)
		}
		if len(e.Together) > 0 {
			h.out.printf("%s  all servers\n\n", h.out.paint(bold)(e.Ensemble))
			h.conditions(e.Together)
		}
		h.out.printf("%s  %s, %d %s checked\n\n", h.out.paint(bold)(e.Ensemble), clean(e.Root), e.Checked, plural(e.Checked, "lock", "locks"))
		h.conditions(e.Locks)
		if e.Cut {
			h.out.printf("  There are more locks, which were not checked.\n\n")
		}
	}
	h.out.printf("%d %s, %d unsure, %d fail.\n", c.Count(inspect.VerdictHolds), plural(c.Count(inspect.VerdictHolds), "condition holds", "conditions hold"), c.Count(inspect.VerdictUnsure), c.Count(inspect.VerdictFails))
}

func (h *Human) conditions(list []inspect.Condition) {
	for _, k := range list {
		colour := map[inspect.Verdict]string{inspect.VerdictHolds: green, inspect.VerdictUnsure: yellow, inspect.VerdictFails: red}[k.Verdict]
		h.out.printf("  %s  %s: %s\n", h.out.paint(colour)((k.Verdict.String() + "      ")[:6]), clean(k.Name), clean(plan.Plain(k.What)))
		if k.Verdict == inspect.VerdictHolds {
			continue
		}
		h.out.printf("          %s\n", full(clean(k.Why)))
		h.out.printf("          %s\n", full(clean(next(k))))
	}
	if len(list) > 0 {
		h.out.printf("\n")
	}
}

// next is what to do, and where to set what the library speaks of.
func next(k inspect.Condition) string {
	switch {
	case k.Verdict != inspect.VerdictHolds && strings.Contains(k.Next, "session timeout"):
		return full(k.Next) + " The session timeout is session_timeout of the ensemble block, or ZOOKEEPER_SESSION."
	case k.Verdict != inspect.VerdictHolds && strings.Contains(k.Next, "credentials"):
		return full(k.Next) + " " + credentialsAre
	}
	return k.Next
}

// Checkup writes what doctor found out.
func (c Checkup) json(m *machine) {
	list := func(ks []inspect.Condition) []fields {
		out := []fields{}
		for _, k := range ks {
			out = append(out, fields{"name": k.Name, "verdict": k.Verdict.String(), "what": strings.TrimSpace(plan.Plain(k.What)), "why": k.Why, "next": next(k)})
		}
		return out
	}
	ensembles := []fields{}
	for _, e := range c.Ensembles {
		servers := []fields{}
		for _, s := range e.Servers {
			servers = append(servers, fields{"server": s.Server, "conditions": list(s.Conditions)})
		}
		ensembles = append(ensembles, fields{"ensemble": e.Ensemble, "root": e.Root, "servers": servers, "conditions": list(e.Together), "locks_checked": e.Checked, "cut": e.Cut, "locks": list(e.Locks)})
	}
	m.document(fields{"format_version": "1.0", "ensembles": ensembles,
		"holds": c.Count(inspect.VerdictHolds), "unsure": c.Count(inspect.VerdictUnsure), "fails": c.Count(inspect.VerdictFails)})
}
