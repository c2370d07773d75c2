package view

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/inspect"
)

// topRow is one lock in use.
type topRow struct {
	ensemble string
	seen
	*inspect.Report
	queue
}

func (t Top) text(h *Human) {
	rows := t.rows()
	lines := []string{t.counts(rows)}
	warn := func(text string) { lines = append(lines, h.out.paint(red)(text)) }
	for _, e := range t.Ensembles {
		if e.Error != "" {
			warn(t.stale(e))
		}
		if e.Snapshot == nil {
			continue
		}
		if closed := e.Closed(); len(closed) > 0 {
			warn("Cannot be read: " + clean(FirstFew(closed)))
		}
		if e.Cut {
			warn("Some nodes below " + clean(e.Path) + " are not read: there are too many, or their paths are too long. Give a longer path.")
		}
		if e.Pending > 0 {
			lines = append(lines, Plural(e.Pending, "node")+" not read this time: what is shown of them is older, or missing.")
		}
		if text := Unasked(e.Snapshot); text != "" && len(rows) > 0 {
			lines = append(lines, text)
		}
		for _, line := range deadlockLines(e.Waits) {
			warn(line)
		}
	}
	t.cutOff(rows, warn)
	for _, line := range lines {
		h.out.printf("%s\n", line)
	}
	if len(rows) == 0 {
		return
	}
	left := 0
	if fit := max(t.Lines-len(lines)-tableLines, 1); t.Lines > 0 && len(rows) > fit {
		left = len(rows) - fit
		rows = rows[:fit]
	}
	width := 0
	if h.out.Terminal {
		width = h.out.Width
	}
	h.out.printf("\n%s", t.table(rows, width))
	if left > 0 {
		h.out.printf("and %d more\n", left)
	}
}

// tableLines are those of a table besides its rows: an empty one, its head, how many rows do not fit, and one to spare.
const tableLines = 4

// counts is the first line.
func (t Top) counts(rows []topRow) string {
	locks, held, waiting, missing, closed := 0, 0, 0, 0, 0
	for _, e := range t.known() {
		locks, missing, closed = locks+len(e.Locks), missing+len(e.Unread)-len(e.Closed()), closed+len(e.Closed())
	}
	var all []*inspect.Report
	for _, r := range rows {
		held += len(r.holders)
		waiting += len(r.waiters)
		all = append(all, r.Report)
	}
	return fmt.Sprintf("%s  %s, %d in use, %d held, %d waiting%s%s", time.UnixMilli(t.NowMs).UTC().Format(time.RFC3339),
		Plural(locks, "lock"), len(rows), held, waiting, keysInUse(all), notSeen(missing, closed))
}

// cutOff tells which holders have no connection, or are silent: their locks become free with their sessions.
func (t Top) cutOff(rows []topRow, tell func(string)) {
	const few = 3
	n := 0
	for _, e := range t.known() {
		for _, r := range rows {
			if r.ensemble != e.Ensemble {
				continue
			}
			for path, c := range r.holding {
				s := e.Sight(c, e.At)
				if !s.Away() {
					continue
				}
				if n++; n <= few {
					tell(fmt.Sprintf("%s holds %s: %s", s.Who(), clean(path), s.Details()))
				}
			}
		}
	}
	if n > few {
		tell(fmt.Sprintf("%d more holders are cut off or silent", n-few))
	}
}

// known are the ensembles of which something was seen.
func (t Top) known() []LocksOf {
	return slices.DeleteFunc(slices.Clone(t.Ensembles), func(e LocksOf) bool { return e.Snapshot == nil })
}

// stale says since when what is shown of an ensemble is out of date, and why.
func (t Top) stale(e LocksOf) string {
	name := ""
	if len(t.Ensembles) > 1 {
		name = clean(e.Ensemble) + ": "
	}
	if e.Snapshot == nil {
		return name + "not seen yet: " + e.Error
	}
	age := time.UnixMilli(t.ShownMs).Sub(e.At)
	return fmt.Sprintf("%sstale since %s (%s): %s", name, e.At.UTC().Format(time.TimeOnly), age.Round(time.Second), e.Error)
}

// shortestName is the length below which names are not cut, however narrow the terminal.
const shortestName = 12

// table fits into width if it leaves out where and since when, and if shorter names make that possible; 0 is any width. A terminal
// cuts off what is too wide, so the most important columns come first.
func (t Top) table(rows []topRow, width int) string {
	if all := t.columns(rows, 0, true); width == 0 || widest(all) <= width {
		return all
	}
	cut := sort.Search(max(width-shortestName, 0), func(n int) bool { return widest(t.columns(rows, width-n, false)) <= width })
	return t.columns(rows, width-cut, false)
}

func (t Top) columns(rows []topRow, room int, where bool) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	owned := slices.ContainsFunc(rows, func(r topRow) bool { return r.Payload.Limits().Owner != "" })
	fmt.Fprintf(w, "LOCK\tHELD BY\tFOR\tCONNECTION\tWAITING\tLONGEST\tTYPE\tTOKEN%s%s\n", map[bool]string{true: "\tOWNER"}[owned], map[bool]string{true: "\tWHERE\tSINCE"}[where])
	for _, r := range rows {
		lock := clean(r.Path)
		if len(t.Ensembles) > 1 {
			lock = clean(r.ensemble) + " " + lock
		}
		token := "-"
		if len(r.holders) > 0 {
			token = strconv.FormatUint(r.holders[0].Token, 10)
		}
		if owned {
			token += "\t" + clean(r.Payload.Limits().Owner)
		}
		over := Exceeded(r.Report, r.at)
		if r.Kind.Key != nil {
			fmt.Fprintf(w, "%s\t%s\n", shortened(lock, room), r.keyColumns(over, token, room, where))
			continue
		}
		connection, at := r.first(r.holders, where)
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%s\t%s\t%s%s\n", shortened(lock, room), r.names(room), longest(r.holders, r.at)+beyond(over, "max_hold"), connection,
			len(r.waiters), longest(r.waiters, r.at)+beyond(over, "max_wait"), r.Kind.Name, token, at)
	}
	_ = w.Flush()
	return b.String()
}

func widest(text string) (n int) {
	for line := range strings.Lines(text) {
		n = max(n, utf8.RuneCountInString(strings.TrimRight(line, "\n")))
	}
	return n
}

// shortened leaves out the middle of a name longer than room; 0 is any length. It keeps more of the end, which says more
// of a path or a process.
func shortened(name string, room int) string {
	r := []rune(name)
	if room == 0 || len(r) <= room {
		return name
	}
	head := (room - 1) / 3
	return string(r[:head]) + "…" + string(r[len(r)-(room-1-head):])
}

// rows are the locks in use: the longest queue first, then the longest held.
func (t Top) rows() (rows []topRow) {
	for _, e := range t.known() {
		for _, in := range e.Locks {
			if in.Busy() || SlotsUse(in, e.At) != "" {
				rows = append(rows, topRow{e.Ensemble, seen{e.Snapshot, e.At}, in, queueOf(in)})
			}
		}
	}
	slices.SortStableFunc(rows, func(a, b topRow) int {
		return cmp.Or(cmp.Compare(b.waiting(), a.waiting()), since(a.longest()).Compare(since(b.longest())))
	})
	return rows
}

// since is since when the first of them holds or waits; far in the future if there is none.
func since(cs []recipes.Contender) time.Time {
	first := time.UnixMilli(1 << 62)
	for _, c := range cs {
		if at := Since(c); !at.IsZero() && at.Before(first) {
			first = at
		}
	}
	return first
}

// names is who holds it; for a semaphore also the permits, and what the first waiter wants: "gw ×7 of 12; gw2 wants 7".
func (r topRow) names(room int) string {
	short := func(c recipes.Contender) string { return shortened(clean(cmp.Or(c.ID, c.Name)), room) }
	text := "-"
	switch n := len(r.holders); {
	case n == 1:
		text = short(r.holders[0]) + r.share(r.holders[0])
	case n > 1 && r.limit > 0:
		text = fmt.Sprintf("%s and %d more, %d of %d", short(r.holders[0]), n-1, r.held, r.limit)
	case n > 1:
		text = fmt.Sprintf("%s and %d more", short(r.holders[0]), n-1)
	}
	text += SlotsUse(r.Report, r.at)
	if r.semaphore && len(r.waiters) > 0 && r.waiters[0].Permits > 0 {
		text += "; " + short(r.waiters[0]) + wish(r.waiters[0])
	}
	return text
}

// beyond follows a time that is longer than declared.
func beyond(over []Excess, limit string) string {
	x, ok := excess(over, limit)
	if !ok {
		return ""
	}
	return " > " + x.Declared
}

// first is how the first holder is connected, and where it is and since when, if that is asked for.
func (s seen) first(holders []recipes.Contender, where bool) (connection, at string) {
	if len(holders) == 0 {
		return "-", map[bool]string{true: "\t-\t-"}[where]
	}
	about := s.sight(holders[0])
	if where {
		at = "\t" + cmp.Or(strings.TrimSpace(about.Process()+" "+about.ClientAddress), "-") + "\t" + cmp.Or(strings.TrimPrefix(about.When(), "since "), "-")
	}
	return about.Brief(), at
}

func longest(cs []recipes.Contender, now time.Time) string {
	first := since(cs)
	if first.After(now) {
		return "-"
	}
	return now.Sub(first).Round(time.Second).String()
}
