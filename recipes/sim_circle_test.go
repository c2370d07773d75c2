package recipes_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/internal/harness"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
	"github.com/locktree/locktree/recipes/zktest/effort"
)

// TestOfACircleOfWaitsExactlyOneEnds draws circles of two to six over all kinds of locks: goroutines of one program or of several, and
// programs with Curator or kazoo. Others wait and hold beside them, and try. Some calls give up, some contenders are asked back.
func TestOfACircleOfWaitsExactlyOneEnds(t *testing.T) {
	for seed := range 25 {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { inCircle(t, uint64(seed), map[string]int{}) })
	}
}

func TestOfAThousandCirclesOfWaitsExactlyOneEnds(t *testing.T) {
	effort.Proof(t, effort.Unraced)
	tally := map[string]int{}
	for seed := range cmp.Or(*simSeeds, 1000) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { inCircle(t, uint64(seed), tally) })
	}
	t.Log(tally)
	for what, n := range tally {
		require.Greater(t, n, 25, what)
	}
	require.Len(t, tally, 7)
}

// circleWorld is one circle: member i holds lock i and waits for the next one.
type circleWorld struct {
	*lab
	rnd      *rand.Rand
	programs []*recipes.Client
	members  []member
	locks    []circleLock
	beside   []func() // what goes on beside it
	permit   bool     // somebody beside it has a permit that is enough, and gives it back: it is no circle
	mixed    bool     // programs of other libraries wait in its queues
	timeouts bool
	revokes  bool
	tally    map[string]int // of what happened
}

// member is a goroutine of ours, or a program of another library, which never is a victim.
type member struct {
	c     *recipes.Client
	guest *guest
}

// circleLock is one of the locks. Whoever takes it first, as hold does, excludes the others, who take it as wait does.
type circleLock struct {
	path       string
	hold, wait func(member) ways
	guests     bool // other libraries can wait for it
	shared     bool // others can hold it beside hold
}

// ways are those into a lock.
type ways struct{ lock, try grab }

type grab func(context.Context) (*grip, error)

// grip is a lock that is held.
type grip struct {
	ctx  context.Context // to take others with
	back func() error
}

func ours(take taking) grab {
	return func(ctx context.Context) (*grip, error) {
		x, err := take(ctx)
		if err != nil {
			return nil, err
		}
		return &grip{x.Context(), func() error { return x.Unlock(context.Background()) }}, nil
	}
}

func mutexOf(path string) func(member) ways {
	return func(m member) ways {
		switch {
		case m.guest == nil:
			return ways{ours(m.c.Mutex(path).Lock), ours(m.c.Mutex(path).TryLock)}
		case m.guest.kazoo:
			return ways{lock: m.guest.takes(path, kazooLock)}
		}
		return ways{lock: m.guest.takes(path, "-lock-")}
	}
}

func readerOf(path string) func(member) ways {
	return func(m member) ways {
		if m.guest != nil {
			return ways{lock: m.guest.takes(path, "__READ__")}
		}
		return ways{ours(m.c.RWMutex(path).RLock), ours(m.c.RWMutex(path).TryRLock)}
	}
}

func writerOf(path string) func(member) ways {
	return func(m member) ways {
		if m.guest != nil {
			return ways{lock: m.guest.takes(path, "__WRIT__")}
		}
		return ways{ours(m.c.RWMutex(path).Lock), ours(m.c.RWMutex(path).TryLock)}
	}
}

func permitsOf(path string, n, of int) func(member) ways {
	return func(m member) ways {
		if m.guest != nil {
			return ways{lock: m.guest.permits(path, n, of)}
		}
		s := m.c.Semaphore(path)
		return ways{ours(func(ctx context.Context) (*recipes.Lease, error) { return s.Acquire(ctx, n) }),
			ours(func(ctx context.Context) (*recipes.Lease, error) { return s.TryAcquire(ctx, n) })}
	}
}

func inCircle(t *testing.T, seed uint64, tally map[string]int) {
	harness.Bubble(t, func(t *testing.T) {
		rnd := rand.New(rand.NewPCG(seed, 32))
		w := &circleWorld{rnd: rnd, tally: tally, timeouts: rnd.IntN(6) == 0, revokes: rnd.IntN(6) == 0,
			lab: &lab{t: t, srv: zktest.Start(t, zktest.WithLatency(time.Duration(rnd.IntN(10))*time.Millisecond))}}
		for i := range 1 + rnd.IntN(3) {
			w.programs = append(w.programs, w.client(fmt.Sprint("program", i)))
		}
		recipes.Programs(w.programs...)
		w.build(2 + rnd.IntN(5))
		for i := range rnd.IntN(4) {
			w.aside(fmt.Sprint("/aside", i))
		}
		w.run()
	})
}

// build decides who the members are, and how each lock is held and waited for.
func (w *circleWorld) build(n int) {
	foreign := max(0, w.rnd.IntN(6)-3)
	for i := range n {
		m := member{c: w.programs[w.rnd.IntN(len(w.programs))]}
		if i > 0 && i <= foreign {
			m, w.mixed = member{guest: w.guest(fmt.Sprint("guest", i))}, true
			m.guest.kazoo = w.rnd.IntN(3) == 0
		}
		w.members = append(w.members, m)
	}
	w.rnd.Shuffle(n, func(i, j int) { w.members[i], w.members[j] = w.members[j], w.members[i] })
	w.declare("/keys", &kind.KeyedParams{Of: "mutex", Foreign: "false"})
	for i, holder := range w.members {
		waiter := w.members[(i+n-1)%n]
		at := w.lock(fmt.Sprint("/lock", i), holder.guest == nil && waiter.guest == nil, holder.kazoo() || waiter.kazoo())
		w.locks = append(w.locks, at)
	}
}

// kazoo reports whether it is a program with kazoo, of whose contenders nobody knows whose they are.
func (m member) kazoo() bool { return m.guest != nil && m.guest.kazoo }

// lock declares a lock that those can use who hold it and wait for it: programs of ours alone, or kazoo's too.
func (w *circleWorld) lock(path string, alone, kazoo bool) circleLock {
	choice := w.rnd.IntN(10)
	switch {
	case kazoo:
	case choice < 3:
		w.declare(path, kind.RWLock.New())
		return circleLock{path: path, guests: true, shared: choice == 0,
			hold: []func(string) func(member) ways{readerOf, writerOf, writerOf}[choice](path),
			wait: []func(string) func(member) ways{writerOf, readerOf, writerOf}[choice](path)}
	case choice < 5:
		return w.semaphore(path, alone)
	case choice == 5 && alone:
		key := func(m member) ways {
			locks := m.c.Keyed("/keys")
			return ways{ours(func(ctx context.Context) (*recipes.Lease, error) { return locks.Lock(ctx, path[1:]) }),
				ours(func(ctx context.Context) (*recipes.Lease, error) { return locks.TryLock(ctx, path[1:]) })}
		}
		return circleLock{path: "/keys" + path, hold: key, wait: key}
	case choice == 6 && alone && len(w.programs) == 1:
		w.declare(path, kind.Election.New())
		candidate := func(m member) ways { return ways{lock: ours(m.c.Election(path).Campaign)} }
		return circleLock{path: path, hold: candidate, wait: candidate}
	case choice == 7 && alone && len(w.programs) == 1:
		w.declare(path, &kind.MutexParams{Common: kind.Common{Wire: kind.WireKazoo}})
		return circleLock{path: path, hold: mutexOf(path), wait: mutexOf(path)}
	case choice == 8 && alone:
		w.declare(path, kind.Mutex.New())
		w.declare(path+"-free", kind.Mutex.New())
		return circleLock{path: path, hold: mutexOf(path), wait: func(m member) ways {
			set := m.c.MultiLock(m.c.Mutex(path+"-free"), m.c.Mutex(path))
			return ways{ours(set.Lock), ours(set.TryLock)}
		}}
	}
	w.declare(path, kind.Mutex.New())
	return circleLock{path: path, guests: true, hold: mutexOf(path), wait: mutexOf(path)}
}

// semaphore is one of whose permits a member has all, or, seldom, another program has one.
func (w *circleWorld) semaphore(path string, alone bool) circleLock {
	permits := 1 + w.rnd.IntN(3)
	w.declare(path, &kind.SemaphoreParams{Permits: permits})
	if wants := 1 + w.rnd.IntN(permits); !alone || permits == 1 || w.rnd.IntN(4) > 0 {
		return circleLock{path: path, guests: true, hold: permitsOf(path, permits, permits), wait: func(m member) ways {
			if m.guest != nil { // it would have one and wait for the next
				return permitsOf(path, 1, permits)(m)
			}
			return permitsOf(path, wants, permits)(m)
		}}
	}
	w.permit = true
	w.tally["is none, for a permit is elsewhere"]++
	w.holds(permitsOf(path, 1, permits))
	return circleLock{path: path, guests: true, hold: permitsOf(path, permits-1, permits), wait: permitsOf(path, 1, permits)}
}

// holds has a program of another library hold a lock for a while, beside the circle.
func (w *circleWorld) holds(how func(member) ways) {
	held, err := how(member{guest: w.guest("other")}).lock(w.t.Context())
	require.NoError(w.t, err)
	w.beside = append(w.beside, func() {
		time.Sleep(4 * time.Second)
		require.NoError(w.t, held.back())
	})
}

// aside adds somebody beside the circle. A path is free for him.
func (w *circleWorld) aside(path string) {
	at := w.locks[w.rnd.IntN(len(w.locks))]
	beside := member{c: w.client("beside")}
	recipes.Programs(beside.c)
	w.declare(path, kind.Mutex.New())
	free, err := mutexOf(path)(beside).lock(w.t.Context())
	require.NoError(w.t, err)
	pause, ctx := w.pause(), free.ctx
	if w.rnd.IntN(2) == 0 {
		ctx = w.t.Context() // of somebody who holds nothing
	}
	wait := at.wait(beside).lock
	switch choice := w.rnd.IntN(5); {
	case choice == 0 && at.shared:
		w.holds(at.hold)
	case choice == 1 && at.guests:
		w.mixed, ctx = true, w.t.Context()
		wait = at.wait(member{guest: w.guest("waits")}).lock
	case choice == 2:
		w.declare(path+"-theirs", kind.Mutex.New())
		w.holds(mutexOf(path + "-theirs"))
		wait = mutexOf(path + "-theirs")(beside).lock
	case choice == 3 && at.wait(beside).try != nil:
		w.tally["tries beside it"]++
		wait = w.tries(beside.c, at.wait(beside).try, path)
	}
	w.beside = append(w.beside, func() {
		time.Sleep(pause)
		if held, err := wait(ctx); err == nil {
			time.Sleep(pause)
			require.NoError(w.t, held.back())
		} else {
			require.True(w.t, w.revokes, "%v", err)
			require.ErrorIs(w.t, err, recipes.ErrRevoked)
		}
		require.NoError(w.t, free.back())
	})
}

// tries tries until it succeeds. Whenever it does not, nothing is left of the try: no contender, and nothing that is said of a wait.
func (w *circleWorld) tries(c *recipes.Client, try grab, free string) grab {
	return func(ctx context.Context) (*grip, error) {
		for {
			held, err := try(ctx)
			if !errors.Is(err, recipes.ErrHeld) {
				return held, err
			}
			require.NotErrorIs(w.t, err, recipes.ErrDeadlock)
			time.Sleep(300 * time.Millisecond)
			left := w.contenders(w.session(c))
			require.Len(w.t, left, 1)
			require.Equal(w.t, w.queue(free), left)
			n, _ := w.srv.Get(left[0])
			said, _ := kind.ParseHolder(n.Data) // it may have been asked back
			require.Empty(w.t, said.Waits)
		}
	}
}

// contenders are the nodes of one session, or, for 0, of all.
func (w *circleWorld) contenders(session int64) (all []string) {
	todo := []string{"/"}
	for len(todo) > 0 {
		path := todo[0]
		n, _ := w.srv.Get(path)
		if todo = todo[1:]; n.Stat.EphemeralOwner != 0 && (session == 0 || n.Stat.EphemeralOwner == session) {
			all = append(all, path)
		}
		for _, name := range n.Children {
			todo = append(todo, kind.JoinPath(path, name))
		}
	}
	return all
}

// pause is before somebody begins to wait.
func (w *circleWorld) pause() time.Duration {
	if w.rnd.IntN(2) == 0 {
		return 0
	}
	return time.Duration(w.rnd.IntN(2000)) * time.Millisecond
}

// outcome is what becomes of a member's wait.
type outcome struct {
	bound time.Duration // of its patience
	err   error
	ended time.Time
}

// run closes the circle.
func (w *circleWorld) run() {
	held := make([]*grip, len(w.members))
	for i, m := range w.members {
		var err error
		held[i], err = w.locks[i].hold(m).lock(w.t.Context())
		require.NoError(w.t, err)
	}
	outcomes := make([]outcome, len(held))
	var closed time.Time
	var all sync.WaitGroup
	for i, m := range w.members {
		pause := w.pause()
		if last := time.Now().Add(pause); last.After(closed) {
			closed = last
		}
		out := &outcomes[i]
		out.bound = w.patience(m)
		wait := w.locks[(i+1)%len(held)].wait(m).lock
		all.Go(func() {
			time.Sleep(pause)
			ctx, cancel := context.WithTimeout(held[i].ctx, out.bound)
			defer cancel()
			var inner *grip
			inner, out.err = wait(ctx)
			out.ended = time.Now()
			if out.err == nil {
				require.NoError(w.t, inner.back())
			}
			require.NoError(w.t, held[i].back())
		})
	}
	for _, f := range w.beside {
		all.Go(f)
	}
	if w.revokes {
		w.revoke()
	}
	all.Wait()
	w.settle()
	require.Empty(w.t, w.contenders(0))
	w.judge(outcomes, closed)
}

// patience is how long a member waits. Programs of other libraries give up some time, and give back what they have.
func (w *circleWorld) patience(m member) time.Duration {
	switch {
	case m.guest != nil:
		return 30 * time.Second
	case w.timeouts && w.rnd.IntN(4) == 0:
		return time.Duration(w.rnd.IntN(4000)) * time.Millisecond
	}
	return time.Hour
}

func (w *circleWorld) judge(outcomes []outcome, closed time.Time) {
	victims, soon := 0, closed.Add(2*time.Second)
	if w.mixed { // it may be found when a call looks that has waited for long, and has to be seen for a second then
		soon = closed.Add(15 * time.Second)
	}
	for i, out := range outcomes {
		switch {
		case errors.Is(out.err, recipes.ErrDeadlock):
			victims++
			require.True(w.t, out.ended.Before(soon), "%v after %v", out.ended.Sub(closed), out.err)
			for _, m := range w.members {
				if m.guest != nil {
					require.ErrorContains(w.t, out.err, m.guest.id+" holds ")
				}
			}
		case errors.Is(out.err, recipes.ErrRevoked):
			w.tally["asked back"]++
			require.True(w.t, w.revokes)
		case out.err != nil:
			require.ErrorIs(w.t, out.err, context.DeadlineExceeded)
			w.tally["gives up"]++
			require.Less(w.t, out.bound, time.Hour, "member %d waits for ever", i)
		}
	}
	least, most := w.ends()
	switch guests := slices.ContainsFunc(w.members, func(m member) bool { return m.guest != nil }); {
	case victims > 0 && guests:
		w.tally["ends through Curator"]++
	case victims > 0:
		w.tally["ends"]++
	case guests:
		w.tally["lasts until another library's program goes"]++
	}
	require.True(w.t, least <= victims && victims <= most, "%d victims, not %d to %d: %v", victims, least, most, outcomes)
}

// revoke asks some contenders back at about the time at which the circle closes.
func (w *circleWorld) revoke() {
	admin := w.client("admin")
	for range 1 + w.rnd.IntN(2) {
		time.Sleep(w.pause())
		all := w.contenders(0)
		if len(all) == 0 {
			return
		}
		if err := admin.Revoke(w.t.Context(), all[w.rnd.IntN(len(all))]); !errors.Is(err, zk.ErrNoNode) {
			require.NoError(w.t, err)
		}
	}
}

// ends is how many waits of the circle end with ErrDeadlock. Of one program with Curator in it is seen that it waits for what a member
// holds. Of two nobody sees both waits, and of kazoo's contenders nobody sees that they are one program's.
func (w *circleWorld) ends() (least, most int) {
	guests := 0
	for _, m := range w.members {
		switch {
		case m.kazoo():
			return 0, 0
		case m.guest != nil:
			guests++
		}
	}
	switch {
	case w.permit, guests > 1:
		return 0, 0
	case w.timeouts, w.revokes:
		return 0, 1
	}
	return 1, 1
}
