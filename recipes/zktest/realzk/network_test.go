//go:build linux

package realzk_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/zktest/realzk"
)

// A cut in one direction, a partition, and a server that comes back to one.
func TestANetworkLosesWhatItIsToldToLose(t *testing.T) {
	n := realzk.InNetwork(t)
	if n == nil {
		return
	}
	s := n.StartEnsemble(1, realzk.Options{TickTime: 500 * time.Millisecond})[0]
	// A server that is slower than a word's time passes for one that cannot be reached: no false alarm.
	answers := func() bool { return s.Word("ruok") == "imok" }
	answersAgain := func() { saying(t, s, "ruok", "imok") }
	answersAgain()
	for name, cut := range map[string]func(bool){
		"to":   func(lost bool) { n.Lose(nil, s, lost) },
		"from": func(lost bool) { n.Lose(s, nil, lost) },
		"both": func(lost bool) { n.Part(s, nil, lost) },
	} {
		cut(true)
		require.False(t, answers(), name)
		cut(false)
		answersAgain()
	}
	s.Restart()
	answersAgain()
	n.Lose(nil, s, true)
	before := strings.Count(s.Log(), "binding to port")
	s.RestartWithoutWaiting()
	for strings.Count(s.Log(), "binding to port") == before {
		require.True(t, s.Running())
		runtime.Gosched()
	}
	require.False(t, answers(), "a cut outlives the server")
	n.Lose(nil, s, false)
	answersAgain()
}

func TestAVoidRunIsMadeAgain(t *testing.T) {
	const runs = "LOCKTREE_TEST_VOID_RUNS"
	if os.Getenv(runs) == "" {
		t.Setenv(runs, filepath.Join(t.TempDir(), "runs"))
	}
	n := realzk.InNetwork(t)
	before, _ := os.ReadFile(os.Getenv(runs))
	if n == nil {
		require.Len(t, before, 3, "two void runs, and one that counts")
		return
	}
	require.NoError(t, os.WriteFile(os.Getenv(runs), append(before, '.'), 0o600))
	if len(before) < 2 {
		t.Fatal(realzk.Void)
	}
}
