package scan_test

import (
	"fmt"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/inspect/scan"
	"github.com/locktree/locktree/recipes/internal/harness"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
)

// Without dump, and with more locks in use than a look may read, all of them get their turn, and so do idle ones.
func TestEveryLockIsReadInTurnWhenReadsAreBounded(t *testing.T) {
	srv := zktest.Start(t, onlySrvr())
	var paths, queue []string
	for i := range 40 {
		paths = append(paths, fmt.Sprintf("/locks/l%03d", i))
		harness.Declare(t, srv, paths[i], kind.Mutex.New())
		if i < 30 {
			queue = append(queue, paths[i]+"/lock-")
		}
	}
	owner := harness.Foreign(t, srv, queue...)
	s, _ := looker(t, srv, scan.Options{Declared: paths, Reads: 8})
	require.Zero(t, lookOnce(t, s).Pending)
	harness.Foreign(t, srv, paths[35]+"/lock-")
	snap := lookOnce(t, s)
	require.Positive(t, snap.Pending)
	require.LessOrEqual(t, snap.Cost.Reads, 8+1)
	for n := 0; !snap.Locks[35].Busy(); n++ { // while thirty others are in use
		require.Less(t, n, 100)
		snap = lookOnce(t, s)
	}
	for _, path := range paths[:30] {
		require.NoError(t, owner.Delete(t.Context(), path+"/lock-0000000000", -1))
	}
	busy := func(snap *scan.Snapshot) (n int) {
		for _, in := range snap.Locks {
			if in.Busy() {
				n++
			}
		}
		return n
	}
	for n := 0; busy(snap) != 1; n++ {
		require.Less(t, n, 40, "%d in use", busy(snap))
		snap = lookOnce(t, s)
	}
}

// Neither dump nor the stat of a directory tells that a contender's data have changed: locks in use take turns, too. Without dump they did
// not, so a request to release stayed unseen.
func TestANoteInAContendersNodeIsSeen(t *testing.T) {
	everyWords(t, func(t *testing.T, _ bool, srv *zktest.Server) {
		harness.Declare(t, srv, "/locks/ledger", kind.Mutex.New())
		owner := harness.Foreign(t, srv, "/locks/ledger/_c_c1b6c28f-8e12-4ab7-a6dc-1b4c9a35f8a1-lock-")
		s, _ := looker(t, srv, scan.Options{Declared: []string{"/locks/ledger"}, Reads: 8})
		holder := lookOnce(t, s).Locks[0].Holders[0]
		require.False(t, holder.Revoked)
		_, err := owner.Set(t.Context(), holder.Path, []byte("__REVOKE__"), -1)
		require.NoError(t, err)
		for n := 0; !lookOnce(t, s).Locks[0].Holders[0].Revoked; n++ {
			require.Less(t, n, 10)
		}
	})
}

// A page with 5,000 locks, 500 of them held, read 2,000 nodes every two seconds although nothing happened.
func TestAnIdlePageReadsWhatMayHaveChanged(t *testing.T) {
	for _, allowed := range [][]string{{"srvr", "cons", "dump"}, {"srvr"}} {
		synctest.Test(t, func(t *testing.T) {
			srv := zktest.Start(t, zktest.WithWords(allowed...))
			const locks, held, keys, looks, look = 3000, 300, 100, 30, 64 + 192 + 190 + 10 // look: the bound for one look, turnReads + checkReads + familyReads + 10
			var paths, queue []string
			for i := range locks {
				paths = append(paths, fmt.Sprintf("/locks/l%04d", i))
				harness.Declare(t, srv, paths[i], kind.Mutex.New())
				if i < held {
					queue = append(queue, paths[i]+"/lock-")
				}
			}
			s1 := harness.Foreign(t, srv, queue...)
			p := harness.Declare(t, srv, "/locks/orders", &kind.KeyedParams{Of: "mutex"})
			for i := range keys {
				harness.Contend(t, srv, s1, "/locks/orders", p, strconv.Itoa(i))
			}
			s, _ := looker(t, srv, scan.Options{Declared: append(paths, "/locks/orders"), Reads: 2000})
			lookOnce(t, s)
			minute := func() (reads int) {
				for range looks {
					time.Sleep(2 * time.Second)
					snap := lookOnce(t, s)
					require.LessOrEqual(t, snap.Cost.Reads, look)
					reads += snap.Cost.Reads
				}
				return reads
			}
			minute()
			if reads := minute(); len(allowed) > 1 {
				require.LessOrEqual(t, reads, held+keys+looks*(64+2))
			}
		})
	}
}
