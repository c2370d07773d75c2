package scan_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/inspect/scan"
	"github.com/locktree/locktree/recipes/internal/harness"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
)

// Each undeclared lock leaves a node, and no command showed these nodes.
func TestWhatUndeclaredLocksLeaveIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Start(t)
		harness.Declare(t, srv, "/locks/declared", kind.Mutex.New())
		p := harness.Declare(t, srv, "/locks/family", &kind.KeyedParams{Of: "mutex"})
		for _, path := range []string{"/locks/orders/a", "/locks/orders/b", "/locks/orders/used", "/locks/orders/never", "/locks/pool/leases", "/locks/pool/locks",
			"/locks/half/leases", "/locks/half/locks", "/locks/data", "/elsewhere"} {
			require.NoError(t, srv.Create(path, nil))
		}
		require.NoError(t, srv.Set("/locks/data", []byte("x")))
		s := harness.Foreign(t, srv)
		harness.Contend(t, srv, s, "/locks/family", p, "crashed")
		used := func(dir string) {
			node, err := s.Create(t.Context(), dir+"/_c_c1b6c28f-8e12-4ab7-a6dc-1b4c9a35f8a1-lock-", nil, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
			require.NoError(t, err)
			require.NoError(t, s.Delete(t.Context(), node, -1))
		}
		for _, dir := range []string{"/locks/orders/a", "/locks/declared", "/locks/pool/leases", "/locks/data", "/elsewhere", "/locks/orders"} {
			used(dir)
		}
		harness.Foreign(t, srv, "/locks/orders/used/_c_c1b6c28f-8e12-4ab7-a6dc-1b4c9a35f8a1-lock-", "/locks/half/locks/_c_c1b6c28f-8e12-4ab7-a6dc-1b4c9a35f8a1-lock-")
		time.Sleep(time.Hour)
		then := time.Now()
		require.NoError(t, srv.Set("/locks/data", []byte("y")))
		time.Sleep(time.Hour)
		used("/locks/orders/b")

		snap, err := scan.Look(t.Context(), harness.ReadOnly(t, srv), scan.Options{Prefix: "/locks"})
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

		snap, err = scan.Look(t.Context(), harness.ReadOnly(t, srv), scan.Options{Prefix: "/locks/family"})
		require.NoError(t, err)
		require.Empty(t, snap.Empty)
	})
}
