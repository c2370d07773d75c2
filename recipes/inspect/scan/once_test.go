package scan_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/inspect"
	"github.com/locktree/locktree/recipes/inspect/scan"
	"github.com/locktree/locktree/recipes/internal/harness"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/kind/slots"
	"github.com/locktree/locktree/recipes/once"
	"github.com/locktree/locktree/recipes/zktest"
)

// Lock and a Scanner read a job's record with its lock, and again after a run.
func TestAJobsRecordIsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Start(t, onlySrvr())
		p := kind.Once.New().(*kind.OnceParams)
		p.Schedule = "0 * * * *"
		harness.Declare(t, srv, "/locks/job", p)
		c := program(t, srv, "a")
		scanner, _ := looker(t, srv, scan.Options{Declared: []string{"/locks/job"}})
		look := func() (*inspect.Report, slots.Outlook) {
			t.Helper()
			in, err := inspect.Lock(t.Context(), c, "/locks/job")
			require.NoError(t, err)
			snap := lookOnce(t, scanner)
			require.Len(t, snap.Locks, 1)
			require.Equal(t, in.Job, snap.Locks[0].Job)
			require.Empty(t, in.Junk)
			outlook, err := in.Slots(time.Now())
			require.NoError(t, err)
			return in, outlook
		}
		in, outlook := look()
		require.Equal(t, kind.Once, in.Kind)
		require.Equal(t, "2000-01-01T01:00:00Z", slots.At(outlook.Next))
		time.Sleep(time.Hour + time.Minute)
		require.NoError(t, once.New(c, "/locks/job").Do(t.Context(), "", func(context.Context, *recipes.Lease) error {
			in, outlook := look()
			require.Len(t, in.Holders, 1)
			require.Equal(t, slots.Running, outlook.Last.State)
			require.Equal(t, in.Holders[0].Token, outlook.Last.Token)
			return nil
		}))
		_, outlook = look()
		require.Equal(t, slots.Succeeded, outlook.Last.State)

		require.NoError(t, srv.Delete("/locks/job/once-record"))
		in, err := inspect.Lock(t.Context(), c, "/locks/job")
		require.NoError(t, err)
		_, err = in.Slots(time.Now())
		require.Error(t, err)
	})
}
