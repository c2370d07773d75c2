package recipes_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A session that ended when one of two permits had been registered told a lease that was never made: what waited for it
// to begin waited for ever, and Close with it.
func TestSessionLostBetweenThePermitsOfOneGrantHungClose(t *testing.T) {
	for n := range int64(40) {
		inLab(t, func(t *testing.T, l *lab) {
			p := l.Semaphore(2)
			var looks atomic.Int64
			looks.Store(-1 << 40)
			c := l.Asleep("c", l.Srv.DialContext, func() time.Duration {
				if looks.Add(1) > n {
					return time.Hour
				}
				return 0
			})
			warm, err := c.Semaphore(p).Acquire(t.Context(), 2) // the declaration is known from here on
			require.NoError(t, err)
			l.Unlock(warm)
			l.Settle()
			looks.Store(0)
			if x, err := c.Semaphore(p).Acquire(t.Context(), 2); err == nil {
				_ = x.Unlock(t.Context())
			}
			_ = c.Close() // what the servers say to it is not the matter here
		})
	}
}
