package session

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// WhileReachable is ctx for a call that is not to wait for a connection for long: it ends, with ErrUnreachable as its cause, when
// there has been none for a sixth of the session timeout. If the session is over, and nobody has asked for the next one yet,
// that time begins now. stop must be called.
func (c *Client) WhileReachable(ctx context.Context) (reachable context.Context, stop context.CancelFunc) {
	r := &reach{client: c}
	r.ctx, r.end = context.WithCancelCause(ctx)
	r.look()
	return r.ctx, r.stop
}

// reach looks whether there is a connection as long as ctx lasts.
type reach struct {
	client *Client
	ctx    context.Context
	end    context.CancelCauseFunc
	mu     sync.Mutex
	timer  *time.Timer // nil until there is something to wait for
}

func (r *reach) look() {
	wait, why := r.client.patience()
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case why != nil:
		r.end(why)
	case r.timer == nil:
		r.timer = time.AfterFunc(wait, r.look)
	case r.ctx.Err() == nil:
		r.timer.Reset(wait)
	}
}

func (r *reach) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.end(nil)
	if r.timer != nil {
		r.timer.Stop()
	}
}

// patience returns how long to wait for a connection, if there is none, or when to ask again, if there is one. Its error says
// that there has been none for too long.
func (c *Client) patience() (time.Duration, error) {
	s, dialing := c.current() // which begins to dial, if that is due
	c.mu.Lock()
	var since time.Time
	if dialing != nil {
		s = c.session
		since = s.sought
	}
	c.mu.Unlock()
	if s == nil { // closed: the call finds that out by itself
		return time.Hour, nil
	}
	s.mu.Lock()
	most, up := s.timeout/6, dialing == nil && s.link != nil
	if dialing == nil {
		since = s.down
	}
	s.mu.Unlock()
	left := most - time.Since(since)
	switch {
	case up:
		return most, nil
	case left > 0:
		return left, nil
	}
	return 0, fmt.Errorf("%w: no connection for %v; %s", ErrUnreachable, time.Since(since).Round(time.Millisecond), s.hosts.report())
}
