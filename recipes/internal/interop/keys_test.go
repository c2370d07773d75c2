//go:build linux

package interop_test

import (
	"encoding/hex"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/internal/hostile"
	"github.com/locktree/locktree/recipes/kind"
)

// keyParty is one program's way into the lock of a key.
type keyParty struct {
	party
	leaves bool // it leaves the node of the key, empty
}

// keyParties returns programs that take the lock of a key: with our library, with the helpers of testdata/interop, and stock programs by
// the path.
func keyParties(of *kind.KeyedParams, family, key string) []keyParty {
	name, fanout := "-", of.Fanout
	if key != "" {
		name = hex.EncodeToString([]byte(key))
	}
	if fanout == "" {
		fanout = "0"
	}
	own := func(open func(*recipes.Keyed) goLock) party {
		return ours("go", "", func(c *recipes.Client, _ string) goLock { return open(c.Keyed(family)) })
	}
	at := func(p party) party { // enters by the family, not by the path
		enter := p.enter
		p.enter = func(t *testing.T, l *realLab, _ string) *entry { return enter(t, l, family) }
		return p
	}
	if of.Of == kind.RWLock.Name {
		return []keyParty{
			{own(func(k *recipes.Keyed) goLock { m := k.RWMutex(key); return goLock{m.Lock, m.TryLock} }), false},
			{at(foreign("python helper", python, "keyed-write", name, fanout)), false},
			{foreign("curator", java, "write"), true},
			{foreign("python subclass", python, "curator-write"), true},
		}
	}
	return []keyParty{
		{own(func(k *recipes.Keyed) goLock { m := k.Mutex(key); return goLock{m.Lock, m.TryLock} }), false},
		{at(foreign("java helper", java, "keyed", name, fanout)), false},
		{at(foreign("python helper", python, "keyed", name, fanout)), false},
		{foreign("curator", java, "mutex"), true},
		{foreign("python subclass", python, "curator-lock"), true},
	}
}

// keys checks that programs of all languages exclude each other from the lock of a key, by the documented path. With our library or the
// helpers they leave nothing behind. A stock library leaves the key's node. The last contender of the next program with our library or a
// helper takes that node along, even a persistent node of kazoo.
func (l *realLab) keys(t *testing.T) {
	t.Run("names", l.keyNames)
	odd := []string{"", "..", "locks", "lock-0000000001", "a/b", "\U0001F512", "cafe\u0301", strings.Repeat("x", kind.MaxKey)}
	for _, of := range []*kind.KeyedParams{{Of: "mutex", Foreign: "true"}, {Of: "mutex", Fanout: "16", Foreign: "true"}, {Of: "rwlock", Foreign: "true"}} {
		of.Wire = kind.WireCurator
		family, n := l.provision(t, of), 0
		for i, holder := range keyParties(of, family, "") {
			for j, waiter := range keyParties(of, family, "") {
				key := odd[n%len(odd)]
				if n++; i == j && holder.leaves {
					continue // two stock programs do not test our code
				}
				t.Run(fmt.Sprintf("%s%s/holder=%s,waiter=%s", of.Of, of.Fanout, holder.name, waiter.name), func(t *testing.T) {
					all := keyParties(of, family, key)
					path, err := of.Path(family, key)
					require.NoError(t, err)
					l.meetAtKey(t, path, all[i], all[j], all[0])
				})
			}
		}
	}
	t.Run("crowd", l.crowdAtKeys)
}

// keyNames lets each language compare its names of keys with the vectors.
func (l *realLab) keyNames(t *testing.T) {
	file, err := filepath.Abs(interop + "/keys.tsv")
	require.NoError(t, err)
	for _, p := range []*peer{l.java, l.python} {
		told, err := p.call(t.Context(), "names", file)
		require.NoError(t, err, p.name)
		n, err := strconv.Atoi(told)
		require.NoError(t, err)
		require.Greater(t, n, 35, p.name)
	}
}

// meetAtKey is meet at a node that comes with the holder and goes with the waiter.
func (l *realLab) meetAtKey(t *testing.T, path string, holder, waiter, last keyParty) {
	ctx := hostile.Within(t, hostile.Patience)
	l.gone(t, path)
	h, w := holder.enter(t, l, path), waiter.enter(t, l, path)
	require.NoError(t, h.acquire(ctx))
	held := l.contenders(t, path)
	require.Len(t, held, 1)
	require.True(t, isHeld(w.try(ctx)), "a try while somebody holds")
	granted := l.request(ctx, w)
	l.awaitWatch(t, w.session, kind.JoinPath(path, held[0]))
	stillWaits(t, ctx, w, granted)
	require.NoError(t, h.release(ctx))
	require.NoError(t, <-granted, "after the holder's release")
	require.NoError(t, w.release(ctx))
	if waiter.leaves {
		require.Empty(t, l.contenders(t, path), "stock: the node stays")
		next := last.enter(t, l, path)
		require.NoError(t, next.acquire(ctx))
		require.NoError(t, next.release(ctx))
	}
	l.gone(t, path)
	if holder.leaves { // a kazoo object that was used before fails without the node
		h = holder.enter(t, l, path)
	}
	require.NoError(t, h.acquire(ctx), "again, without the node")
	require.NoError(t, h.release(ctx))
	if holder.leaves {
		require.NoError(t, l.admin.Delete(path, -1))
	}
	l.gone(t, path)
}

func (l *realLab) gone(t *testing.T, path string) {
	t.Helper()
	there, _, err := l.admin.Exists(path)
	require.NoError(t, err)
	require.False(t, there, path)
}

// crowdAtKeys lets six programs, of all languages, take three keys again and again. The keys' nodes come and go meanwhile.
func (l *realLab) crowdAtKeys(t *testing.T) {
	const keys, cycles = 3, 40
	ctx := hostile.Within(t, hostile.Patience)
	of := &kind.KeyedParams{Of: "mutex", Foreign: "true", Common: kind.Common{Wire: kind.WireCurator}}
	family := l.provision(t, of)
	var inside [keys]atomic.Int32
	var all sync.WaitGroup
	for n := range 6 {
		var ways [keys]*entry
		for k := range ways {
			ways[k] = keyParties(of, family, fmt.Sprint("order/", k))[n%3].enter(t, l, "")
		}
		all.Go(func() {
			for i := range cycles {
				k := (n*i + i) % keys
				if err := ways[k].acquire(ctx); err != nil {
					t.Errorf("program %d: %v", n, err)
					return
				}
				if inside[k].Add(1) > 1 {
					t.Errorf("program %d is beside another one", n)
				}
				inside[k].Add(-1)
				if err := ways[k].release(ctx); err != nil {
					t.Errorf("program %d: %v", n, err)
					return
				}
			}
		})
	}
	all.Wait()
	names, stat, err := l.admin.Children(family)
	require.NoError(t, err)
	require.Empty(t, names)
	require.Greater(t, stat.Cversion, int32(2*keys), "no node came and went meanwhile")
}
