package check_test

import (
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/inspect/check"
	"github.com/locktree/locktree/recipes/internal/harness"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
)

func TestDoctorChecksTheKeysOfAFamily(t *testing.T) {
	for _, of := range []string{"mutex", "semaphore"} {
		for _, foreignToo := range []string{"false", "true"} {
			synctest.Test(t, func(t *testing.T) {
				srv := zktest.Start(t)
				permits := map[string]int{"semaphore": 1}[of]
				p := harness.Declare(t, srv, "/locks/orders", &kind.KeyedParams{Of: of, Permits: permits, Fanout: "16", Foreign: foreignToo})
				s := harness.Foreign(t, srv)
				found := func() []check.Condition {
					all, err := check.Keys(t.Context(), harness.ReadOnly(t, srv), "/locks/orders")
					require.NoError(t, err)
					return all
				}
				all := found()
				require.Len(t, all, 1)
				require.Equal(t, "0 of 0 nodes of keys were looked at, and all have the access list of the family", all[0].What)

				node := harness.Contend(t, srv, s, "/locks/orders", p, "theirs", "x lock-")
				_, err := s.SetACL(t.Context(), node, zk.WorldACL(zk.PermRead), -1)
				require.NoError(t, err)
				harness.Contend(t, srv, s, "/locks/orders", p, "left")
				time.Sleep(time.Minute)
				harness.Contend(t, srv, s, "/locks/orders", p, "new", "x lock-")
				require.Len(t, found(), 1, "it may have been empty for a moment only")
				time.Sleep(time.Hour)
				all = found()
				require.Equal(t, `3 of 3 nodes of keys were looked at, and 1 of these have another access list than the family: "theirs"`, all[0].What)
				require.Equal(t, map[string]check.Verdict{"false": check.Fails, "true": check.Holds}[foreignToo], all[0].Verdict)
				require.Len(t, all, 2)
				require.Equal(t, `1 of 3 nodes have been empty for more than 10m0s: "left"`, all[1].What)
			})
		}
	}
	srv := zktest.Start(t)
	harness.Declare(t, srv, "/locks/ledger", kind.Mutex.New())
	for _, path := range []string{"/locks/ledger", "/locks", "/nothing"} {
		all, err := check.Keys(t.Context(), harness.ReadOnly(t, srv), path)
		require.NoError(t, err)
		require.Empty(t, all)
	}
}

// More names than a Java client reads in a listing are a risk.
func TestDoctorFindsAFamilyThatOthersCannotList(t *testing.T) {
	srv := zktest.Start(t)
	p := harness.Declare(t, srv, "/locks/orders", &kind.KeyedParams{Of: "mutex"})
	for i := range 2200 {
		node, err := p.Path("/locks/orders", strings.Repeat("k", 500)+strconv.Itoa(i))
		require.NoError(t, err)
		require.NoError(t, srv.Create(node, nil))
	}
	all, err := check.Keys(t.Context(), harness.ReadOnly(t, srv), "/locks/orders")
	require.NoError(t, err)
	require.Len(t, all, 2)
	require.Contains(t, all[0].What, "200 of 2200 nodes of keys were looked at")
	require.Contains(t, all[1].Next, "fanout = 256")
}
