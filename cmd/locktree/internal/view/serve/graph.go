package serve

import (
	"fmt"
	"html/template"
	"math"
	"strings"

	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/recipes/inspect"
	"github.com/locktree/locktree/recipes/kind"
)

// waitLine is one contender that waits, in words.
type waitLine struct{ Lock, Link, Text string }

// deadlock is one, in words and as a drawing.
type deadlock struct {
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

func (e *Ensemble) deadlocks() (out []deadlock) {
	for _, d := range e.Snapshot.Waits.Deadlocks {
		out = append(out, deadlock{Text: sentence(d), Image: drawing(d)})
	}
	return out
}

const (
	maxDrawn  = 25 // locks
	maxBeside = 4  // who waits for each, and who holds it
)

// queues draws the locks that somebody waits for: waiters at the left, each with an arrow to the lock, and the lock with an
// arrow to who holds it. Everything in it stands in the table beside it as text.
func (b *Board) queues() template.HTML {
	const left, middle, right, width, line = 8.0, 250.0, 500.0, 210.0, 30.0
	var out strings.Builder
	y, drawn := 8.0, 0
	box := func(class string, x, y float64, text string) {
		fmt.Fprintf(&out, `<rect class="%s" x="%.0f" y="%.0f" width="%.0f" height="24" rx="4"/>%s`, class, x, y, width, label("", x+width/2, y+16, width, "", text))
	}
	arrow := func(x1, y1, x2, y2 float64) {
		fmt.Fprintf(&out, `<path class="way" marker-end="url(#way)" d="M%.0f %.0fL%.0f %.0f"/>`, x1, y1+12, x2, y2+12)
	}
	for i := range b.ensembles {
		e := &b.ensembles[i]
		if e.Snapshot == nil {
			continue
		}
		for _, in := range e.Snapshot.Locks {
			if len(in.Waiters) == 0 || drawn == maxDrawn {
				continue
			}
			drawn++
			held, waited := view.Parties(in)
			holders, waiters := names(held), names(waited)
			rows := float64(max(len(waiters), len(holders)))
			at := y + (rows-1)*line/2
			for n, name := range waiters {
				box("party", left, y+float64(n)*line, name)
				arrow(left+width, y+float64(n)*line, middle, at)
			}
			box("lock", middle, at, in.Path)
			for n, name := range holders {
				box("party", right, y+float64(n)*line, name)
				arrow(middle+width, at, right, y+float64(n)*line)
			}
			y += rows*line + 14
		}
	}
	if drawn == 0 {
		return ""
	}
	return template.HTML(fmt.Sprintf(`<svg class="large" viewBox="0 0 718 %.0f" role="img" aria-label="%d locks with who waits for them and who holds them, as the table below says">`, y, drawn) + //nolint:gosec // every text went through label
		`<defs><marker id="way" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z"/></marker></defs>` + out.String() + "</svg>")
}

// names are the first few, and how many more there are.
func names(cs []inspect.Contender) (out []string) {
	for i, c := range cs {
		if i == maxBeside {
			return append(out, fmt.Sprintf("and %d more", len(cs)-i))
		}
		out = append(out, who(c))
	}
	return out
}

// label is a text in a box of a drawing, behind a verb, or its end, where it is too long. What is nearly as long as the box is
// told how wide to be: letters differ, and fonts do.
func label(class string, x, y, width float64, verb, text string) string {
	size := 7.0 // of a letter
	if class != "" {
		size, class = 6.2, fmt.Sprintf(` class="%s"`, class)
	}
	r, room := []rune(inspect.Visible(text)), int((width-10)/size)-len(verb)
	if len(r) > room {
		r = append([]rune{'…'}, r[len(r)-room+1:]...)
	}
	r = append([]rune(verb), r...)
	squeeze := ""
	if len(r) > room*4/5 {
		squeeze = fmt.Sprintf(` textLength="%.0f" lengthAdjust="spacingAndGlyphs"`, float64(len(r))*size)
	}
	return fmt.Sprintf(`<text%s x="%.0f" y="%.0f"%s>%s</text>`, class, x, y, squeeze, template.HTMLEscapeString(inspect.Visible(string(r))))
}

// maxParties is how many parties of a deadlock are drawn. A larger one stands there as text only.
const maxParties = 8

// drawing puts the parties on a ring, each with an arrow to the one it waits for, and two of them side by side. Everything in it
// stands beside it as text.
func drawing(d inspect.Deadlock) template.HTML {
	const box, high, bend = 190.0, 44.0, 0.18
	n := float64(len(d))
	if len(d) > maxParties {
		return ""
	}
	radius, start := math.Max(160, n*(box+20)/2/math.Pi), -math.Pi/2
	width, height := 2*radius+box+20, 2*radius+high+20
	if len(d) == 2 {
		start, height = math.Pi, 2*high+20
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg viewBox="0 0 %.0f %.0f" role="img" aria-label="%s"><defs><marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="6" markerHeight="6" orient="auto"><path class="tip" d="M0 0L8 4L0 8z"/></marker></defs>`,
		width, height, template.HTMLEscapeString(sentence(d)))
	at := func(i int) (x, y float64) {
		a := start + 2*math.Pi*float64(i)/n
		return width/2 + radius*math.Cos(a), height/2 + radius*math.Sin(a)
	}
	for i := range d {
		x1, y1 := at(i)
		x2, y2 := at((i + 1) % len(d))
		dx, dy := x2-x1, y2-y1
		// From the border of one box to that of the next, bent outwards so that two arrows between two boxes stay apart.
		cut := math.Min(box/2/math.Max(math.Abs(dx), 1), high/2/math.Max(math.Abs(dy), 1))
		mx, my := (x1+x2)/2+dy*bend, (y1+y2)/2-dx*bend
		fmt.Fprintf(&b, `<path class="edge" marker-end="url(#arrow)" d="M%.0f %.0fQ%.0f %.0f %.0f %.0f"/>`, x1+dx*cut, y1+dy*cut, mx, my, x2-dx*cut, y2-dy*cut)
	}
	for i, s := range d {
		x, y := at(i)
		verb := "holds "
		if s.Ahead {
			verb = "ahead in "
		}
		fmt.Fprintf(&b, `<rect class="party" x="%.0f" y="%.0f" width="%v" height="%v" rx="6"/>%s%s`,
			x-box/2, y-high/2, box, high, label("", x, y-4, box, "", s.Who), label("label", x, y+12, box, verb, s.Holds))
	}
	b.WriteString("</svg>")
	return template.HTML(b.String()) //nolint:gosec // every text in it went through label or an escape
}
