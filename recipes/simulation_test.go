package recipes

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/session"
	"github.com/locktree/locktree/recipes/zktest"
)

// A simulation runs clients against a schedule of faults that its seed decides. A failing seed is a subtest's name:
// go test -run 'TestSimulated.*/honest_17$'.

// world is one simulated run.
type world struct {
	*lab
	rnd     *rand.Rand
	honest  bool // the servers keep sessions for as long as they promise, and nobody deletes nodes by hand
	clients []*Client

	mu       sync.Mutex
	holders  map[string]map[*Lease]bool // believers by lock; readers are not entered
	token    map[string]uint64          // the newest
	tokens   map[string]map[uint64]bool // all
	grants   int
	problems []string
}

func (w *world) problem(format string, args ...any) {
	w.problems = append(w.problems, fmt.Sprintf(format, args...))
}

// granted notes a grant and checks it against all others: who believes to hold at this moment, and the tokens.
func (w *world) granted(path string, l *Lease, exclusive bool) {
	w.believes(path, l, exclusive)
	token := l.Token() // waits for the token of a lock that was free
	w.mu.Lock()
	defer w.mu.Unlock()
	if !exclusive || l.Context().Err() != nil {
		return
	}
	// Where servers break their word a holder that does not know yet may read its token after its heir has.
	if w.honest && token <= w.token[path] || w.tokens[path][token] {
		w.problem("%s: token %d after %d", path, token, w.token[path])
	}
	w.token[path], w.tokens[path][token] = token, true
}

func (w *world) believes(path string, l *Lease, exclusive bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.grants++
	if !exclusive || l.Context().Err() != nil {
		return
	}
	for other := range w.holders[path] {
		switch {
		case other.Context().Err() != nil:
			delete(w.holders[path], other)
		case w.honest:
			w.problem("two believe to hold %s at %v", path, time.Now())
		}
	}
	w.holders[path][l] = true
}

// worker takes and releases locks until end.
func (w *world) worker(c *Client, seed uint64, end time.Time) {
	rnd := rand.New(rand.NewPCG(seed, 1))
	for time.Now().Before(end) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(rnd.Int64N(int64(40*time.Second))))
		if rnd.IntN(8) == 0 {
			time.AfterFunc(time.Duration(rnd.Int64N(int64(time.Second))), cancel)
		}
		path, l, exclusive, err := w.acquire(ctx, c, rnd)
		if err == nil {
			w.granted(path, l, exclusive)
			time.Sleep(time.Duration(rnd.Int64N(int64(3 * time.Second))))
			_ = l.Unlock(ctx)
		}
		cancel()
		time.Sleep(time.Duration(rnd.Int64N(int64(2 * time.Second))))
	}
}

func (w *world) acquire(ctx context.Context, c *Client, rnd *rand.Rand) (path string, l *Lease, exclusive bool, err error) {
	switch rnd.IntN(9) {
	case 0:
		l, err = c.Mutex("/m").TryLock(ctx)
		return "/m", l, true, err
	case 1:
		l, err = c.RWMutex("/rw").Lock(ctx)
		return "/rw", l, true, err
	case 2:
		l, err = c.RWMutex("/rw").RLock(ctx)
		return "/rw", l, false, err
	case 3:
		l, err = c.Semaphore("/s").Acquire(ctx, 1+rnd.IntN(2))
		return "/s", l, false, err
	case 4:
		l, err = c.MultiLock(c.RWMutex("/rw"), c.Mutex("/m")).Lock(ctx)
		return "/m", l, true, err
	case 5:
		l, err = c.Election("/e").Campaign(ctx)
		return "/e", l, true, err
	default:
		l, err = c.Mutex("/m").Lock(ctx)
		return "/m", l, true, err
	}
}

// nemesis does one thing to one client, or to the server.
func (w *world) nemesis() {
	c := w.clients[w.rnd.IntN(len(w.clients))]
	id := c.conn.Newest().ID()
	some := func(most time.Duration) time.Duration { return time.Duration(w.rnd.Int64N(int64(most))) }
	faults := []zktest.Fault{zktest.DropReply, zktest.CutBefore, zktest.CutAfter, zktest.CutAt(w.rnd.IntN(24)), zktest.DelayReply(some(5 * time.Second))}
	ops := []string{"create", "delete", "multi", "setData", "getData", "getChildren2", "exists"}
	kinds := 5
	if !w.honest {
		kinds = 8
	}
	switch w.rnd.IntN(kinds) {
	case 0, 1:
		w.srv.Inject(zktest.Once(zktest.On(ops[w.rnd.IntN(len(ops))])), faults[w.rnd.IntN(len(faults))])
	case 2:
		w.srv.Disconnect(id)
	case 3:
		w.srv.Partition(id, []zktest.Direction{zktest.ToServer, zktest.ToClient, zktest.Both}[w.rnd.IntN(3)])
		time.Sleep(some(25 * time.Second))
		w.srv.Heal(id)
	case 4:
		w.srv.RefuseDials(true)
		w.srv.Disconnect(id)
		time.Sleep(some(15 * time.Second))
		w.srv.RefuseDials(false)
	case 5:
		w.srv.Expire(id)
	case 6:
		w.srv.SwapSessionID(id)
		w.srv.Disconnect(id)
	case 7:
		dir := []string{"/m", "/rw", "/e", "/s/leases", "/s/locks"}[w.rnd.IntN(5)]
		if line := w.queue(dir); len(line) > 0 {
			_ = w.srv.Delete(line[w.rnd.IntN(len(line))]) // may have gone meanwhile
		}
	}
}

// run lets the world turn for two minutes of bad luck and then requires that nothing is left of it.
func (w *world) run(seed uint64) {
	end := time.Now().Add(2 * time.Minute)
	var wg sync.WaitGroup
	for i, c := range w.clients {
		for j := range 2 {
			wg.Go(func() { w.worker(c, seed*100+uint64(10*i+j), end) })
		}
	}
	for time.Now().Before(end) {
		time.Sleep(time.Duration(w.rnd.Int64N(int64(8 * time.Second))))
		w.nemesis()
	}
	wg.Wait() // every wait has a deadline; a worker that hangs hangs the bubble, which fails it
	w.srv.Heal(0)
	time.Sleep(time.Minute)
	synctest.Wait()
	for _, dir := range []string{"/m", "/rw", "/e", "/s/leases", "/s/locks"} {
		if left := w.queue(dir); len(left) > 0 {
			w.problem("left behind: %v", left)
		}
	}
	for _, c := range w.clients {
		c.state.mu.Lock()
		if len(c.state.local) > 0 {
			w.problem("a local turn was never passed on: %v", c.state.local)
		}
		for s, j := range c.state.janitors {
			if n := j.bytes.Load(); s.State() != session.StateLost && n != 0 {
				w.problem("%d bytes of paths are booked for nothing", n)
			}
		}
		c.state.mu.Unlock()
	}
}

func TestSimulatedFaults(t *testing.T) {
	const seeds = 40
	total := 0
	for _, honest := range []bool{true, false} {
		name := map[bool]string{true: "honest", false: "dishonest"}[honest]
		for seed := range uint64(seeds) {
			t.Run(fmt.Sprintf("%s_%d", name, seed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := &world{
						lab:    &lab{t: t, srv: zktest.Start(t, zktest.WithLatency(time.Duration(seed%4)*5*time.Millisecond))},
						rnd:    rand.New(rand.NewPCG(seed, 0)),
						honest: honest, token: map[string]uint64{},
						holders: map[string]map[*Lease]bool{"/m": {}, "/rw": {}, "/e": {}},
						tokens:  map[string]map[uint64]bool{"/m": {}, "/rw": {}, "/e": {}},
					}
					w.mutex()
					w.rwlock()
					w.semaphore(2)
					w.election()
					for i := range 4 {
						w.clients = append(w.clients, w.client(fmt.Sprint(i)))
					}
					w.run(seed)
					require.Empty(t, slices.Compact(w.problems))
					require.Positive(t, w.grants)
					total += w.grants
				})
			})
		}
	}
	t.Logf("%d grants in %d simulated runs", total, 2*seeds)
	require.Greater(t, total, 2*seeds*20, "the schedules leave too little to happen")
}
