//go:build linux

package realzk_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/zktest/realzk"
)

func TestAKilledServerIsGoneAndComesBackAsAnotherProcess(t *testing.T) {
	s := realzk.Start(t, realzk.Options{})
	saying(t, s, "srvr", "Zookeeper version: 3.")
	pid := s.Pid
	s.Kill()
	require.False(t, s.Running())
	require.ErrorIs(t, syscall.Kill(pid, 0), syscall.ESRCH)
	s.Restart()
	require.NotEqual(t, pid, s.Pid)
}

// saying waits until the answer to a four-letter word contains text: a busy machine may answer too late.
func saying(t *testing.T, s *realzk.Server, word, text string) (answer string) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Minute); !strings.Contains(answer, text); answer = s.Word(word) {
		require.True(t, s.Running(), "the server has ended")
		require.True(t, time.Now().Before(deadline), "%s is answered %q", word, answer)
	}
	return answer
}

// A thread that was awake when its process was told to stop answered one more request.
func TestAPausedServerHasStoppedWhenPauseReturns(t *testing.T) {
	s := realzk.Start(t, realzk.Options{})
	for range 20 {
		s.Pause()
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", s.Pid))
		require.NoError(t, err)
		require.NotEmpty(t, threads)
		for _, thread := range threads {
			stat, err := os.ReadFile(thread)
			require.NoError(t, err)
			_, state, _ := strings.Cut(string(stat), ") ") // after the thread's name
			require.Equal(t, "T", state[:1], "%s", stat)
		}
		s.Resume()
		saying(t, s, "ruok", "imok")
	}
}

// A port found free was given to a client that connected to another server. The server that was to have it, or one restarted on it, found
// its address in use.
func TestAPortFoundFreeIsGivenToNobodyElse(t *testing.T) {
	var low, high int
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	require.NoError(t, err)
	_, err = fmt.Sscan(string(text), &low, &high)
	require.NoError(t, err)
	if low <= 10_000 && high == 1<<16-1 {
		low, high = 0, -1 // this machine leaves no other ports
	}
	found := map[int]bool{}
	for _, port := range append(realzk.FreePorts(t, 50), realzk.FreePorts(t, 50)...) {
		require.False(t, low <= port && port <= high, "the kernel gives %d away", port)
		require.False(t, found[port], "%d was given twice", port)
		found[port] = true
	}
}

// A cut in one direction, a partition, and a server that restarts during a cut.
func TestANetworkLosesWhatItIsToldToLose(t *testing.T) {
	n := realzk.InNetwork(t)
	if n == nil {
		return
	}
	s := n.StartEnsemble(1, realzk.Options{TickTime: 500 * time.Millisecond})[0]
	// A server that is slower than a word's time limit seems unreachable: no false alarm.
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
