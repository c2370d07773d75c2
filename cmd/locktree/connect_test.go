package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
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

// A command gives up on servers that do not answer when the connect timeout is over, neither before nor later.
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

// A command that only looks must not be able to write, so its client refuses to. The tests of recipes prove that refusal.
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

// A command that lasts, such as exec under a lock, lost sight of the servers once its certificate was replaced. It could no longer connect
// once the servers' authority was replaced.
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
	connected("second") // while the files do not match, the previous ones are used
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

// With a missing variable, or a name that led elsewhere, the stack was planned on another ensemble. An apply would have created it there.
func TestNoCommandDoesAnythingOnAnotherEnsemble(t *testing.T) {
	srv, other := zktest.Start(t), zktest.Start(t)
	dir, env := quickstart(t, srv)
	found := tool(t, exit.OK, dir, env, "doctor")
	_, id, ok := strings.Cut(found, "ensemble id: it is ")
	require.True(t, ok, found)
	id = id[:32]
	file := filepath.Join(dir, "locks.locktree.hcl")
	rewrite(t, file, `ensemble "local" {`, "ensemble \"local\" {\n  id = \""+id+"\"")
	require.Contains(t, tool(t, exit.OK, dir, env, "plan"), "No changes")
	require.Contains(t, tool(t, exit.OK, dir, env, "doctor"), "it is "+id+", as the ensemble block says")

	for i := range env {
		env[i] = strings.ReplaceAll(env[i], srv.Addr(), other.Addr())
	}
	for _, args := range [][]string{{"plan"}, {"apply", "-auto-approve"}, {"status"}, {"show"}, {"destroy", "-auto-approve"}} {
		other.ResetCounts()
		require.Contains(t, tool(t, exit.Failed, dir, env, args...), "no apply was here, or its nodes were deleted", args)
		n := other.Counts()
		require.Empty(t, n.ByOp["create"]+n.ByOp["multi"]+n.ByOp["getChildren2"], "%v: %v", args, n.ByOp)
	}
	_, there := other.Get("/locks")
	require.False(t, there)
}

// keeperOn serves the handshake of a ClickHouse Keeper on loopback until the test ends. A session there has a password of zeros.
func keeperOn(t *testing.T) (addr string, connections *atomic.Int32) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	grant := binary.BigEndian.AppendUint32(make([]byte, 0, 40), 36)
	grant = binary.BigEndian.AppendUint32(grant, 0)     // the protocol's version
	grant = binary.BigEndian.AppendUint32(grant, 30000) // ms
	grant = binary.BigEndian.AppendUint64(grant, 7)
	grant = append(binary.BigEndian.AppendUint32(grant, 16), make([]byte, 16)...)
	connections = new(atomic.Int32)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			connections.Add(1)
			go func() {
				defer c.Close()
				if _, err := io.ReadFull(c, make([]byte, 4)); err == nil {
					_, _ = c.Write(grant)
					_, _ = io.Copy(io.Discard, c)
				}
			}()
		}
	}()
	return l.Addr().String(), connections
}

func TestCommandsRefuseAKeeper(t *testing.T) {
	addr, connections := keeperOn(t)
	dir := t.TempDir()
	text := "locktree {\n  stack = \"s\"\n}\nensemble \"main\" {\n  servers = [\"" + addr + "\"]\n  auth \"digest\" {\n    username = \"u\"\n    password = \"p\"\n  }\n}\nmutex \"a\" {}\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.locktree.hcl"), []byte(text), 0o600))
	says := addr + " is a ClickHouse Keeper, whose sessions end with their connection, so a lock there cannot survive a reconnect; " +
		"locktree needs Apache ZooKeeper: name its servers instead"
	for command, times := range map[string]int{"plan": 1, "apply -auto-approve": 1, "destroy -auto-approve": 1, "status": 1, "init": 1, "exec /a -- true": 1,
		"doctor": 2, // it asks each server, and then the ensemble
	} {
		connections.Store(0)
		var stdout, stderr strings.Builder
		code := start(t.Context(), append([]string{"-chdir=" + dir}, strings.Fields(command)...), nil, strings.NewReader(""), &stdout, &stderr)
		all := strings.Join(strings.Fields(strings.ReplaceAll(stdout.String()+stderr.String(), "│", "")), " ")
		if command != "init" { // init asks whether there are servers yet, and has written its files
			require.NotZero(t, code, "%s: %s", command, all)
		}
		require.Equal(t, times, strings.Count(all, says), "%s: %s", command, all)
		require.Equal(t, int32(times), connections.Load(), command)
	}
}

// doctor stopped at the first ensemble that refused the authentication, and said nothing about the others.
func TestDoctorLooksAtTheOtherEnsemblesWhereOneRefusesTheAuthentication(t *testing.T) {
	b := newBench(t, "ensemble \"closed\" {\n  servers = [\"closed:1\"]\n  root = \"/a\"\n}\n")
	for format, found := range map[string]string{"-json=false": "main  /t, 0 locks checked", "-json": `"error": "ZooKeeper refused the authentication`} {
		var out, errs strings.Builder
		a := b.app(strings.NewReader(""), &out, &errs)
		a.dialClient = func(ctx context.Context, cfg recipes.Config) (*recipes.Client, error) {
			if cfg.Servers[0] == "closed:1" {
				return nil, fmt.Errorf("%w: the servers want SASL", recipes.ErrAuth)
			}
			return recipes.Dial(ctx, cfg)
		}
		require.Equal(t, exit.Failed, a.run(t.Context(), []string{"-chdir=" + b.dir, "doctor", format}))
		require.Contains(t, errs.String(), `Nothing is known of ensemble "closed"`)
		require.Contains(t, errs.String(), "the servers want SASL")
		require.Contains(t, out.String(), found)
		require.NotContains(t, out.String(), "closed  /a")
	}
}

// An interrupt after the last request about an ensemble ended doctor silently with 0, even with other ensembles left to look at.
func TestAnInterruptedDoctorDoesNotSucceed(t *testing.T) {
	b := newBench(t, "")
	ctx, interrupt := context.WithCancel(t.Context())
	var errs strings.Builder
	var first sync.Once
	dials := 0
	a := b.app(strings.NewReader(""), io.Discard, &errs)
	a.dialClient = func(ctx context.Context, cfg recipes.Config) (*recipes.Client, error) {
		if dials++; dials == 2 { // the first is for the checks of the server alone
			cfg.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
				c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
				first.Do(func() { c = closing{c, interrupt} }) // the session's; the others are for four-letter words
				return c, err
			}
		}
		return recipes.Dial(ctx, cfg)
	}
	require.Equal(t, exit.Failed, a.run(ctx, []string{"-chdir=" + b.dir, "doctor"}), &errs)
	require.Equal(t, 2, dials)
	require.Contains(t, errs.String(), "Interrupted")
}

type closing struct {
	net.Conn
	then func()
}

func (c closing) Close() error {
	c.then()
	return c.Conn.Close()
}
