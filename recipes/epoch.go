package recipes

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/locktree/locktree/recipes/internal/session"
)

// epoch is what belongs to one session. It is made when the session is first used, and dropped with it: the next one has its own,
// and looks at nothing of this. Only what the servers may still have of a lost session keeps its epoch
// (clientState.lost) until they have not.
type epoch struct {
	c       *Client
	s       *session.Session
	janitor janitor
	bytes   atomic.Int64 // of the paths of the session's contenders

	// clientState.mu guards these.
	decls   declarations
	loading map[string]chan struct{} // closed when it has been read
	cleared *epoch                   // of a lost session: through which the nodes that nobody works under were deleted last
	until   time.Time                // it is tried to close the lost session until then; zero before the first try

	mu     sync.Mutex
	nodes  map[*contender]string    // those that exist, or may; with their paths where these are known
	timers map[*time.Timer]struct{} // of after
}

// epoch returns that of the live session; see [Client.Session].
func (c *Client) epoch(ctx context.Context) (*epoch, error) {
	for {
		s, err := c.conn.Session(ctx)
		if err != nil {
			return nil, err
		}
		e := c.epochOf(s)
		if e == nil {
			continue
		}
		cleared := c.state.clearing(e)
		if cleared == nil {
			return e, nil
		}
		select {
		case <-cleared:
		case <-ctx.Done():
			return e, nil // whatever is asked of it ends at once
		}
	}
}

// epochOf returns the epoch of s, which it begins where s is new; nil where s is over, and another's may have begun since.
func (c *Client) epochOf(s *session.Session) *epoch {
	st := &c.state
	st.mu.Lock()
	defer st.mu.Unlock()
	before := st.epoch
	switch {
	case before == nil:
	case before.s == s:
		return before
	case s.Err() != nil:
		return nil
	default: // s lives, so it is the newest, and the one before it is lost
		st.lost = append(st.lost, before)
	}
	e := &epoch{
		c: c, s: s, nodes: map[*contender]string{}, timers: map[*time.Timer]struct{}{},
		decls: declarations{}, loading: map[string]chan struct{}{},
	}
	e.janitor.e = e
	st.epoch = e
	st.spawn(func() {
		<-e.s.Done()
		e.rest()
		st.mu.Lock()
		defer st.mu.Unlock()
		clear(e.decls) // for a client that is used no more
	})
	return e
}

// exists notes a contender that exists, or may if its path is not known yet.
func (e *epoch) exists(k *contender) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.nodes[k] = k.path
	if strings.HasPrefix(k.name, k.prefix) { // they are one string from here on
		k.prefix = k.name[:len(k.prefix)]
	}
}

// forget notes that it does not exist any more.
func (e *epoch) forget(k *contender) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.nodes, k)
}

// after has f run when d has passed, unless the session is over by then.
func (e *epoch) after(d time.Duration, f func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.s.Err() != nil { // else rest comes later
		return
	}
	var timer *time.Timer
	timer = time.AfterFunc(d, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		if _, runs := e.timers[timer]; runs {
			delete(e.timers, timer)
			e.c.state.spawn(f)
		}
	})
	e.timers[timer] = struct{}{}
}

// rest stops the timers, which refer to the session and to the client.
func (e *epoch) rest() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for timer := range e.timers {
		timer.Stop()
	}
	clear(e.timers)
}
