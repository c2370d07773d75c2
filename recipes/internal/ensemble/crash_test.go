//go:build linux

package ensemble_test

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/internal/harness"
	"github.com/locktree/locktree/recipes/internal/hostile"
	"github.com/locktree/locktree/recipes/internal/session"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest/effort"
	"github.com/locktree/locktree/recipes/zktest/realzk"
)

// holdVariable makes this test binary a process that holds every lane on the server it names.
const holdVariable = "LOCKTREE_TEST_HOLD"

func TestMain(m *testing.M) {
	if spec := os.Getenv(holdVariable); spec != "" {
		holdUntilKilled(spec)
		return
	}
	// Tests on real servers wait most of their time: for sessions to end, for elections. So more of them run at once than
	// there are processors, unless -parallel says otherwise.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// realTimeout is for sessions that must live until a test ends them, and whose end it waits for; busyTimeout for sessions that live on.
const realTick, realTimeout = 500 * time.Millisecond, 20 * time.Second

// holdUntilKilled says on standard output what its leases do: "held TOKENS", then "ended CAUSE" and "wrote ERROR". If one lease has an
// unexpected result, it prints that one. For every line on standard input it prints "proven ERROR". spec is "ADDRESS TIMEOUT".
func holdUntilKilled(spec string) {
	addr, timeout, _ := strings.Cut(spec, " ")
	limit, err := time.ParseDuration(timeout)
	if err != nil {
		fmt.Println("failed", err)
		return
	}
	c, err := recipes.Dial(context.Background(), recipes.Config{Servers: []string{addr}, SessionTimeout: limit, ConnectTimeout: hostile.Patience, ID: "victim"})
	if err != nil {
		fmt.Println("failed", err)
		return
	}
	var leases []*recipes.Lease
	for _, lane := range lanes() {
		l, err := lane.holder.take(c)(context.Background())
		if err != nil {
			fmt.Println("failed", lane.name, err)
			return
		}
		leases = append(leases, l)
	}
	fmt.Print("held")
	for _, l := range leases {
		fmt.Print(" ", l.Token())
	}
	fmt.Println()
	go func() {
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			var err error
			for _, l := range leases {
				err = cmp.Or(l.Verify(context.Background()), err)
			}
			fmt.Println("proven", err)
		}
	}()
	ended, wrote := recipes.ErrLost, error(nil)
	for _, l := range leases {
		<-l.Context().Done()
		if cause := context.Cause(l.Context()); ended == recipes.ErrLost || !errors.Is(cause, recipes.ErrLost) {
			ended = cause
		}
	}
	for _, l := range leases {
		_, wrote = l.Multi(context.Background(), &zk.SetDataRequest{Path: "/data", Data: []byte("stale"), Version: -1})
		if wrote == nil {
			break
		}
	}
	fmt.Println("ended", ended)
	fmt.Println("wrote", wrote)
}

// victim is a holder process.
type victim struct {
	cmd   *exec.Cmd
	in    io.Writer
	lines *bufio.Scanner

	tokens []uint64 // of the lanes
}

func startVictim(t *testing.T, addr string, timeout time.Duration) *victim {
	t.Helper()
	v := &victim{cmd: exec.Command(os.Args[0])}
	v.cmd.Env = append(os.Environ(), holdVariable+"="+addr+" "+timeout.String())
	v.cmd.Stderr = os.Stderr
	out, err := v.cmd.StdoutPipe()
	require.NoError(t, err)
	v.in, err = v.cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, v.cmd.Start())
	t.Cleanup(func() {
		_ = v.cmd.Process.Kill()
		_ = v.cmd.Wait()
	})
	v.lines = bufio.NewScanner(out)
	for _, token := range strings.Fields(v.says(t, "held ")) {
		n, err := strconv.ParseUint(token, 10, 64)
		require.NoError(t, err)
		v.tokens = append(v.tokens, n)
	}
	return v
}

// hears waits for the process's next line; it returns false after the last one.
func (v *victim) hears() bool {
	defer time.AfterFunc(hostile.Patience, func() { _ = v.cmd.Process.Kill() }).Stop()
	return v.lines.Scan()
}

// says waits for the process's next line, which must begin with prefix.
func (v *victim) says(t *testing.T, prefix string) string {
	t.Helper()
	require.True(t, v.hears(), "the holder process ended early: %v", v.lines.Err())
	rest, ok := strings.CutPrefix(v.lines.Text(), prefix)
	require.True(t, ok, "the holder process says %q, wanted %q", v.lines.Text(), prefix)
	return rest
}

// proves lets the process prove its leases now, and returns why it could not, or "<nil>".
func (v *victim) proves() string {
	_, _ = io.WriteString(v.in, "\n") // a process that has ended is noticed below
	said := "nothing"
	for v.hears() {
		if err, ok := strings.CutPrefix(v.lines.Text(), "proven "); ok {
			return err
		}
		said = v.lines.Text()
	}
	return "the process has ended, having said " + said
}

// realServer is a real ZooKeeper with the lanes declared and a client on it.
func realServer(t *testing.T) (*realzk.Server, *recipes.Client) {
	t.Helper()
	srv := realzk.Start(t, realzk.Options{TickTime: realTick, Config: longSessions, Properties: map[string]string{"zookeeper.forceSync": "no"}})
	c := realClient(t, srv, "test")
	declareLanes(t, c)
	return srv, c
}

func realClient(t *testing.T, srv *realzk.Server, id string) *recipes.Client {
	t.Helper()
	return dial(t, recipes.Config{Servers: []string{srv.Addr}, SessionTimeout: busyTimeout, ID: id})
}

// dial gives the servers and the machine all the time that they need.
func dial(t *testing.T, cfg recipes.Config) *recipes.Client {
	t.Helper()
	cfg.ConnectTimeout = hostile.Patience
	c, err := recipes.Dial(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// live returns the client's session.
func live(t *testing.T, c *recipes.Client) *session.Session {
	t.Helper()
	s, err := session.Live(t.Context(), c)
	require.NoError(t, err)
	return s
}

func declareReal(t *testing.T, c *recipes.Client, path string, p kind.Params) {
	t.Helper()
	s := live(t, c)
	data, err := (&kind.Payload{Params: p}).Encode()
	require.NoError(t, err)
	_, err = s.Create(t.Context(), path, data, 0, openACL)
	require.NoError(t, err)
	for _, child := range p.Kind().Children {
		_, err = s.Create(t.Context(), kind.JoinPath(path, child), nil, 0, openACL)
		require.NoError(t, err)
	}
}

var openACL = zk.WorldACL(zk.PermAll)

// held takes a lock, and requires success.
func held(t *testing.T, take harness.Take) *recipes.Lease {
	t.Helper()
	x, err := take(t.Context())
	require.NoError(t, err)
	return x
}

// queued waits until n contenders stand at path.
func queued(t *testing.T, c *recipes.Client, path string, n int) {
	t.Helper()
	queuedUnless(t, c, path, n, nil)
}

// queuedUnless is queued, but returns false if over is closed before that.
func queuedUnless(t *testing.T, c *recipes.Client, path string, n int, over <-chan struct{}) bool {
	t.Helper()
	ctx := hostile.Within(t, hostile.Patience)
	for {
		s, err := session.Live(ctx, c)
		require.NoError(t, err)
		children, _, w, err := s.ChildrenCalled(ctx, path, nil)
		if err != nil { // on a busy machine
			require.NoError(t, harness.Pause(ctx, 50*time.Millisecond), "%v", err)
			continue
		}
		if len(children) >= n {
			w.Stop()
			return true
		}
		select {
		case <-w.C():
		case <-over:
			w.Stop()
			return false
		case <-ctx.Done():
			require.Failf(t, "nobody comes", "%s has not %d contenders but %v", path, n, children)
		}
		w.Stop()
	}
}

// struck sends a signal to a process that holds every lane. It returns the process when the waiters have been granted the locks.
func struck(t *testing.T, srv *realzk.Server, c *recipes.Client, signal syscall.Signal) *victim {
	t.Helper()
	v := startVictim(t, srv.Addr, realTimeout)
	all := &contest{lanes: lanes()}
	got := all.waiting(c)
	all.queued(t, c, 1)
	require.NoError(t, v.cmd.Process.Signal(signal))
	at := time.Now()
	for i, x := range all.granted(t, got) {
		require.Greater(t, x.Token(), v.tokens[i])
	}
	t.Logf("granted %v after the signal, within %v on a machine that is not busy", time.Since(at), realTimeout+2*realTick)
	return v
}

func TestRealKillOfAHolderGrantsTheNextInTime(t *testing.T) {
	t.Parallel()
	srv, c := realServer(t)
	struck(t, srv, c, syscall.SIGKILL)
}

func TestRealHolderStoppedForLongerThanItsSessionWritesNothing(t *testing.T) { // case 31: redis-semaphore #24, redisson #2665
	effort.Proof(t, effort.Raced)
	t.Parallel()
	srv, c := realServer(t)
	s := live(t, c)
	_, err := s.Create(t.Context(), "/data", []byte("0"), 0, openACL)
	require.NoError(t, err)
	v := struck(t, srv, c, syscall.SIGSTOP)
	require.NoError(t, v.cmd.Process.Signal(syscall.SIGCONT))
	require.Contains(t, v.says(t, "ended "), "lock lost")
	require.Contains(t, v.says(t, "wrote "), "lock lost")
	data, _, err := s.Get(t.Context(), "/data")
	require.NoError(t, err)
	require.Equal(t, "0", string(data))
}

// Five clients use every recipe on one server. They leave each other room in every lock, tokens grow, and nothing is left.
func TestRealRecipesExcludeAndCount(t *testing.T) {
	t.Parallel()
	srv, c := realServer(t)
	all := &contest{lanes: lanes()}
	all.rival(t, &ensemble{t: t}, busyTimeout, slices.Repeat([]*realzk.Server{srv}, 5))
	all.atLeast(t, 60)
	all.stop()
	for _, path := range []string{"/m", "/w", "/r", "/s/leases", "/s/locks", "/e", "/set-m", "/set-rw", "/set-e"} {
		emptied(t, c, path)
	}
}

// emptied waits until a node has no children.
func emptied(t *testing.T, c *recipes.Client, family string) {
	t.Helper()
	s := live(t, c)
	for deadline := time.Now().Add(hostile.Patience); ; {
		names, _, err := s.Children(t.Context(), family)
		require.NoError(t, err)
		if len(names) == 0 {
			return
		}
		require.True(t, time.Now().Before(deadline), "left in %s: %v", family, names)
		require.NoError(t, harness.Pause(t.Context(), 20*time.Millisecond))
	}
}

func TestRealHolderStoppedForAQuarterOfItsSessionKeepsItsLock(t *testing.T) {
	effort.Proof(t, effort.Raced)
	t.Parallel()
	srv, c := realServer(t)
	timeout := realTimeout / 2
	for !stoppedForAQuarter(t, srv, c, timeout) {
		t.Logf("this machine is too slow for a session timeout of %v", timeout)
		timeout = min(2*timeout, busyTimeout)
	}
}

// stoppedForAQuarter stops a holder twice. It returns false if the machine is too slow for the session timeout.
func stoppedForAQuarter(t *testing.T, srv *realzk.Server, c *recipes.Client, timeout time.Duration) (inTime bool) {
	t.Helper()
	v := startVictim(t, srv.Addr, timeout)
	all := &contest{lanes: lanes()}
	got := all.waiting(c)
	all.queued(t, c, 1)
	inTime = true
	for i := 0; i < 2 && inTime; i++ {
		began := time.Now()
		before := v.proves()
		require.NoError(t, v.cmd.Process.Signal(syscall.SIGSTOP))
		require.NoError(t, harness.Pause(t.Context(), timeout/4))
		require.NoError(t, v.cmd.Process.Signal(syscall.SIGCONT))
		after := v.proves()
		if inTime = time.Since(began) < timeout*3/8; inTime { // a proof at began lasts for half the timeout
			require.Equal(t, "<nil>", before)
			require.Equal(t, "<nil>", after)
			for i, l := range all.lanes {
				require.Empty(t, got[i], "%s: lost to the waiter", l.name)
			}
		}
	}
	require.NoError(t, v.cmd.Process.Kill())
	all.granted(t, got)
	return inTime
}

// robbed is a client whose session the thief can end.
func robbed(t *testing.T, addr string) (*recipes.Client, *harness.Thief) {
	t.Helper()
	th := &harness.Thief{Next: (&net.Dialer{}).DialContext}
	return dial(t, recipes.Config{Servers: []string{addr}, SessionTimeout: busyTimeout, Dialer: th.Dial}), th
}

func TestRealSessionEndedInItsOwnersNameIsLost(t *testing.T) { // failure matrix, rows 11 and 12
	t.Parallel()
	srv, c := realServer(t)
	holder, a := robbed(t, srv.Addr)
	all := holdAll(t, holder)
	waiter, b := robbed(t, srv.Addr)
	w := all.waiting(waiter)
	all.queued(t, c, 1)
	last := all.waiting(c)
	all.queued(t, c, 2)
	b.End(t, live(t, waiter))
	for i, l := range all.lanes {
		require.ErrorIs(t, (<-w[i]).Err, recipes.ErrSessionLost, l.name)
		require.NoError(t, l.x.Verify(t.Context()), l.name)
	}
	a.End(t, live(t, holder))
	for _, l := range all.lanes {
		<-l.x.Context().Done()
		require.ErrorIs(t, context.Cause(l.x.Context()), recipes.ErrLost, l.name)
	}
	for i, x := range all.granted(t, last) {
		require.Greater(t, x.Token(), all.lanes[i].x.Token(), all.lanes[i].name)
	}
}

func TestRealRestartKeepsHolderQueueAndTokens(t *testing.T) { // failure matrix, row 25, with one server; case 33
	t.Parallel()
	// A busy machine took nine seconds to start a server: the session must outlive that.
	srv := realzk.Start(t, realzk.Options{TickTime: realTick, Config: longSessions})
	a, b := realClient(t, srv, "a"), realClient(t, srv, "b")
	declareLanes(t, a)
	all := holdAll(t, a)
	w := all.waiting(b)
	all.queued(t, a, 1)
	srv.Kill()
	deadline := all.lanes[0].x.Deadline() // without a server, nothing extends it
	srv.Restart()
	for i, l := range all.lanes {
		err := proven(t, l.x)
		if time.Now().Before(deadline) { // otherwise the server was away for longer than the lease lasts
			require.NoError(t, err, l.name)
			require.Empty(t, w[i], l.name)
		}
	}
	_ = all.unlock(t)
	all.granted(t, w)
}

// Row 41 of the failure matrix: other programs answer on the port. TestHostilePeerDuringHandshake shows what each such peer costs alone.
func TestRealServerIsFoundAmongHostilePorts(t *testing.T) {
	t.Parallel()
	srv, first := realServer(t)
	certificate, _ := hostile.Authority(t).Issue(t, "zk1")
	noise := make([]byte, 1<<16)
	for i := range noise {
		noise[i] = byte(i*7919 ^ i>>3)
	}
	servers := []string{srv.Addr}
	for _, s := range []hostile.Script{
		hostile.Saying([]byte("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")),
		hostile.Saying(hostile.Frame(0, 0, 0, 0)), hostile.Saying(noise), hostile.Saying(hostile.Frame(noise...)), hostile.Silence,
		func(c net.Conn) {
			_ = tls.Server(c, &tls.Config{Certificates: []tls.Certificate{certificate}}).Handshake()
		},
		func(net.Conn) {},
	} {
		servers = append(servers, hostile.Listen(t, s))
	}
	for range 3 {
		c, err := recipes.Dial(t.Context(), recipes.Config{Servers: servers, SessionTimeout: realTimeout, ConnectTimeout: hostile.Patience})
		require.NoError(t, err)
		x := held(t, c.Mutex("/m").Lock)
		require.NoError(t, x.Unlock(t.Context()))
		hostile.Closed(t, c)
	}
	hostile.Closed(t, first)
}
