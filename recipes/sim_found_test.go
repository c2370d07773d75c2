package recipes_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/zktest"
)

// What the simulation has found, each as small as it could be made.

// listening tells of every frame a client writes, by its operation, before it is written.
type listening struct {
	net.Conn
	hear func(op int32)
}

func (c listening) Write(frame []byte) (int, error) {
	if len(frame) >= 12 {
		c.hear(int32(binary.BigEndian.Uint32(frame[8:])))
	}
	return c.Conn.Write(frame)
}

func TestCloseEndsLeasesBeforeItTellsTheServers(t *testing.T) { // simulation, seed 175: a rival was granted in between
	for range 50 { // the order of goroutines decided
		inLab(t, func(t *testing.T, l *lab) {
			var x *recipes.Lease
			closed := false
			c := l.Client("a", func(cfg *recipes.Config) {
				cfg.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
					conn, err := l.Srv.DialContext(ctx, network, address)
					if err != nil {
						return nil, err
					}
					return listening{conn, func(op int32) {
						if op == -11 { // closeSession
							closed = true
							require.ErrorIs(t, context.Cause(x.Context()), recipes.ErrClosed)
						}
					}}, nil
				}
			})
			x = l.Lock(c.Mutex(l.Mutex()).Lock)
			require.NoError(t, c.Close())
			require.True(t, closed)
		})
	}
}

func TestATransactionWhoseReplyIsLostIsLostWhenItsNodesAreDeleted(t *testing.T) { // simulation, seed 2130: searched for ever
	for deleted := range 2 {
		runInLab(t, fmt.Sprint("node ", deleted), func(t *testing.T, l *lab) {
			paths := l.Mutexes(2)
			c := l.Client("a")
			l.Unlock(l.Lock(multi(c, paths...).Lock))
			l.Settle()
			lost := l.Srv.Inject(zktest.Once(zktest.On("multi")), zktest.DropReply)
			got := async(func() (*recipes.Lease, error) { return multi(c, paths...).Lock(context.Background()) })
			<-lost.Hit()
			l.Srv.RefuseDials(true)
			l.Settle()
			require.NoError(t, l.Srv.Delete(l.Queue(paths[deleted])[0]))
			l.Srv.RefuseDials(false)
			select {
			case r := <-got:
				require.ErrorIs(t, r.Err, recipes.ErrLost)
			case <-time.After(time.Minute):
				require.Fail(t, "still searching")
			}
			time.Sleep(time.Second)
			l.Empty(paths...)
			l.Unlock(l.Lock(multi(c, paths...).Lock))
		})
	}
}

func TestAWaitThatEndsBetweenTwoTriesSaysThatItEnded(t *testing.T) { // simulation, seed 7269: only "was not applied"
	inLab(t, func(t *testing.T, l *lab) {
		c := l.Client("a")
		l.Mutex()
		l.Semaphore(1)
		l.warm(c.Mutex("/m"))
		for name, f := range map[string]taking{
			"mutex":      c.Mutex("/m").Lock,
			"semaphore":  permits(c.Semaphore("/s"), 1),
			"multi-lock": multi(c, "/m").Lock,
		} {
			for ms := 100; ms < 400; ms += 3 { // cut, reconnect, search: somewhere in here lies the pause
				rule := l.Srv.Inject(zktest.Once(zktest.On("create", "multi")), zktest.CutBefore)
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(ms)*time.Millisecond)
				x, err := f(ctx)
				cancel()
				rule.Remove()
				if err == nil {
					l.Unlock(x)
				} else {
					require.ErrorIs(t, err, context.DeadlineExceeded, "%s, %d ms", name, ms)
				}
				time.Sleep(3 * time.Second)
			}
		}
	})
}
