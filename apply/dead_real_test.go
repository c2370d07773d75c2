//go:build linux

package apply_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/apply/event"
	"github.com/locktree/locktree/apply/read"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/diff"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/zktest/effort"
	"github.com/locktree/locktree/recipes/zktest/realzk"
)

// applierEnv makes this test's program an applier: "address root moment".
const applierEnv = "LOCKTREE_TEST_APPLIER"

func TestMain(m *testing.M) {
	if spec := os.Getenv(applierEnv); spec != "" {
		applier(spec)
		return
	}
	os.Exit(m.Run())
}

// moments are where an applier can be told to wait.
var moments = map[string]func(event.Event) bool{
	"before":  func(e event.Event) bool { _, ok := e.(event.Verified); return ok },
	"between": func(e event.Event) bool { c, ok := e.(event.Committed); return ok && c.Batch == 1 },
	"lists":   func(e event.Event) bool { _, ok := e.(event.ACLPhase); return ok },
}

// victimTimeout is how long the others wait for the session of one that is struck. A lease lasts half of it: long enough
// for one to come to where it is struck on a machine that stops for seconds.
const victimTimeout = 20 * time.Second

// applier applies closing to the tree the parent has made, says when the moment has
// come, waits for a line of input there, and says how it ended.
func applier(spec string) {
	var address, root, moment string
	if _, err := fmt.Sscan(spec, &address, &root, &moment); err != nil {
		panic(err)
	}
	ctx := context.Background()
	c, err := recipes.Dial(ctx, recipes.Config{
		Servers: []string{address}, SessionTimeout: victimTimeout, ConnectTimeout: patience, ID: "child",
		Auth: []recipes.Auth{{Scheme: "digest", Credentials: "provisioner:secret"}},
	})
	if err != nil {
		panic(err)
	}
	session, err := c.Session(ctx)
	if err != nil {
		panic(err)
	}
	tree := (&site{root: root}).closing()
	live, err := read.Tree(ctx, session, tree)
	if err != nil {
		panic(err)
	}
	x := executor(c, func(e event.Event) {
		if moments[moment](e) {
			fmt.Println("here")
			_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
		}
	})
	_, err = x.Run(ctx, diff.Compare(live, tree, plan.Options{Identities: identities(c)}))
	fmt.Printf("ended: %v\n", err)
}

// TestRealZooKeeperOutlivesItsAppliers: what a program does that was stopped past
// its session, and what one leaves that died, on Apache ZooKeeper.
func TestRealZooKeeperOutlivesItsAppliers(t *testing.T) {
	effort.Proof(t, effort.Unraced)
	t.Parallel()
	server := realzk.Start(t, realzk.Options{})
	var all sync.WaitGroup // and not t.Parallel: they wait for sessions to end, all at the same time on however few processors
	defer all.Wait()
	for moment := range moments {
		all.Go(func() {
			t.Run("stopped "+moment, func(t *testing.T) {
				stopped(t, real(t, server.Addr, "/stopped-"+moment), server.Addr, moment)
			})
		})
	}
	// lock, two transactions, eight access lists, journal, unlock: every third point.
	for i, k := range []int{1, 2, 2, 3, 3, 4, 6, 9, 10, 11} {
		executed := i%2 == 0
		all.Go(func() {
			t.Run(fmt.Sprintf("dead at write %d, executed %t", k, executed), func(t *testing.T) {
				dead(t, real(t, server.Addr, fmt.Sprintf("/dead-%d-%t", k, executed)), k, executed)
			})
		})
	}
}

// stopped: SIGSTOP while transactions are pending; the session runs out, another
// applier finishes; SIGCONT. The first writes nothing any more.
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
	hangs := time.AfterFunc(patience, func() { _ = child.Process.Kill() }) // what it says ends then
	t.Cleanup(func() { hangs.Stop(); _ = child.Process.Kill(); _ = child.Wait() })
	out := bufio.NewScanner(stdout)
	require.True(t, out.Scan(), "the applier ended or hangs")
	require.Equal(t, "here", out.Text())
	require.NoError(t, child.Process.Signal(syscall.SIGSTOP))
	_, err = in.Write([]byte("\n")) // it goes on at once when it goes on
	require.NoError(t, err)

	other := s.shop(set("description", "other"))
	x := executor(c)
	x.LockTimeout = patience
	_, err = x.Run(t.Context(), s.plan(c, other))
	require.NoError(t, err, "the stopped one's lock goes with its session")
	after := s.dump(c)

	require.NoError(t, child.Process.Signal(syscall.SIGCONT))
	require.True(t, out.Scan(), "the applier ended or hangs")
	require.Contains(t, out.Text(), "ended: apply: ")
	require.Contains(t, out.Text(), "lost")
	require.Equal(t, after, s.dump(c), "it wrote after another had finished")
	require.False(t, s.plan(c, other).HasChanges())
}

// dead: the program dies at one of its writes. Its lock goes with its session, and
// the next apply, which waits for that, converges in one run.
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
	_, err = x.Run(t.Context(), s.plan(c, tree))
	require.NoError(t, err)
	s.converges(c, tree, plan.Options{})
	s.takesEach(tree)
}

// TestRealZooKeeperWithASmallBuffer: a server set to read less than the default.
func TestRealZooKeeperWithASmallBuffer(t *testing.T) {
	effort.Proof(t, effort.Unraced)
	t.Parallel()
	server := realzk.Start(t, realzk.Options{Properties: map[string]string{"jute.maxbuffer": "250000"}})
	halved(t, real(t, server.Addr, "/small"), 250_000)
}
