package zktest_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
)

// The example of the package documentation and of the README.
func TestALostLockEndsItsWork(t *testing.T) {
	// readme: begin
	synctest.Test(t, func(t *testing.T) { // fake time: timeouts take none
		server := zktest.Start(t)
		err := server.Provision("/locks/ledger", &kind.Payload{Params: &kind.MutexParams{}})
		require.NoError(t, err)
		client, err := recipes.Dial(t.Context(), recipes.Config{Servers: []string{"zk"}, Dialer: server.DialContext})
		require.NoError(t, err)
		defer client.Close()

		err = client.Mutex("/locks/ledger").Do(t.Context(), func(ctx context.Context, _ *recipes.Lease) error {
			server.Expire(server.Sessions()[0].ID)
			<-ctx.Done()
			return context.Cause(ctx)
		})
		require.ErrorIs(t, err, recipes.ErrLost)
	})
	// readme: end
}
