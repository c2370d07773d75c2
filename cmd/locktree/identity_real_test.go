//go:build linux

package main

import (
	"context"
	"crypto/x509/pkix"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/cmd/locktree/internal/exit"
	"github.com/locktree/locktree/config"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/zktest/effort"
	"github.com/locktree/locktree/recipes/zktest/kdc"
	"github.com/locktree/locktree/recipes/zktest/realzk"
)

// The results of the identity tests on the in-memory server hold on Apache ZooKeeper.
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
	t.Run("plans of readers", func(t *testing.T) { planOfAReaderIsApplied(t, openOffice(t, server.Addr, nil, "/plans")) })
	t.Run("one root", func(t *testing.T) { sharedRoot(t, openOffice(t, server.Addr, nil, "/one")) })
	t.Run("who may do what", func(t *testing.T) {
		page, err := os.ReadFile(tablePage)
		require.NoError(t, err)
		n := 0
		got := identityTable(t, []string{"plan -out=p", "apply p", "status $ROOT/pay/ledger", "doctor", "show", "exec namespace.pay.mutex.ledger -- true"}, func() *office {
			n++
			return openOffice(t, server.Addr, nil, fmt.Sprintf("/table-%d", n))
		})
		note := regexp.MustCompile(` \(\d+\)`) // numbered in order of appearance
		rows := strings.Split(note.ReplaceAllString(string(page), ""), "\n")
		for _, line := range strings.Split(note.ReplaceAllString(got, ""), "\n") {
			if strings.HasPrefix(line, "|") {
				require.Contains(t, rows, line)
			}
		}
	})
}

// wayIn is one way to identify oneself to Apache ZooKeeper.
type wayIn struct {
	column string
	addr   string
	block  string // in the ensemble
	scheme string // of the principal that this makes
	id     string
}

// saslOnly configures a server to serve only clients that have logged in by SASL.
var saslOnly = map[string]string{
	"zookeeper.sessionRequireClientSASLAuth": "true",
	"zookeeper.authProvider.sasl":            "org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
}

// waysIn starts the servers: one with TLS and digests, and for each mechanism of SASL one that insists on it.
func waysIn(t *testing.T) []wayIn {
	a := newAuthority(t)
	a.server()
	a.client("ci", pkix.Name{CommonName: "ci"})
	port := realzk.FreePorts(t, 1)[0]
	open := realzk.Start(t, realzk.Options{Config: map[string]string{
		"secureClientPort": fmt.Sprint(port), "secureClientPortAddress": "127.0.0.1",
		"serverCnxnFactory":     "org.apache.zookeeper.server.NettyServerCnxnFactory",
		"authProvider.x509":     "org.apache.zookeeper.server.auth.X509AuthenticationProvider",
		"ssl.keyStore.location": a.path("server.both.pem"), "ssl.trustStore.location": a.path("ca.pem"), "ssl.clientAuth": "need",
	}})
	insisting := func(jaas map[string]string) *realzk.Server {
		maps.Copy(jaas, saslOnly)
		return realzk.Start(t, realzk.Options{Properties: jaas})
	}
	jaas := filepath.Join(t.TempDir(), "digest.jaas")
	require.NoError(t, os.WriteFile(jaas, []byte("Server {\n  org.apache.zookeeper.server.auth.DigestLoginModule required user_ci=\"pass word\";\n};\n"), 0o600))
	digest := insisting(map[string]string{"java.security.auth.login.config": jaas})
	k := kdc.Start(t, kdc.Options{})
	k.Add("zookeeper/localhost", "ci")
	tickets := insisting(k.JAAS("Server", k.Keytab("server.keytab", "zookeeper/localhost"), "zookeeper/localhost"))
	keytab := k.Keytab("ci.keytab", "ci")
	cache := k.Kinit("tickets", keytab, "ci")
	password := filepath.Join(t.TempDir(), "password")
	require.NoError(t, os.WriteFile(password, []byte("pass word\n"), 0o600))
	kerberos := func(from string) string {
		return fmt.Sprintf("auth \"kerberos\" {\n    %s\n    krb5_conf        = %q\n    server_principal = \"zookeeper/localhost\"\n  }", from, k.Conf)
	}
	return []wayIn{
		{"digest", open.Addr, "auth \"digest\" {\n    username = \"ci\"\n    password = var.password\n  }", "digest", `${digest("ci", var.password)}`},
		{"TLS certificate", fmt.Sprintf("localhost:%d", port), fmt.Sprintf("tls {\n    ca_file   = %q\n    cert_file = %q\n    key_file  = %q\n  }", a.path("ca.pem"), a.path("ci.pem"), a.path("ci.key")), "x509", "CN=ci"},
		{"SASL DIGEST-MD5", digest.Addr, fmt.Sprintf("auth \"sasl\" {\n    username      = \"ci\"\n    password_file = %q\n  }", password), "sasl", "ci"},
		{"Kerberos, keytab", tickets.Addr, kerberos(fmt.Sprintf("principal        = \"ci\"\n    keytab           = %q", keytab)), "sasl", "ci@" + kdc.Realm},
		{"Kerberos, kinit", tickets.Addr, kerberos(fmt.Sprintf("ccache           = %q", "FILE:"+cache)), "sasl", "ci@" + kdc.Realm},
	}
}

const wayLocks = `variable "password" {
  sensitive = true
  default   = "pass word"
}
namespace "pay" {
  acl = acl.users
  mutex "m" {}
  rwlock "rw" {}
  semaphore "s" {
    permits = 3
  }
  election "e" {}
}
output "path" {
  value = namespace.pay.mutex.m.path
}
`

// wayCommands run in this order. The output of each must contain the text in the field says: it shows that the command worked.
var wayCommands = []struct{ command, says string }{
	{"validate", "Success!"},
	{"plan -out=p", "5 to add"},
	{"apply p", "Apply complete!"},
	{"plan -detailed-exitcode", "No changes."},
	{"show", "namespace.pay.semaphore.s"},
	{"status", "4 locks, 0 held"},
	{"status -json", `"/ways`},
	{"output path", "/pay/m"},
	{"doctor", "identity"},
	{"exec namespace.pay.mutex.m -- echo it ran", "it ran"},
	{"exec -mode=read namespace.pay.rwlock.rw -- echo it ran", "it ran"},
	{"exec -mode=write namespace.pay.rwlock.rw -- echo it ran", "it ran"},
	{"exec -permits=2 namespace.pay.semaphore.s -- echo it ran", "it ran"},
	{"exec namespace.pay.election.e -- echo it ran", "it ran"},
	{"import -from=$ROOT/pay", "mutex"},
	{"revoke -auto-approve namespace.pay.mutex.m", "was asked to give"},
	{"break -auto-approve namespace.pay.mutex.m", "no longer holds"},
	{"history", "break"},
	{"serve", "locktree_up"},
	{"plan -destroy", "5 to destroy"},
}

type take func(context.Context) (*recipes.Lease, error)

// wayRecipes are taken by two clients of the ensemble, one after the other.
func wayRecipes(c *recipes.Client, root string) []take {
	m, rw, s, e := c.Mutex(root+"/pay/m"), c.RWMutex(root+"/pay/rw"), c.Semaphore(root+"/pay/s"), c.Election(root+"/pay/e")
	return []take{m.Lock, rw.Lock, func(ctx context.Context) (*recipes.Lease, error) { return s.Acquire(ctx, 3) }, e.Campaign,
		c.MultiLock(m, rw.RLocker(), e).Lock}
}

// Every command and every recipe works by each way in on Apache ZooKeeper; with SASL, the servers demand it.
func TestEveryWayInServesEveryCommandAndRecipe(t *testing.T) {
	effort.Proof(t, effort.Unraced)
	t.Parallel()
	ways := waysIn(t)
	for i, w := range ways {
		t.Run(w.column, func(t *testing.T) {
			dir, root := t.TempDir(), fmt.Sprintf("/ways%d", i)
			text := wayLocks + stackIn("shop", "  "+w.block+"\n", []principal{{"me", w.scheme, "ID"}}, nil, nil)
			text = strings.NewReplacer("[var.zk]", fmt.Sprintf("[%q]", w.addr), "var.root", strconv.Quote(root), "variable \"zk\" {}\n", "", "variable \"root\" {}\n", "", `"30s"`, `"60s"`, `"ID"`, `"`+w.id+`"`).Replace(text)
			require.NoError(t, os.WriteFile(filepath.Join(dir, "locks.locktree.hcl"), []byte(text), 0o600))
			cfg, diags := config.Load(dir, config.Options{Version: "0.1.0"})
			require.False(t, diags.HasErrors(), "%s", diags)
			for _, c := range wayCommands {
				if strings.HasPrefix(c.command, "revoke ") { // the next command breaks the lock that is asked for here
					defer hold(t, cfg.Ensembles[0], root+"/pay/m")()
				}
				served := c.command
				if served == "serve" {
					s := startServe(t, dir, nil)
					s.until("/metrics", "locktree_up")
					s.stop()
				} else {
					said := tool(t, exit.OK, dir, nil, strings.Fields(strings.ReplaceAll(c.command, "$ROOT", root))...)
					require.Contains(t, said, c.says, c.command)
					require.NotContains(t, said, "pass word", c.command)
				}
			}
			handedOver(t, cfg.Ensembles[0], root)
			tool(t, exit.OK, dir, nil, "destroy", "-auto-approve")
		})
	}
}

// hold takes the mutex at path for a program that does not obey. The returned function ends that program.
func hold(t *testing.T, e *config.Ensemble, path string) (end func()) {
	t.Helper()
	c, err := e.Dial(t.Context(), recipes.Config{})
	require.NoError(t, err)
	_, err = c.Mutex(path).Lock(t.Context())
	require.NoError(t, err)
	return func() { _ = c.Close() }
}

// handedOver has two clients take each lock one after the other: the second waits until the first gives it back.
func handedOver(t *testing.T, e *config.Ensemble, root string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	var ways [2][]take
	for i := range ways {
		c, err := e.Dial(ctx, recipes.Config{})
		require.NoError(t, err)
		defer c.Close()
		ways[i] = wayRecipes(c, root)
	}
	for i, way := range ways[0] {
		first, err := way(ctx)
		require.NoError(t, err)
		got := make(chan error, 1)
		go func() {
			second, err := ways[1][i](ctx)
			if err == nil {
				if second.Token() <= first.Token() {
					err = fmt.Errorf("token %d after %d", second.Token(), first.Token())
				}
				_ = second.Unlock(ctx)
			}
			got <- err
		}()
		select {
		case err := <-got:
			t.Fatalf("granted while it was held, in way %d: %v", i, err)
		case <-time.After(100 * time.Millisecond): // nothing must happen
		}
		require.NoError(t, first.Unlock(ctx))
		require.NoError(t, <-got)
	}
}
