package inspect_test

import (
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/inspect"
	"github.com/locktree/locktree/recipes/internal/session"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
)

// Nobody was told of the nodes that locks without a declaration leave behind, one for each lock that there ever was.
func TestWhatUndeclaredLocksLeaveIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New()
		defer srv.Close()
		declare(t, srv, "/locks/declared", kind.Mutex.New())
		p := declareFamily(t, srv, "/locks/family", &kind.KeyedParams{Of: "mutex"})
		for _, path := range []string{"/locks/orders/a", "/locks/orders/b", "/locks/orders/used", "/locks/orders/never", "/locks/pool/leases", "/locks/pool/locks",
			"/locks/half/leases", "/locks/half/locks", "/locks/data", "/elsewhere"} {
			require.NoError(t, srv.Create(path, nil))
		}
		require.NoError(t, srv.Set("/locks/data", []byte("x")))
		s := foreign(t, srv)
		contend(t, srv, s, "/locks/family", p, "crashed")
		used := func(dir string) {
			node, err := s.Create(t.Context(), dir+"/_c_c1b6c28f-8e12-4ab7-a6dc-1b4c9a35f8a1-lock-", nil, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
			require.NoError(t, err)
			require.NoError(t, s.Delete(t.Context(), node, -1))
		}
		for _, dir := range []string{"/locks/orders/a", "/locks/declared", "/locks/pool/leases", "/locks/data", "/elsewhere", "/locks/orders"} {
			used(dir)
		}
		foreign(t, srv, "/locks/orders/used/_c_c1b6c28f-8e12-4ab7-a6dc-1b4c9a35f8a1-lock-", "/locks/half/locks/_c_c1b6c28f-8e12-4ab7-a6dc-1b4c9a35f8a1-lock-")
		time.Sleep(time.Hour)
		then := time.Now()
		require.NoError(t, srv.Set("/locks/data", []byte("y")))
		time.Sleep(time.Hour)
		used("/locks/orders/b")

		snap, err := inspect.Look(t.Context(), readOnly(t, srv), inspect.ScanOptions{Prefix: "/locks"})
		require.NoError(t, err)
		var paths []string
		for _, e := range snap.Empty {
			paths = append(paths, e.Path)
			if e.Path == "/locks/orders/b" {
				require.Zero(t, e.Before, "nothing that was seen is later")
			} else {
				require.WithinDuration(t, then, e.Before, time.Millisecond)
			}
		}
		require.Equal(t, []string{"/locks/orders/a", "/locks/orders/b", "/locks/pool"}, paths)

		snap, err = inspect.Look(t.Context(), readOnly(t, srv), inspect.ScanOptions{Prefix: "/locks/family"})
		require.NoError(t, err)
		require.Empty(t, snap.Empty)
	})
}

func readOnly(t *testing.T, srv *zktest.Server) *session.Client {
	t.Helper()
	c, err := session.Dial(t.Context(), session.Config{Servers: []string{"zk:2181"}, ReadOnly: true, SessionTimeout: 30 * time.Second, Dialer: srv.DialContext})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestDoctorChecksTheKeysOfAFamily(t *testing.T) {
	for _, of := range []string{"mutex", "semaphore"} {
		for _, foreignToo := range []string{"false", "true"} {
			synctest.Test(t, func(t *testing.T) {
				srv := zktest.New()
				defer srv.Close()
				permits := map[string]int{"semaphore": 1}[of]
				p := declareFamily(t, srv, "/locks/orders", &kind.KeyedParams{Of: of, Permits: permits, Fanout: "16", Foreign: foreignToo})
				s := foreign(t, srv)
				found := func() []inspect.Condition {
					all, err := inspect.CheckKeys(t.Context(), readOnly(t, srv), "/locks/orders")
					require.NoError(t, err)
					return all
				}
				all := found()
				require.Len(t, all, 1)
				require.Equal(t, "0 of 0 nodes of keys were looked at, and all have the access list of the family", all[0].What)

				node := contend(t, srv, s, "/locks/orders", p, "theirs", "x lock-")
				_, err := s.SetACL(t.Context(), node, zk.WorldACL(zk.PermRead), -1)
				require.NoError(t, err)
				contend(t, srv, s, "/locks/orders", p, "left")
				time.Sleep(time.Minute)
				contend(t, srv, s, "/locks/orders", p, "new", "x lock-")
				require.Len(t, found(), 1, "it may have been empty for a moment only")
				time.Sleep(time.Hour)
				all = found()
				require.Equal(t, `3 of 3 nodes of keys were looked at, and 1 of these have another access list than the family: "theirs"`, all[0].What)
				require.Equal(t, map[string]inspect.Verdict{"false": inspect.VerdictFails, "true": inspect.VerdictHolds}[foreignToo], all[0].Verdict)
				require.Len(t, all, 2)
				require.Equal(t, `nobody has been in 1 of 3 nodes for more than 10m0s: "left"`, all[1].What)
			})
		}
	}
	srv := zktest.Start(t)
	declare(t, srv, "/locks/ledger", kind.Mutex.New())
	for _, path := range []string{"/locks/ledger", "/locks", "/nothing"} {
		all, err := inspect.CheckKeys(t.Context(), readOnly(t, srv), path)
		require.NoError(t, err)
		require.Empty(t, all)
	}
}

// More names than a Java client reads in a listing are a risk for whoever has to list them.
func TestDoctorFindsAFamilyThatOthersCannotList(t *testing.T) {
	srv := zktest.Start(t)
	p := declareFamily(t, srv, "/locks/orders", &kind.KeyedParams{Of: "mutex"})
	for i := range 2200 {
		node, err := p.Path("/locks/orders", strings.Repeat("k", 500)+strconv.Itoa(i))
		require.NoError(t, err)
		require.NoError(t, srv.Create(node, nil))
	}
	all, err := inspect.CheckKeys(t.Context(), readOnly(t, srv), "/locks/orders")
	require.NoError(t, err)
	require.Len(t, all, 2)
	require.Contains(t, all[0].What, "200 of 2200 nodes of keys were looked at")
	require.Contains(t, all[1].Next, "fanout = 256")
}
