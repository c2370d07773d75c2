package lock

import (
	"context"

	"github.com/locktree/locktree/recipes/internal/declare"
	"github.com/locktree/locktree/recipes/internal/znode"

	"github.com/locktree/locktree/recipes/internal/session"
)

// epoch is what belongs to one session. It is made when the session is first used, and dropped with it: the next one has its own,
// and looks at nothing of this. Only what the servers may still have of a lost session keeps its epoch
// (clientState.lost) until they have not.
type Session struct {
	*znode.Session

	Decl   *declare.Session
	Crowds crowds
}

// epoch returns that of the live session; see [Client.Session].
func (st *Client) Epoch(ctx context.Context) (*Session, error) {
	for {
		s, err := st.Conn.Session(ctx)
		if err != nil {
			return nil, err
		}
		e := st.EpochOf(s)
		if e == nil {
			continue
		}
		cleared := st.Clearing(e.Session)
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
func (st *Client) EpochOf(s *session.Session) *Session {
	st.Mu.Lock()
	defer st.Mu.Unlock()
	before := st.Newest
	switch {
	case before == nil:
	case before.S == s:
		return before
	case s.Err() != nil:
		return nil
	}
	e := &Session{
		Session: st.Begin(s), Decl: st.Decl.Begin(s),
	}
	st.Newest = e
	st.Spawn(func() {
		<-e.S.Done()
		e.Rest()
		e.Decl.End()
	})
	return e
}

// present is the way to the lock where it is by now, with the error of its declaration there.
func (e *Session) Present(ctx context.Context, q *Queue) (*Queue, error) {
	at, err := e.Decl.Present(ctx, &q.Name)
	if at == &q.Name {
		return q, err
	}
	return q.named(at), err
}
