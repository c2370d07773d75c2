package serve

import (
	"fmt"
	"html/template"
	"math"
	"strings"

	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/recipes/inspect"
)

// waitLine is one contender that waits, in words.
type waitLine struct{ Lock, Link, Who, Text string }

// circle is a deadlock, in words and as a drawing.
type circle struct {
	Text  string
	Image template.HTML
}

// maxWaits is how many waits are listed.
const maxWaits = 500

// waits are who waits for whom, in words.
func (e *Ensemble) waits() (out []waitLine) {
	for _, w := range e.Snapshot.Waits.All[:min(maxWaits, len(e.Snapshot.Waits.All))] {
		verb, held := " waits for ", w.Held
		if w.Any {
			verb, held = " waits for one of ", view.PerClient(w.Held)
		}
		names := []string{}
		for _, c := range held {
			names = append(names, who(c))
		}
		text := who(w.Waiter) + verb + few(names)
		if len(names) == 0 {
			text = who(w.Waiter) + " waits"
		}
		if n := len(w.Behind); n > 0 {
			text += fmt.Sprintf(", behind %d more", n)
		}
		out = append(out, waitLine{Lock: w.Lock, Link: lockLink(e.Name, w.Lock), Who: who(w.Waiter), Text: text})
	}
	return out
}

func few(names []string) string {
	if len(names) > 3 {
		return strings.Join(names[:3], ", ") + fmt.Sprintf(" and %d more", len(names)-3)
	}
	return strings.Join(names, ", ")
}

// circles are the deadlocks.
func (e *Ensemble) circles() (out []circle) {
	for _, d := range e.Snapshot.Waits.Deadlocks {
		out = append(out, circle{Text: clip(d.String()), Image: drawing(d)})
	}
	return out
}

// drawing puts the parties on a ring, each with an arrow to the one it waits for. Everything in it stands beside it as text.
func drawing(d inspect.Deadlock) template.HTML {
	const size, radius, box, high = 420.0, 140.0, 150.0, 44.0
	var b strings.Builder
	esc := func(s string) string {
		if r := []rune(inspect.Visible(s)); len(r) > 22 {
			s = "…" + string(r[len(r)-21:])
		}
		return template.HTMLEscapeString(inspect.Visible(s))
	}
	fmt.Fprintf(&b, `<svg viewBox="0 0 %v %v" role="img" aria-label="%s"><defs><marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto"><path class="tip" d="M0 0L8 4L0 8z"/></marker></defs>`,
		size, size, template.HTMLEscapeString(clip(d.String())))
	at := func(i int) (x, y float64) {
		a := 2*math.Pi*float64(i)/float64(len(d)) - math.Pi/2
		return size/2 + radius*math.Cos(a), size/2 + radius*math.Sin(a)
	}
	for i, s := range d {
		x1, y1 := at(i)
		x2, y2 := at((i + 1) % len(d))
		dx, dy := x2-x1, y2-y1
		// From the border of one box to that of the next, bent outwards so that two arrows between two boxes stay apart.
		cut := math.Min(box/2/math.Max(math.Abs(dx), 1), high/2/math.Max(math.Abs(dy), 1))
		bend := 0.18
		mx, my := (x1+x2)/2+dy*bend, (y1+y2)/2-dx*bend
		fmt.Fprintf(&b, `<path class="edge" marker-end="url(#arrow)" d="M%.0f %.0fQ%.0f %.0f %.0f %.0f"/>`, x1+dx*cut, y1+dy*cut, mx, my, x2-dx*cut, y2-dy*cut)
		fmt.Fprintf(&b, `<text class="label" x="%.0f" y="%.0f">%s</text>`, mx, my, esc(s.Waits))
	}
	for i, s := range d {
		x, y := at(i)
		verb := "holds "
		if s.Ahead {
			verb = "ahead in "
		}
		fmt.Fprintf(&b, `<rect class="party" x="%.0f" y="%.0f" width="%v" height="%v" rx="6"/><text x="%.0f" y="%.0f">%s</text><text class="label" x="%.0f" y="%.0f">%s%s</text>`,
			x-box/2, y-high/2, box, high, x, y-4, esc(s.Who), x, y+12, verb, esc(s.Holds))
	}
	b.WriteString("</svg>")
	return template.HTML(b.String()) //nolint:gosec // every text in it went through esc
}
