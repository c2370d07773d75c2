package recipes

import (
	"context"

	"github.com/locktree/locktree/recipes/internal/znode"

	"github.com/locktree/locktree/recipes/internal/session"
)

// epoch is what belongs to one session. It is made when the session is first used, and dropped with it: the next one has its own,
// and looks at nothing of this. Only what the servers may still have of a lost session keeps its epoch
// (clientState.lost) until they have not.
type epoch struct {
	*znode.Session
	c *Client

	// clientState.mu guards these.
	decls   declarations
	loading map[string]chan struct{} // closed when it has been read
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
		cleared := c.state.Clearing(e.Session)
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
	case before.S == s:
		return before
	case s.Err() != nil:
		return nil
	}
	e := &epoch{
		c: c, Session: st.Begin(s), decls: declarations{}, loading: map[string]chan struct{}{},
	}
	st.epoch = e
	st.Spawn(func() {
		<-e.S.Done()
		e.Rest()
		st.mu.Lock()
		defer st.mu.Unlock()
		clear(e.decls) // for a client that is used no more
	})
	return e
}
