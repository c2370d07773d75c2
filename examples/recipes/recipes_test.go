// Package recipes_test runs the programs of this folder the way a reader would: locktree dev's server or a real one,
// locktree apply, then each program.
package recipes_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/zktest"
	"github.com/locktree/locktree/recipes/zktest/realzk"
)

// programs are what must be in each one's output; each program also ends with an error when its lock fails.
var programs = map[string][]string{
	"worker":    {`worker 1 does a job`, `worker 2 does a job`, `worker 3 does a job`, `(?m)^jobs done: 9$`},
	"ratelimit": {`(?m)^50 calls, at most [1-3] at a time, 3 permits declared$`},
	"cache":     {`(?m)^version 10 after 10 renewals, up to 8 of 8 readers at a time, torn: none$`},
	"transfer":  {`(?m)^60 transfers, 3000 in the bank$`},
	"orders":    {`(?m)^400 deliveries, 200 orders charged, 0 of them more than once, 0 late writes refused$`, `(?m)^nodes left behind in ZooKeeper: 0$`},
	"turns":     {`turn 1: program 1\n(.*\n)*turn 10: program 10\n`},
}

func build(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	args := []string{"build", "-o", dir + string(filepath.Separator), "../../cmd/locktree"}
	for name := range programs {
		args = append(args, "./"+name)
	}
	out, err := exec.Command("go", args...).CombinedOutput()
	require.NoError(t, err, string(out))
	return dir
}

// hanging is how long a program may run before it is taken to hang.
const hanging = 3 * time.Minute

// start runs a program until it ends, without what the environment would have it do otherwise. The session of locktree
// outlives a machine that stops for seconds.
func start(t *testing.T, addr, program string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(t.Context(), hanging)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(e string) bool { return strings.HasPrefix(e, "LOCKTREE_") || strings.HasPrefix(e, "ZOOKEEPER_") })
	cmd.Env = append(cmd.Env, "NO_COLOR=1", "ZOOKEEPER_SESSION=40", "ZOOKEEPER_SERVERS="+addr, `LOCKTREE_VAR_servers=["`+addr+`"]`)
	out, err := cmd.CombinedOutput()
	return string(out), errors.Join(err, ctx.Err())
}

func run(t *testing.T, addr, program string, args ...string) string {
	t.Helper()
	out, err := start(t, addr, program, args...)
	require.NoError(t, err, "%s: %s", program, out)
	return out
}

func walk(t *testing.T, bin, addr string) {
	locktree := filepath.Join(bin, "locktree")
	run(t, addr, locktree, "fmt", "-check")
	require.Contains(t, run(t, addr, locktree, "apply", "-auto-approve"), "Apply complete! Resources: 10 added")
	for name, want := range programs {
		t.Run(name, func(t *testing.T) {
			out := run(t, addr, filepath.Join(bin, name))
			for _, w := range want {
				require.Regexp(t, regexp.MustCompile(w), out)
			}
		})
	}
	status := run(t, addr, locktree, "status")
	require.Contains(t, status, "9 locks, 0 held, 0 waiting, 0 keys in use.", "a program left something in a queue")
	require.False(t, strings.Contains(status, "deadlock"))
	run(t, addr, locktree, "destroy", "-auto-approve")
}

func TestThePrograms(t *testing.T) {
	bin := build(t)
	t.Run("in-memory server", func(t *testing.T) { walk(t, bin, zktest.Start(t).Addr()) })
	t.Run("Apache ZooKeeper", func(t *testing.T) { walk(t, bin, realzk.Start(t, realzk.Options{}).Addr) })
	t.Run("without their locks", func(t *testing.T) { withoutLocks(t, bin) })
}

// A program whose locks nobody applied says what to do, and does not make them.
func withoutLocks(t *testing.T, bin string) {
	srv := zktest.Start(t)
	for name := range programs {
		out, err := start(t, srv.Addr(), filepath.Join(bin, name))
		require.Error(t, err, name)
		require.Contains(t, out, "declare it and run apply", name)
	}
	_, exists := srv.Get("/recipes")
	require.False(t, exists)
}
