//go:build linux

package realzk_test

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/zktest/realzk"
)

func TestAServerKeepsItsDataThroughACrash(t *testing.T) {
	s := realzk.Start(t, realzk.Options{})
	require.Contains(t, s.Word("srvr"), "3.8.0")
	c, _, err := zk.Connect([]string{s.Addr}, 10*time.Second, zk.WithLogInfo(false))
	require.NoError(t, err)
	defer c.Close()
	_, err = c.Create("/a", []byte("x"), 0, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	pid := s.Pid
	s.Kill()
	require.False(t, s.Running())
	require.ErrorIs(t, syscall.Kill(pid, 0), syscall.ESRCH)
	s.Restart()
	require.NotEqual(t, pid, s.Pid)
	c2, _, err := zk.Connect([]string{s.Addr}, 10*time.Second, zk.WithLogInfo(false))
	require.NoError(t, err)
	defer c2.Close()
	data, _, err := c2.Get("/a")
	require.NoError(t, err)
	require.Equal(t, "x", string(data))

	s.Pause()
	done := make(chan error, 1)
	go func() {
		_, err := c2.Sync("/a")
		done <- err
	}()
	select {
	case err := <-done:
		t.Fatalf("a paused server answered: %v", err)
	case <-time.After(300 * time.Millisecond): // there is nothing else to wait for: nothing must happen
	}
	s.Resume()
	require.NoError(t, <-done)
}

func TestAnEnsembleElectsOneLeader(t *testing.T) {
	leaders := 0
	for _, s := range realzk.StartEnsemble(t, 3, realzk.Options{}) {
		if strings.Contains(s.Word("srvr"), "Mode: leader") {
			leaders++
		}
	}
	require.Equal(t, 1, leaders)
}
