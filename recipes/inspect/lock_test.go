package inspect_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/inspect"
	"github.com/locktree/locktree/recipes/internal/harness"
	"github.com/locktree/locktree/recipes/kind"
)

// look inspects a lock.
func look(l *harness.Lab, path string) *inspect.Report {
	l.T.Helper()
	in, err := inspect.Lock(l.T.Context(), l.Client("who"), path)
	require.NoError(l.T, err)
	return in
}

func TestInspectNamesOurHoldersAndWaitersInOrder(t *testing.T) {
	harness.InLab(t, func(t *testing.T, l *harness.Lab) {
		m := l.Mutex()
		x := l.Lock(l.Client("ledger-1").Mutex(m).Lock)
		l.Locking(l.Client("ledger-2").Mutex(m))
		l.Locking(l.Client("ledger-3").Mutex(m))
		in := look(l, m)
		require.Equal(t, kind.Mutex, in.Kind)
		require.False(t, in.Guessed)
		require.Equal(t, "test", in.Payload.Owner.Stack)
		require.Len(t, in.Holders, 1)
		h := in.Holders[0]
		require.Equal(t, "ledger-1", h.ID)
		require.Equal(t, x.Node(), h.Path)
		require.Equal(t, x.Token(), h.Token)
		require.NotEmpty(t, h.Host)
		require.Positive(t, h.PID)
		require.NotZero(t, h.Session)
		require.WithinDuration(t, time.Now(), h.Since, time.Minute)
		require.Equal(t, "mutex /m: held by [ledger-1], waiting [ledger-2 ledger-3], junk 0", said(in))
	})
}

func TestInspectUnderstandsWhateverClientWroteIt(t *testing.T) {
	const uuid, hex = "2f8e9f4e-6a4b-4c39-9f0b-0a9c5e6d1b11", "0123456789abcdef0123456789abcdef"
	for _, c := range []struct {
		node, data      string
		kind            *kind.Kind
		writer, id      string
		shared, revoked bool
	}{
		{node: "_c_" + uuid + "-lock-0000000003", data: "10.0.0.7", kind: kind.Mutex, writer: "curator", id: "10.0.0.7"},
		{node: "_c_" + uuid + "-lock-0000000003", data: kind.RevokeMessage, kind: kind.Mutex, writer: "curator", revoked: true},
		{node: "_c_" + uuid + "-latch-0000000003", data: "node-7", kind: kind.Election, writer: "curator", id: "node-7"},
		{node: "_c_" + uuid + "-__READ__0000000003", kind: kind.RWLock, writer: "curator", shared: true},
		{node: "_c_" + uuid + "-__WRIT__0000000003", kind: kind.RWLock, writer: "curator"},
		{node: hex + "__lock__0000000003", data: "worker@host", kind: kind.Mutex, writer: "kazoo", id: "worker@host"},
		{node: hex + "__rlock__0000000003", kind: kind.RWLock, writer: "kazoo", shared: true},
		{node: "_c_" + hex + "-lock-0000000003", kind: kind.Mutex, writer: "go-zookeeper"},
		{node: "x--72057594037927936-0000000003", data: "\x12\x34", kind: kind.Mutex, writer: "writelock"},
	} {
		t.Run(c.writer+" "+c.node+" "+c.data, func(t *testing.T) {
			harness.InLab(t, func(t *testing.T, l *harness.Lab) {
				require.NoError(t, l.Srv.Create("/x", nil))
				l.Foreign("/x", c.node, c.data)
				l.Foreign("/x", "readme", "junk")
				in := look(l, "/x")
				require.Equal(t, c.kind, in.Kind)
				require.True(t, in.Guessed)
				require.ErrorIs(t, in.Why, kind.ErrForeign)
				require.Equal(t, []string{"/x/readme"}, in.Junk)
				require.Len(t, in.Holders, 1)
				h := in.Holders[0]
				require.Equal(t, c.writer, h.Writer)
				require.Equal(t, c.id, h.ID)
				require.Equal(t, c.shared, h.Shared)
				require.Empty(t, h.Host)
				require.Equal(t, c.revoked, h.Revoked)
				require.Equal(t, c.data, string(h.Data))
				require.EqualValues(t, 3, h.Seq)
			})
		})
	}
}

func TestInspectNamesWhatIsForeign(t *testing.T) {
	harness.InLab(t, func(t *testing.T, l *harness.Lab) {
		c := l.Client("who")
		_, err := inspect.Lock(t.Context(), c, "/missing")
		require.ErrorIs(t, err, zk.ErrNoNode)
		_, err = inspect.Lock(t.Context(), c, "relative")
		require.ErrorContains(t, err, "must start with a slash")
		l.Declare("/ns", kind.Namespace.New())
		require.NoError(t, l.Srv.Create("/ns/lock", nil))
		require.Empty(t, look(l, "/ns").Junk, "what a namespace holds is no junk")
		l.Declare("/km", &kind.KeyedParams{Of: "mutex"})
		l.Lock(l.Client("charger").Keyed("/km").Mutex("4711").Lock)
		require.Empty(t, look(l, "/km").Junk, "doctor called each key in use a foreign node in its family")
		require.NoError(t, l.Srv.Create(l.Semaphore(2)+"/readme", nil))
		require.Equal(t, []string{"/s/readme"}, look(l, "/s").Junk, "a scan named it, and Lock did not")
	})
}

func TestInspectWritesNothing(t *testing.T) {
	harness.InLab(t, func(t *testing.T, l *harness.Lab) {
		m := l.Mutex()
		l.Lock(l.Client("a").Mutex(m).Lock)
		l.Settle()
		c := l.Client("who", func(cfg *recipes.Config) { cfg.ReadOnly = true })
		l.Srv.ResetCounts()
		_, err := inspect.Lock(t.Context(), c, m)
		require.NoError(t, err)
		require.Equal(t, map[string]int{"getData": 2, "getChildren2": 1}, l.Srv.Counts().ByOp)
		_, err = c.Mutex(m).TryLock(t.Context())
		require.ErrorIs(t, err, recipes.ErrReadOnly)
	})
}

func TestInspectAfterASemaphoreWasShrunkStillShowsItsHolders(t *testing.T) {
	harness.InLab(t, func(t *testing.T, l *harness.Lab) {
		l.Semaphore(3)
		for _, id := range []string{"a", "b"} {
			l.Lock(harness.Draw("/s", 1)(l.Client(id)))
		}
		c := l.Client("c")
		last := l.Lock(harness.Draw("/s", 1)(c))
		waited := l.Waiting(harness.Draw("/s", 1)(l.Client("d"))) // unlike the others, it waits in the queue for its permit
		l.Unlock(last)
		l.Got(waited)
		_ = l.Waiting(harness.Draw("/s", 1)(c)) // a session that waits
		l.Semaphore(1)
		in := look(l, "/s")
		require.Equal(t, "semaphore /s: held by [a b d], waiting [c], junk 0", said(in))
	})
}

func TestInspectTellsTentativePermitsFromHeldOnes(t *testing.T) {
	harness.InLab(t, func(t *testing.T, l *harness.Lab) {
		l.Semaphore(1)
		c := l.Client("curator")
		s, err := c.Session(t.Context())
		require.NoError(t, err)
		put := func(path, data string) {
			_, err := s.Create(t.Context(), path, []byte(data), 3, zk.WorldACL(zk.PermAll))
			require.NoError(t, err)
		}
		l.Foreign("/s/leases", "_c_2f8e9f4e-6a4b-4c39-9f0b-0a9c5e6d1b11-lease-0000000000", "holder")
		require.NoError(t, l.Srv.SetCreateCount("/s/leases", 1))
		put("/s/leases/_c_3f8e9f4e-6a4b-4c39-9f0b-0a9c5e6d1b11-lease-", `{"id":"loser","limit":1}`) // our fast path, about to withdraw
		put("/s/leases/_c_4f8e9f4e-6a4b-4c39-9f0b-0a9c5e6d1b11-lease-", "10.0.0.1")                 // Curator, waiting with its permit created
		put("/s/locks/_c_5f8e9f4e-6a4b-4c39-9f0b-0a9c5e6d1b11-lock-", "10.0.0.1")
		in := look(l, "/s")
		require.Equal(t, "semaphore /s: held by [holder], waiting [loser 10.0.0.1 10.0.0.1], junk 0", said(in))
	})
}

// A waiter for seven permits looked like a waiter for one: it has one place, and no permits yet.
func TestInspectSaysHowManyPermitsAreHeldAndWaitedFor(t *testing.T) {
	harness.InLab(t, func(t *testing.T, l *harness.Lab) {
		l.Semaphore(12)
		counts := func(cs []recipes.Contender) (out []int) {
			for _, c := range cs {
				out = append(out, c.Permits)
			}
			return out
		}
		x := l.Lock(harness.Draw("/s", 7)(l.Client("gw")))
		gw2 := l.Client("gw2")
		first, leave := l.Leaving(harness.Draw("/s", 7)(gw2))
		heir := l.Waiting(harness.Draw("/s", 9)(gw2))
		l.Foreign("/s/locks", "_c_3f8e9f4e-6a4b-4c39-9f0b-0a9c5e6d1b11-lock-0000000099", "10.0.0.1")
		require.Equal(t, []int{1, 1, 1, 1, 1, 1, 1}, counts(look(l, "/s").Holders))
		require.Equal(t, []int{7, 1}, counts(look(l, "/s").Waiters))
		leave()
		require.ErrorIs(t, (<-first).Err, context.Canceled)
		l.Settle()
		require.Equal(t, []int{9, 1}, counts(look(l, "/s").Waiters), "its place is inherited by one that wants more")
		l.Unlock(x)
		l.Unlock(l.Got(heir))
	})
}

// A contender's JSON could colour a terminal, or make one name read as another.
func TestWhatAForeignContenderSaysIsEscaped(t *testing.T) {
	const evil = "a\x1b[31m\u009b2J\u202eb\u200bc\u2066"
	const shown = `a\x1b[31m\u009b2J\u202eb\u200bc\u2066`
	harness.InLab(t, func(t *testing.T, l *harness.Lab) {
		data, err := json.Marshal(map[string]string{"id": evil, "host": evil})
		require.NoError(t, err)
		m := l.Mutex()
		node := l.Foreign(m, "_c_2f8e9f4e-6a4b-4c39-9f0b-0a9c5e6d1b11-lock-0000000000", string(data))
		in := look(l, m)
		require.Equal(t, shown, in.Holders[0].ID)
		require.Equal(t, shown, in.Holders[0].Host)
		require.Equal(t, string(data), string(in.Holders[0].Data), "as found")
		require.NoError(t, l.Srv.SetCreateCount(m, 1))
		_, err = l.Client("waits").Mutex(m).Lock(l.Within(time.Second))
		require.ErrorContains(t, err, "is held by "+shown+",")
		require.NoError(t, l.Srv.Delete(node))
		node = l.Foreign("/m", "\u202e-lock-0000000000", "")
		require.NoError(t, l.Srv.SetCreateCount("/m", 1))
		_, err = l.Client("tries").Mutex("/m").TryLock(t.Context())
		require.ErrorContains(t, err, `is held by contender \u202e-lock-0000000000, `)
		in = look(l, "/m")
		require.Contains(t, said(in), `[\u202e-lock-0000000000]`)
		require.NoError(t, l.Srv.Delete(node))
	})
}

// said is a report in one line.
func said(in *inspect.Report) string {
	name := func(cs []inspect.Contender) string {
		var ids []string
		for _, c := range cs {
			ids = append(ids, cmp.Or(c.ID, kind.Visible(c.Name)))
		}
		return strings.Join(ids, " ")
	}
	return fmt.Sprintf("%s %s: held by [%s], waiting [%s], junk %d", in.Kind, in.Path, name(in.Holders), name(in.Waiters), len(in.Junk))
}
