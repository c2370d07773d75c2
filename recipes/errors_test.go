package recipes_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/internal/session"
)

func TestWhatIsWorthAnotherCall(t *testing.T) {
	for _, err := range []error{recipes.ErrLost, fmt.Errorf("lock /a: %w", recipes.ErrSessionLost), recipes.ErrRevoked, recipes.ErrUnreachable, recipes.ErrThrottled} {
		require.True(t, recipes.Retryable(err), err)
	}
	closed := fmt.Errorf("%w: %w", recipes.ErrSessionLost, recipes.ErrClosed)
	for _, err := range []error{nil, context.Canceled, &recipes.HeldError{}, recipes.ErrNotProvisioned, recipes.ErrKindMismatch, recipes.ErrDraining, recipes.ErrQueueFull, recipes.ErrTooManyPermits, closed} {
		require.False(t, recipes.Retryable(err), err)
	}
}

func TestStateFollowsTheNewestSession(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		c := l.client("a")
		require.Equal(t, session.StateActive, c.State())
		l.srv.Expire(l.session(c))
		<-c.Newest().Done()
		require.Equal(t, session.StateLost, c.State())
		l.session(c) // dials
		require.Equal(t, session.StateActive, c.State())
	})
}
