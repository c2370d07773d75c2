package recipes_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/zktest"
)

// A server that forgets the watch on the queue must not cost a rival more than a session timeout, as it costs a waiter no more.
func TestAServerThatForgetsTheQueueKeepsNobodyOutForLong(t *testing.T) {
	for name, use := range map[string]func(*lab, *recipes.Mutex){
		"kept": func(*lab, *recipes.Mutex) {},
		"used again and again": func(l *lab, m *recipes.Mutex) {
			for start := time.Now(); time.Since(start) < time.Minute; time.Sleep(100 * time.Millisecond) {
				x, err := m.Lock(context.Background())
				require.NoError(l.t, err)
				time.Sleep(400 * time.Millisecond)
				l.unlock(x)
			}
		},
		"handed on": func(l *lab, m *recipes.Mutex) {
			done := make(chan bool)
			for range 3 {
				go func() {
					for start := time.Now(); time.Since(start) < time.Minute; {
						x, err := m.Lock(context.Background())
						require.NoError(l.t, err)
						time.Sleep(400 * time.Millisecond)
						l.unlock(x)
					}
					done <- true
				}()
			}
			for range 3 {
				<-done
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			inLab(t, func(t *testing.T, l *lab) {
				m := l.client("a").Mutex(l.mutex(), recipes.WithRetention(time.Hour))
				x, err := m.Lock(t.Context())
				require.NoError(t, err)
				l.unlock(x)
				l.settle()
				forgets := l.srv.InjectEvent(func(e zktest.Event) bool { return e.Type == "childrenChanged" }, zktest.DropEvent)
				defer forgets.Remove()
				other := l.client("b").Mutex("/m")
				start := time.Now()
				w := async(func() (time.Duration, error) {
					y, err := other.Lock(context.Background())
					if err != nil {
						return 0, err
					}
					took := time.Since(start)
					return took, y.Unlock(context.Background())
				})
				use(l, m)
				time.Sleep(time.Minute)
				select {
				case r := <-w:
					require.NoError(t, r.err)
					require.Less(t, r.v, 14*time.Second)
				default:
					require.Fail(t, "it waits")
				}
			})
		})
	}
}
