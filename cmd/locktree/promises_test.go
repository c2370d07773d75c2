package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/cmd/locktree/internal/exit"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/zktest"
)

// promisePackages are the packages whose tests the page may name.
var promisePackages = map[string]string{
	"locktree": ".", "view": "internal/view", "apply": "../../apply", "diff": "../../plan/diff", "plan": "../../plan", "saved": "../../plan/saved", "config": "../../config", "recipes": "../../recipes", "session": "../../recipes/internal/session", "inspect": "../../recipes/inspect",
}

// TestPromisesNameTests holds testdata/promises.md: no promise without a test, and none that does not exist.
func TestPromisesNameTests(t *testing.T) {
	page, err := os.ReadFile("../../testdata/promises.md")
	require.NoError(t, err)
	exist := map[string]bool{}
	for name, dir := range promisePackages {
		files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
		require.NoError(t, err)
		for _, f := range files {
			source, err := os.ReadFile(f)
			require.NoError(t, err)
			for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`).FindAllStringSubmatch(string(source), -1) {
				exist[name+"."+m[1]] = true
			}
		}
	}
	rows := regexp.MustCompile(`(?m)^\| (\d+) \|[^|]+\|[^|]+\|([^|]+)\|$`).FindAllStringSubmatch(string(page), -1)
	require.Len(t, rows, 18)
	for i, row := range rows {
		require.Equal(t, fmt.Sprint(i+1), row[1])
		for name := range strings.SplitSeq(strings.TrimSpace(row[2]), ", ") {
			if strings.HasSuffix(name, ".txtar") {
				require.FileExists(t, filepath.Join("../../testdata/script", name), "promise %d", i+1)
				continue
			}
			require.True(t, exist[name], "promise %d: there is no test %q", i+1, name)
		}
	}
}

func manyLocks(n int) string {
	var names strings.Builder
	for i := range n {
		fmt.Fprintf(&names, "%q, ", fmt.Sprint(i))
	}
	return "namespace \"pay\" {\n  acl = acl.open\n  mutex \"many\" {\n    for_each = toset([" + names.String() + "])\n  }\n}\n"
}

// Output read the whole tree for one record.
func TestOutputReadsTheRecordOnly(t *testing.T) {
	inFakeTime(t, manyLocks(100)+"output \"where\" {\n  value = 1\n}\n", func(t *testing.T, b *bench) {
		b.run(exit.OK, "apply", "-auto-approve")
		b.server.ResetCounts()
		out, _ := b.run(exit.OK, "output", "where")
		require.Equal(t, "1\n", out)
		require.Less(t, b.server.Counts().Total, 10)
	})
}

func TestNoCommandForcesALockOpen(t *testing.T) {
	var names []string
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		names = append(names, c.Name())
		require.NotContains(t, c.Name(), "unlock")
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(appWith().rootCommand())
	require.Contains(t, names, "bash", "subcommands were looked at too")
}

// Requests that wait for each other would take hundreds of times the network's
// latency. The server answers late, so that what waits can be told exactly.
func TestEveryPlanReadsManyNodesAtATime(t *testing.T) {
	t.Parallel()
	inFakeTime(t, manyLocks(500), func(t *testing.T, b *bench) {
		b.run(exit.OK, "apply", "-auto-approve")
		b.server.ResetCounts()
		b.run(exit.OK, "plan", "-detailed-exitcode")
		counts := b.server.Counts()
		require.Greater(t, counts.Total, 500, "every node was read")
		require.Less(t, counts.Total, 3*500+50, "%v", counts.ByOp)
		require.Less(t, counts.RoundTrips, 100, "%v", counts.ByOp)

		b.run(exit.Failed, "plan", "-refresh=false")
	}, zktest.WithLatency(2*time.Millisecond))
}

// Somebody uses every lock and goes. A container would be gone with the last of
// them, and a node that is not there costs the next one its place and its numbers.
func TestALockHasNoChildrenOfOursAndStays(t *testing.T) {
	b := newBench(t, `namespace "pay" {
  acl = acl.open
  mutex "ledger" {}
  rwlock "catalog" {}
  semaphore "pool" { permits = 2 }
  election "leader" {}
}
`, zktest.WithReapInterval(20*time.Millisecond))
	b.run(exit.OK, "apply", "-auto-approve")
	declared := b.server.Dump()
	for _, life := range []string{" container", " ttl", " ephemeral"} {
		require.NotContains(t, declared, life)
	}
	children := func(path string) []string {
		n, ok := b.server.Get(path)
		require.True(t, ok, path)
		return n.Children
	}
	require.Equal(t, []string{"catalog", "leader", "ledger", "pool"}, children("/t/pay"))
	for _, lock := range []string{"catalog", "leader", "ledger", "pool/leases", "pool/locks"} {
		require.Empty(t, children("/t/pay/"+lock))
	}
	require.Equal(t, []string{"leases", "locks"}, children("/t/pay/pool"), "Curator's semaphore has these two")

	c := dialTest(t, b.server, "")
	for _, take := range []func() (*recipes.Lease, error){
		func() (*recipes.Lease, error) { return c.Mutex("/t/pay/ledger").Lock(t.Context()) },
		func() (*recipes.Lease, error) { return c.RWMutex("/t/pay/catalog").RLock(t.Context()) },
		func() (*recipes.Lease, error) { return c.Semaphore("/t/pay/pool").Acquire(t.Context(), 2) },
	} {
		l, err := take()
		require.NoError(t, err)
		require.NoError(t, l.Unlock(t.Context()))
	}
	leads, err := c.Election("/t/pay/leader").Campaign(t.Context())
	require.NoError(t, err)
	require.NoError(t, leads.Unlock(t.Context()))
	_ = c.Close() // everything is given back; that the servers were slow to confirm it changes nothing
	awaitReaper(t, b)
	require.Equal(t, declared, b.server.Dump())
}

// awaitReaper returns when the server has removed a container made now, and with
// it whatever else was to be removed.
func awaitReaper(t *testing.T, b *bench) {
	conn, _, err := zk.Connect([]string{b.server.Addr()}, 40*time.Second, zk.WithLogInfo(false))
	require.NoError(t, err)
	defer conn.Close()
	_, err = conn.CreateContainer("/container", nil, zk.FlagContainer, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	_, err = conn.Create("/container/child", nil, 0, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	_, _, gone, err := conn.ExistsW("/container")
	require.NoError(t, err)
	require.NoError(t, conn.Delete("/container/child", -1))
	select {
	case e := <-gone:
		require.Equal(t, zk.EventNodeDeleted, e.Type)
	case <-time.After(hanging):
		require.Fail(t, "nothing is reaped")
	}
}
