package recipes_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest/effort"
)

// families declares one of each kind: /km, /krw, and /ks with three permits.
func (l *lab) families(change ...func(*kind.KeyedParams)) {
	l.T.Helper()
	for path, p := range map[string]*kind.KeyedParams{"/km": {Of: "mutex"}, "/krw": {Of: "rwlock"}, "/ks": {Of: "semaphore", Permits: simPermits}} {
		l.family(path, p, change...)
	}
}

func (l *lab) family(path string, p *kind.KeyedParams, change ...func(*kind.KeyedParams)) {
	l.T.Helper()
	for _, c := range change {
		c(p)
	}
	if p.Wire == "" {
		p.Wire = kind.WireCurator
	}
	if p.Foreign == "" {
		p.Foreign = "false"
	}
	l.Declare(path, p)
}

// noKeys requires that nobody has left anything, in the servers' tree or in the clients.
func (l *lab) noKeys(families ...string) {
	l.T.Helper()
	l.Settle()
	for _, c := range l.Clients {
		require.Empty(l.T, c.Leftovers())
	}
	for _, path := range families {
		require.Empty(l.T, l.Children(path), "left in %s", path)
	}
}

func TestAKeyLivesOnlyWhileItIsUsed(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.families()
		c := l.Client("a")
		for name, take := range map[string]taking{
			"/km/17":          c.Keyed("/km").Mutex("17").Lock,
			"/krw/17":         c.Keyed("/krw").RWMutex("17").RLock,
			"/ks/17":          permits(c.Keyed("/ks").Semaphore("17"), 2),
			"/km/a + /km/%2F": locked(c.Keyed("/km"), "a", "/"),
		} {
			x := l.Lock(take)
			require.Equal(t, name, x.Path())
			for _, node := range x.Nodes() {
				n, _ := l.Srv.Get(node)
				require.NotZero(t, n.Stat.EphemeralOwner)
				require.EqualValues(t, n.Stat.Czxid, x.Token())
			}
			for path := range strings.SplitSeq(name, " + ") {
				n, there := l.Srv.Get(path)
				require.True(t, there)
				require.Empty(t, n.Data)
			}
			l.Unlock(x)
			l.noKeys("/km", "/krw", "/ks")
		}
	})
}

func TestRequestBudgetsOfKeys(t *testing.T) { // a key that is free costs what a declared lock costs
	draw := func(c *recipes.Client) taking {
		return permits(c.Keyed("/ks").Semaphore("1"), 1)
	}
	set := func(c *recipes.Client) taking {
		return locked(c.Keyed("/km"), "1", "2", "3")
	}
	for name, b := range map[string]struct {
		take             func(*recipes.Client) taking
		acquire, release string
	}{
		"mutex": {func(c *recipes.Client) taking {
			return c.Keyed("/km").Mutex("1").Lock
		}, "getChildren2 getData multi", "multi"},
		"reader": {func(c *recipes.Client) taking {
			return c.Keyed("/krw").RWMutex("1").RLock
		}, "getChildren2 getData multi", "multi"},
		"one permit":      {draw, "2getChildren2 getData multi", "multi"},
		"set of three":    {set, "3getChildren2 3getData multi", "multi"},
		"by its own path": {func(c *recipes.Client) taking { return c.Mutex("/km/1").Lock }, "getChildren2 getData multi", "multi"},
	} {
		runInLab(t, name, func(t *testing.T, l *lab) {
			l.families()
			take := b.take(l.Client("a"))
			l.Unlock(l.Lock(take))
			var x *recipes.Lease
			require.Equal(t, spent(1, b.acquire), l.Cost(func() { x = l.Lock(take) }), "to acquire")
			require.Equal(t, spent(1, b.release), l.Cost(func() { l.Unlock(x) }), "to release")
			l.noKeys("/km", "/krw", "/ks")
		})
	}
}

func TestRequestBudgetsOfAKeyInUse(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.families()
		a, b := l.Client("a").Keyed("/km"), l.Client("b").Keyed("/km")
		for _, k := range []*recipes.Keyed{a, b} { // both know the declaration
			l.Unlock(l.Lock(locked(k, "warm")))
		}
		x := l.Lock(locked(a, "1"))
		require.Equal(t, spent(2, "delete exists 2getChildren2 2multi"), l.Cost(func() {
			_, err := b.TryLock(t.Context(), "1")
			require.ErrorIs(t, err, recipes.ErrHeld)
		}), "one round trip more than of a declared lock")
		w := l.Locking(b.Mutex("1"))
		require.Equal(t, spent(2, "delete exists 2getData multi setData"), l.Cost(func() { l.Unlock(x) }), "who did not know of its rival finds out")
		r := l.Got(w)
		require.Equal(t, spent(2, "2delete exists"), l.Cost(func() { l.Unlock(r) }), "who has waited expects others")
		l.noKeys("/km")
	})
}

func TestASetOfKeysOfWhichSomeAreInUse(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.families()
		a, b := l.Client("a").Keyed("/km"), l.Client("b").Keyed("/km")
		var keys []string
		var held []*recipes.Lease
		for i := range 8 {
			keys = append(keys, fmt.Sprint(i))
			if i%2 == 0 {
				held = append(held, l.Lock(locked(a, keys[i])))
			}
		}
		x := l.Lock(locked(b, "warm"))
		l.Unlock(x)
		require.Equal(t, 2, l.Cost(func() {
			_, err := b.TryLock(t.Context(), keys...)
			require.ErrorIs(t, err, recipes.ErrHeld)
		}).Trips, "the refusal tells of one key, the listings of all")
		w := async(func() (*recipes.Lease, error) { return b.Lock(context.Background(), keys...) })
		l.Settle()
		for _, x := range held {
			l.Unlock(x)
		}
		r := l.Got(w)
		require.Len(t, r.Nodes(), 8)
		l.Unlock(r)
		l.noKeys("/km")
	})
}

func TestASemaphoresKeyHasAGateWhenSomebodyWaits(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.families()
		a, b, c := l.Client("a").Keyed("/ks").Semaphore("k"), l.Client("b").Keyed("/ks").Semaphore("k"), l.Client("c").Keyed("/ks").Semaphore("k")
		x := l.Lock(permits(a, 2))
		require.ElementsMatch(t, []string{"leases"}, l.Children("/ks/k"))
		w := async(func() (*recipes.Lease, error) { return b.Acquire(context.Background(), 2) })
		l.Settle()
		require.ElementsMatch(t, []string{"leases", "locks"}, l.Children("/ks/k"))
		v := async(func() (*recipes.Lease, error) { return c.Acquire(context.Background(), 3) })
		l.Settle()
		l.Unlock(x)
		r := l.Granted(w)
		l.Unlock(r.V)
		r = l.Granted(v)
		require.Len(t, l.Children("/ks/k/leases"), 3)
		l.Unlock(r.V)
		l.noKeys("/ks")
	})
}

func TestAKeyInADirectory(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.family("/f", &kind.KeyedParams{Of: "mutex", Fanout: "16"})
		p := &kind.KeyedParams{Fanout: "16"}
		path, err := p.Path("/f", "order 1")
		require.NoError(t, err)
		a := l.Client("a")
		x := l.Lock(locked(a.Keyed("/f"), "order 1"))
		require.Equal(t, path, x.Path())
		l.Refused(a.Mutex(path).TryLock, recipes.ErrHeld)
		l.Refused(l.Client("b").Mutex(path).TryLock, recipes.ErrHeld)
		_, err = a.Keyed("/f").Mutex("order 1").TryLock(x.Context())
		require.ErrorIs(t, err, recipes.ErrWouldDeadlock)
		l.Unlock(x)
		l.Settle()
		require.Empty(t, l.Children(kind.ParentPath(path)))
	})
}

func TestAKeyIsOpenedAsItsFamilyDeclares(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.families()
		l.Mutex()
		c := l.Client("a")
		for what, x := range map[string]struct {
			take taking
			want error
			text string
		}{
			"a mutex in a family of read-write locks": {c.Keyed("/krw").Mutex("1").Lock, recipes.ErrKindMismatch, "/krw is declared as a family of the kind rwlock"},
			"by the path of the key":                  {c.Mutex("/krw/1").Lock, recipes.ErrKindMismatch, "/krw is declared as a family of the kind rwlock"},
			"with parameters of its own":              {c.Mutex("/krw/1", recipes.WithParams(kind.Mutex.New()), recipes.WithCreate()).Lock, recipes.ErrKindMismatch, "rwlock"},
			"the family as a lock":                    {c.Mutex("/km").Lock, recipes.ErrKindMismatch, "/km is declared as keyed"},
			"a lock as a family":                      {c.Keyed("/m").Mutex("1").Lock, recipes.ErrKindMismatch, "/m is declared as mutex"},
			"a family that is not there":              {c.Keyed("/no").Mutex("1").Lock, recipes.ErrNotProvisioned, "/no does not exist"},
			"a key that is too long":                  {c.Keyed("/km").Mutex(strings.Repeat("x", 513)).Lock, recipes.ErrKeyTooLong, "513 bytes"},
			"parameters for a key":                    {c.Keyed("/km", recipes.WithParams(kind.Mutex.New())).Mutex("1").Lock, nil, "WithParams"},
			"no key":                                  {func(ctx context.Context) (*recipes.Lease, error) { return c.Keyed("/km").Lock(ctx) }, nil, "/km: name at least one key"},
			"a key that is not UTF-8":                 {c.Keyed("/km").Mutex("\xff").Lock, nil, "UTF-8"},
		} {
			_, err := x.take(t.Context())
			require.ErrorContains(t, err, x.text, what)
			if x.want != nil {
				require.ErrorIs(t, err, x.want, what)
			}
		}
		l.noKeys("/km", "/krw")
	})
}

func TestADrainedFamilyGrantsNothingNew(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.families()
		a, b := l.Client("a").Keyed("/km"), l.Client("b").Keyed("/km")
		x := l.Lock(locked(a, "1"))
		w := l.Locking(b.Mutex("1"))
		l.Declare("/km", &kind.KeyedParams{Of: "mutex", Common: kind.Common{Wire: kind.WireCurator}, Foreign: "false"}, draining)
		require.ErrorIs(t, (<-w).Err, recipes.ErrDraining)
		_, err := b.Lock(t.Context(), "2")
		require.ErrorIs(t, err, recipes.ErrDraining)
		require.NoError(t, x.Verify(t.Context()))
		l.Unlock(x)
		l.noKeys("/km")
		l.families()
		l.Settle()
		x = l.Lock(locked(b, "2"))
		l.Unlock(x)
	})
}

func TestManyKeysLeaveNothingInTheClient(t *testing.T) {
	effort.Proof(t, effort.Raced)
	inLab(t, func(t *testing.T, l *lab) {
		l.families()
		c := l.Client("a")
		id := l.SessionID(c)
		for i := range 1000 {
			for _, take := range []taking{
				c.Keyed("/km").Mutex(fmt.Sprint(i)).Lock, c.Mutex(fmt.Sprint("/km/by path ", i)).Lock,
				permits(c.Keyed("/ks").Semaphore(fmt.Sprint(i)), 1),
			} {
				l.Unlock(l.Lock(take))
			}
		}
		require.Equal(t, 2, c.Declarations(), "of the families")
		require.Empty(t, c.Pinned())
		require.Equal(t, 256, c.Crowds("/ks"))
		read := 0
		for op, n := range l.Srv.SessionCounts(id).ByOp {
			if op == "getACL" {
				read += n
			}
		}
		require.Equal(t, 2, read, "each declaration is read once")
		l.noKeys("/km", "/ks")
	})
}

func TestAKeysLockIsLikeAnyOther(t *testing.T) { // reentrancy, downgrade
	inLab(t, func(t *testing.T, l *lab) {
		l.families()
		c := l.Client("a")
		again := c.Keyed("/km", recipes.WithReentrancy())
		require.NoError(t, again.Do(t.Context(), func(ctx context.Context, outer *recipes.Lease) error {
			return again.Do(ctx, func(_ context.Context, inner *recipes.Lease) error {
				require.Equal(t, outer.Token(), inner.Token())
				return nil
			}, "3")
		}, "3"))
		l.noKeys("/km")

		m := c.Keyed("/krw").RWMutex("4")
		x := l.Lock(m.Lock)
		x, err := m.Downgrade(t.Context(), x)
		require.NoError(t, err)
		r := l.Lock(l.Client("c").Keyed("/krw").RWMutex("4").TryRLock)
		l.Unlock(x)
		l.Unlock(r)
		l.noKeys("/krw")
	})
}
