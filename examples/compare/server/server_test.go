//go:build linux

package server

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// echo starts a server that returns what it receives.
func echo(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(c, c); _ = c.Close() }()
		}
	}()
	return l.Addr().String()
}

func TestADistanceDelaysAndCountsAndLosesNothing(t *testing.T) {
	scope := &Scope{}
	const roundTrip = 20 * time.Millisecond
	d, err := Away(scope, []string{echo(t)}, roundTrip)
	require.NoError(t, err)
	c, err := net.Dial("tcp", d.Addrs[0])
	require.NoError(t, err)
	begin := time.Now()
	sent := make([]byte, 1<<20)
	for i := range sent {
		sent[i] = byte(i * i)
	}
	go func() { _, _ = c.Write(sent) }()
	got := make([]byte, len(sent))
	_, err = io.ReadFull(c, got)
	require.NoError(t, err)
	require.Equal(t, sent, got)
	require.GreaterOrEqual(t, time.Since(begin), roundTrip, "a machine cannot be too fast for this")
	require.EqualValues(t, 2*len(sent), d.Bytes())
	require.Equal(t, []int64{int64(len(sent))}, d.Heard())
	scope.Close()
	_, err = c.Read(got)
	require.Error(t, err, "the relay goes with its scope")
	require.NoError(t, c.Close())
}

func TestAServerThatDoesNotStartSaysWhyAndLeavesNothing(t *testing.T) {
	starters["broken"] = func(s *Scope, _ int) *Server {
		s.Cleanup(func() { delete(starters, "broken") })
		s.Fatalf("port %d is taken", 1)
		return nil
	}
	scope := &Scope{}
	_, err := Start(scope, "broken", 1)
	require.EqualError(t, err, "port 1 is taken")
	require.NotContains(t, starters, "broken", "what it had begun was ended")
	_, err = Start(scope, "nosuch", 1)
	require.EqualError(t, err, `no server is called "nosuch"`)
}

// Otherwise the program that has the port would answer in place of the server.
func TestAServerWhosePortIsTakenDoesNotServe(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = taken.Close() })
	scope := &Scope{}
	_, err = begin(scope, func(s *Scope) *Server {
		newProgram(s, false, "redis-server", "redis-server").startRedis(taken.Addr().String(), nil)
		return nil
	})
	require.ErrorContains(t, err, "redis-server ended instead of serving")
	require.ErrorContains(t, err, "Address already in use")
	scope.Close()
}
