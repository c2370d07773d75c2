package recipes_test

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/internal/session"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
)

// Everything but a rival that ends a retention, told to a place that is kept.
func TestAKeptPlaceIsGivenUpBeforeItsTime(t *testing.T) {
	for name, end := range map[string]func(*lab, *recipes.Mutex, *recipes.Lease){
		"drained": func(l *lab, _ *recipes.Mutex, _ *recipes.Lease) { l.declare("/m", kind.Mutex.New(), draining) },
		"moved": func(l *lab, _ *recipes.Mutex, _ *recipes.Lease) {
			l.declare("/m", kind.Mutex.New(), func(p *kind.Payload) { p.State, p.MovedTo = kind.StateMoved, "/elsewhere" })
		},
		"asked back": func(l *lab, _ *recipes.Mutex, x *recipes.Lease) {
			require.NoError(l.t, l.client("c").Revoke(l.t.Context(), x.Node()))
		},
		"reconnected": func(l *lab, m *recipes.Mutex, _ *recipes.Lease) { l.srv.Disconnect(l.session(m.Client())) },
		"closed":      func(l *lab, m *recipes.Mutex, _ *recipes.Lease) { require.NoError(l.t, m.Client().Close()) },
		"expired":     func(l *lab, m *recipes.Mutex, _ *recipes.Lease) { l.srv.Expire(l.session(m.Client())) },
		"deleted":     func(l *lab, _ *recipes.Mutex, x *recipes.Lease) { require.NoError(l.t, l.srv.Delete(x.Node())) },
		"wanted by a handle that keeps nothing": func(l *lab, m *recipes.Mutex, x *recipes.Lease) {
			y, err := m.Client().Mutex("/m").TryLock(l.t.Context())
			require.NoError(l.t, err)
			require.Greater(l.t, y.Token(), x.Token())
			l.unlock(y)
		},
		"wanted by another ID": func(l *lab, m *recipes.Mutex, x *recipes.Lease) {
			y, err := m.Client().Mutex("/m", recipes.WithID("other"), recipes.WithRetention(time.Millisecond)).Lock(l.t.Context())
			require.NoError(l.t, err)
			require.Equal(l.t, "other", l.says("/m"))
			require.Greater(l.t, y.Token(), x.Token())
			l.unlock(y)
		},
		"wanted by a set": func(l *lab, m *recipes.Mutex, x *recipes.Lease) {
			l.declare("/n", kind.Mutex.New())
			y, err := m.Client().MultiLock(m, m.Client().Mutex("/n")).Lock(l.t.Context())
			require.NoError(l.t, err)
			require.Greater(l.t, y.Token(), x.Token())
			l.unlock(y)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inLab(t, func(t *testing.T, l *lab) {
				m, x := l.keeping()
				end(l, m, x)
				time.Sleep(time.Second)
				l.noneLeft(m)
			})
		})
	}
}

// The same while it is in use: the Unlock that follows gives it back, and the next Lock has a place and a token of its own.
func TestALockInUseIsNotKeptAfterwardsWhereSomethingHasChanged(t *testing.T) {
	for name, change := range map[string]func(*lab, *recipes.Mutex, *recipes.Lease){
		"declared anew": func(l *lab, _ *recipes.Mutex, _ *recipes.Lease) {
			l.declare("/m", kind.Mutex.New(), func(p *kind.Payload) { p.Owner.Addr = "y" })
		},
		"asked back": func(l *lab, _ *recipes.Mutex, x *recipes.Lease) {
			require.NoError(l.t, l.client("c").Revoke(l.t.Context(), x.Node()))
		},
		"reconnected": func(l *lab, m *recipes.Mutex, _ *recipes.Lease) { l.srv.Disconnect(l.session(m.Client())) },
		"a rival that gave up": func(l *lab, _ *recipes.Mutex, _ *recipes.Lease) {
			_, err := l.client("b").Mutex("/m").TryLock(l.t.Context())
			require.ErrorIs(l.t, err, recipes.ErrHeld)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inLab(t, func(t *testing.T, l *lab) {
				m, _ := l.keeping()
				x, err := m.Lock(t.Context())
				require.NoError(t, err)
				change(l, m, x)
				time.Sleep(time.Second)
				require.Contains(t, l.queue("/m"), x.Node(), "it is in use")
				l.unlock(x)
				l.settle()
				require.Empty(t, l.queue("/m"))
				l.locksAnew(m, x)
			})
		})
	}
}

// A process that was stopped finds the session lost before any timer has run: a place that was kept is nobody's any more.
func TestAKeptPlaceIsNotUsedByASessionThatIsOver(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		var slept atomic.Int64
		l.mutex()
		c := l.asleep("a", l.srv.DialContext, func() time.Duration { return time.Duration(slept.Load()) })
		m := c.Mutex("/m", recipes.WithRetention(time.Hour))
		x, err := m.Lock(t.Context())
		require.NoError(t, err)
		l.unlock(x)
		l.settle()
		slept.Store(int64(time.Hour))
		y, err := m.Lock(t.Context())
		require.NoError(t, err)
		require.NotEqual(t, x.SessionID(), y.SessionID())
		require.Greater(t, y.Token(), x.Token())
		l.unlock(y)
		require.NoError(t, c.Close())
	})
}

// Nor by one in doubt: whether it lives, only the servers know.
func TestAKeptPlaceIsNotUsedInDoubt(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		m, x := l.keeping()
		s, err := m.Client().Live(t.Context())
		require.NoError(t, err)
		x2, err := m.Lock(t.Context())
		require.NoError(t, err)
		time.Sleep(time.Second)
		require.True(t, x2.With(x))
		slow := l.srv.Inject(zktest.On("multi"), zktest.Delay(time.Minute))
		<-slow.Hit()
		l.unlock(x2)
		for s.State() != session.StateSuspect {
			time.Sleep(10 * time.Millisecond)
		}
		slow.Remove()
		l.locksAnew(m, x)
	})
}

// A Try that is refused ends the retention: the next one finds the lock free.
func TestARefusedTryEndsARetention(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		_, x := l.keeping()
		rival := l.client("b").Mutex("/m")
		_, err := rival.TryLock(t.Context())
		var held *recipes.HeldError
		require.ErrorAs(t, err, &held)
		require.Equal(t, x.Node(), held.Holder.Path)
		l.settle()
		y, err := rival.TryLock(t.Context())
		require.NoError(t, err)
		l.unlock(y)
	})
}

func TestPlacesAreKeptInHalfOfWhatASessionMayHave(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		m, _ := l.keeping()
		x, err := m.Lock(t.Context())
		require.NoError(t, err)
		s, err := m.Client().Live(t.Context())
		require.NoError(t, err)
		m.Client().PathBytes(s).Add(recipes.MaxEphemeralBytes / 2)
		l.unlock(x)
		l.settle()
		require.Empty(t, l.queue("/m"))
	})
}

func TestAKeptPlaceIsLostInDoubtWhereALeaseWouldBe(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		m, x := l.keeping(func(c *recipes.Config) { c.LoseOnSuspect = true })
		l.srv.Disconnect(l.session(m.Client()))
		time.Sleep(time.Second)
		require.NotContains(t, l.queue("/m"), x.Node())
		y, err := m.Lock(t.Context())
		require.NoError(t, err)
		l.unlock(y)
		l.settle()
		require.Contains(t, l.queue("/m"), y.Node())
		time.Sleep(retention)
		l.noneLeft(m)
	})
}

// The client keeps some thousand declarations, and retentions may be more.
func TestAKeptPlaceHearsOfADrainWhenItsDeclarationIsNoLongerKept(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		m, x := l.keeping()
		c := m.Client()
		c.KeepDeclarations(1)
		for i := range 5 {
			p := "/n" + strconv.Itoa(i)
			l.declare(p, kind.Mutex.New())
			y, err := c.Mutex(p).Lock(t.Context())
			require.NoError(t, err)
			l.unlock(y)
		}
		require.Contains(t, l.queue("/m"), x.Node())
		l.declare("/m", kind.Mutex.New(), draining)
		l.settle()
		require.NotContains(t, l.queue("/m"), x.Node())
		_, err := m.Lock(t.Context())
		require.ErrorIs(t, err, recipes.ErrDraining)
		l.noneLeft(m)
	})
}

// A follower that is cut off goes on telling that nobody queues. Only commits tell that the place is still there.
func TestAKeptPlaceAtAServerThatIsCutOffIsNoSecondHolder(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.mutex()
		f := l.srv.Replica()
		var moved atomic.Bool
		moved.Store(true)
		a := l.client("a", l.movedTo(f, &moved))
		m := a.Mutex("/m", recipes.WithRetention(time.Hour))
		x, err := m.Lock(t.Context())
		require.NoError(t, err)
		l.unlock(x)
		time.Sleep(time.Minute)
		f.CutOff()
		b := l.client("b").Mutex("/m")
		var granted atomic.Bool
		w := async(func() (*recipes.Lease, error) {
			y, err := b.Lock(context.Background())
			granted.Store(true)
			return y, err
		})
		resumed := 0
		for start := time.Now(); time.Since(start) < time.Minute; time.Sleep(10 * time.Millisecond) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			y, err := m.TryLock(ctx)
			cancel()
			if err == nil {
				resumed++
				require.False(t, granted.Load(), "a rival holds")
				_ = y.Unlock(t.Context())
			}
		}
		require.Positive(t, resumed)
		f.CatchUp()
		r := <-w
		require.NoError(t, r.err)
		l.unlock(r.v)
		l.settle()
	})
}
