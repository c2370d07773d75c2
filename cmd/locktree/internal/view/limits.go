package view

import (
	"fmt"
	"strings"
	"time"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/inspect"
	"github.com/locktree/locktree/recipes/kind"
)

// Excess is a declared limit that somebody is beyond.
type Excess struct {
	Limit    string // max_hold or max_wait
	Declared string
	Age      time.Duration
	Who      recipes.Contender // the one who is beyond it for the longest
}

// Exceeded are the limits of a lock that its holders and waiters are beyond.
func Exceeded(l kind.Limits, holders, waiters []recipes.Contender, now time.Time) (out []Excess) {
	add := func(name, declared string, most time.Duration, cs []recipes.Contender) {
		x := Excess{Limit: name, Declared: declared}
		for _, c := range cs {
			if at := Since(c); !at.IsZero() && now.Sub(at) > x.Age {
				x.Age, x.Who = now.Sub(at), c
			}
		}
		if most > 0 && x.Age > most {
			x.Age = x.Age.Truncate(time.Second)
			out = append(out, x)
		}
	}
	add("max_hold", l.MaxHold, l.Hold(), holders)
	add("max_wait", l.MaxWait, l.Wait(), waiters)
	return out
}

// limitsLine is what was declared of a lock and what of it is exceeded, "" where nothing was.
func limitsLine(l kind.Limits, over []Excess) string {
	var parts []string
	for _, p := range [][2]string{{"max_hold", l.MaxHold}, {"max_wait", l.MaxWait}, {"owner", l.Owner}, {"runbook", l.Runbook}} {
		if p[1] == "" {
			continue
		}
		text := p[0] + " " + clean(p[1])
		if x, ok := excess(over, p[0]); ok {
			text += fmt.Sprintf(" exceeded (%s)", x.Age)
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ", ")
}

func excess(over []Excess, limit string) (Excess, bool) {
	for _, x := range over {
		if x.Limit == limit {
			return x, true
		}
	}
	return Excess{}, false
}

// addDeclared adds to the document of a lock what was declared of it.
func addDeclared(f fields, in *inspect.Report, nowMs int64) {
	if in.Kind.Permits != nil {
		f["permits"] = in.Kind.Permits(in.Payload.Params)
	}
	l := in.Payload.Limits()
	for name, text := range map[string]string{"max_hold": l.MaxHold, "max_wait": l.MaxWait, "owner": l.Owner, "runbook": l.Runbook} {
		if text != "" {
			f[name] = text
		}
	}
	if l.MaxHold+l.MaxWait != "" {
		names := []string{}
		for _, x := range exceeded(in, nowMs) {
			names = append(names, x.Limit)
		}
		f["exceeded"] = names
	}
}
