package recipes_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
)

// A program that knows no recipe can take a lock of every kind, and nothing else.
func TestTakeServesEveryKind(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		c := l.Client("anyone")
		for _, k := range append(kind.All(), nil) {
			path := "/" + k.String()
			if k == nil || k.Container || k == kind.Keyed { // a family's locks are those of its keys
				l.Refused(c.Locker(k, path, false, 0).Lock, recipes.ErrKindMismatch)
				continue
			}
			l.Declare(path, k.New())
			for _, shared := range []bool{false, true} { // a kind without readers has one way
				lease := l.Lock(c.Locker(k, path, shared, 1).TryLock, k)
				in := l.look(c, path)
				require.Same(t, k, in.Kind)
				require.Equal(t, shared && k == kind.RWLock, in.Holders[0].Shared)
				require.NoError(t, lease.Unlock(t.Context()))
			}
		}
	})
}

// Leader named the holder of a mutex, a Try said "held by this client", Lock waited for its own caller, and a nil lease was a panic.
func TestAHandleOfAnotherKindIsRefusedByEveryMethodAlsoWhileItsClientHoldsTheLock(t *testing.T) {
	paths := map[*kind.Kind]string{kind.Mutex: "/m", kind.RWLock: "/rw", kind.Semaphore: "/s", kind.Election: "/e"}
	inLab(t, func(t *testing.T, l *lab) {
		l.EveryKind()
		c := l.Client("a")
		for declared, path := range paths {
			held := l.Lock(c.Locker(declared, path, false, 1).Lock)
			for opened := range paths {
				if opened == declared {
					continue
				}
				for what, outer := range map[string]context.Context{"its holder": held.Context(), "another caller": t.Context()} {
					for _, try := range []bool{false, true} {
						ctx, cancel := context.WithTimeout(outer, time.Minute)
						lock := c.Locker(opened, path, false, 1)
						take := lock.Lock
						if try {
							take = lock.TryLock
						}
						_, err := take(ctx)
						cancel()
						require.ErrorIs(t, err, recipes.ErrKindMismatch, fmt.Sprint(what, opened, path, try))
					}
					for k, member := range map[*kind.Kind]recipes.Member{kind.Mutex: c.Mutex(path), kind.RWLock: c.RWMutex(path), kind.Election: c.Election(path)} {
						if k == opened {
							_, err := c.MultiLock(member).TryLock(outer)
							require.ErrorIs(t, err, recipes.ErrKindMismatch, fmt.Sprint(what, opened, path))
						}
					}
				}
			}
			if declared != kind.Election {
				_, _, err := c.Election(path).Leader(t.Context())
				require.ErrorIs(t, err, recipes.ErrKindMismatch)
				for _, err := range c.Election(path).Observe(t.Context()) {
					require.ErrorIs(t, err, recipes.ErrKindMismatch)
				}
			}
			if declared != kind.RWLock {
				same, err := c.RWMutex(path).Downgrade(t.Context(), held)
				require.ErrorContains(t, err, "needs a write lease")
				require.Same(t, held, same)
			}
			none, err := c.RWMutex(path).Downgrade(t.Context(), nil)
			require.ErrorContains(t, err, "needs a write lease")
			require.Nil(t, none)
			require.NoError(t, held.Verify(t.Context()))
			l.Unlock(held)
		}
		l.NothingLeft()
	})
}
