package recipes_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
)

// holdsPermits takes a set, and all permits of the semaphore, and returns how to give them back.
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
		r := l.Lock(b.RWMutex("/rw").TryRLock) // the member reads only
		l.Unlock(r)
		leader, ok, err := b.Election("/e").Leader(t.Context())
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, x.Token(), leader.Token)
		l.Unlock(x)
		l.NothingLeft()
	})
}

// purse keeps the books of a test over many locks: how much of each is held, and how much there is.
type purse struct {
	t     *testing.T
	held  map[string]int
	limit map[string]int
	do    chan func()
}

func (p *purse) take(name string, n int) {
	p.held[name] += n
	require.LessOrEqual(p.t, p.held[name], p.limit[name], "too many hold %s", name)
}

// pick chooses some locks, and says what holding them takes.
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

func (p *purse) work(c *recipes.Client, seed uint64, rounds int) error {
	rnd := rand.New(rand.NewPCG(seed, 50))
	for range rounds {
		members, need := pick(rnd, c)
		pause := time.Duration(rnd.IntN(300)) * time.Millisecond
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		err := c.MultiLock(members...).Do(ctx, func(context.Context, *recipes.Lease) error {
			change := func(sign int) {
				done := make(chan struct{})
				p.do <- func() {
					for name, n := range need {
						p.take(name, sign*n)
					}
					close(done)
				}
				<-done
			}
			change(1)
			time.Sleep(pause)
			change(-1)
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
		p := &purse{t: t, held: map[string]int{}, do: make(chan func()),
			limit: map[string]int{"/l0": 1, "/l1": 1, "/l2": 1, "/l3": 100, "/l4": 100}}
		const clients, each, rounds = 4, 2, 20
		done := make(chan error)
		for i := range clients {
			c := l.Client(fmt.Sprint(i))
			for j := range each {
				go func() { done <- p.work(c, uint64(10*i+j), rounds) }()
			}
		}
		for left := clients * each; left > 0; {
			select {
			case f := <-p.do:
				f()
			case err := <-done:
				require.NoError(t, err)
				left--
			}
		}
		l.Settle()
		l.Empty("/l0", "/l1", "/l2", "/l3", "/l4")
	})
}

// A set that waits would take permits from Curator's clients that nobody holds, and could wait in a circle.
func TestASetTakesNoPermits(t *testing.T) {
	_, takes := any(new(recipes.Semaphore)).(recipes.Member)
	require.False(t, takes)
}

func TestTryOfAMixedSetNamesTheMemberThatIsHeldAndLeavesNothing(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.EveryKind()
		holder := l.Client("holder")
		for path, take := range map[string]taking{"/m": holder.Mutex("/m").Lock, "/e": holder.Election("/e").Campaign} {
			x := l.Lock(take)
			held := heldBy(t, l.Refused(mixed(l.Client("a")).TryLock, recipes.ErrHeld))
			require.Equal(t, path, held.Path)
			require.Equal(t, x.Node(), held.Holder.Path)
			l.Unlock(x)
			l.NothingLeft()
		}
	})
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
		last := l.Lock(multi(c, paths...).Lock) // a turn was not passed on
		l.Unlock(last)
		l.Settle()
		l.Empty(paths...)
	})
}

func TestASetDoesNotUseAPlaceItInherits(t *testing.T) { // it is of another transaction: the order of sets would break
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
