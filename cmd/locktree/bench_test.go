package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/cmd/locktree/internal/screen"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/zktest"
)

// hanging is how long anything in these tests may take before it is taken to hang.
const hanging = 3 * time.Minute

type folder struct {
	t   *testing.T
	dir string
}

func newFolder(t *testing.T) folder { return folder{t, t.TempDir()} }

func (f folder) write(name, text string) {
	require.NoError(f.t, os.WriteFile(filepath.Join(f.dir, name), []byte(text), 0o600))
}

// edit replaces every occurrence of a text in a file, and fails if there is none: such an edit proves nothing.
func (f folder) edit(name, old, new string) {
	text, err := os.ReadFile(filepath.Join(f.dir, name))
	require.NoError(f.t, err)
	require.Contains(f.t, string(text), old)
	f.write(name, strings.ReplaceAll(string(text), old, new))
}

// tool runs a command of the program in a directory and returns everything that it said.
func tool(t require.TestingT, code int, dir string, env []string, args ...string) string {
	var out paper
	got := start(context.Background(), append([]string{"-chdir=" + dir}, args...), env, strings.NewReader(""), &out, &out)
	require.Equal(t, code, got, "%v: %s", args, &out)
	return out.String()
}

// paper receives the output of a command and of the log beside it. In a real process these are two writers of one file.
type paper struct {
	mu    sync.Mutex
	text  strings.Builder
	heard func(string)  // called with each text, if not nil
	wrote chan struct{} // signalled at each write, if not nil
}

func newPaper() *paper { return &paper{wrote: make(chan struct{}, 1)} }

func (p *paper) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.heard != nil {
		p.heard(string(b))
	}
	select {
	case p.wrote <- struct{}{}:
	default:
	}
	return p.text.Write(b)
}

func (p *paper) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.String()
}

// dialTest returns a client whose session survives a machine that stops for seconds.
func dialTest(t *testing.T, srv *zktest.Server, id string, auth ...recipes.Auth) *recipes.Client {
	t.Helper()
	c, err := recipes.Dial(t.Context(), recipes.Config{Servers: []string{srv.Addr()}, ID: id, SessionTimeout: 40 * time.Second, ConnectTimeout: time.Minute, Auth: auth})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// bench is a configuration in a directory of its own, and a server for it.
type bench struct {
	folder
	server *zktest.Server
	pipes  bool // in place of sockets
}

func newBench(t *testing.T, locks string, opts ...zktest.Option) *bench {
	b := &bench{folder: newFolder(t), server: zktest.Start(t, opts...)}
	b.write("base.locktree.hcl", base)
	b.write("locks.locktree.hcl", locks)
	return b
}

// inFakeTime gives f a bench whose time passes only while every goroutine waits. Durations and round trips are then the same on every
// machine.
func inFakeTime(t *testing.T, locks string, f func(t *testing.T, b *bench), opts ...zktest.Option) {
	// The first Notify starts goroutines of the runtime for all signals. In a bubble they would belong to it.
	first := make(chan os.Signal, 1)
	signal.Notify(first, os.Interrupt)
	signal.Stop(first)
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, locks, opts...)
		b.pipes = true
		f(t, b)
	})
}

func (b *bench) addr() string {
	if b.pipes {
		return "zk:2181"
	}
	return b.server.Addr()
}

func (b *bench) dial(ctx context.Context, cfg recipes.Config) (*recipes.Client, error) {
	if b.pipes {
		cfg.Dialer = b.server.DialContext
	}
	return recipes.Dial(ctx, cfg)
}

func (b *bench) run(code int, args ...string) (stdout, stderr string) {
	b.t.Helper()
	return b.runUnder(b.t.Context(), code, args...)
}

// runUnder is run with a context whose end stands for an interrupt. With a code of -1 the command may end with any code.
func (b *bench) runUnder(ctx context.Context, code int, args ...string) (stdout, stderr string) {
	b.t.Helper()
	var out, errs paper // a command that is interrupted may write after its end
	got := b.app(strings.NewReader(""), &out, &errs).run(ctx, append([]string{"-chdir=" + b.dir}, args...))
	if code >= 0 {
		require.Equal(b.t, code, got, "%s%s", out.String(), errs.String())
	}
	return out.String(), errs.String()
}

func (b *bench) app(in io.Reader, out, errs io.Writer, env ...string) *app {
	return &app{Screen: &screen.Screen{Stdin: in, Stdout: out, Stderr: errs, Env: b.env(env...)}, dialClient: b.dial}
}

func (b *bench) env(more ...string) []string {
	return append(more, "LOCKTREE_VAR_zk="+b.addr(), "LOCKTREE_VAR_root=/t", "ZOOKEEPER_SESSION=40")
}

// oneLedger is declared beside base.
const oneLedger = "mutex \"ledger\" {\n  acl = acl.open\n}\n"
