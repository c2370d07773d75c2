package run

import (
	"io"
	"os/exec"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/cmd/locktree/internal/child"
	"github.com/locktree/locktree/cmd/locktree/internal/exit"
	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/recipetest"
	"github.com/locktree/locktree/recipes/zktest"
)

// A command that ended just before it would have been told to was not ended by exec.
func TestExecKeepsTheCodeOfACommandThatEndedFirst(t *testing.T) {
	cluster := recipetest.Start(t, recipetest.Lock("/locks/ledger", &kind.MutexParams{}))
	client := cluster.Client("job")
	lease, err := client.Mutex("/locks/ledger").Lock(t.Context())
	require.NoError(t, err)
	session, err := client.Session(t.Context())
	require.NoError(t, err)
	require.NoError(t, client.Revoke(t.Context(), lease.Node()))
	<-lease.Context().Done()
	p, err := child.Start(exec.Command("true"))
	require.NoError(t, err)
	<-p.Done()
	x := newJob(Host{Stderr: io.Discard, Show: func(view.Job) {}}, Options{})
	for range 100 { // whichever of the two is looked at first
		require.Empty(t, x.supervise(t.Context(), p, lease, session, nil))
	}
	require.NoError(t, lease.Unlock(t.Context()))
}

// The look at the lock before the acquisition had no time limit.
func TestExecWhoseTimeIsUpBeforeItSeesTheLockDoesNotWaitForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := recipetest.Start(t, recipetest.Lock("/locks/ledger", &kind.MutexParams{}))
		client := cluster.Client("job")
		x := newJob(Host{}, Options{Locks: []string{"/locks/ledger"}, Timeout: 10 * time.Millisecond, Conflict: exit.Conflict, Given: func(string) bool { return false }})
		cluster.Server.Inject(zktest.On("getData"), zktest.Delay(time.Second))
		began := time.Now()
		timed, stop := x.withTimeout(t.Context())
		defer stop()
		_, err := x.acquire(timed, client, x.opts.Locks)
		require.Equal(t, 10*time.Millisecond, time.Since(began))
		err = x.notAcquired(t.Context(), client, x.opts.Locks, err)
		require.EqualError(t, err, `Lock not acquired: /locks/ledger was not acquired within 10ms, and its holder is not known. "locktree status /locks/ledger" shows it.`)
	})
}
