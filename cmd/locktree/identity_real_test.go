//go:build linux

package main

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/cmd/locktree/internal/exit"
	"github.com/locktree/locktree/recipes/zktest/effort"
	"github.com/locktree/locktree/recipes/zktest/realzk"
)

// What the tests of identities say of the in-memory server is so on Apache ZooKeeper.
func TestIdentitiesOnApacheZooKeeper(t *testing.T) {
	effort.Proof(t, effort.Unraced)
	t.Parallel()
	a := newAuthority(t)
	a.server()
	port := realzk.FreePorts(t, 1)[0]
	server := realzk.Start(t, realzk.Options{
		Properties: map[string]string{"zookeeper.DigestAuthenticationProvider.superDigest": superDigest},
		Config: map[string]string{
			"secureClientPort": fmt.Sprint(port), "secureClientPortAddress": "127.0.0.1",
			"serverCnxnFactory":     "org.apache.zookeeper.server.NettyServerCnxnFactory",
			"authProvider.x509":     "org.apache.zookeeper.server.auth.X509AuthenticationProvider",
			"authProvider.sasl":     "org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
			"ssl.keyStore.location": a.path("server.both.pem"), "ssl.trustStore.location": a.path("ca.pem"), "ssl.clientAuth": "need",
		},
	})
	t.Run("certificates", func(t *testing.T) { certificatesGrant(t, fmt.Sprintf("localhost:%d", port), a) })
	t.Run("names that only servers know", func(t *testing.T) { namesOfServers(t, openOffice(t, server.Addr, nil, "/names")) })
	t.Run("readers", func(t *testing.T) {
		o := openOffice(t, server.Addr, nil, "/readers")
		o.write("locks.locktree.hcl", stackOf("shop", []string{boss}, []string{auditor})+someLocks)
		o.must(exit.OK, boss, "apply", "-auto-approve")
		everythingIsSeen(t, o)
	})
	t.Run("plans of readers", func(t *testing.T) { planOfAReaderIsApplied(t, openOffice(t, server.Addr, nil, "/plans")) })
	t.Run("two teams", func(t *testing.T) { twoTeams(t, openOffice(t, server.Addr, nil, "/teams")) })
	t.Run("one root", func(t *testing.T) { sharedRoot(t, openOffice(t, server.Addr, nil, "/one")) })
	t.Run("who may do what", func(t *testing.T) {
		page, err := os.ReadFile(tablePage)
		require.NoError(t, err)
		n := 0
		got := identityTable(t, []string{"plan -out=p", "apply p", "status $ROOT/pay/ledger", "doctor", "show", "exec namespace.pay.mutex.ledger -- true"}, func() *office {
			n++
			return openOffice(t, server.Addr, nil, fmt.Sprintf("/table-%d", n))
		})
		note := regexp.MustCompile(` \(\d+\)`) // numbered as they come
		rows := strings.Split(note.ReplaceAllString(string(page), ""), "\n")
		for _, line := range strings.Split(note.ReplaceAllString(got, ""), "\n") {
			if strings.HasPrefix(line, "|") {
				require.Contains(t, rows, line)
			}
		}
	})
}
