package scan_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/inspect"
	"github.com/locktree/locktree/recipes/inspect/scan"
	"github.com/locktree/locktree/recipes/internal/harness"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
	"github.com/locktree/locktree/recipes/zktest/effort"
)

func only(t testing.TB, snap *scan.Snapshot) *inspect.Report {
	t.Helper()
	require.Empty(t, snap.Unread)
	require.Len(t, snap.Locks, 1, lines(snap))
	return snap.Locks[0]
}

// Each of a family's ten thousand keys was shown as an undeclared lock.
func TestAFamilyIsOneRow(t *testing.T) {
	for _, p := range []kind.KeyedParams{{Of: "mutex"}, {Of: "mutex", Fanout: "16"}, {Of: "semaphore", Permits: 2}, {Of: "semaphore", Permits: 2, Fanout: "256"}, {Of: "rwlock"}} {
		t.Run(p.Of+p.Fanout, func(t *testing.T) {
			everyWords(t, func(t *testing.T, dump bool, srv *zktest.Server) {
				p := harness.Declare(t, srv, "/locks/orders", &p)
				marker := map[string]string{"mutex": "lock-", "semaphore": "lease-", "rwlock": "__WRIT__"}[p.Of]
				a, b := harness.Foreign(t, srv), harness.Foreign(t, srv)
				harness.Contend(t, srv, a, "/locks/orders", p, "a/1", "x "+marker)
				harness.Contend(t, srv, b, "/locks/orders", p, "", "y "+marker)
				harness.Contend(t, srv, b, "/locks/orders", p, "locks", "y "+marker, "z "+marker, "z "+marker)
				harness.Contend(t, srv, b, "/locks/orders", p, "left")
				require.NoError(t, srv.Create("/locks/orders/lock-0000000001", nil))
				for name, opts := range map[string]scan.Options{"declared": {Declared: []string{"/locks/orders"}}, "prefix": {Prefix: "/"}} {
					s, _ := looker(t, srv, opts)
					for look := range 6 {
						snap := lookOnce(t, s)
						if p.Fanout == "256" && look < 3 {
							continue // its directories take turns
						}
						in := only(t, snap)
						require.Equal(t, kind.Keyed, in.Kind, name)
						require.Equal(t, []string{"/locks/orders/lock-0000000001"}, in.Junk)
						k := in.Keys
						require.Equal(t, []int{3, 3, 1, 3, 1}, []int{k.InUse, k.Queues, k.Waited, k.Looked, k.Empty}, "%s %+v", name, k)
						require.Equal(t, "locks", k.Busiest.Key)
						require.Equal(t, "/locks/orders", k.Busiest.Family)
						require.Equal(t, "a/1", k.Longest.Key)
						require.Equal(t, "x", k.Longest.Holders[0].ID)
						require.True(t, in.Busy())
						require.Equal(t, map[bool]int{true: 1, false: 2}[p.Of == "semaphore"], len(snap.Waits.All))
						require.Contains(t, snap.Sessions, a.ID())
					}
				}
			})
		})
	}
}

func TestAKeyIsJudgedAsItsFamilyDeclares(t *testing.T) {
	everyWords(t, func(t *testing.T, dump bool, srv *zktest.Server) {
		p := harness.Declare(t, srv, "/locks/pool", &kind.KeyedParams{Of: "semaphore", Permits: 2, Fanout: "16", Common: kind.Common{Limits: kind.Limits{MaxHold: "10m"}}})
		b := harness.Foreign(t, srv)
		node := harness.Contend(t, srv, b, "/locks/pool", p, "a b", "y lease-", "y lease-", "z lease-")
		other := harness.Contend(t, srv, b, "/locks/pool", p, "idle", "y lease-")
		s, _ := looker(t, srv, scan.Options{Prefix: node})
		for range 3 {
			in := only(t, lookOnce(t, s))
			require.Equal(t, []any{"a b", "/locks/pool", kind.Semaphore, 2, 1}, []any{in.Key, in.Family, in.Kind, len(in.Holders), len(in.Waiters)})
			require.Equal(t, "10m", in.Payload.Limits().MaxHold)
		}
		in, err := inspect.Lock(t.Context(), program(t, srv, "c"), node)
		require.NoError(t, err)
		require.Equal(t, []any{"a b", kind.Semaphore, 2, 1}, []any{in.Key, in.Kind, len(in.Holders), len(in.Waiters)})

		s, _ = looker(t, srv, scan.Options{Prefix: kind.ParentPath(other)})
		snap := lookOnce(t, s)
		require.Len(t, snap.Locks, 1)
		require.Equal(t, "idle", snap.Locks[0].Key)
	})
}

// A lock in use waited for its turn among thousands of idle nodes, because the nodes above it had to be read first.
func TestLocksInUseComeFirstWhateverIsAboveThem(t *testing.T) {
	srv := zktest.Start(t)
	for i := range 1000 {
		require.NoError(t, srv.Create(fmt.Sprintf("/a/idle-%d", i), nil))
	}
	require.NoError(t, srv.Create("/x/y/z/lock", nil))
	harness.Foreign(t, srv, "/x/y/z/lock/_c_c1b6c28f-8e12-4ab7-a6dc-1b4c9a35f8a1-lock-")
	s, _ := looker(t, srv, scan.Options{Prefix: "/", Reads: 50})
	require.Equal(t, []string{"/x/y/z/lock mutex holds:10.1.2.3"}, lines(lookOnce(t, s)))
}

// With 10,000 keys in use, a refresh takes at most 200 requests, and each key has its turn.
func TestALookAtTenThousandKeysTakesAtMostTwoHundredRequests(t *testing.T) {
	effort.Proof(t, effort.Unraced)
	for _, fanout := range []string{"", "256"} {
		everyWords(t, func(t *testing.T, dump bool, srv *zktest.Server) {
			p := harness.Declare(t, srv, "/locks/orders", &kind.KeyedParams{Of: "mutex", Fanout: fanout})
			s := harness.Foreign(t, srv)
			const keys = 10_000
			var making sync.WaitGroup
			for w := range 50 {
				making.Go(func() {
					for i := w; i < keys; i += 50 {
						names := []string{"x lock-"}
						if i%1000 == 7 {
							names = append(names, "y lock-")
						}
						harness.Contend(t, srv, s, "/locks/orders", p, fmt.Sprintf("order-%d", i), names...)
					}
				})
			}
			making.Wait()
			scanner, _ := looker(t, srv, scan.Options{Declared: []string{"/locks/orders"}})
			seen := map[string]bool{}
			for look := range 6 {
				before := srv.Counts().Total
				snap := lookOnce(t, scanner)
				require.LessOrEqual(t, srv.Counts().Total-before, 200)
				require.LessOrEqual(t, snap.Cost.Reads, 200)
				k := only(t, snap).Keys
				for _, in := range k.Read {
					seen[in.Key] = true
				}
				if look < 3 {
					continue
				}
				require.Equal(t, keys, k.InUse)
				require.Zero(t, k.Empty)
				if dump {
					require.Equal(t, 10, k.Waited)
					require.Equal(t, keys, k.Queues)
					require.Greater(t, k.Looked, look*150)
				} else {
					require.Equal(t, k.Queues, k.Looked)
					require.GreaterOrEqual(t, k.Looked, 45-10)
				}
			}
			require.Greater(t, len(seen), map[bool]int{true: 800, false: 200}[dump])
		})
	}
}
