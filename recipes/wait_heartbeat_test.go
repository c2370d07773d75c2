package recipes_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
)

func TestAWaiterThatWasNextHeartbeatsNoMoreWhenItLeaves(t *testing.T) {
	for name, end := range map[string]func(l *lab, held *recipes.Lease, w context.CancelFunc){
		"cancelled": func(_ *lab, _ *recipes.Lease, c context.CancelFunc) { c() },
		"drained":   func(l *lab, _ *recipes.Lease, _ context.CancelFunc) { l.Declare("/m", kind.Mutex.New(), draining) },
		"own deleted": func(l *lab, _ *recipes.Lease, _ context.CancelFunc) {
			require.NoError(l.T, l.Srv.Delete(l.Queue("/m")[1]))
		},
		"revoked": func(l *lab, _ *recipes.Lease, _ context.CancelFunc) {
			require.NoError(l.T, l.Srv.Set(l.Queue("/m")[1], []byte(kind.RevokeMessage)))
		},
	} {
		runInLab(t, name, func(t *testing.T, l *lab) {
			x := l.Lock(l.Client("a").Mutex(l.Mutex()).Lock)
			b := l.Client("b").Mutex("/m")
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			w := async(func() (*recipes.Lease, error) { return b.Lock(ctx) })
			time.Sleep(30 * time.Second)
			end(l, x, cancel)
			l.Settle()
			r := <-w
			require.Error(t, r.Err)
			_ = x.Unlock(t.Context())
			l.Settle()
			l.Srv.ResetCounts()
			time.Sleep(time.Minute)
			require.Zero(t, l.Srv.Counts().ByOp["multi"])
			require.Empty(t, b.Client().Leftovers())
		})
	}
}
