package recipes_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/internal/harness"
	"github.com/locktree/locktree/recipes/zktest"
)

// A proxy or a server loses one frame of a connection that lives on. A first in line whose listing was lost waited for ever,
// with nobody ahead.
func TestAReplyLostAloneIsMissedWithinTwoTimeouts(t *testing.T) {
	for name, lose := range map[string]zktest.Fault{"request": zktest.DropRequest, "reply": zktest.LoseReply} {
		t.Run(name, func(t *testing.T) {
			forEveryRecipe(t, func(t *testing.T, l *lab, way harness.Way) {
				for n := 1; ; n++ {
					a, b := l.Client(fmt.Sprint("a", n)), l.Client(fmt.Sprint("b", n))
					id, seen := l.SessionID(b), 0
					rule := l.Srv.Inject(func(r zktest.Request) bool {
						if r.Session != id || r.Op == "ping" || r.Op == "closeSession" || r.Op == "connect" {
							return false
						}
						seen++
						return seen == n
					}, lose)
					x := l.Lock(way.Block(a))
					done := async(func() (any, error) {
						x, err := way.Take(b)(context.Background())
						if err != nil {
							return nil, err
						}
						return nil, x.Unlock(context.Background())
					})
					time.Sleep(2 * b.Newest().Timeout())
					l.Unlock(x)
					time.Sleep(2*b.Newest().Timeout() + 10*oneWay)
					synctest.Wait()
					require.Len(t, done, 1, "request %d: it still waits", n)
					require.NoError(t, (<-done).Err, "request %d", n)
					l.Settle()
					rule.Remove()
					require.NoError(t, a.Close())
					require.NoError(t, b.Close())
					if rule.Hits() == 0 {
						break
					}
				}
				l.NothingLeft()
			})
		})
	}
}
