package recipes_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/internal/hostile"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest/realzk"
)

// A server that restarts gives every session its whole timeout again. Each of five programs waited for that long for its own
// node.
func TestRealRestartMakesNobodyWaitForItsOwnNodes(t *testing.T) {
	t.Parallel()
	const timeout = 20 * time.Second
	srv := realzk.Start(t, realzk.Options{Config: map[string]string{"maxSessionTimeout": "60000"}})
	programs := []taker{takers["mutex"], takers["write"], takers["semaphore"], takers["election"], takers["multi"]}
	var clients []*recipes.Client
	var held []*recipes.Lease
	for i, take := range programs {
		c, err := recipes.Dial(t.Context(), recipes.Config{Servers: []string{srv.Addr}, SessionTimeout: timeout, ConnectTimeout: hostile.Patience})
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		p := kind.Semaphore.New().(*kind.SemaphoreParams)
		p.Permits = 2
		for path, params := range map[string]kind.Params{"/m": kind.Mutex.New(), "/rw": kind.RWLock.New(), "/s": p, "/e": kind.Election.New()} {
			declareReal(t, c, numbered(path, i), params)
		}
		x, err := take(t.Context(), c, i)
		require.NoError(t, err)
		context.AfterFunc(x.Context(), func() { _ = x.Unlock(context.Background()) })
		clients, held = append(clients, c), append(held, x)
	}
	srv.Kill()
	for _, x := range held {
		<-x.Context().Done() // after half a timeout
	}
	srv.Restart()
	up := time.Now()
	var each sync.WaitGroup
	for i, take := range programs {
		each.Go(func() {
			for {
				x, err := take(context.Background(), clients[i], i)
				if err == nil {
					assert.Less(t, time.Since(up), timeout/2, "the lost session lives longer")
					assert.NoError(t, x.Unlock(context.Background()))
					return
				}
				if !recipes.Retryable(err) {
					t.Error(err)
					return
				}
			}
		})
	}
	each.Wait()
}
