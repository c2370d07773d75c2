package recipes_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/zktest"
)

// movedTo makes a client connect to r while moved says so.
func (l *lab) movedTo(r *zktest.Replica, moved *atomic.Bool) func(*recipes.Config) {
	return func(cfg *recipes.Config) {
		cfg.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
			if !moved.Load() {
				return l.Srv.DialContext(ctx, network, address)
			}
			return r.DialContext(ctx, network, address)
		}
	}
}

// createLostOn warms a mutex up, loses the reply to its next create, and says where its client connects then: to a replica of which
// something is wrong.
func (l *lab) createLostOn(wrong func(*zktest.Replica)) (*recipes.Client, *recipes.Mutex, *atomic.Bool, *zktest.Injection) {
	r, moved := l.Srv.Replica(), new(atomic.Bool)
	c := l.Client("a", l.movedTo(r, moved))
	m := c.Mutex(l.Mutex())
	l.warm(m)
	wrong(r)
	moved.Store(true)
	return c, m, moved, l.Srv.Inject(zktest.Once(at("create")), zktest.DropReply)
}

func TestASearchOnAServerThatLagsFindsTheNode(t *testing.T) { // case 2: a follower hides the node, a second one is made
	inLab(t, func(t *testing.T, l *lab) {
		_, m, _, lost := l.createLostOn((*zktest.Replica).Lag)
		before := l.Changes("/m")
		ctx := l.Within(5 * time.Second)
		x, err := m.Lock(ctx)
		require.Equal(t, 1, lost.Hits())
		require.NoError(t, err, "it stands behind itself: %v", l.Children("/m"))
		require.Len(t, l.Children("/m"), 1)
		require.EqualValues(t, 1, l.Changes("/m")-before, "a second one was made, and one deleted")
		l.Unlock(x)
	})
}

// A leader that was cut off answers a sync by itself: the node was taken for absent, and a second one stood behind it.
func TestASearchOnALeaderThatWasCutOffFindsTheNode(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		c, m, moved, lost := l.createLostOn((*zktest.Replica).CutOff)
		before := l.Changes("/m")
		w := async(func() (*recipes.Lease, error) { return m.Lock(t.Context()) })
		<-lost.Hit()
		time.Sleep(3 * time.Second) // it is asked there, for as long as it has not noticed
		require.Empty(t, w)
		moved.Store(false)
		l.Srv.Disconnect(l.SessionID(c))
		time.Sleep(3 * time.Second)
		require.Len(t, w, 1, "it stands behind itself: %v", l.Children("/m"))
		r := l.Got(w)
		require.Len(t, l.Children("/m"), 1)
		require.EqualValues(t, 1, l.Changes("/m")-before, "a second one was made, and one deleted")
		l.Unlock(r)
	})
}
