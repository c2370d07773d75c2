package recipes_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/zktest"
)

func TestASetWhoseSessionIsLostWhileItQueuesAnewIsToldAndDoesNotAskForEver(t *testing.T) {
	// The transaction that queues anew is cut off and found not applied; before it is tried again the session is over.
	// Nothing can be sent in it any more, which is no reason to try once more in the same one.
	inLab(t, func(t *testing.T, l *lab) {
		l.everyKind()
		_, err := l.client("holder").Semaphore("/s").Acquire(t.Context(), 3)
		require.NoError(t, err)
		c := l.client("a")
		id := l.session(c)
		multis, searched := 0, false
		l.srv.Inject(func(r zktest.Request) bool {
			if r.Session == id && r.Op == "multi" {
				multis++
			}
			return r.Session == id && r.Op == "multi" && multis == 2
		}, zktest.CutBefore)
		resolved := l.srv.Inject(func(r zktest.Request) bool {
			if r.Session == id && r.Op == "multi" && slices.Equal(r.Paths, []string{"/s/locks"}) { // the last place that is searched for
				searched = true
			}
			return searched && r.Session == id && r.Op == "getChildren2" && r.Path == "/s/locks"
		}, zktest.CutAfter)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		w := async(func() (*recipes.Lease, error) {
			return c.MultiLock(c.Mutex("/m"), c.Semaphore("/s").Share(2)).Lock(ctx)
		})
		<-resolved.Hit()
		time.Sleep(2 * oneWay) // its answer is back: the transaction was not applied
		l.srv.Expire(id)
		start := time.Now()
		r := <-w
		require.ErrorIs(t, r.err, recipes.ErrSessionLost)
		require.Less(t, r.at.Sub(start), time.Minute, "the session was long over")
	})
}
