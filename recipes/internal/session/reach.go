package session

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// WhileReachable returns a ctx for a call that must not wait long for a connection. The context ends with ErrUnreachable as its
// cause when there has been no connection for a sixth of the session timeout. If the session is over, that time begins with the
// present attempt at the next session, or now if there is none. An earlier attempt says nothing about the servers now. The caller
// must call the function stop.
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
	since  time.Time // when the connection was lost, or the present attempt at a session began; zero while there is a connection
	mu     sync.Mutex
	timer  *time.Timer // nil until there is something to wait for
}

func (r *reach) look() {
	wait, why := r.nextLook()
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

// nextLook returns how long to wait for a connection, if there is none, or when to ask again, if there is one. Its error says
// that there has been no connection for too long.
func (r *reach) nextLook() (time.Duration, error) {
	s, dialing := r.client.current() // current begins to dial if no attempt is under way
	newest := r.client.Newest()
	if s == nil && dialing == nil { // closed: the call finds that out by itself
		return time.Hour, nil
	}
	newest.mu.Lock()
	most, up, since := newest.timeout/6, newest.link != nil, newest.down
	newest.mu.Unlock()
	tried := newest
	if dialing != nil {
		tried, up, since = dialing.session, false, dialing.since
	}
	if up {
		r.since = time.Time{}
		return most, nil
	}
	if r.since.IsZero() {
		r.since = since
	}
	if left := most - time.Since(r.since); left > 0 {
		return left, nil
	}
	return 0, fmt.Errorf("%w: no connection for %v; %s", ErrUnreachable, time.Since(r.since).Round(time.Millisecond), tried.hosts.Report())
}
