//go:build linux

package ensemble_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/zktest/effort"
	"github.com/locktree/locktree/recipes/zktest/realzk"
)

// A server that restarts gives every session its whole timeout again. Each of five programs waited for that long for its own
// node.
func TestRealRestartMakesNobodyWaitForItsOwnNodes(t *testing.T) {
	effort.Proof(t, effort.Raced)
	t.Parallel()
	const timeout = 20 * time.Second
	srv := realzk.Start(t, realzk.Options{Config: longSessions})
	e := &ensemble{t, []*realzk.Server{srv}}
	declareLanes(t, e.client(t, busyTimeout, srv))
	programs := lanes()
	var clients []*recipes.Client
	for _, l := range programs {
		c := e.client(t, timeout, srv)
		x, err := l.holder.take(c)(t.Context())
		require.NoError(t, err)
		context.AfterFunc(x.Context(), func() { _ = x.Unlock(context.Background()) })
		clients, l.x = append(clients, c), x
	}
	srv.Kill()
	for _, l := range programs {
		<-l.x.Context().Done() // after half a timeout
	}
	srv.Restart()
	up := time.Now()
	var each sync.WaitGroup
	for i, l := range programs {
		each.Go(func() {
			for {
				x, err := l.holder.take(clients[i])(context.Background())
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
