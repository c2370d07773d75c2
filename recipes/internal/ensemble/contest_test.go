//go:build linux

package ensemble_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/internal/harness"
	"github.com/locktree/locktree/recipes/internal/hostile"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
	"github.com/locktree/locktree/recipes/zktest/realzk"
)

// share is a way to take a lane's lock, and the part of the lock's room that this takes.
type share struct {
	weight int
	take   func(*recipes.Client) harness.Take
}

// lane is one recipe's lock. In a contest all lanes suffer the same faults at the same time.
type lane struct {
	believers
	name   string
	queue  string         // the node of the waiters
	ahead  int            // the holder's contenders in queue
	holder share          // of the holder when the fault begins
	rivals []share        // rivals take these in turn; the first must wait for the holder
	x      *recipes.Lease // the holder's
}

// lanes returns locks of every recipe, with readers and writers on either side. The set has locks of its own, so that only the fault
// can hold it up, and not another lane.
func lanes() []*lane {
	const readers = 1000 // the most there may be
	mutex := share{1, func(c *recipes.Client) harness.Take { return c.Mutex("/m").Lock }}
	election := share{1, func(c *recipes.Client) harness.Take { return c.Election("/e").Campaign }}
	write := func(path string) share {
		return share{readers, func(c *recipes.Client) harness.Take { return c.RWMutex(path).Lock }}
	}
	read := func(path string) share {
		return share{1, func(c *recipes.Client) harness.Take { return c.RWMutex(path).RLock }}
	}
	permits := func(n int) share { return share{n, harness.Draw("/s", n)} }
	set := share{1, func(c *recipes.Client) harness.Take {
		return c.MultiLock(c.Mutex("/set-m"), c.RWMutex("/set-rw"), c.Election("/set-e")).Lock
	}}
	return []*lane{
		{name: "mutex", queue: "/m", ahead: 1, holder: mutex, rivals: []share{mutex}},
		{name: "writer", queue: "/w", ahead: 1, holder: write("/w"), rivals: []share{read("/w"), write("/w")}, believers: believers{room: readers}},
		{name: "reader", queue: "/r", ahead: 1, holder: read("/r"), rivals: []share{write("/r"), read("/r")}, believers: believers{room: readers}},
		{name: "semaphore", queue: "/s/locks", holder: permits(2), rivals: []share{permits(2), permits(1)}, believers: believers{room: 3}},
		{name: "election", queue: "/e", ahead: 1, holder: election, rivals: []share{election}},
		{name: "set", queue: "/set-m", ahead: 1, holder: set, rivals: []share{set}},
	}
}

func declareLanes(t *testing.T, c *recipes.Client) {
	t.Helper()
	permits := func(n int) kind.Params {
		p := kind.Semaphore.New().(*kind.SemaphoreParams)
		p.Permits = n
		return p
	}
	for path, p := range map[string]kind.Params{"/m": kind.Mutex.New(), "/w": kind.RWLock.New(), "/r": kind.RWLock.New(), "/s": permits(3),
		"/e": kind.Election.New(), "/set-m": kind.Mutex.New(), "/set-rw": kind.RWLock.New(), "/set-e": kind.Election.New()} {
		declareReal(t, c, path, p)
	}
}

// believers checks each grant: earlier holders that still believe they hold must leave room for it.
type believers struct {
	room   int // how much may be held at once; 0 means 1
	mu     sync.Mutex
	leases []believer
}

type believer struct {
	*recipes.Lease
	weight int
}

// granted must be called as soon as the lock is granted. The context of a lease that is over by the clock says so, even if no timer has
// run because the machine had stopped.
func (b *believers) granted(x *recipes.Lease, weight int) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	room := max(b.room, 1)
	held := weight
	for _, other := range b.leases {
		if other.Context().Err() == nil {
			held += other.weight
			if held > room {
				return fmt.Errorf("%s is granted while %s is believed to be held, %d of %d", x.Node(), other.Node(), held, room)
			}
		}
		if weight < room && other.weight < room { // tokens order only what excludes each other
			continue
		}
		if other.Token() >= x.Token() && other.Token() != 0 && x.Token() != 0 {
			return fmt.Errorf("token %d after %d", x.Token(), other.Token())
		}
	}
	b.leases = append(b.leases, believer{x, weight})
	return nil
}

// contend locks, holds for a moment and unlocks, over and over, until ctx ends. Failures of a broken ensemble are not errors;
// two believers are.
func (l *lane) contend(ctx context.Context, c *recipes.Client) error {
	for i := 0; ctx.Err() == nil; i++ {
		way := l.rivals[i%len(l.rivals)]
		x, err := way.take(c)(ctx)
		if errors.Is(err, recipes.ErrClosed) {
			return nil
		}
		if err != nil {
			_ = harness.Pause(ctx, 50*time.Millisecond)
			continue
		}
		if err := l.granted(x, way.weight); err != nil {
			return fmt.Errorf("%s: %w", l.name, err)
		}
		_ = harness.Pause(x.Context(), 30*time.Millisecond)
		unlock, cancel := context.WithTimeout(context.Background(), time.Second)
		_ = x.Unlock(unlock)
		cancel()
	}
	return nil
}

func (b *believers) grants() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.leases)
}

// atLeast waits for n grants. It fails when none comes for hostile.Patience: a failed test prints the servers' logs, which say more than
// a run that times out.
func (l *lane) atLeast(t *testing.T, n int) {
	t.Helper()
	for last, since := -1, time.Now(); ; {
		got := l.grants()
		if got >= n {
			return
		}
		if got != last {
			last, since = got, time.Now()
		}
		require.Less(t, time.Since(since), hostile.Patience, "%s: nobody is granted the lock any more, after %d of %d", l.name, got, n)
		require.NoError(t, harness.Pause(t.Context(), 20*time.Millisecond))
	}
}

// contest is a holder of every lane, and rivals that want each again and again.
type contest struct {
	lanes   []*lane
	timeout time.Duration // of all sessions
	stop    func()        // waits for the rivals, and fails if they saw two believers
}

// hold takes all lanes. Its error names the contender in the way.
func (c *contest) hold(t *testing.T, client *recipes.Client) error {
	t.Helper()
	ctx := hostile.Within(t, hostile.Patience)
	for _, l := range c.lanes {
		x, err := l.holder.take(client)(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", l.name, err)
		}
		require.NoError(t, l.granted(x, l.holder.weight))
		l.x = x
	}
	return nil
}

// holdAll begins a contest with client as the holder, and without rivals.
func holdAll(t *testing.T, client *recipes.Client) *contest {
	t.Helper()
	c := &contest{lanes: lanes()}
	require.NoError(t, c.hold(t, client))
	return c
}

type result = harness.Result[*recipes.Lease]

// async takes a lock in a goroutine.
func async(take func() (*recipes.Lease, error)) <-chan result { return harness.Async(take) }

// waiting lets a client wait in every lane.
func (c *contest) waiting(client *recipes.Client) []<-chan result {
	all := make([]<-chan result, len(c.lanes))
	for i, l := range c.lanes {
		all[i] = async(func() (*recipes.Lease, error) { return l.rivals[0].take(client)(context.Background()) })
	}
	return all
}

// granted requires that all waiters are granted their locks. It gives the locks back, and returns the leases, whose tokens are known.
func (c *contest) granted(t *testing.T, all []<-chan result) []*recipes.Lease {
	t.Helper()
	leases := make([]*recipes.Lease, len(all))
	for i, l := range c.lanes {
		r := <-all[i]
		require.NoError(t, r.Err, l.name)
		require.NoError(t, l.believers.granted(r.V, l.rivals[0].weight), l.name)
		require.NotZero(t, r.V.Token(), l.name)
		require.NoError(t, r.V.Unlock(t.Context()), l.name)
		leases[i] = r.V
	}
	return leases
}

// queued waits until n rivals stand in every lane. It returns false if the holder loses a lane before that.
func (c *contest) queued(t *testing.T, watcher *recipes.Client, n int) bool {
	t.Helper()
	for _, l := range c.lanes {
		var over <-chan struct{}
		if l.x != nil {
			over = l.x.Context().Done()
		}
		if !queuedUnless(t, watcher, l.queue, n+l.ahead, over) {
			return false
		}
	}
	return true
}

// lost requires that the holder loses every lane in time.
func (c *contest) lost(t *testing.T, since time.Time) {
	t.Helper()
	for _, l := range c.lanes {
		lostInTime(t, l.x, since, c.timeout)
	}
}

// over says why a lane is no longer held; nil while all are.
func (c *contest) over() error {
	for _, l := range c.lanes {
		if l.x != nil && l.x.Context().Err() != nil {
			return context.Cause(l.x.Context())
		}
	}
	return nil
}

// outlasts requires that the faults of the servers have not cost the holder a lane.
func (c *contest) outlasts(t *testing.T) {
	t.Helper()
	for _, l := range c.lanes {
		require.NoError(t, proven(t, l.x), "%s: %v", l.name, context.Cause(l.x.Context()))
		require.NoError(t, l.x.Context().Err())
	}
}

// unlock gives the holder's leases back. Some may have been lost.
func (c *contest) unlock(t *testing.T) (err error) {
	for _, l := range c.lanes {
		err = errors.Join(err, l.x.Unlock(t.Context()))
	}
	return err
}

// atLeast waits for n grants in every lane.
func (c *contest) atLeast(t *testing.T, n int) {
	t.Helper()
	for _, l := range c.lanes {
		l.atLeast(t, n)
	}
}

// contest begins a contest. The holder knows the servers in on, and each rival knows one of the servers in at. If the leases end on a
// slow machine before all rivals queue, it begins again with session timeouts half as long again, up to busyTimeout.
func (e *ensemble) contest(t *testing.T, timeout time.Duration, on, at []*realzk.Server) *contest {
	t.Helper()
	watcher := e.client(t, busyTimeout, e.servers...)
	for ; ; timeout = min(timeout*3/2, busyTimeout) {
		c, holder := &contest{lanes: lanes(), timeout: timeout}, e.client(t, timeout, on...)
		err := c.hold(t, holder)
		if err == nil {
			c.rival(t, e, timeout, at)
			if c.queued(t, watcher, len(at)) {
				return c
			}
			c.stop()
			err = c.over()
		}
		_ = holder.Close()
		require.Less(t, timeout, busyTimeout, "nobody holds all until the rivals queue: %v", err)
		t.Logf("begins again, because nobody held all until the rivals queued, with a session timeout of %v: %v", timeout, err)
	}
}

// rival lets one client for each of the servers contend in every lane until stop, or the test's end.
func (c *contest) rival(t *testing.T, e *ensemble, timeout time.Duration, at []*realzk.Server) {
	ctx, end := context.WithCancel(t.Context())
	failed := make(chan error, len(at)*len(c.lanes))
	for _, s := range at {
		client := e.client(t, timeout, s)
		for _, l := range c.lanes {
			go func() { failed <- l.contend(ctx, client) }()
		}
	}
	c.stop = func() {
		end()
		for range cap(failed) {
			require.NoError(t, <-failed)
		}
	}
}

// The leases here are no rivals: they only show what a contest would notice.
func TestAContestNoticesTooManyBelieversAndTokensThatDoNotGrow(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		c := dial(t, recipes.Config{Servers: []string{"zk"}, Dialer: zktest.Start(t).DialContext, SessionTimeout: realTimeout})
		declareLanes(t, c)
		var leases []*recipes.Lease
		for range 3 {
			x, err := c.Semaphore("/s").Acquire(t.Context(), 1)
			require.NoError(t, err)
			time.Sleep(time.Second) // its token is known
			leases = append(leases, x)
		}
		permits := believers{room: 2}
		require.NoError(t, permits.granted(leases[1], 1))
		require.NoError(t, permits.granted(leases[0], 1), "tokens of permits order nothing")
		require.ErrorContains(t, permits.granted(leases[2], 1), "3 of 2")

		const reader, writer = 1, 1000
		lock := believers{room: writer}
		require.NoError(t, lock.granted(leases[0], reader))
		require.NoError(t, lock.granted(leases[1], reader))
		require.ErrorContains(t, lock.granted(leases[2], writer), "of 1000")

		var alone believers
		require.NoError(t, alone.granted(leases[1], 1))
		require.NoError(t, leases[1].Unlock(t.Context()))
		require.ErrorContains(t, alone.granted(leases[0], 1), "token")
		require.NoError(t, alone.granted(leases[2], 1))
	})
}
