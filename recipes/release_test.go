package recipes_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/zktest"
)

// Nothing else is asked in this session, so no later answer tells that this one will not come.
func TestAReleaseThatIsNeverAnsweredIsAskedAgain(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		c := l.Client("a")
		x := l.Lock(c.Mutex(l.Mutex()).Lock)
		l.Settle() // until the node is watched
		l.Srv.Inject(zktest.Once(zktest.On("delete")), zktest.DropRequest)
		done := async(func() (any, error) { return nil, x.Unlock(context.Background()) })
		time.Sleep(15 * time.Second) // a session timeout, and a quarter
		require.Len(t, done, 1, "it is held by nobody, and nobody can have it")
		require.NoError(t, (<-done).Err)
		l.Empty("/m")
	})
}

// The place of the next goroutine was made, and the caller went on waiting, without a bound, for the listing that this one needs.
func TestAReleaseWaitedForTheListingOfTheNextHolder(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		m := l.Client("a").Mutex(l.Mutex())
		x := l.Lock(m.Lock)
		next := l.Locking(m)
		slow := l.Srv.Inject(zktest.Once(func(r zktest.Request) bool { return strings.HasPrefix(r.Op, "getChildren") }), zktest.DelayReply(10*time.Second))
		ctx := l.Within(time.Second)
		began := time.Now()
		require.NoError(t, x.Unlock(ctx))
		require.LessOrEqual(t, time.Since(began), time.Second)
		require.Equal(t, 1, slow.Hits())
		got := l.Granted(next)
		l.Unlock(got.V)
	})
}

func TestAReleaseIsTriedUntilItIsDone(t *testing.T) { // case 36: CURATOR-486, CURATOR-678, vault #4491
	for name, c := range map[string]struct {
		fault zktest.Fault
		times int
	}{"not applied": {zktest.CutBefore, 4}, "applied": {zktest.DropReply, 1}} {
		runInLab(t, name, func(t *testing.T, l *lab) {
			// A session long enough to outlast the cuts: one that is lost takes its node along, and Unlock is content.
			a := l.Client("a", func(cfg *recipes.Config) { cfg.SessionTimeout = 40 * time.Second })
			x := l.Lock(a.Mutex(l.Mutex()).Lock)
			cuts := l.Srv.Inject(func(r zktest.Request) bool { return r.Op == "delete" && r.N <= c.times }, c.fault)
			l.Unlock(x)
			require.Equal(t, c.times, cuts.Hits())
			require.Empty(t, l.Children("/m"), "Unlock said that it is gone")
		})
	}
}
