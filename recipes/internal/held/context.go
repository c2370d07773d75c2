package held

import (
	"context"
	"slices"
)

// Key finds the use of a lock in the contexts derived from it.
type Key struct {
	Of   any // the client
	Path string
}

type usesKey struct{}

// leased is a context in which what l holds, of a set each member, is found by its Key; the last of all uses by usesKey.
type leased struct {
	context.Context
	l *Use
}

func (l *Use) within(ctx context.Context) context.Context { return &leased{ctx, l} }

func (c *leased) Value(key any) any {
	switch key := key.(type) {
	case Key:
		if slices.Contains(c.l.H.keys, key) {
			return c.l
		}
	case usesKey:
		return c
	}
	return c.Context.Value(key)
}

// UsesOf are the uses that ctx comes from, the last first.
func UsesOf(ctx context.Context) (all []*Use) {
	for {
		c, ok := ctx.Value(usesKey{}).(*leased)
		if !ok {
			return all
		}
		if c.l.Ended() == nil {
			all = append(all, c.l)
		}
		ctx = c.Context
	}
}

// Detach returns a context with the values of ctx, but without its uses, deadline and cancellation.
func Detach(ctx context.Context) context.Context { return useless{context.WithoutCancel(ctx)} }

type useless struct{ context.Context }

func (c useless) Value(key any) any {
	switch key.(type) {
	case Key, usesKey:
		return nil
	}
	return c.Context.Value(key)
}

// looking is a context that ends with a lease, and whose Err reads the clock: after a process or its machine was stopped for
// longer than a lease lasts, no timer has run yet when it asks.
type looking struct {
	context.Context
	h *Lock
}

func (c looking) Err() error {
	if err := c.Context.Err(); err != nil || !c.h.overdue() {
		return err
	}
	<-c.Context.Done() // what has ended the lease ends this too
	return c.Context.Err()
}
