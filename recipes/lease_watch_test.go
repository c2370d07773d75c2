package recipes_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
)

// What happens to the node before it is watched is told as soon as it is.
func TestWhatHappensInTheFirstMomentIsToldWhenItIsOver(t *testing.T) {
	for name, tt := range map[string]struct {
		happens func(*lab, string) error
		cause   error
	}{
		"deleted":    {func(l *lab, node string) error { return l.Srv.Delete(node) }, recipes.ErrLost},
		"asked back": {func(l *lab, node string) error { return l.Srv.Set(node, []byte(kind.RevokeMessage)) }, recipes.ErrRevoked},
	} {
		runInLab(t, name, func(t *testing.T, l *lab) {
			x := l.Lock(l.Client("a").Mutex(l.Mutex()).Lock)
			start := time.Now()
			require.NoError(t, tt.happens(l, x.Node()))
			<-x.Context().Done()
			require.ErrorIs(t, context.Cause(x.Context()), tt.cause)
			require.Equal(t, 100*time.Millisecond+2*oneWay, time.Since(start))
			_ = x.Unlock(t.Context())
		})
	}
}

// A connection that ends wakes each look at a node: one whose answer it was to bring asks again by itself.
func TestLooksAtANodeDoNotMultiply(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		m := l.Client("a").Mutex(l.Mutex())
		require.NoError(t, m.Declared(t.Context()))
		x := l.Lock(m.Lock)
		s := l.live(m.Client())
		cut := l.Srv.Inject(zktest.On("getData"), zktest.CutBefore)
		most := 0
		for i := 0; s.Stats().Connections < 6; i++ {
			require.Less(t, i, 12_000, "in a minute")
			time.Sleep(5 * time.Millisecond)
			most = max(most, len(s.Stats().Watches))
		}
		cut.Remove()
		require.LessOrEqual(t, most, 2, "of the declaration and the node")
		time.Sleep(time.Second)
		require.NoError(t, x.Context().Err())
		require.NoError(t, l.Srv.Delete(x.Node())) // it is watched again
		l.Settle()
		require.ErrorIs(t, context.Cause(x.Context()), recipes.ErrLost)
	})
}
