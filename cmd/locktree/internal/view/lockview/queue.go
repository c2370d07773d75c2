package lockview

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/inspect"
	"github.com/locktree/locktree/recipes/inspect/scan"
	"github.com/locktree/locktree/recipes/kind"
)

// queue is who holds a lock and who waits for it, one entry per client.
type queue struct {
	holders, waiters []recipes.Contender
	semaphore        bool
	held, limit      int // permits of a semaphore; limit is 0 where none is declared
}

// Parties returns the holders and waiters of a lock as people count them: all permits of a client in a semaphore are one. It
// omits the holders and waiters of a family's keys.
func Parties(in *inspect.Report) (holders, waiters []recipes.Contender) {
	if in.Kind.Permits == nil {
		return in.Holders, in.Waiters
	}
	return kind.PerClient(in.Holders), kind.PerClient(in.Waiters)
}

func queueOf(in *inspect.Report) (q queue) {
	q.holders, q.waiters = Parties(in)
	if in.Kind.Permits != nil {
		q.semaphore, q.held = true, len(in.Holders)
		if in.Payload != nil {
			q.limit = in.Kind.Permits(in.Payload.Params)
		}
	}
	return q
}

// Use says in a few words how a lock is used.
func Use(in *inspect.Report) string {
	if in.Kind.Key != nil {
		return KeysUse(in)
	}
	q := queueOf(in)
	parts := []string{}
	switch n := len(q.holders); {
	case q.held > 0 && q.limit > 0:
		parts = append(parts, fmt.Sprintf("%d of %d held", q.held, q.limit))
	case n > 0:
		parts = append(parts, fmt.Sprintf("%d held", max(n, q.held)))
	case len(q.waiters) > 0:
		parts = append(parts, "no holder")
	}
	if n := len(q.waiters); n > 0 {
		parts = append(parts, fmt.Sprintf("%d waiting", n))
	}
	if n := len(in.Junk); n > 0 {
		parts = append(parts, fmt.Sprintf("%d foreign", n))
	}
	return cmp.Or(strings.Join(parts, ", "), "idle")
}

// maxContenders is how many holders and how many waiters of one lock are listed: beyond that, a person wants the number.
const maxContenders = 10

// seen are the contenders of one ensemble at a moment, with their sessions.
type seen struct {
	Snapshot *scan.Snapshot // nil if the servers were not asked
	at       time.Time
}

func (s seen) sight(c recipes.Contender) kind.Sight { return s.Snapshot.Sight(c, s.at) }

// columns are what follows a name: the line about a contender, with its token and session.
func columns(s kind.Sight) string {
	cols := []string{"", strings.TrimSpace(s.Process() + " " + s.ClientAddress), s.When(), "", "", "", s.State()}
	if s.Format != "" {
		cols[3] = s.Format + " format"
	}
	if s.Token != 0 {
		cols[4] = fmt.Sprintf("token %d", s.Token)
	}
	if s.Session != "" {
		cols[5] = "session " + s.Session
	}
	return strings.Join(cols, "\t")
}

// writeQueue writes a line for each holder and waiter, and one for the declared limits. The tabs are for a tabwriter.
func (s seen) writeQueue(w io.Writer, indent string, in *inspect.Report) {
	if k := in.Keys; k != nil {
		if k.Busiest != nil {
			fmt.Fprintf(w, "%sbusiest\t%s\t%s\n", indent, view.Cell(KeyName(k.Busiest.Key)), s.keyUse(k.Busiest))
		}
		if k.Longest != nil && k.Longest != k.Busiest {
			fmt.Fprintf(w, "%slongest\t%s\t%s\n", indent, view.Cell(KeyName(k.Longest.Key)), s.keyUse(k.Longest))
		}
	}
	q := queueOf(in)
	list := func(role string, cs []recipes.Contender, beside func(recipes.Contender) string) {
		for i, c := range cs {
			if i == maxContenders {
				fmt.Fprintf(w, "%s%s\tand %d more\n", indent, role, len(cs)-i)
				return
			}
			about := s.sight(c)
			fmt.Fprintf(w, "%s%s\t%s%s%s\n", indent, role, view.Cell(about.Who()), beside(c), columns(about))
		}
	}
	list("held by", q.holders, q.share)
	list("waiting", q.waiters, wish)
	for _, junk := range in.Junk[:min(len(in.Junk), maxContenders)] {
		fmt.Fprintf(w, "%sforeign\t%s\n", indent, view.Cell(junk))
	}
	if more := len(in.Junk) - maxContenders; more > 0 {
		fmt.Fprintf(w, "%sforeign\tand %d more\n", indent, more)
	}
	for _, line := range SlotLines(in, s.at) {
		fmt.Fprintf(w, "%s%s\t%s\n", indent, line[0], line[1])
	}
	var limits []string // the declared limits of the lock, and which of them are exceeded
	l, over := in.Payload.Limits(), Exceeded(in, s.at)
	for _, p := range [][2]string{{"max_hold", l.MaxHold}, {"max_wait", l.MaxWait}, {"owner", l.Owner}, {"runbook", l.Runbook}} {
		if p[1] == "" {
			continue
		}
		text := p[0] + " " + view.Clean(p[1])
		for _, x := range over {
			if x.Limit == p[0] {
				text += fmt.Sprintf(" exceeded (%s)", x.beyondLimit())
			}
		}
		limits = append(limits, text)
	}
	if len(limits) > 0 {
		fmt.Fprintf(w, "%slimits\t%s\n", indent, strings.Join(limits, ", "))
	}
}

// tally counts locks, their holders, their waiters and keys in use, for the line below a list.
func tally(locks []*inspect.Report) string {
	n, held, waiting, families, keys := 0, 0, 0, 0, 0
	for _, in := range locks {
		if in.Kind.Container {
			continue
		}
		q := queueOf(in)
		n++
		held += max(len(q.holders), q.held)
		waiting += len(q.waiters)
		if in.Kind.Key != nil {
			families++
		}
		if in.Keys != nil {
			keys += in.Keys.InUse
		}
	}
	text := fmt.Sprintf("%s, %d held, %d waiting", view.Plural(n, "lock"), held, waiting)
	if families > 0 {
		text += fmt.Sprintf(", %s %s in use", groupDigits(keys), view.PluralWord(keys, "key", "keys"))
	}
	return text
}

// share follows the name of a holder: its permits, as in "gw ×7 of 12".
func (q queue) share(c recipes.Contender) string {
	switch {
	case !q.semaphore:
		return ""
	case q.limit == 0:
		return fmt.Sprintf(" ×%d", c.Permits)
	}
	return fmt.Sprintf(" ×%d of %d", c.Permits, q.limit)
}

// wish follows the name of a waiter: the permits it waits for, as in "gw2 wants 7".
func wish(c recipes.Contender) string {
	if c.Permits == 0 {
		return ""
	}
	return fmt.Sprintf(" wants %d", c.Permits)
}

// Since is the time at which a contender was granted the lock, or queued. A client of another library does not say when it was
// granted the lock. Then Since is the time when the client queued.
func Since(c recipes.Contender) time.Time { return cmp.Or(c.Held, c.Since) }

// Age is for how long a contender has held or waited; 0 if that is not known.
func Age(c recipes.Contender, now time.Time) time.Duration {
	if Since(c).IsZero() {
		return 0
	}
	return now.Sub(Since(c))
}

// Excess is a declared limit that a contender exceeds.
type Excess struct {
	Limit    string // max_hold or max_wait
	Declared string
	Age      time.Duration
	Times    float64           // the field Age divided by the limit
	Who      recipes.Contender // the contender that exceeds it for longest
	Key      *inspect.Report   // of a family: the key with that contender
	Keys     int               // of a family: how many keys exceed it
}

// Exceeded are the limits that the holders and waiters of a lock exceed. For a family, it takes the keys that were looked at.
func Exceeded(in *inspect.Report, now time.Time) (out []Excess) {
	if in.Keys != nil {
		return keyExcesses(in, now)
	}
	add := func(name, declared string, most time.Duration, cs []recipes.Contender) {
		x := Excess{Limit: name, Declared: declared}
		for _, c := range cs {
			if age := Age(c, now); age > x.Age {
				x.Age, x.Who = age, c
			}
		}
		if most > 0 && x.Age > most {
			x.Age, x.Times = x.Age.Truncate(time.Second), float64(x.Age)/float64(most)
			out = append(out, x)
		}
	}
	l := in.Payload.Limits()
	add("max_hold", l.MaxHold, l.Hold(), in.Holders)
	add("max_wait", l.MaxWait, l.Wait(), in.Waiters)
	return out
}

// Filter says which locks are shown: those that meet all its conditions. The zero Filter shows everything.
type Filter struct {
	InUse  bool
	Owner  string        // as declared
	Longer time.Duration // a contender has held the lock, or waited for it, for longer
}

// pick returns the locks that fit. It omits nodes that contain locks, unless everything is shown.
func (f Filter) pick(locks []*inspect.Report, now time.Time) (out []*inspect.Report) {
	if f == (Filter{}) {
		return locks
	}
	for _, in := range locks {
		fits := f.Longer == 0
		for c := range in.Contenders {
			fits = fits || Age(*c, now) > f.Longer
		}
		if fits && !in.Kind.Container && (in.Busy() || !f.InUse) && (f.Owner == "" || in.Payload.Limits().Owner == f.Owner) {
			out = append(out, in)
		}
	}
	return out
}

// String is as it was given on the command line.
func (f Filter) String() string {
	var flags []string
	if f.InUse {
		flags = append(flags, "-in-use")
	}
	if f.Owner != "" {
		flags = append(flags, "-owner="+view.Clean(f.Owner))
	}
	if f.Longer != 0 {
		flags = append(flags, "-longer="+f.Longer.String())
	}
	return strings.Join(flags, " ")
}

// tally is the line below a list of locks.
func (f Filter) tally(shown, all []*inspect.Report) string {
	if f == (Filter{}) {
		return tally(all)
	}
	n := 0
	for _, in := range all {
		if !in.Kind.Container {
			n++
		}
	}
	return fmt.Sprintf("%s (of %d, with %s)", tally(shown), n, f)
}

// filterDoc is the filter in a document, whose locks are only those that fit.
type filterDoc struct {
	InUse    bool   `json:"in_use,omitempty"`
	Owner    string `json:"owner,omitempty"`
	LongerMs int64  `json:"longer_ms,omitempty"`
}
