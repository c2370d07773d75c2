package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/locktree/locktree/plan"
)

// topRow is one lock in use.
type topRow struct {
	ensemble string
	node     *plan.Node
	use      *plan.Usage
}

// Top implements [View].
func (h *human) Top(t Top) {
	rows, locks := topRows(t.Trees)
	held, waiting := 0, 0
	for _, r := range rows {
		held += len(r.use.Holders)
		waiting += len(r.use.Waiters)
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
	h.out.printf("\n")
	w := tabwriter.NewWriter(h.out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "LOCK\tTYPE\tHELD BY\tFOR\tTOKEN\tWAITING\tLONGEST\n")
	for _, r := range rows {
		name := clean(r.node.Path)
		if len(t.Trees) > 1 {
			name = clean(r.ensemble) + " " + name
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\n", name, r.node.Kind().Name, r.holders(t.NowMs), len(r.use.Waiters), longest(r.use.Waiters, t.NowMs))
	}
	_ = w.Flush()
	if left > 0 {
		h.out.printf("and %d more\n", left)
	}
}

// stale says since when what is shown is no longer how it is, and why.
func (t Top) stale() string {
	why, _, _ := strings.Cut(inner(t.Error), "\n") // the rest is what to do, for which there is no place on a screen
	age := time.Duration(t.ShownMs-t.NowMs) * time.Millisecond
	return fmt.Sprintf("stale since %s (%s): %s", time.UnixMilli(t.NowMs).UTC().Format(time.TimeOnly), age.Round(time.Second), clean(why))
}

// topRows are the locks in use: the longest queue first, then what is held longest.
func topRows(trees []*plan.Tree) (rows []topRow, locks int) {
	for _, tree := range trees {
		for _, n := range tree.Nodes {
			if n.Payload == nil || n.Kind().Container {
				continue
			}
			locks++
			if u := usageOf(n); u != nil && len(u.Holders)+len(u.Waiters) > 0 {
				rows = append(rows, topRow{tree.Ensemble, n, u})
			}
		}
	}
	slices.SortStableFunc(rows, func(a, b topRow) int {
		return cmp.Or(cmp.Compare(len(b.use.Waiters), len(a.use.Waiters)), cmp.Compare(sinceMs(a.use.Holders), sinceMs(b.use.Holders)))
	})
	return rows, locks
}

// sinceMs is since when the first of them stands there; far in the future for none.
func sinceMs(hs []plan.Holder) int64 {
	first := int64(1) << 62
	for _, h := range hs {
		if h.SinceMs > 0 {
			first = min(first, h.SinceMs)
		}
	}
	return first
}

// holders are three columns: who, for how long, with which token.
func (r topRow) holders(nowMs int64) string {
	hs := r.use.Holders
	if len(hs) == 0 {
		return "-\t-\t-"
	}
	who := clean(cmp.Or(hs[0].ID, hs[0].Name))
	if len(hs) > 1 {
		who += fmt.Sprintf(" and %d more", len(hs)-1)
	}
	return fmt.Sprintf("%s\t%s\t%d", who, longest(hs, nowMs), hs[0].Token)
}

func longest(hs []plan.Holder, nowMs int64) string {
	since := sinceMs(hs)
	if since > nowMs {
		return "-"
	}
	return (time.Duration(nowMs-since) * time.Millisecond).Round(time.Second).String()
}
