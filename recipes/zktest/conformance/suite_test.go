//go:build linux

package conformance_test

import (
	"net"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/zktest"
	"github.com/locktree/locktree/recipes/zktest/conformance"
	"github.com/locktree/locktree/recipes/zktest/effort"
	"github.com/locktree/locktree/recipes/zktest/realzk"
)

// extended is the configuration of both servers: TTL nodes and quotas are on, so that they can be compared.
var (
	extended     = []zktest.Option{zktest.WithExtendedTypes(), zktest.WithQuotaEnforcement()}
	extendedReal = realzk.Options{
		Config: map[string]string{
			"extendedTypesEnabled": "true", "enforceQuota": "true", "forceSync": "no",
		},
		Properties: neverReap,
	}
	neverReap = map[string]string{"znode.container.checkIntervalMs": "86400000"}
)

func TestTheRealServerPassesTheSuite(t *testing.T) {
	t.Parallel()
	conformance.Run(t, conformance.TCP(realzk.Start(t, extendedReal).Addr))
}

// For the server in memory, the random part shows that it answers the same every time. The test above shows that it answers rightly.
func TestTheServerInMemoryPassesTheSuite(t *testing.T) {
	conformance.Run(t, conformance.TCP(zktest.Start(t, extended...).Addr()))
}

// Without extended types a create takes other paths through the server.
func TestRandomSequencesAreAnsweredAsByZooKeeperAsInstalled(t *testing.T) {
	t.Parallel()
	s := realzk.Start(t, realzk.Options{Config: map[string]string{"forceSync": "no"}, Properties: neverReap})
	conformance.Random(t, conformance.TCP(s.Addr))
}

var clock = conformance.Clock{Tick: 200 * time.Millisecond, Reap: 400 * time.Millisecond}

func TestTheRealServersClock(t *testing.T) {
	t.Parallel()
	s := realzk.Start(t, realzk.Options{
		TickTime: clock.Tick, Config: map[string]string{"extendedTypesEnabled": "true", "maxSessionTimeout": "30000"},
		Properties: map[string]string{"znode.container.checkIntervalMs": "400"},
	})
	for name, part := range conformance.Timed {
		t.Run(name, func(t *testing.T) { part(t, conformance.TCP(s.Addr), clock) })
	}
}

func TestTheClockOfTheServerInMemory(t *testing.T) {
	for name, part := range conformance.Timed {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := zktest.Start(t, zktest.WithExtendedTypes()) // with ZooKeeper's own tick of 2 s, and a look at containers each minute
				part(t, func() (net.Conn, error) { return s.Dialer()("tcp", "zktest", time.Second) }, conformance.Clock{Tick: 2 * time.Second, Reap: time.Minute})
			})
		})
	}
}

func TestFourLetterWordsReadLikeZooKeepers(t *testing.T) {
	t.Parallel()
	conformance.Words(t, conformance.TCP(zktest.Start(t).Addr()), conformance.TCP(realzk.Start(t, realzk.Options{}).Addr))
}

func TestForbiddenWordsAreRefusedAsByZooKeeper(t *testing.T) {
	real := realzk.Start(t, realzk.Options{Config: map[string]string{"4lw.commands.whitelist": "srvr"}})
	ours := zktest.Start(t, zktest.WithWords("srvr"))
	for _, word := range []string{"dump", "cons", "mntr"} {
		require.Equal(t, conformance.Word(t, conformance.TCP(real.Addr), word), conformance.Word(t, conformance.TCP(ours.Addr()), word))
	}
	require.Contains(t, conformance.Word(t, conformance.TCP(ours.Addr()), "srvr"), "Mode: standalone")
}

// Both servers serve only clients that have logged in by DIGEST-MD5, and answer the same.
func TestRandomSequencesAreAnsweredAsByZooKeeperAfterALogin(t *testing.T) {
	effort.Proof(t, effort.Unraced)
	t.Parallel()
	jaas := filepath.Join(t.TempDir(), "jaas")
	require.NoError(t, os.WriteFile(jaas, []byte("Server {\n  org.apache.zookeeper.server.auth.DigestLoginModule required user_ann=\"pass word\";\n};\n"), 0o600))
	s := realzk.Start(t, realzk.Options{Config: map[string]string{"forceSync": "no"}, Properties: map[string]string{
		"znode.container.checkIntervalMs": "86400000", "java.security.auth.login.config": jaas, "zookeeper.sessionRequireClientSASLAuth": "true",
		"zookeeper.authProvider.sasl": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
	}})
	login := func() (conformance.Step, error) {
		x, err := recipes.DigestMD5("ann", func() (recipes.Secret, error) { return "pass word", nil }).Start(t.Context(), "", "")
		return x.Next, err
	}
	conformance.RandomLoggedIn(t, conformance.TCP(s.Addr), login,
		zktest.WithSASL(func(user string) string { return map[string]string{"ann": "pass word"}[user] }), zktest.WithSASLRequired())
}
