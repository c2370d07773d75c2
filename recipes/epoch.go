package recipes

import (
	"context"

	"github.com/locktree/locktree/recipes/internal/declare"
	"github.com/locktree/locktree/recipes/internal/znode"

	"github.com/locktree/locktree/recipes/internal/session"
)

// epoch is what belongs to one session. It is made when the session is first used, and dropped with it: the next one has its own,
// and looks at nothing of this. Only what the servers may still have of a lost session keeps its epoch
// (clientState.lost) until they have not.
type epoch struct {
	*znode.Session

	decl   *declare.Session
	crowds crowds
}

// epoch returns that of the live session; see [Client.Session].
func (st *clientState) epoch(ctx context.Context) (*epoch, error) {
	for {
		s, err := st.conn.Session(ctx)
		if err != nil {
			return nil, err
		}
		e := st.epochOf(s)
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
func (st *clientState) epochOf(s *session.Session) *epoch {
	st.mu.Lock()
	defer st.mu.Unlock()
	before := st.newest
	switch {
	case before == nil:
	case before.S == s:
		return before
	case s.Err() != nil:
		return nil
	}
	e := &epoch{
		Session: st.Begin(s), decl: st.decl.Begin(s),
	}
	st.newest = e
	st.Spawn(func() {
		<-e.S.Done()
		e.Rest()
		e.decl.End()
	})
	return e
}

// present is the way to the lock where it is by now, with the error of its declaration there.
func (e *epoch) present(ctx context.Context, q *way) (*way, error) {
	at, err := e.decl.Present(ctx, &q.Name)
	if at == &q.Name {
		return q, err
	}
	return q.named(at), err
}
