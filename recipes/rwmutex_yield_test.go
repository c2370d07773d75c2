package recipes_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
	"github.com/locktree/locktree/recipes/zktest/effort"
)

// writersFirst declares a lock that prefers writers, of which one, of nobody's, is queued.
func (l *lab) writersFirst(path string) (writer string) {
	l.t.Helper()
	l.declare(path, &kind.RWLockParams{Preference: "writer"})
	writer = l.foreign(path, "_c_2f8e9f4e-6a4b-4c39-9f0b-0a9c5e6d1b11-__WRIT__0000000000", "")
	require.NoError(l.t, l.srv.SetCreateCount(path, 1))
	return writer
}

// More locks that prefer writers than declarations are kept: while their readers waited for their turn to wait they
// pushed out each other's declarations, read them again, and came to no rest.
func TestReadersOfMoreLocksThanDeclarationsAreKeptComeToRest(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		c := l.client("c", func(cfg *recipes.Config) { cfg.SessionTimeout = 40 * time.Second })
		kept := effort.Of(recipes.MaxDeclarations, 256) // a goroutine for each
		c.KeepDeclarations(kept)
		n := kept + kept/4
		var writers []string
		for i := range n {
			writers = append(writers, l.writersFirst(fmt.Sprintf("/rw%d", i)))
		}
		l.srv.ResetCounts()
		leases := make([]*recipes.Lease, n)
		var all sync.WaitGroup
		for i := range n {
			all.Go(func() {
				var err error
				leases[i], err = c.RWMutex(fmt.Sprintf("/rw%d", i)).RLock(context.Background())
				assert.NoError(t, err)
			})
		}
		time.Sleep(10 * time.Second) // some thousand requests at a time
		require.Equal(t, map[string]int{"getACL": n, "getChildren2": n, "getData": 2 * n}, l.requests(), "declarations, lists and writers")
		time.Sleep(20 * time.Second)
		require.Empty(t, l.requests(), "nothing happens until they look for themselves, once a session timeout")
		for _, w := range writers {
			require.NoError(t, l.srv.Delete(w))
		}
		all.Wait()
		time.Sleep(time.Second)
		require.Equal(t, map[string]int{"create": n, "getChildren2": 2 * n, "getData": n, "removeWatches": n - kept}, l.requests(),
			"looks, contenders with lists, tokens, and the watches of declarations that are too many")
		for _, x := range leases {
			all.Go(func() { assert.NoError(t, x.Unlock(context.Background())) })
		}
		all.Wait()
		require.Equal(t, kept, c.Declarations())
		require.Empty(t, c.Pinned())
	})
}

// requests tells what was asked for since it was called last, apart from what keeps a session alive.
func (l *lab) requests() map[string]int {
	counts := l.srv.Counts().ByOp
	l.srv.ResetCounts()
	delete(counts, "ping")
	return counts
}

func TestAReaderThatYieldsNoticesAWriterWhoseEndWasNotTold(t *testing.T) { // failure matrix, row 8
	inLab(t, func(t *testing.T, l *lab) {
		writer := l.writersFirst("/rw")
		waiting := async(func() (*recipes.Lease, error) { return l.client("a").RWMutex("/rw").RLock(context.Background()) })
		l.settle()
		l.srv.InjectEvent(func(e zktest.Event) bool { return e.Path == writer }, zktest.DropEvent)
		require.NoError(t, l.srv.Delete(writer))
		gone := time.Now()
		select {
		case r := <-waiting:
			require.NoError(t, r.err)
			require.LessOrEqual(t, r.at.Sub(gone), 12*time.Second+6*oneWay, "a session timeout")
			l.unlock(r.v)
		case <-time.After(time.Hour):
			require.Fail(t, "never")
		}
	})
}

// The declaration is known, and the lock is deleted before its writers are listed: that was the server's bare error.
func TestAReaderThatYieldsSaysThatTheLockIsNotThereAnyMore(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.declare("/rw", &kind.RWLockParams{Preference: "writer"})
		m := l.client("c").RWMutex("/rw")
		x, err := m.RLock(t.Context())
		require.NoError(t, err)
		l.unlock(x)
		l.settle()
		rule := l.srv.Inject(zktest.Once(zktest.On("getChildren2")), zktest.Hold)
		w := async(func() (*recipes.Lease, error) { return m.RLock(t.Context()) })
		<-rule.Hit()
		require.NoError(t, l.srv.Delete("/rw"))
		rule.Release()
		require.ErrorIs(t, (<-w).err, recipes.ErrNotProvisioned)
	})
}
