package examples_test

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/zktest"
)

// programs are the programs of recipes, with the text that each must print. Each also ends with an error when its lock fails.
var programs = map[string][]string{
	"worker":    {`worker 1 does a job`, `worker 2 does a job`, `worker 3 does a job`, `(?m)^jobs done: 9$`},
	"ratelimit": {`(?m)^50 calls, at most [1-3] at a time, 3 permits declared$`},
	"cache":     {`(?m)^version 10 after 10 renewals, up to 8 of 8 readers at a time, torn: none$`},
	"transfer":  {`(?m)^60 transfers, 3000 in the bank$`},
	"orders":    {`(?m)^400 deliveries, 200 orders charged, 0 of them more than once, 0 late writes refused$`, `(?m)^nodes left behind in ZooKeeper: 0$`},
	"turns":     {`turn 1: program 1\n(.*\n)*turn 10: program 10\n`},
}

func TestTheRecipesProgramsPrintWhatTheyPromise(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	args := []string{"build", "-o", dir + string(filepath.Separator)}
	for name := range programs {
		args = append(args, "./recipes/"+name)
	}
	out, err := exec.Command("go", args...).CombinedOutput()
	require.NoError(t, err, string(out))
	run := func(t *testing.T, addr, name string) (string, int) {
		return output(t, exec.Command(filepath.Join(dir, name)), addr)
	}
	onBoth(t, func(t *testing.T, start func() string) {
		addr := start()
		locktree := func(args ...string) string {
			out, code := locktreeAt(t, addr, "recipes", args...)
			require.Zero(t, code, out)
			return out
		}
		require.Contains(t, locktree("apply", "-auto-approve"), "Apply complete! Resources: 10 added")
		for name, want := range programs {
			t.Run(name, func(t *testing.T) {
				out, code := run(t, addr, name)
				require.Zero(t, code, out)
				for _, w := range want {
					require.Regexp(t, w, out)
				}
			})
		}
		status := locktree("status")
		require.Contains(t, status, "9 locks, 0 held, 0 waiting, 0 keys in use.", "a program left something in a queue")
		require.NotContains(t, status, "deadlock")
		locktree("destroy", "-auto-approve")
	})
	// A program whose locks were not applied says what to do, and does not create them.
	t.Run("without their locks", func(t *testing.T) {
		srv := zktest.Start(t)
		for name := range programs {
			out, code := run(t, srv.Addr(), name)
			require.NotZero(t, code, name)
			require.Contains(t, out, "declare it and run apply", name)
		}
		_, exists := srv.Get("/recipes")
		require.False(t, exists)
	})
}
