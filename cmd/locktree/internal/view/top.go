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

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes"
)

// topRow is one lock in use.
type topRow struct {
	ensemble string
	node     *plan.Node
	queue
}

func (t Top) text(h *Human) {
	rows, locks := topRows(t.Trees)
	held, waiting := 0, 0
	for _, r := range rows {
		held += len(r.holders)
		waiting += len(r.waiters)
	}
	var gaps []plan.Gap
	for _, tree := range t.Trees {
		gaps = append(gaps, tree.Gaps()...)
	}
	h.out.printf("%s  %s, %d in use, %d held, %d waiting%s\n", time.UnixMilli(t.NowMs).UTC().Format(time.RFC3339),
		fmt.Sprintf("%d %s", locks, plural(locks, "lock", "locks")), len(rows), held, waiting, count(gaps))
	if closed := Closed(gaps); len(closed) > 0 {
		h.out.printf("%s\n", h.out.paint(red)("Cannot be read: "+clean(FirstFew(closed))))
	}
	if t.Error != nil {
		h.out.printf("%s\n", h.out.paint(red)(t.stale()))
	}
	for _, w := range t.Waits {
		h.deadlocks(w)
	}
	if len(rows) == 0 {
		return
	}
	left := 0
	if t.Rows > 0 && len(rows) > t.Rows {
		left = len(rows) - t.Rows
		rows = rows[:t.Rows]
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

// stale says since when the table is out of date, and why.
func (t Top) stale() string {
	why, _, _ := strings.Cut(inner(t.Error), "\n") // the rest is what to do, for which there is no place on a screen
	age := time.Duration(t.ShownMs-t.NowMs) * time.Millisecond
	return fmt.Sprintf("stale since %s (%s): %s", time.UnixMilli(t.NowMs).UTC().Format(time.TimeOnly), age.Round(time.Second), clean(why))
}

// shortestName is the length below which names are not cut, however narrow the terminal.
const shortestName = 12

// table fits into width if shorter names make that possible; 0 is any width. A terminal cuts off what is too wide, so the
// most important columns come first.
func (t Top) table(rows []topRow, width int) string {
	cut := sort.Search(max(width-shortestName, 0), func(n int) bool { return widest(t.columns(rows, width-n)) <= width })
	return t.columns(rows, width-cut)
}

func (t Top) columns(rows []topRow, room int) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	owned := slices.ContainsFunc(rows, func(r topRow) bool { return r.node.Payload.Limits().Owner != "" })
	fmt.Fprintf(w, "LOCK\tHELD BY\tFOR\tWAITING\tLONGEST\tTYPE\tTOKEN%s\n", map[bool]string{true: "\tOWNER"}[owned])
	for _, r := range rows {
		lock := clean(r.node.Path)
		if len(t.Trees) > 1 {
			lock = clean(r.ensemble) + " " + lock
		}
		token := "-"
		if len(r.holders) > 0 {
			token = strconv.FormatUint(r.holders[0].Token, 10)
		}
		if owned {
			token += "\t" + clean(r.node.Payload.Limits().Owner)
		}
		over := exceeded(r.node, t.NowMs)
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\t%s\t%s\n", shortened(lock, room), r.names(room), longest(r.holders, t.NowMs)+beyond(over, "max_hold"),
			len(r.waiters), longest(r.waiters, t.NowMs)+beyond(over, "max_wait"), r.node.Kind().Name, token)
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

// topRows are the locks in use: the longest queue first, then the longest held.
func topRows(trees []*plan.Tree) (rows []topRow, locks int) {
	for _, tree := range trees {
		for _, n := range tree.Nodes {
			if n.Payload == nil || n.Kind().Container {
				continue
			}
			locks++
			if q := queueAt(n); len(q.holders)+len(q.waiters) > 0 {
				rows = append(rows, topRow{tree.Ensemble, n, q})
			}
		}
	}
	slices.SortStableFunc(rows, func(a, b topRow) int {
		return cmp.Or(cmp.Compare(len(b.waiters), len(a.waiters)), since(a.holders).Compare(since(b.holders)))
	})
	return rows, locks
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

func longest(cs []recipes.Contender, nowMs int64) string {
	first := since(cs)
	if first.UnixMilli() > nowMs {
		return "-"
	}
	return (time.Duration(nowMs-first.UnixMilli()) * time.Millisecond).Round(time.Second).String()
}
