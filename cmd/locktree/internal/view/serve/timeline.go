package serve

import (
	"cmp"
	"slices"
	"time"

	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/plan/document"
	"github.com/locktree/locktree/recipes/inspect"
)

// stretch is a time in which somebody held a lock or waited for it, as looks showed it.
type stretch struct {
	Who, Session string
	Token        uint64
	Held         bool      // otherwise it waited
	From, To     time.Time // From is zero if it is not known; to a look, unless nodes say it
	End          string    // what ended it, "" while it lasts
	Over         bool      // longer than declared

	X, Width int // of its bar, in thousandths of the time that is drawn
}

// timeline is what is known of one lock's past, the newest first.
type timeline struct {
	Since    time.Time // when looking began
	From, To time.Time // what is drawn
	Rows     []stretch
	More     bool // there were older ones
}

// mostStretches is how many a timeline shows.
const mostStretches = 40

// timeline puts together what a look after the other has shown of a lock.
func (b *Board) timeline(e *Ensemble, in *inspect.Report) *timeline {
	t := &timeline{Since: e.first, From: e.first, To: e.Snapshot.At}
	events := b.history.about(e.Name, in.Path, 4*mostStretches)
	if n := len(events); n == 4*mostStretches { // of what was before that only the end is known
		t.From, t.More = events[n-1].At, true
	}
	granted := map[string]Event{}
	key := func(session, who string) string { return session + " " + who }
	// A holder that does not say when it was granted the lock seems to have held it since it came: the look that showed it is nearer.
	held := func(session, who string, from time.Time) time.Time {
		if g, ok := granted[key(session, who)]; ok && (from.IsZero() || from.Equal(g.From)) {
			return g.At
		}
		return from
	}
	for _, ev := range slices.Backward(events) {
		s := stretch{Who: ev.Who, Session: document.Session(ev.Session), Token: ev.Token, From: ev.From, To: ev.At, End: ev.What}
		switch ev.What {
		case "queued":
			continue
		case "granted":
			granted[key(s.Session, s.Who)] = ev
			if ev.From.IsZero() { // it was not seen to wait
				continue
			}
		case "released", "lost", "ended":
			s.Held, s.From = true, held(s.Session, s.Who, ev.From)
			delete(granted, key(s.Session, s.Who))
		}
		t.Rows = append(t.Rows, s)
	}
	holders, waiters := view.Parties(in)
	for i, c := range slices.Concat(holders, waiters) {
		s := stretch{Who: who(c), Session: document.Session(c.Session), Token: c.Token, From: view.Since(c), To: t.To, Held: i < len(holders)}
		if s.Held {
			s.From = held(s.Session, s.Who, s.From)
		}
		t.Rows = append(t.Rows, s)
	}
	slices.SortStableFunc(t.Rows, func(a, b stretch) int {
		return cmp.Or(b.To.Compare(a.To), b.From.Compare(a.From))
	})
	if t.More = t.More || len(t.Rows) > mostStretches; t.More {
		t.Rows = t.Rows[:min(len(t.Rows), mostStretches)]
	}
	t.draw(in.Payload.Limits().Hold(), in.Payload.Limits().Wait())
	return t
}

// draw finds where bars begin and end, and which are longer than declared. It begins with the first one that is shown, and never
// before looking began: of that time it would show some and not others.
func (t *timeline) draw(hold, wait time.Duration) {
	if n := len(t.Rows); t.More && n > 0 {
		if oldest := t.Rows[n-1].To; oldest.After(t.From) {
			t.From = oldest
		}
	}
	whole := max(t.To.Sub(t.From), time.Second)
	at := func(x time.Time) int { return int(1000 * min(max(x.Sub(t.From), 0), whole) / whole) }
	for i := range t.Rows {
		s := &t.Rows[i]
		s.X = min(at(s.From), 996)
		s.Width = max(at(s.To)-s.X, 4) // or it could not be seen
		most := wait
		if s.Held {
			most = hold
		}
		s.Over = most > 0 && !s.From.IsZero() && s.To.Sub(s.From) > most
	}
}

// For is how long it was, "" if that is not known.
func (s stretch) For() string {
	if s.From.IsZero() || s.To.Before(s.From) {
		return ""
	}
	return s.To.Sub(s.From).Truncate(time.Second).String()
}

// Class is how its bar looks.
func (s stretch) Class() string {
	switch {
	case s.End == "lost":
		return "lost"
	case s.Held:
		return "held"
	}
	return "waited"
}
