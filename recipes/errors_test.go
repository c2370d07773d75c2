package recipes

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/session"
)

func TestWhatIsWorthAnotherCall(t *testing.T) {
	for _, err := range []error{ErrLost, fmt.Errorf("lock /a: %w", ErrSessionLost), ErrRevoked, ErrUnreachable, session.ErrThrottled} {
		require.True(t, Retryable(err), err)
	}
	closed := fmt.Errorf("%w: %w", ErrSessionLost, ErrClosed)
	for _, err := range []error{nil, context.Canceled, &HeldError{}, ErrNotProvisioned, ErrKindMismatch, ErrDraining, ErrQueueFull, ErrTooManyPermits, closed} {
		require.False(t, Retryable(err), err)
	}
}

func TestStateFollowsTheNewestSession(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		c := l.client("a")
		require.Equal(t, session.StateActive, c.State())
		l.srv.Expire(l.session(c))
		<-c.conn.Newest().Done()
		require.Equal(t, session.StateLost, c.State())
		l.session(c) // dials
		require.Equal(t, session.StateActive, c.State())
	})
}
