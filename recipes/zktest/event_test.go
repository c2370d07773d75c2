package zktest_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/zktest"
)

func TestAnEventCanBeLostDelayedOrHeldAlone(t *testing.T) {
	deleted := func(e zktest.Event) bool { return e.Type == "deleted" && e.Path == "/a" }
	tests := []struct {
		name  string
		fault zktest.Fault
		check func(t *testing.T, i *zktest.Injection, ch <-chan zk.Event)
	}{
		{"lost", zktest.DropEvent, func(t *testing.T, _ *zktest.Injection, ch <-chan zk.Event) {
			time.Sleep(time.Hour)
			require.Empty(t, ch)
		}},
		{"delayed", zktest.Delay(3 * time.Second), func(t *testing.T, _ *zktest.Injection, ch <-chan zk.Event) {
			start := time.Now()
			require.Equal(t, zk.EventNodeDeleted, (<-ch).Type)
			require.Equal(t, 3*time.Second, time.Since(start))
		}},
		{"held", zktest.Hold, func(t *testing.T, i *zktest.Injection, ch <-chan zk.Event) {
			time.Sleep(time.Hour)
			require.Empty(t, ch)
			i.Release()
			require.Equal(t, zk.EventNodeDeleted, (<-ch).Type)
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, nil, func(t *testing.T, s *zktest.Server, c *client) {
				require.NoError(t, s.Create("/a", nil))
				ch := c.watch("/a")
				i := s.InjectEvent(deleted, tt.fault)
				require.NoError(t, c.Delete("/a", -1))
				require.False(t, c.there("/a"), "the rest of the connection goes on")
				synctest.Wait()
				require.Empty(t, ch)
				require.Equal(t, 1, i.Hits())
				tt.check(t, i, ch)
				i.Remove()
			})
		})
	}
}
