//go:build linux

package interop_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest/realzk"
)

// twoUsers is a server's login and a client's, of ZooKeeper's DigestLoginModule.
const twoUsers = `Server {
  org.apache.zookeeper.server.auth.DigestLoginModule required user_curator="c c" user_jörg="ö,\"o";
};
Client {
  org.apache.zookeeper.server.auth.DigestLoginModule required username="curator" password="c c";
};
`

// Curator logs in by JAAS, and we by ourselves, to a server that serves nobody else: each waits for the other.
func TestCuratorWithJAASAndWeWaitForEachOther(t *testing.T) {
	t.Parallel()
	jaas := filepath.Join(t.TempDir(), "jaas")
	require.NoError(t, os.WriteFile(jaas, []byte(twoUsers), 0o600))
	l := &realLab{t: t, events: map[string]chan string{}, jvm: []string{"-Djava.security.auth.login.config=" + jaas},
		sasl: recipes.DigestMD5("jörg", func() (recipes.Secret, error) { return `ö,"o`, nil })}
	l.zk = realzk.Start(t, realzk.Options{TickTime: 200 * time.Millisecond, Config: map[string]string{"maxSessionTimeout": "60000"}, Properties: map[string]string{
		"zookeeper.forceSync": "no", "java.security.auth.login.config": jaas, "zookeeper.sessionRequireClientSASLAuth": "true",
		"zookeeper.authProvider.sasl": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
	}})
	var err error
	l.classes, err = javaProgram()
	require.NoError(t, err)
	l.java = l.startJava(t, "java", livingSession, l.hear)
	ctx := within(t, patience)
	eye, err := l.goClient(t, "eye", nil).Session(ctx)
	require.NoError(t, err)
	both := []zk.ACL{{Perms: zk.PermAll, Scheme: "sasl", ID: "curator"}, {Perms: zk.PermAll, Scheme: "sasl", ID: "jörg"}}
	declaration, err := (&kind.Payload{Params: mutexes.declare(kind.WireCurator), Owner: kind.Owner{Stack: "interop", Addr: "test"}}).Encode()
	require.NoError(t, err)
	for i, pair := range [][2]int{{0, 1}, {1, 0}} { // ours, Curator's
		path := fmt.Sprintf("/lock%d", i)
		_, err = eye.Create(ctx, path, declaration, 0, both)
		require.NoError(t, err)
		holder, waiter := mutexes.parties[pair[0]].enter(t, l, path), mutexes.parties[pair[1]].enter(t, l, path)
		require.NoError(t, holder.acquire(ctx))
		granted := l.request(ctx, waiter)
		for n := 0; n < 2; time.Sleep(pollEvery) {
			names, _, err := eye.Children(ctx, path)
			require.NoError(t, err)
			n = len(names)
		}
		stillWaits(t, ctx, waiter, granted)
		require.NoError(t, holder.release(ctx))
		require.NoError(t, <-granted)
		require.NoError(t, waiter.release(ctx))
	}
	for _, who := range []string{"curator", "jörg"} {
		require.Contains(t, l.zk.Log(), "authenticationID="+who)
	}
}
