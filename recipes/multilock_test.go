package recipes_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
)

func multi(c *recipes.Client, paths ...string) *recipes.MultiLock {
	members := make([]recipes.Member, len(paths))
	for i, p := range paths {
		members[i] = c.Mutex(p)
	}
	return c.MultiLock(members...)
}

func TestAMultiLockIsNotGrantedWithAMemberThatWentWhileAnotherWasWaitedFor(t *testing.T) {
	for _, told := range []bool{true, false} {
		runInLab(t, fmt.Sprintf("told=%v", told), func(t *testing.T, l *lab) {
			paths := l.Mutexes(2)
			x := l.Lock(l.Client("holder").Mutex(paths[1]).Lock)
			w := l.Waiting(multi(l.Client("a"), paths...).Lock)
			node := l.Queue(paths[0])[0]
			if !told {
				l.Srv.InjectEvent(func(e zktest.Event) bool { return e.Path == node }, zktest.DropEvent)
			}
			require.NoError(t, l.Srv.Delete(node))
			l.Settle()
			l.Unlock(x)
			r := <-w
			require.ErrorIs(t, r.Err, recipes.ErrLost)
			l.vacant(paths[1])
		})
	}
}

// A lease entered again outlives the one it was entered from, and its context still says what is held.
func TestAMemberIsEnteredAgainFromTheLeaseThatIsLeft(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.EveryKind()
		c := l.Client("a")
		outer := l.Lock(c.MultiLock(c.Mutex("/m"), c.Election("/e")).Lock)
		inner := must(c.Mutex("/m", recipes.WithReentrancy()).Lock(outer.Context()))(t)
		l.Unlock(outer)
		ctx, cancel := context.WithTimeout(inner.Context(), time.Minute)
		defer cancel()
		for _, again := range []taking{
			c.Mutex("/m", recipes.WithReentrancy()).Lock,
			c.Election("/e", recipes.WithReentrancy()).Campaign,
		} {
			x := must(again(ctx))(t)
			require.Equal(t, inner.Token(), x.Token())
			l.Unlock(x)
		}
		_, err := c.MultiLock(c.Mutex("/m")).Lock(ctx)
		require.ErrorIs(t, err, recipes.ErrWouldDeadlock)
		l.Unlock(inner)
		l.NothingLeft()
	})
}

// holdsPermits takes a set, and all permits of the semaphore, and returns a function that gives them back.
func (l *lab) holdsPermits(c *recipes.Client, members ...recipes.Member) (release func()) {
	l.T.Helper()
	set := l.Lock(c.MultiLock(members...).Lock)
	permits := l.Lock(permits(c.Semaphore("/s"), 3))
	return func() {
		_ = set.Unlock(context.Background())
		_ = permits.Unlock(context.Background())
	}
}

func TestASetExcludesWhatItsMembersExclude(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.EveryKind()
		x := l.Lock(mixed(l.Client("a")).Lock)
		b := l.Client("b")
		l.Refused(b.Mutex("/m").TryLock, recipes.ErrHeld)
		l.Refused(b.RWMutex("/rw").TryLock, recipes.ErrHeld)
		r := l.Lock(b.RWMutex("/rw").TryRLock) // the set's member only reads
		l.Unlock(r)
		leader, ok, err := b.Election("/e").Leader(t.Context())
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, x.Token(), leader.Token)
		l.Unlock(x)
		for path, take := range map[string]taking{"/m": b.Mutex("/m").Lock, "/e": b.Election("/e").Campaign} {
			x := l.Lock(take)
			held := heldBy(t, l.Refused(mixed(l.Client("a")).TryLock, recipes.ErrHeld))
			require.Equal(t, path, held.Path)
			require.Equal(t, x.Node(), held.Holder.Path)
			l.Unlock(x)
			l.NothingLeft()
		}
	})
}

// purse has, for each lock of a test, how much of it is held and how much there is.
type purse struct {
	mu          sync.Mutex
	held, limit map[string]int
}

// change takes what a set needs, or gives it back, and checks the limits.
func (p *purse) change(t *testing.T, need map[string]int, sign int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, n := range need {
		p.held[name] += sign * n
		assert.LessOrEqual(t, p.held[name], p.limit[name], "too many hold %s", name)
	}
}

// pick chooses some locks, and returns how much of each the set needs.
func pick(rnd *rand.Rand, c *recipes.Client) (members []recipes.Member, need map[string]int) {
	need = map[string]int{}
	for _, i := range rnd.Perm(5)[:1+rnd.IntN(4)] {
		switch path := fmt.Sprintf("/l%d", i); i {
		case 0, 1:
			members, need[path] = append(members, c.Mutex(path)), 1
		case 2:
			members, need[path] = append(members, c.Election(path)), 1
		default:
			if rnd.IntN(2) == 0 {
				members, need[path] = append(members, c.RWMutex(path)), 100
			} else {
				members, need[path] = append(members, c.RWMutex(path).RLocker()), 1
			}
		}
	}
	return members, need
}

func (p *purse) work(t *testing.T, c *recipes.Client, seed uint64, rounds int) error {
	rnd := rand.New(rand.NewPCG(seed, 50))
	for range rounds {
		members, need := pick(rnd, c)
		pause := time.Duration(rnd.IntN(300)) * time.Millisecond
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		err := c.MultiLock(members...).Do(ctx, func(context.Context, *recipes.Lease) error {
			p.change(t, need, 1)
			time.Sleep(pause)
			p.change(t, need, -1)
			return nil
		})
		cancel()
		if err != nil {
			return fmt.Errorf("seed %d, %v: %w", seed, need, err)
		}
	}
	return nil
}

func TestOverlappingSetsOfAnyKindsNeverDeadlock(t *testing.T) { // case 50; sets of one member are among them
	inLab(t, func(t *testing.T, l *lab) {
		for _, path := range []string{"/l0", "/l1"} {
			l.Declare(path, kind.Mutex.New())
		}
		l.Declare("/l2", kind.Election.New())
		l.Declare("/l3", kind.RWLock.New())
		l.Declare("/l4", kind.RWLock.New())
		p := &purse{held: map[string]int{}, limit: map[string]int{"/l0": 1, "/l1": 1, "/l2": 1, "/l3": 100, "/l4": 100}}
		const clients, each, rounds = 4, 2, 20
		done := make(chan error)
		for i := range clients {
			c := l.Client(fmt.Sprint(i))
			for j := range each {
				go func() { done <- p.work(t, c, uint64(10*i+j), rounds) }()
			}
		}
		for range clients * each {
			require.NoError(t, <-done)
		}
		l.vacant("/l0", "/l1", "/l2", "/l3", "/l4")
	})
}

// A waiting set would keep permits from Curator's clients although no caller holds them, and could wait in a circle.
func TestASetTakesNoPermits(t *testing.T) {
	_, takes := any(new(recipes.Semaphore)).(recipes.Member)
	require.False(t, takes)
}

func TestGoroutinesOfOneClientKeepOneContenderInEachQueueOfASet(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		paths := l.Mutexes(3)
		c := l.Client("a")
		x := l.Lock(multi(c, paths...).Lock)
		var ws []<-chan result[*recipes.Lease]
		for i := range 10 {
			ws = append(ws, l.Waiting(multi(c, paths[i%3], paths[(i+1)%3]).Lock))
		}
		single := l.Locking(c.Mutex(paths[0]))
		_, err := c.Mutex(paths[1]).TryLock(t.Context())
		held := heldBy(t, err)
		require.True(t, held.Local)
		l.Refused(multi(c, paths...).TryLock, recipes.ErrHeld)
		for _, p := range paths {
			require.Len(t, l.Children(p), 1)
		}
		l.Unlock(x)
		for _, w := range append(ws, single) {
			go func() {
				if r := <-w; r.Err == nil {
					_ = r.V.Unlock(context.Background())
				}
			}()
		}
		l.Settle()
		last := l.Lock(multi(c, paths...).Lock) // waits for ever if a turn was not passed on
		l.Unlock(last)
		l.vacant(paths...)
	})
}

func TestASetDoesNotUseAPlaceItInherits(t *testing.T) { // another transaction created the place: the order of sets would break
	inLab(t, func(t *testing.T, l *lab) {
		paths := l.Mutexes(2)
		c := l.Client("a")
		x := l.Lock(c.Mutex(paths[0]).Lock)
		blocker := l.Lock(l.Client("b").Mutex(paths[1]).Lock)
		w := l.Waiting(multi(c, paths...).Lock)
		l.Unlock(x) // hands a place over, as to any goroutine that waits
		l.Settle()
		born := func(path string) int64 {
			queue := l.Queue(path)
			n, _ := l.Srv.Get(queue[len(queue)-1])
			return n.Stat.Czxid
		}
		require.Equal(t, born(paths[0]), born(paths[1]), "places of different transactions")
		l.Unlock(blocker)
		l.Unlock(l.Got(w))
	})
}

func TestASetThatCannotBeIsRefusedBeforeAnythingIsSent(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.EveryKind()
		c := l.Client("a")
		l.Srv.ResetCounts()
		for want, m := range map[string]*recipes.MultiLock{
			"at least one member":      c.MultiLock(),
			"names /m twice":           c.MultiLock(c.Mutex("/m"), c.Election("/e"), c.Mutex("/m")),
			"handle of another client": c.MultiLock(l.Client("b").Mutex("/m")),
		} {
			_, err := m.Lock(t.Context())
			require.ErrorContains(t, err, want)
			require.Equal(t, want == "names /m twice", errors.Is(err, recipes.ErrWouldDeadlock))
		}
		require.Zero(t, l.Srv.Counts().ByOp["multi"])
		l.NothingLeft()
	})
}

// A set took the turn for one member and waited for the other. The other's holder wanted the first, so both waited for good.
func TestASetKeepsNoTurnFromAHolderThatItWaitsFor(t *testing.T) {
	for _, keyed := range []bool{false, true} {
		runInLab(t, fmt.Sprintf("keyed %v", keyed), func(t *testing.T, l *lab) {
			l.Declare("/a", kind.Mutex.New())
			l.Declare("/b", kind.Mutex.New())
			l.Declare("/k", &kind.KeyedParams{Of: "mutex", Foreign: "false"})
			c := l.Client("c")
			lock := func(n string) *recipes.Mutex {
				if keyed {
					return c.Keyed("/k").Mutex(n)
				}
				return c.Mutex("/" + n)
			}
			b := l.Lock(lock("b").Lock)
			set := l.Waiting(c.MultiLock(lock("a"), lock("b")).Lock)
			nested, done := context.WithTimeout(b.Context(), time.Second)
			defer done()
			a, err := lock("a").Lock(nested)
			require.NoError(t, err, "the set waits for b, and does not keep a meanwhile")
			l.Unlock(b)
			l.Settle()
			notYet(t, set, "a is held")
			l.Unlock(a)
			l.Unlock(l.Got(set))
			require.Empty(t, c.Leftovers())
		})
	}
}

// Goroutines of one client take sets of locks, or nest single locks in the reverse order of the paths. Such a program does not wait in a
// circle by itself. It did when sets kept turns while they waited for others.
func TestNestedCallsAndSetsOfOneClientComeToAnEnd(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		seed := rapid.Uint64().Draw(r, "seed")
		goroutines := rapid.IntRange(2, 6).Draw(r, "goroutines")
		inLab(t, func(t *testing.T, l *lab) {
			paths := l.Mutexes(4)
			c := l.Client("c")
			var all sync.WaitGroup
			for g := range goroutines {
				dice := rand.New(rand.NewPCG(seed, uint64(g)))
				all.Go(func() {
					for range 5 {
						ctx, stop := context.WithTimeout(t.Context(), time.Hour)
						if dice.IntN(2) == 0 { // a set, by a caller that holds nothing
							order := dice.Perm(len(paths))[:2+dice.IntN(3)]
							var members []string
							for _, i := range order {
								members = append(members, paths[i])
							}
							x, err := multi(c, members...).Lock(ctx)
							if err != nil {
								t.Errorf("seed %d: set of %v: %v", seed, members, err)
								stop()
								return
							}
							time.Sleep(time.Duration(dice.IntN(50)) * time.Millisecond)
							_ = x.Unlock(ctx)
							stop()
							continue
						}
						// Downwards: sets took their turns in the opposite order.
						var leases []*recipes.Lease
						inner := ctx
						for i := len(paths) - 1; i >= 0; i-- {
							if dice.IntN(2) == 0 {
								continue
							}
							x, err := c.Mutex(paths[i]).Lock(inner)
							if err != nil {
								t.Errorf("seed %d: %s nested in %d: %v", seed, paths[i], len(leases), err)
								break
							}
							leases, inner = append(leases, x), x.Context()
							time.Sleep(time.Duration(dice.IntN(50)) * time.Millisecond)
						}
						for _, x := range leases {
							_ = x.Unlock(ctx)
						}
						stop()
					}
				})
			}
			all.Wait()
			l.Settle()
			if left := c.Leftovers(); len(left) > 0 {
				t.Errorf("seed %d: %v", seed, left)
			}
		})
		if t.Failed() {
			r.FailNow()
		}
	})
}

func TestASetIsGivenUpWhenSomethingHappensToAMemberItHasAlready(t *testing.T) {
	// One member is granted, and the set still waits for another: no goroutine waits at the queue of the first.
	for name, c := range map[string]struct {
		do   func(l *lab)
		want error
	}{
		"asked back": {func(l *lab) { require.NoError(l.T, l.Srv.Set(l.Queue("/m")[0], []byte(kind.RevokeMessage))) }, recipes.ErrRevoked},
		"deleted":    {func(l *lab) { require.NoError(l.T, l.Srv.Delete(l.Queue("/m")[0])) }, recipes.ErrLost},
		"draining": {func(l *lab) {
			l.Declare("/m", kind.Mutex.New(), func(p *kind.Payload) { p.State = kind.StateDraining })
		}, recipes.ErrDraining},
	} {
		runInLab(t, name, func(t *testing.T, l *lab) {
			l.EveryKind()
			x := l.Lock(l.Client("holder").Election("/e").Campaign)
			w := l.Waiting(mixed(l.Client("a")).Lock)
			l.Settle() // the first look at four declarations takes its time
			notYet(t, w, "the election is not won")
			start := time.Now()
			c.do(l)
			r := <-w
			require.ErrorIs(t, r.Err, c.want)
			require.Less(t, r.At.Sub(start), time.Second, "told long after")
			require.NoError(t, x.Unlock(t.Context()))
			l.NothingLeft()
		})
	}
}

func TestTheDeadlineOfAMixedSetIsOneForAllMembers(t *testing.T) { // Curator gives each member the full timeout
	inLab(t, func(t *testing.T, l *lab) {
		l.EveryKind()
		holder := l.Client("holder")
		m := l.Lock(holder.Mutex("/m").Lock)
		s := l.Lock(holder.Election("/e").Campaign)
		ctx := l.Within(10 * time.Second)
		time.AfterFunc(8*time.Second, func() { _ = m.Unlock(context.Background()) })
		start := time.Now()
		_, err := mixed(l.Client("a")).Lock(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		held := heldBy(t, err)
		require.Equal(t, "/e", held.Path, "the mutex came in time")
		require.Less(t, time.Since(start), 10*time.Second+50*time.Millisecond)
		l.Unlock(s)
		l.NothingLeft()
	})
}
