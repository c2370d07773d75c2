package browser

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/zktest"
)

// shop is the page of a few locks, and the programs that contend for them.
type shop struct {
	t    *testing.T
	srv  *zktest.Server
	url  string
	dir  string
	args []string
	stop func() // ends "locktree serve"
}

// openShop declares the locks of testdata and serves them.
func openShop(t *testing.T, args ...string) *shop {
	t.Helper()
	s := &shop{t: t, srv: zktest.Start(t), dir: t.TempDir(), args: append([]string{"-interval=100ms", "-drift-interval=1s"}, args...)}
	text, err := os.ReadFile("testdata/shop.locktree.hcl")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(s.dir, "shop.locktree.hcl"), text, 0o644))
	out, err := s.command("apply", "-auto-approve").CombinedOutput()
	require.NoError(t, err, string(out))
	s.serve("127.0.0.1:0")
	return s
}

func (s *shop) command(args ...string) *exec.Cmd {
	cmd := exec.Command(locktree, append([]string{"-chdir=" + s.dir}, args...)...)
	cmd.Env = append(os.Environ(), "NO_COLOR=1", "ZOOKEEPER_SESSION=40", `LOCKTREE_VAR_servers=["`+s.srv.Addr()+`"]`)
	return cmd
}

func (s *shop) serve(listen string) {
	t := s.t
	t.Helper()
	cmd := s.command(append([]string{"serve", "-listen=" + listen}, s.args...)...)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	cmd.Stderr = io.Discard
	require.NoError(t, cmd.Start())
	s.stop = sync.OnceFunc(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // killed
	})
	t.Cleanup(s.stop)
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	s.url = strings.TrimSuffix(strings.TrimSpace(line), "/")
}

func of(lock string) string {
	return "/lock?" + url.Values{"ensemble": {"main"}, "path": {"/locks/shop/" + lock}}.Encode()
}

func (s *shop) served(path string) string {
	s.t.Helper()
	resp, err := http.Get(s.url + path)
	require.NoError(s.t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(s.t, err)
	return string(body)
}

func (s *shop) untilServed(path, part string) {
	s.t.Helper()
	s.untilServedAfter(path, "", part)
}

// untilServedAfter waits until the answer has part somewhere behind the text after.
func (s *shop) untilServedAfter(path, after, part string) {
	s.t.Helper()
	body := ""
	for end := time.Now().Add(hanging); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		_, body, _ = strings.Cut(s.served(path), after)
		if strings.Contains(body, part) {
			return
		}
	}
	require.Contains(s.t, body, part)
}

type program struct {
	*recipes.Client
	s   *shop
	off atomic.Bool // it reaches no server
}

var errOff = errors.New("the program is cut off")

func (s *shop) program(id string) *program {
	s.t.Helper()
	p := &program{s: s}
	c, err := recipes.Dial(s.t.Context(), recipes.Config{Servers: []string{s.srv.Addr()}, ID: id, SessionTimeout: 40 * time.Second, ConnectTimeout: hanging,
		Dialer: func(ctx context.Context, network, address string) (net.Conn, error) {
			if p.off.Load() {
				return nil, errOff
			}
			return new(net.Dialer).DialContext(ctx, network, address)
		}})
	require.NoError(s.t, err)
	s.t.Cleanup(func() { _ = c.Close() })
	p.Client = c
	return p
}

func (p *program) session() int64 {
	p.s.t.Helper()
	of, err := p.Session(p.s.t.Context())
	require.NoError(p.s.t, err)
	return of.ID()
}

func (p *program) locks(name string) *recipes.Lease {
	p.s.t.Helper()
	l, err := p.Mutex("/locks/shop/" + name).Lock(p.s.t.Context())
	require.NoError(p.s.t, err)
	return l
}

// queues waits for a mutex in the background. It returns once the server shows it as a waiter. The channel delivers the lease, and is
// closed without one if it gives up.
func (p *program) queues(name, id string) (<-chan *recipes.Lease, context.CancelFunc) {
	p.s.t.Helper()
	ctx, cancel := context.WithCancel(p.s.t.Context())
	granted := make(chan *recipes.Lease, 1)
	go func() {
		defer close(granted)
		if l, err := p.Mutex("/locks/shop/" + name).Lock(ctx); err == nil {
			granted <- l
		}
	}()
	p.s.untilServedAfter(of(name), "Who waits for it", id)
	return granted, cancel
}
