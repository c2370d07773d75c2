package zktest_test

import (
	"context"
	"fmt"
	"log"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
)

// The example of the package documentation and of the README.
func TestALostLockEndsItsWork(t *testing.T) {
	// readme: begin
	synctest.Test(t, func(t *testing.T) { // fake time: timeouts take no time
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

// The reply to the request that takes a lock is lost, with the connection. The lock is taken nevertheless, by one node. A test calls Start
// instead of New, in a synctest bubble.
func ExampleServer_Inject() {
	server := zktest.New()
	defer server.Close()
	if err := server.Provision("/locks/ledger", &kind.Payload{Params: &kind.MutexParams{}}); err != nil {
		log.Fatal(err)
	}
	client, err := recipes.Dial(context.Background(), recipes.Config{Servers: []string{"zk"}, Dialer: server.DialContext,
		SessionTimeout: 40 * time.Second, ConnectTimeout: time.Minute})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	lost := server.Inject(zktest.Once(zktest.On("create", "multi")), zktest.DropReply)
	err = client.Mutex("/locks/ledger").Do(context.Background(), func(context.Context, *recipes.Lease) error {
		<-lost.Hit()
		queue, _ := server.Get("/locks/ledger")
		fmt.Println("held, with nodes:", len(queue.Children))
		return nil
	})
	fmt.Println(err)
	// Output:
	// held, with nodes: 1
	// <nil>
}
