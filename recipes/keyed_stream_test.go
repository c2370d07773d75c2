package recipes_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
)

// From key to key: a round trip and a commit each, and no node is left.
func TestAStreamOfKeysCostsOneTransactionAndOneRoundTripEach(t *testing.T) {
	const keys = 50
	inLab(t, func(t *testing.T, l *lab) {
		l.families()
		orders := l.client("a").Keyed("/km")
		warm, err := orders.Lock(t.Context(), "warm")
		require.NoError(t, err)
		l.unlock(warm)
		stream := func(next func(i int, x *recipes.Lease) *recipes.Lease) func() {
			return func() {
				x, err := orders.Lock(t.Context(), "0")
				require.NoError(t, err)
				for i := 1; i < keys; i++ {
					x = next(i, x)
				}
				x.Release()
			}
		}
		require.Equal(t, spent{keys, fmt.Sprintf("%dgetChildren2 %dmulti", keys, keys+1)}, l.cost(stream(func(i int, before *recipes.Lease) *recipes.Lease {
			x, err := orders.Mutex(strconv.Itoa(i)).LockFrom(t.Context(), before)
			require.NoError(t, err)
			require.Greater(t, x.Token(), before.Token())
			return x
		})))
		l.noKeys("/km")
		require.Equal(t, spent{keys, fmt.Sprintf("%dgetChildren2 %dmulti", keys, 2*keys)}, l.cost(stream(func(i int, before *recipes.Lease) *recipes.Lease {
			before.Release()
			x, err := orders.Lock(t.Context(), strconv.Itoa(i))
			require.NoError(t, err)
			return x
		})))
		l.noKeys("/km")
	})
}

func TestAnExchangeLeavesAKeyToWhoHasQueuedForIt(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.families()
		a, b := l.client("a").Keyed("/km"), l.client("b").Keyed("/km")
		x, err := a.Lock(t.Context(), "1")
		require.NoError(t, err)
		waits := l.locking(b.Mutex("1"))
		y, err := a.Mutex("2").LockFrom(t.Context(), x)
		require.NoError(t, err)
		got := <-waits
		require.NoError(t, got.err)
		require.NoError(t, y.Verify(t.Context()))

		// And who is queued for, without knowing it, and is followed by nobody when the look comes.
		leaves, err := b.Mutex("3").LockFrom(t.Context(), got.v)
		require.NoError(t, err)
		l.unlock(leaves)
		l.unlock(y)
		l.settle()
		l.noKeys("/km")
	})
}

func TestAnExchangeOfKeysWhoseAnswerIsLostLeavesNoNode(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.families()
		orders := l.client("a").Keyed("/km")
		for i, f := range []zktest.Fault{zktest.DropReply, zktest.DropRequest} {
			x, err := orders.Lock(t.Context(), "from")
			require.NoError(t, err)
			l.settle()
			l.srv.Inject(zktest.Once(zktest.On("multi")), f)
			y, err := orders.Mutex("to").LockFrom(t.Context(), x)
			require.NoError(t, err, "%d", i)
			require.NoError(t, y.Verify(t.Context()))
			l.unlock(y)
			time.Sleep(time.Minute)
			l.noKeys("/km")
		}
	})
}

// Its caller leaves before the transaction is answered that takes its contender out of a key in which it has seen others: those have
// left, and nobody else looks.
func TestAnExchangeOfAKeyThatItsCallerLeavesLeavesNoNode(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.families()
		a, b := l.warmed("a", "/km"), l.warmed("b", "/km")
		rival, err := b.Lock(t.Context(), "from")
		require.NoError(t, err)
		waits := l.locking(a.Mutex("from"))
		l.unlock(rival)
		x := (<-waits).v
		l.settle()
		ctx, cancel := context.WithTimeout(t.Context(), oneWay)
		defer cancel()
		y, err := a.Mutex("to").LockFrom(ctx, x)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Nil(t, y)
		l.noKeys("/km")
	})
}

func TestAnExchangeForAForeignKeyLeavesNoNode(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.declare("/km", &kind.KeyedParams{Of: "mutex", Foreign: "false", Common: kind.Common{Wire: kind.WireCurator}}, func(p *kind.Payload) {
			p.ChildACL = kind.List{{Scheme: "world", ID: "anyone", Perms: kind.PermAll &^ kind.PermAdmin}}
		})
		k := l.warmed("a", "/km")
		require.NoError(t, l.srv.Create("/km/to", nil))
		x, err := k.Lock(t.Context(), "from")
		require.NoError(t, err)
		y, err := k.Mutex("to").LockFrom(t.Context(), x)
		require.ErrorIs(t, err, recipes.ErrKeyForeign)
		require.Nil(t, y)
		l.noKeys("/km")
	})
}
