package harness

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/locktree/locktree/recipes"
)

// A Poller calls a recipe once, and is called again and again.
type Poller func(ctx context.Context, c *recipes.Client) (*recipes.Lease, error)

// Polling has clients that poll, and counts their calls and grants.
type Polling struct {
	Calls, Grants atomic.Int64
	stop          context.CancelFunc
	done          sync.WaitGroup
}

// Poll lets each client poll until End, or the end of the test. Between two calls each client pauses for a random time: at least
// pause, and less than twice pause plus a millisecond.
func Poll(t *testing.T, clients []*recipes.Client, f Poller, pause time.Duration) *Polling {
	ctx, stop := context.WithCancel(context.Background())
	t.Cleanup(stop)
	p := &Polling{stop: stop}
	for i, c := range clients {
		rnd := rand.New(rand.NewPCG(uint64(i), 3))
		p.done.Go(func() {
			for ctx.Err() == nil {
				p.Calls.Add(1)
				if x, err := f(context.Background(), c); err == nil {
					p.Grants.Add(1)
					_ = x.Unlock(context.Background())
				}
				time.Sleep(pause + time.Duration(rnd.Int64N(int64(pause)+int64(time.Millisecond))))
			}
		})
	}
	return p
}

// End stops the clients, and returns when all have stopped.
func (p *Polling) End() {
	p.stop()
	p.done.Wait()
}
