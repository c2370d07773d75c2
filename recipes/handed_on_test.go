package recipes_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
)

// A node that goroutines of one client hand on to each other was watched by none that held it for less than 100 ms: one that was
// deleted, or asked back, was noticed by the next heartbeat, or never.

// handedOn has goroutines of one client hand one node on to each other, each of them sooner than a holder watches its node.
func (l *lab) handedOn(c *recipes.Client, m string) (node string, ended <-chan error) {
	l.t.Helper()
	done := make(chan error, 3)
	nodes := make(chan string, 1)
	for range 3 {
		go func() {
			for start := time.Now(); time.Since(start) < time.Minute; {
				x, err := c.Mutex(m, recipes.WithLocalHandoff(1000)).Lock(context.Background())
				if err != nil {
					done <- err
					return
				}
				select {
				case nodes <- x.Node():
				default:
				}
				select {
				case <-time.After(83 * time.Millisecond):
					_ = x.Unlock(context.Background())
				case <-x.Context().Done():
					done <- context.Cause(x.Context())
					_ = x.Unlock(context.Background())
					return
				}
			}
			done <- nil
		}()
	}
	node = <-nodes
	l.settle()
	return node, done
}

func TestARevocationOfANodeThatIsHandedOnQuicklyIsHeard(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		m := l.mutex()
		node, _ := l.handedOn(l.client("a"), m)
		require.NoError(t, l.srv.Set(node, []byte(kind.RevokeMessage)))
		w := l.locking(l.client("b").Mutex(m)) // behind it: the row ends, and it is b's turn
		time.Sleep(300 * time.Millisecond)
		require.NotContains(t, l.queue(m), node)
		l.unlock((<-w).v)
	})
}

func TestTheDeletionOfANodeThatIsHandedOnQuicklyIsHeard(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		node, ended := l.handedOn(l.client("a"), l.mutex())
		gone := time.Now()
		require.NoError(t, l.srv.Delete(node))
		require.ErrorIs(t, <-ended, recipes.ErrLost)
		require.Less(t, time.Since(gone), 300*time.Millisecond)
	})
}
