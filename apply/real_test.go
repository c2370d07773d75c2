//go:build linux

package apply_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/apply/event"
	"github.com/locktree/locktree/apply/failure"
	"github.com/locktree/locktree/apply/read"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/diff"
	"github.com/locktree/locktree/plan/record"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest/effort"
	"github.com/locktree/locktree/recipes/zktest/realzk"
)

// TestRealZooKeeper runs on Apache ZooKeeper what the other tests of this package
// run in memory, each in a root of its own.
func TestRealZooKeeper(t *testing.T) {
	t.Parallel()
	addr := realzk.Shared(t)
	for name, body := range map[string]func(*testing.T, *site){
		"destroy removes everything":                 destroyAll,
		"access lists are set after the transaction": accessLists,
		"second applier is told who is at it":        secondApplier,
		"plan made under the lock is not stale":      planUnderLock,
		"appliers at once are serialised or refused": func(t *testing.T, s *site) { manyAppliers(t, s, 10) },
		"lost reply is resolved":                     lostReply,
		"large plan is applied in batches":           batched,
		"everything at once":                         everything,
		"contender at the last moment is unharmed":   lastMoment,
		"long request that asks changes nothing":     asking,
		"refusal for a quota says so":                quotaRefusal,
		"what would be refused is known before":      checkRefuses,
		"family is made with its directories":        func(t *testing.T, s *site) { families(t, s, "256") },
		"family with a key in use stays":             familyHeld,
		"keys in use get another access list":        relisted,
		"family is imported while its keys are used": familyImported,
	} {
		t.Run(name, func(t *testing.T) {
			body(t, real(t, addr, "/"+strings.ReplaceAll(name, " ", "-")))
		})
	}
}

// axe is a dialer that breaks a connection of a program at one of its writes: before it is sent, or when its reply arrives. The servers are
// not told, as when the machine loses its power.
type axe struct {
	at       func(n int64, frame []byte) bool // reports whether to break at the n-th write
	executed bool                             // break it when the reply arrives
	until    func()                           // called before that break; nil for nothing
	off      bool                             // nothing can be dialled afterwards
	fell     chan struct{}
	writes   atomic.Int64
	struck   atomic.Bool
}

func (a *axe) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if a.off && a.struck.Load() {
		return nil, errors.New("the machine is off")
	}
	c, err := new(net.Dialer).DialContext(ctx, network, address)
	return &axedConn{Conn: c, axe: a}, err
}

type axedConn struct {
	net.Conn
	*axe
	greeted bool
	last    atomic.Bool // the next read breaks the connection
}

// Write counts the requests that write. A frame is a length, an xid and an opcode; the first of a connection is the handshake.
func (c *axedConn) Write(b []byte) (int, error) {
	for rest := b; len(rest) >= 12; {
		frame := rest[:min(len(rest), 4+int(binary.BigEndian.Uint32(rest)))]
		if c.greeted && writeCodes[binary.BigEndian.Uint32(rest[8:12])] && c.at(c.writes.Add(1), frame) && c.struck.CompareAndSwap(false, true) {
			if !c.executed {
				_ = c.Close()
				close(c.fell)
				return 0, net.ErrClosed
			}
			c.last.Store(true)
		}
		c.greeted = true
		rest = rest[len(frame):]
	}
	return c.Conn.Write(b)
}

// writeCodes are the opcodes of create, delete, setData, setACL, multi, create2.
var writeCodes = map[uint32]bool{1: true, 2: true, 5: true, 7: true, 14: true, 15: true}

func (c *axedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err == nil && c.last.CompareAndSwap(true, false) {
		if c.until != nil {
			c.until()
		}
		_ = c.Close()
		close(c.fell)
		return 0, net.ErrClosed
	}
	return n, err
}

func lostReply(t *testing.T, s *site) {
	watcher := s.provisioner()
	s.apply(watcher, s.shop())
	session, at := s.session(watcher), record.IndexPath(s.root, stack)
	before, err := read.HeadAt(t.Context(), session, at)
	require.NoError(t, err)
	a := &axe{executed: true, fell: make(chan struct{})}
	a.at = func(_ int64, frame []byte) bool { return bytes.Contains(frame, []byte(`"description":"lost"`)) }
	a.until = func() { // wait until the transaction is visible, so that only its reply is lost
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		for {
			now, err := read.HeadAt(ctx, session, at)
			if err != nil || now.Index.Apply != before.Index.Apply {
				return
			}
		}
	}
	s.config.Dialer = a.dial
	c := s.provisioner()
	var ev events
	x := executor(c, ev.add)
	s.succeeds(x, s.plan(c, s.shop(set("description", "lost"))))
	require.True(t, find[event.Committed](ev).Resolved)
	require.False(t, s.plan(c, s.shop(set("description", "lost"))).HasChanges())
}

// applierEnv makes this test's program an applier. Its value is "address root moment".
const applierEnv = "LOCKTREE_TEST_APPLIER"

func TestMain(m *testing.M) {
	if spec := os.Getenv(applierEnv); spec != "" {
		applier(spec)
		return
	}
	os.Exit(m.Run())
}

// moments are the points at which an applier can wait.
var moments = map[string]func(event.Event) bool{
	"before":  func(e event.Event) bool { _, ok := e.(event.Verified); return ok },
	"between": func(e event.Event) bool { c, ok := e.(event.Committed); return ok && c.Batch == 1 },
	"lists":   func(e event.Event) bool { _, ok := e.(event.ACLPhase); return ok },
}

// victimTimeout is the session timeout of an applier that is struck, for which the others wait. A lease lasts half of it. That is long
// enough to reach the struck write on a machine that stops for seconds.
const victimTimeout = 20 * time.Second

// applier applies the tree of the method closing, on top of the tree that the parent has applied. It says when the moment has come, waits
// for a line of input, and says how the apply ended.
func applier(spec string) {
	var address, root, moment string
	_, err := fmt.Sscan(spec, &address, &root, &moment)
	must(err)
	ctx := context.Background()
	c, err := recipes.Dial(ctx, recipes.Config{
		Servers: []string{address}, SessionTimeout: victimTimeout, ConnectTimeout: patience, ID: "child",
		Auth: []recipes.Auth{{Scheme: "digest", Credentials: "provisioner:secret"}},
	})
	must(err)
	session, err := c.Session(ctx)
	must(err)
	tree := (&site{root: root}).closing()
	live, err := read.Tree(ctx, session, tree)
	must(err)
	x := executor(c, func(e event.Event) {
		if moments[moment](e) {
			fmt.Println("here")
			_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
		}
	})
	_, err = x.Run(ctx, diff.Compare(live, tree, plan.Options{Identities: identities(c)}))
	fmt.Printf("ended: %v\n", err)
}

// TestRealZooKeeperOutlivesItsAppliers checks, on Apache ZooKeeper, what an applier does that was stopped past its session, and what a dead
// one leaves.
func TestRealZooKeeperOutlivesItsAppliers(t *testing.T) {
	effort.Proof(t, effort.Unraced)
	t.Parallel()
	addr := realzk.Shared(t)
	var all sync.WaitGroup // not t.Parallel: all of them wait for sessions to end at the same time, on however few processors
	defer all.Wait()
	for moment := range moments {
		all.Go(func() {
			t.Run("stopped "+moment, func(t *testing.T) {
				stopped(t, real(t, addr, "/stopped-"+moment), addr, moment)
			})
		})
	}
	// The writes are: lock, two transactions, eight access lists, journal, unlock. About every third point is tried.
	for i, k := range []int{1, 2, 2, 3, 3, 4, 6, 9, 10, 11} {
		executed := i%2 == 0
		all.Go(func() {
			t.Run(fmt.Sprintf("dead at write %d, executed %t", k, executed), func(t *testing.T) {
				dead(t, real(t, addr, fmt.Sprintf("/dead-%d-%t", k, executed)), k, executed)
			})
		})
	}
}

// stopped sends an applier SIGSTOP while transactions are pending. Its session expires, another applier finishes, and SIGCONT follows. The
// first one writes nothing any more.
func stopped(t *testing.T, s *site, address, moment string) {
	c := s.provisioner()
	s.apply(c, s.shop())
	program, err := os.Executable()
	require.NoError(t, err)
	child := exec.Command(program)
	child.Env = append(os.Environ(), applierEnv+"="+strings.Join([]string{address, s.root, moment}, " "))
	child.Stderr = os.Stderr
	in, err := child.StdinPipe()
	require.NoError(t, err)
	stdout, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	hangs := time.AfterFunc(patience, func() { _ = child.Process.Kill() }) // its output ends then
	t.Cleanup(func() { hangs.Stop(); _ = child.Process.Kill(); _ = child.Wait() })
	out := bufio.NewScanner(stdout)
	require.True(t, out.Scan(), "the applier ended or hangs")
	require.Equal(t, "here", out.Text())
	require.NoError(t, child.Process.Signal(syscall.SIGSTOP))
	_, err = in.Write([]byte("\n")) // so it goes on at once after SIGCONT
	require.NoError(t, err)

	other := s.shop(set("description", "other"))
	x := executor(c)
	x.LockTimeout = patience
	s.succeeds(x, s.plan(c, other))
	after := s.dump(c)

	require.NoError(t, child.Process.Signal(syscall.SIGCONT))
	require.True(t, out.Scan(), "the applier ended or hangs")
	require.Contains(t, out.Text(), "ended: apply: ")
	require.Contains(t, out.Text(), "lost")
	require.Equal(t, after, s.dump(c), "it wrote after another had finished")
	require.False(t, s.plan(c, other).HasChanges())
}

// dead has the program die at one of its writes. Its lock goes with its session. The next apply, which waits for that, converges in one
// run.
func dead(t *testing.T, s *site, k int, executed bool) {
	c := s.provisioner()
	s.apply(c, s.shop())
	tree := s.closing()
	before := s.addresses(c, tree)
	a := &axe{at: func(n int64, _ []byte) bool { return n == int64(k) }, executed: executed, off: true, fell: make(chan struct{})}
	theirs := *s
	theirs.config.Dialer, theirs.config.SessionTimeout = a.dial, victimTimeout
	victim := theirs.provisioner()
	p := s.plan(c, tree)
	require.Greater(t, len(p.Batches), 1)
	ctx, kill := context.WithCancel(t.Context())
	defer kill()
	go func() {
		<-a.fell
		kill()
		_ = victim.Close()
	}()
	_, err := executor(victim).Run(ctx, p)
	<-a.fell
	require.Error(t, err)
	s.sound(c, tree, before)
	x := executor(c)
	x.LockTimeout = patience
	s.succeeds(x, s.plan(c, tree))
	s.converges(c, tree, plan.Options{})
	s.takesEach(tree)
}

// TestRealZooKeeperWithASmallBuffer uses a server that is set to read less than the default.
func TestRealZooKeeperWithASmallBuffer(t *testing.T) {
	effort.Proof(t, effort.Unraced)
	t.Parallel()
	server := realzk.Start(t, realzk.Options{Properties: map[string]string{"jute.maxbuffer": "250000"}})
	halved(t, real(t, server.Addr, "/small"), 250_000)
}

// A program of Curator holds the lock at the old path, and programs of kazoo and of this library wait. The apply is refused, and then
// drains. Afterwards no program can create the old path again, because the namespace does not let it. All of them have the lock at the new
// one.
func TestCuratorAndKazooUseALockWhosePathChanges(t *testing.T) {
	t.Parallel()
	addr := realzk.Shared(t)
	s := real(t, addr, "/renamed")
	me := s.provisioner()
	before, after := s.lockAt("/pay/old", kind.Mutex), s.lockAt("/pay/new", kind.Mutex)
	old, next := s.root+"/pay/old", s.root+"/pay/new"
	s.apply(me, before)
	java, python, ours := startCurator(t, addr), startKazoo(t, addr), s.as("worker:w")
	for p, recipe := range map[*peer]string{java: "mutex", python: "curator-lock"} {
		require.NoError(t, p.say("auth digest worker:w"))
		require.NoError(t, p.say("open old "+recipe+" "+old))
		require.NoError(t, p.say("open again "+recipe+" "+old))
		require.NoError(t, p.say("open new "+recipe+" "+next))
	}
	queued := func(n int) {
		t.Helper()
		require.Eventually(t, func() bool {
			names, _, err := s.session(me).Children(t.Context(), old)
			return err == nil && len(names) == n
		}, patience, time.Millisecond)
	}
	require.NoError(t, java.say("acquire old"))
	waits := make(chan error, 1)
	go func() { waits <- python.say("acquire old") }()
	queued(2)
	sent := make(chan error, 1)
	go func() {
		_, err := ours.Mutex(old).Lock(t.Context())
		sent <- err
	}()
	queued(3)

	_, err := executor(me).Run(t.Context(), s.plan(me, after))
	used := errorAs[*failure.InUseError](t, err)
	require.Equal(t, old, used.Path)

	x, left := executor(me), make(chan struct{})
	x.Events = on(func(event.Draining) {
		go func() { // Curator's program releases, kazoo's has the lock for a moment, and no node is at the new path
			defer close(left)
			assert.ErrorIs(t, <-sent, recipes.ErrDraining)
			assert.ErrorIs(t, s.creates("worker:w", next), zk.ErrNoAuth)
			assert.NoError(t, java.say("release old"))
			assert.NoError(t, <-waits)
			assert.ErrorContains(t, java.say("acquire new"), "NoAuth")
			assert.NoError(t, python.say("release old"))
		}()
	})
	s.succeeds(x, s.plan(me, after, plan.Options{Drain: patience}))
	<-left

	for _, p := range []*peer{java, python} {
		require.Error(t, p.say("acquire old"), "by a handle that has held it")
		require.ErrorContains(t, p.say("acquire again"), "NoAuth", "by a handle that is new")
		require.NoError(t, p.say("acquire new"))
		_, err = ours.Mutex(next).TryLock(t.Context())
		require.ErrorIs(t, err, recipes.ErrHeld)
		require.NoError(t, p.say("release new"))
	}
	_, err = ours.Mutex(old).Lock(t.Context())
	require.ErrorIs(t, err, recipes.ErrNotProvisioned)
	require.ErrorContains(t, err, old)
	lease := s.takes(ours.Mutex(next).Lock)
	require.NoError(t, lease.Unlock(t.Context()))
	stat, err := s.session(me).Exists(t.Context(), old)
	require.NoError(t, err)
	require.Nil(t, stat)
	require.False(t, s.plan(me, after).HasChanges())
}

// peer is a process of clients of another library (testdata/interop). It takes one command at a time.
type peer struct {
	t  *testing.T
	mu sync.Mutex
	in io.Writer
	to *bufio.Scanner
	n  int
}

func startCurator(t *testing.T, address string) *peer {
	classes := []string{t.TempDir()}
	for _, jar := range []string{"curator-recipes", "curator-framework", "curator-client", "zookeeper", "zookeeper-jute", "zookeeper-recipes-lock", "guava", "slf4j-api", "slf4j-simple"} {
		file := "/usr/share/java/" + jar + ".jar"
		_, err := os.Stat(file)
		require.NoError(t, err, ".ci/setup says what to install")
		classes = append(classes, file)
	}
	sources, err := filepath.Glob("../testdata/interop/java/*.java")
	require.NoError(t, err)
	path := strings.Join(classes, ":")
	out, err := exec.Command("javac", append([]string{"-J-XX:TieredStopAtLevel=1", "-J-XX:+UseSerialGC", "-proc:none", "-cp", path, "-d", classes[0]}, sources...)...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return startPeer(t, exec.Command("java", "-Xmx96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData",
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", path, "Peer", address, "40000", "java"))
}

func startKazoo(t *testing.T, address string) *peer {
	cmd := exec.Command("/usr/bin/python3", "-B", "../testdata/interop/python/peer.py", address, "40000", "python")
	return startPeer(t, cmd)
}

func startPeer(t *testing.T, cmd *exec.Cmd) *peer {
	p := &peer{t: t}
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	cmd.Stderr = os.Stderr
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = in.Close(); _ = cmd.Wait() }) // the end of its input ends it
	p.in, p.to = in, bufio.NewScanner(stdout)
	require.NoError(t, p.say("hello"))
	return p
}

// say sends a command and waits for its answer.
func (p *peer) say(command string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.n++
	if _, err := fmt.Fprintf(p.in, "%d %s\n", p.n, command); err != nil {
		return err
	}
	for p.to.Scan() {
		if number, answer, _ := strings.Cut(p.to.Text(), " "); number == fmt.Sprint(p.n) {
			if !strings.HasPrefix(answer, "ok") {
				return fmt.Errorf("%s: %s", command, answer)
			}
			return nil
		}
	}
	return io.ErrUnexpectedEOF
}
