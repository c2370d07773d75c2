package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/apply/failure"
	"github.com/locktree/locktree/cmd/locktree/internal/exit"
	"github.com/locktree/locktree/cmd/locktree/internal/screen"
	"github.com/locktree/locktree/config"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/zktest"
)

func appWith(env ...string) *app {
	return &app{Screen: &screen.Screen{Env: env, Stderr: &strings.Builder{}}}
}

// Servers that do not answer are given up when the connect timeout is over: nobody waits longer, nor gives up before.
func TestServersThatDoNotAnswerAreGivenUpInTheConnectTimeout(t *testing.T) {
	inFakeTime(t, "", func(t *testing.T, b *bench) {
		for name, silence := range map[string]func(){"refuses": func() { b.server.RefuseDials(true) }, "is mute": func() { b.server.RefuseDials(false); b.server.Freeze() }} {
			silence()
			for _, command := range []string{"plan", "apply -auto-approve", "status"} {
				start := time.Now()
				stdout, stderr := b.run(exit.Failed, strings.Fields(command)...)
				// go-zookeeper takes a second to leave a server that is mute.
				require.InDelta(t, 10.5, time.Since(start).Seconds(), 0.6, "%s of a server that %s", command, name)
				require.Empty(t, stdout)
				require.Contains(t, stderr, "Error: Cannot reach ZooKeeper")
				require.Contains(t, stderr, "No session within 10s; zk:2181: ")
			}
		}
	})
}

// What only looks must not be able to write: its client refuses to. That such a
// client does refuse is proven beside it, in recipes.
func TestLookingCommandsConnectReadOnly(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.locktree.hcl"), []byte("locktree {\n  stack = \"s\"\n}\nensemble \"main\" {\n  servers = [\"zk:1\"]\n auth \"digest\" {\n username = \"u\"\n password = env(\"P\")\n }\n}\nmutex \"a\" {}\n"), 0o600))
	for command, readOnly := range map[string]bool{
		"init": true, "plan": true, "plan -destroy": true, "show": true, "output": true, "status": true, "import -from=/": true, "import mutex.a /b": false,
		"apply -auto-approve": false, "destroy -auto-approve": false,
	} {
		var asked []recipes.Config
		a := appWith("P=password")
		a.Stdout, a.Stdin = io.Discard, strings.NewReader("")
		a.dialClient = func(_ context.Context, cfg recipes.Config) (*recipes.Client, error) {
			asked = append(asked, cfg)
			return nil, recipes.ErrUnreachable
		}
		a.run(t.Context(), append([]string{"-chdir=" + dir}, strings.Fields(command)...))
		require.Len(t, asked, 1, command)
		require.Equal(t, readOnly, asked[0].ReadOnly, command)
	}
}

// A command that lasts, such as exec under a lock, was blind once its certificate was replaced, and could not connect any more once
// the authority of the servers was.
func TestCertificatesThatWereReplacedAreUsedForTheNextConnection(t *testing.T) {
	a := newAuthority(t)
	a.client("mine", pkix.Name{CommonName: "first"})
	var server atomic.Pointer[tls.Config]
	server.Store(a.server())
	srv := zktest.Start(t, zktest.WithTLS(&tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return server.Load(), nil }}))
	e := &config.Ensemble{Servers: []string{strings.Replace(srv.Addr(), "127.0.0.1", "localhost", 1)}, SessionTimeout: 40 * time.Second, ConnectTimeout: 30 * time.Second,
		TLS: &config.TLS{CAFile: a.path("ca.pem"), CertFile: a.path("mine.pem"), KeyFile: a.path("mine.key")}}
	cfg, err := appWith().loader().ClientConfig(e)
	require.NoError(t, err)
	c, err := recipes.Dial(t.Context(), cfg)
	require.NoError(t, err)
	defer c.Close()
	first, err := c.Session(t.Context())
	require.NoError(t, err)
	connected := func(subject string) {
		t.Helper()
		srv.Disconnect(first.ID())
		_, _, err := first.Get(t.Context(), "/")
		require.NoError(t, err)
		require.Equal(t, []string{"x509:CN=" + subject}, failure.WhoWeAre(c))
	}
	connected("first")
	a.client("mine", pkix.Name{CommonName: "second"})
	connected("second")
	require.NoError(t, os.WriteFile(a.path("mine.pem"), []byte("half a certif"), 0o600))
	connected("second") // while the files do not fit together, those before are used
	require.NoError(t, os.Remove(a.path("ca.pem")))
	connected("second")

	a.key, a.cert = a.issue("ca", pkix.Name{CommonName: "another authority"}, &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	a.client("mine", pkix.Name{CommonName: "third"})
	server.Store(a.server())
	connected("third")
	now, err := c.Session(t.Context())
	require.NoError(t, err)
	require.Equal(t, first.ID(), now.ID(), "no session was lost by it")
}
