package recipes_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/zktest/effort"
)

func TestTenThousandWaitersOneReleaseOneWakeUp(t *testing.T) { // failure matrix, row 43
	inLab(t, func(t *testing.T, l *lab) {
		l.Mutex()
		x := l.Lock(l.Client("holder").Mutex("/m").Lock)
		ctx, cancel := context.WithCancel(t.Context())
		sessions, each := 100, effort.Of(100, 10)
		var ids []int64
		granted, done := make(chan int, 1), make(chan error, sessions*each)
		for i := range sessions {
			c := l.Client(fmt.Sprint(i))
			ids = append(ids, l.SessionID(c))
			for range each {
				go func() {
					done <- c.Mutex("/m").Do(ctx, func(ctx context.Context, _ *recipes.Lease) error {
						granted <- i
						<-ctx.Done()
						return ctx.Err()
					})
				}()
			}
			l.Settle() // the next session comes later
		}
		require.Len(t, l.Children("/m"), 1+sessions, "one place a session, however many wait there")
		l.Srv.ResetCounts()
		l.Unlock(x)
		require.Equal(t, 0, <-granted)
		l.Settle()
		events, bytes := 0, int64(0)
		for _, id := range ids {
			counts := l.Srv.SessionCounts(id)
			events += counts.WatchEvents
			bytes += counts.BytesIn + counts.BytesOut
		}
		require.LessOrEqual(t, events, 4, "the next one, and the one behind it, which looks ahead; its own mark; and who waits for it learns that it holds")
		require.LessOrEqual(t, bytes, int64(3<<10+64*sessions),
			"with a heartbeat of each, what a few others send once a session timeout, and one listing: who looks ahead came when the queue was short")
		cancel()
		for range sessions * each {
			require.ErrorIs(t, <-done, context.Canceled)
		}
	})
}

func TestACrashOfManyWaitersKeepsTheOrderOfTheOthers(t *testing.T) { // failure matrix, row 44
	inLab(t, func(t *testing.T, l *lab) {
		l.Mutex()
		x := l.Lock(l.Client("holder").Mutex("/m").Lock)
		const sessions = 120
		var dead []int64
		var alive []int
		grants := make(chan int, sessions)
		done := make(chan error, sessions)
		for i := range sessions {
			c := l.Client(fmt.Sprint(i))
			if i%3 == 1 {
				dead = append(dead, l.SessionID(c))
			} else {
				alive = append(alive, i)
			}
			go func() {
				l, err := c.Mutex("/m").Lock(context.Background())
				if err == nil {
					grants <- i
					err = l.Unlock(context.Background())
				}
				done <- err
			}()
			l.Settle()
		}
		for _, id := range dead {
			l.Srv.Expire(id)
		}
		l.Settle()
		start := time.Now()
		l.Unlock(x)
		failed := 0
		for range sessions {
			if err := <-done; err != nil {
				require.ErrorIs(t, err, recipes.ErrSessionLost)
				failed++
			}
		}
		require.Equal(t, len(dead), failed)
		close(grants)
		var order []int
		for i := range grants {
			order = append(order, i)
		}
		require.Equal(t, alive, order, "each once, in the order of arrival")
		require.Less(t, time.Since(start), time.Duration(len(alive))*5*2*oneWay, "somebody waited for a session that was gone")
		l.Settle()
		l.Empty("/m")
	})
}
