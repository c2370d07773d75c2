package recipes_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/zktest"
)

// A proxy or a server loses one frame of a connection that lives on. A first in line whose listing was lost waited for ever,
// with nobody ahead.
func TestAReplyLostAloneIsMissedWithinTwoTimeouts(t *testing.T) {
	for name, lose := range map[string]zktest.Fault{"request": zktest.DropRequest, "reply": zktest.LoseReply} {
		t.Run(name, func(t *testing.T) {
			forEveryRecipe(t, func(t *testing.T, l *lab, way recipeWay) {
				for n := 1; ; n++ {
					a, b := l.client(fmt.Sprint("a", n)), l.client(fmt.Sprint("b", n))
					id, seen := l.session(b), 0
					rule := l.srv.Inject(func(r zktest.Request) bool {
						if r.Session != id || r.Op == "ping" || r.Op == "closeSession" || r.Op == "connect" {
							return false
						}
						seen++
						return seen == n
					}, lose)
					x, err := way.block(a)(t.Context())
					require.NoError(t, err)
					done := async(func() (any, error) {
						x, err := way.take(b)(context.Background())
						if err != nil {
							return nil, err
						}
						return nil, x.Unlock(context.Background())
					})
					time.Sleep(2 * b.Newest().Timeout())
					l.unlock(x)
					time.Sleep(2*b.Newest().Timeout() + 10*oneWay)
					synctest.Wait()
					require.Len(t, done, 1, "request %d: it still waits", n)
					require.NoError(t, (<-done).err, "request %d", n)
					l.settle()
					rule.Remove()
					require.NoError(t, a.Close())
					require.NoError(t, b.Close())
					if rule.Hits() == 0 {
						break
					}
				}
				l.nothingLeft()
			})
		})
	}
}
