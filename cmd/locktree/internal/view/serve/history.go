package serve

import (
	"cmp"
	"slices"
	"time"

	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/plan/document"
	"github.com/locktree/locktree/recipes/inspect"
)

// Event is a change of hands, as two looks in a row show it, or the one behind them: see comparison.end. What began and ended
// between two is not seen.
type Event struct {
	At       time.Time // of the look that showed it
	Ensemble string
	Lock     string
	What     string // "granted", "released", "lost", "ended", "queued", "left"
	Who      string
	Session  int64
	Token    uint64
	From     time.Time // since when it held or waited, of what ends that; zero if it is not known
}

type lockKey struct{ ensemble, path string }

// history keeps the newest events, and counts for as long as a lock is seen.
type history struct {
	limit  int
	events []Event // a ring once it is full
	next   int
	counts map[lockKey]counts
	open   []ending
}

type counts struct{ granted, ended, lost int } // ended are all holds that ended, lost those among them whose session expired

// ending is the end of a hold whose reason the next look will tell: see comparison.end.
type ending struct {
	lockKey
	holder inspect.Contender
}

func (h *history) add(e Event) {
	key := lockKey{e.Ensemble, e.Lock}
	n := h.counts[key]
	switch e.What {
	case "granted":
		n.granted++
	case "lost":
		n.lost++
		n.ended++
	case "released", "ended":
		n.ended++
	}
	h.counts[key] = n
	if len(h.events) < h.limit {
		h.events = append(h.events, e)
		return
	}
	h.events[h.next] = e
	h.next = (h.next + 1) % h.limit
}

// newest yields events, the last first.
func (h *history) newest(yield func(Event) bool) {
	for i := range h.events {
		at := (h.next - 1 - i + 2*len(h.events)) % len(h.events)
		if !yield(h.events[at]) {
			return
		}
	}
}

// compare notes what differs. Locks stand in the order of paths, and one that has not changed is the same value.
func (h *history) compare(ensemble string, old, now *inspect.Snapshot) {
	c := comparison{h: h, ensemble: ensemble, old: old, now: now}
	if old == nil {
		return
	}
	c.settle()
	for i, j := 0, 0; i < len(old.Locks) || j < len(now.Locks); {
		var a, b *inspect.Report
		if j == len(now.Locks) || i < len(old.Locks) && old.Locks[i].Path <= now.Locks[j].Path {
			a = old.Locks[i]
			i++
		}
		if j < len(now.Locks) && (a == nil || a.Path == now.Locks[j].Path) {
			b = now.Locks[j]
			j++
		}
		if a != b {
			c.lock(a, b)
		}
		if b == nil {
			delete(h.counts, lockKey{ensemble, a.Path})
		}
	}
}

type comparison struct {
	h        *history
	ensemble string
	old, now *inspect.Snapshot
}

// lock compares one; either may be nil.
func (c *comparison) lock(a, b *inspect.Report) {
	var held, waited, holds, waits []inspect.Contender
	path := ""
	key := func(x inspect.Contender) string { return x.Path }
	if in := cmp.Or(b, a); in.Kind.Permits != nil { // one client has several nodes, and others when it is granted
		key = func(x inspect.Contender) string { return document.Session(x.Session) + x.ID }
	}
	if a != nil {
		path = a.Path
		held, waited = view.Parties(a)
	}
	if b != nil {
		path = b.Path
		holds, waits = view.Parties(b)
	}
	has := func(in map[string]inspect.Contender, x inspect.Contender) bool {
		_, ok := in[key(x)]
		return ok
	}
	inHeld, inWaited, inHolds, inWaits := index(held, key), index(waited, key), index(holds, key), index(waits, key)
	for _, x := range held {
		if !has(inHolds, x) && !has(inWaits, x) {
			if what := c.end(x); what == "" && b != nil { // nothing is kept of a lock that is gone
				c.h.open = append(c.h.open, ending{lockKey{c.ensemble, path}, x})
			} else {
				c.note(path, cmp.Or(what, "released"), x, view.Since(x))
			}
		}
	}
	for _, x := range waited {
		if !has(inHolds, x) && !has(inWaits, x) {
			c.note(path, "left", x, view.Since(x))
		}
	}
	for _, x := range waits {
		if !has(inWaited, x) && !has(inHeld, x) {
			c.note(path, "queued", x, time.Time{})
		}
	}
	for _, x := range holds {
		if !has(inHeld, x) {
			c.note(path, "granted", x, view.Since(inWaited[key(x)]))
		}
	}
}

func index(cs []inspect.Contender, key func(inspect.Contender) string) map[string]inspect.Contender {
	out := make(map[string]inspect.Contender, len(cs))
	for _, x := range cs {
		out[key(x)] = x
	}
	return out
}

// end is how a holder stopped holding; "" if only the next look can tell. Its session may have been closed in good order, or have
// expired: one that was silent in the look before. One that is silent and listed may have expired between the sessions of
// this look and its queues, which are read later. It may also be well: the leader is asked for its dump less often than there
// are looks, and its connection may be to a server that is not asked.
func (c *comparison) end(x inspect.Contender) string {
	if x.Session == 0 || !c.now.Dump {
		return "released"
	}
	was, now := c.silent(c.old.Sessions[x.Session]), c.now.Sessions[x.Session]
	switch {
	case now != nil && was && c.silent(now):
		return ""
	case now != nil:
		return "released"
	case was:
		return "lost"
	}
	return "ended"
}

// silent reports whether a session had no connection any more, or the leader had not heard of it for longer than a client that
// is well keeps silent, a third of its timeout, and its time is up. By the time alone every session would have expired
// between two looks that are far apart.
func (c *comparison) silent(s *inspect.Session) bool {
	return s != nil && (s.Away || s.Silent > s.Timeout/2 && s.Expires.Before(c.now.At))
}

// settle notes what the look before could not tell: a session that is still listed has not expired.
func (c *comparison) settle() {
	c.h.open = slices.DeleteFunc(c.h.open, func(e ending) bool {
		if e.ensemble != c.ensemble {
			return false
		}
		what := "released"
		if c.now.Dump && c.now.Sessions[e.holder.Session] == nil {
			what = "lost"
		}
		c.note(e.path, what, e.holder, view.Since(e.holder))
		return true
	})
}

func (c *comparison) note(path, what string, x inspect.Contender, from time.Time) {
	c.h.add(Event{At: c.now.At, Ensemble: c.ensemble, Lock: path, What: what, Who: who(x), Session: x.Session, Token: x.Token, From: from})
}

// who is a contender by name.
func who(x inspect.Contender) string { return clip(cmp.Or(x.ID, x.Name)) }

// about are the newest events of a lock, or of all where path is "".
func (h *history) about(ensemble, path string, most int) (out []Event) {
	for e := range h.newest {
		if len(out) == most {
			break
		}
		if path == "" || e.Lock == path && e.Ensemble == ensemble {
			out = append(out, e)
		}
	}
	return slices.Clip(out)
}
