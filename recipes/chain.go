package recipes

import (
	"context"
	"sync"

	"github.com/locktree/locktree/recipes/inspect"
	"github.com/locktree/locktree/recipes/internal/session"
)

// chain is what is read along the chain.
type chain struct {
	told    map[string][]claim
	seen    map[link]bool
	known   map[string]bool // the contenders, by path
	todo    []link
	reports []*inspect.Report
}

// link is a lock, and the client that reads it.
type link struct {
	c    *Client
	path string
}

// look reads along the chain, and returns a circle that this wait is part of. It reads at once what before has read step by step.
func (n *nested) look(before *chain) (*inspect.Circle, *chain) {
	ch := &chain{told: n.c.state.program().told(), seen: map[link]bool{}, known: map[string]bool{}}
	for _, w := range n.waits() {
		ch.leads(n.c, w.Lock)
	}
	for _, l := range n.leases {
		if l.ended() != nil {
			continue
		}
		for _, q := range l.h.locks() {
			ch.leads(q.c, q.path)
		}
	}
	if before != nil {
		for at := range before.seen {
			ch.leads(at.c, at.path)
		}
	}
	for len(ch.todo) > 0 {
		ch.read(n.ctx)
	}
	for _, l := range n.leases {
		if circle := inspect.FindCircle(l.Node(), ch.reports...); circle != nil && l.ended() == nil {
			return circle, ch
		}
	}
	return nil, ch
}

// again is whether a look behind a sync finds that nothing has happened.
func (n *nested) again(circle *inspect.Circle, read *chain) bool {
	if !n.sync() {
		return false
	}
	now, _ := n.look(read)
	return circle.Same(now)
}

// leads says that the chain goes on at the lock at path.
func (ch *chain) leads(c *Client, path string) {
	if at := (link{c, path}); !ch.seen[at] && len(ch.seen) < mostLocks {
		ch.seen[at] = true
		ch.todo = append(ch.todo, at)
	}
}

// read reads the locks at which the chain goes on, and finds the next.
func (ch *chain) read(ctx context.Context) {
	todo := ch.todo
	ch.todo = nil
	found := make([]*inspect.Report, len(todo))
	var reads sync.WaitGroup
	for i, at := range todo {
		reads.Go(func() { found[i], _ = inspect.Front(ctx, at.c, at.path, mostContenders) })
	}
	reads.Wait()
	var all []func()
	for i, in := range found {
		if in == nil { // it has gone, or is not for us to read, or the next look reads it
			continue
		}
		ch.reports = append(ch.reports, in)
		for _, line := range [][]inspect.Contender{in.Holders, in.Waiters} {
			for j := range line {
				ch.known[line[j].Path] = true
				all = append(all, func() { ch.follow(todo[i].c, &line[j]) })
			}
		}
	}
	for _, follow := range all { // when all of them are known
		follow()
	}
}

// follow goes on where those wait who hold a contender. What this program knows itself counts.
func (ch *chain) follow(c *Client, of *inspect.Contender) {
	if said := ch.told[of.Path]; said != nil {
		of.Waits = nil
		for _, w := range said {
			of.Waits = append(of.Waits, w.Wait)
			if !ch.known[w.Node] { // else its queue has been read, perhaps by another client
				ch.leads(w.c, w.Lock)
			}
		}
		return
	}
	for _, w := range of.Waits {
		if !ch.known[w.Node] {
			ch.leads(c, w.Lock)
		}
	}
}

// sync lets the next look see what was committed before.
func (n *nested) sync() bool {
	synced := map[*session.Session]bool{}
	for _, l := range n.leases {
		synced[l.h.e.s] = true
	}
	s, err := n.c.live(n.ctx)
	if err != nil {
		return false
	}
	synced[s] = true
	for s := range synced {
		if s.Sync(n.ctx, "/") != nil {
			return false
		}
	}
	return true
}
