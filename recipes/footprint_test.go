package recipes_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
)

// One goroutine stood behind each node that was held for longer than 100 ms, and with an Observer a second one.
func TestALockThatIsHeldHasNoGoroutineOfItsOwn(t *testing.T) {
	observed := func(cfg *recipes.Config) { cfg.Observer = func(recipes.Event) {} }
	strict := func(cfg *recipes.Config) { cfg.LoseOnSuspect = true }
	for name, change := range map[string]func(*recipes.Config){"plain": func(*recipes.Config) {}, "observed": observed, "lose on suspect": strict} {
		runInLab(t, name, func(t *testing.T, l *lab) {
			const locks = 50
			c := l.Client("a", change)
			var leases []*recipes.Lease
			before := 0
			for i := range locks + 1 {
				path := fmt.Sprintf("/m%d", i)
				l.Declare(path, kind.Mutex.New())
				leases = append(leases, l.Lock(c.Mutex(path).Lock))
				if i == 0 { // what the session has in any case
					time.Sleep(time.Second)
					l.Settle()
					before = l.Goroutines()
				}
			}
			time.Sleep(time.Second)
			l.Settle()
			require.Less(t, l.Goroutines()-before, locks/2, "goroutines more for %d locks", locks)
			for _, x := range leases { // and yet each node is watched
				require.NoError(t, l.Srv.Delete(x.Node()))
				<-x.Context().Done()
			}
		})
	}
}
