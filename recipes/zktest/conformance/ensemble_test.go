//go:build linux

package conformance_test

import (
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/zktest"
	"github.com/locktree/locktree/recipes/zktest/conformance"
	"github.com/locktree/locktree/recipes/zktest/effort"
	"github.com/locktree/locktree/recipes/zktest/realzk"
)

func TestARealEnsembleCutsWhatAMovedSessionLeftBehind(t *testing.T) {
	effort.Proof(t, effort.Unraced)
	t.Parallel()
	servers := realzk.StartEnsemble(t, 3, realzk.Options{})
	conformance.Moved(t, conformance.TCP(servers[0].Addr), conformance.TCP(servers[1].Addr))
}

func TestARealServerWithoutAQuorumServesReaders(t *testing.T) {
	effort.Proof(t, effort.Unraced)
	t.Parallel()
	servers := realzk.StartEnsemble(t, 2, realzk.Options{
		Config:     map[string]string{"localSessionsEnabled": "true", "localSessionsUpgradingEnabled": "true"},
		Properties: map[string]string{"readonlymode.enabled": "true"},
	})
	servers[1].Kill()
	for end := time.Now().Add(5 * time.Minute); !strings.Contains(servers[0].Word("srvr"), "Mode: read-only"); time.Sleep(50 * time.Millisecond) {
		require.True(t, time.Now().Before(end), "no read-only mode after losing the quorum: %s", servers[0].Word("srvr"))
	}
	conformance.ReadOnly(t, conformance.TCP(servers[0].Addr))
}

func TestAnEnsembleInMemoryDoesSoToo(t *testing.T) {
	s := zktest.Start(t)
	follower, err := s.Replica().Listen("127.0.0.1:0")
	require.NoError(t, err)
	conformance.Moved(t, conformance.TCP(s.Addr()), conformance.TCP(follower))
	alone := zktest.Start(t)
	alone.SetReadOnly(true)
	conformance.ReadOnly(t, conformance.TCP(alone.Addr()))
	alone.SetReadOnly(false)
	require.Empty(t, alone.Sessions(), "a local session ends with read-only mode")
}

// The places that hold up a create: at the disk, between its reading and its queueing, and on its way to the leader.
const (
	slowDisk   = "org.apache.zookeeper.server.SyncRequestProcessor.flush"
	slowReader = "org.apache.zookeeper.server.ZooKeeperServer.enqueueRequest"
	slowLink   = "org.apache.zookeeper.server.quorum.Learner.request"
)

func at(s *realzk.Server, method string) conformance.Halt {
	return func() (held, release func()) { return s.Halt(method) }
}

func TestTheRealServerAndRequestsOfDeadConnections(t *testing.T) {
	t.Parallel()
	s := realzk.Start(t, realzk.Options{Debug: true, Config: map[string]string{"maxSessionTimeout": "600000"}})
	conformance.Queued(t, conformance.TCP(s.Addr), at(s, slowDisk))
	conformance.Late(t, conformance.TCP(s.Addr), nil, at(s, slowReader))
}

func TestARealEnsembleAndRequestsOfDeadConnections(t *testing.T) {
	effort.Proof(t, effort.Unraced)
	t.Parallel()
	servers := realzk.StartEnsemble(t, 3, realzk.Options{Debug: true})
	followers := slices.DeleteFunc(servers, func(s *realzk.Server) bool { return strings.Contains(s.Word("srvr"), "Mode: leader") })
	old, other := conformance.TCP(followers[0].Addr), conformance.TCP(followers[1].Addr)
	conformance.Refused(t, old, other, at(followers[0], slowLink))
	conformance.Late(t, old, other, at(followers[0], slowLink))
}

func TestTheServerInMemoryAndRequestsOfDeadConnections(t *testing.T) {
	for name, play := range map[string]func(t *testing.T, leader, follower conformance.Dial, at func(zktest.Fault) conformance.Halt){
		"in the pipeline": func(t *testing.T, leader, _ conformance.Dial, at func(zktest.Fault) conformance.Halt) {
			conformance.Queued(t, leader, at(zktest.Hold))
		},
		"in the hands of the reader": func(t *testing.T, leader, _ conformance.Dial, at func(zktest.Fault) conformance.Halt) {
			conformance.Late(t, leader, nil, at(zktest.HoldReader))
		},
		"the session has moved": func(t *testing.T, leader, follower conformance.Dial, at func(zktest.Fault) conformance.Halt) {
			conformance.Refused(t, leader, follower, at(zktest.Hold))
		},
		"the session has moved and is back": func(t *testing.T, leader, follower conformance.Dial, at func(zktest.Fault) conformance.Halt) {
			conformance.Late(t, leader, follower, at(zktest.Hold))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := zktest.Start(t)
				via := func(d func(network, address string, timeout time.Duration) (net.Conn, error)) conformance.Dial {
					return func() (net.Conn, error) { return d("tcp", "zktest", time.Second) }
				}
				play(t, via(s.Dialer()), via(s.Replica().Dialer()), func(f zktest.Fault) conformance.Halt {
					return func() (held, release func()) {
						i := s.Inject(zktest.Once(zktest.On("create")), f)
						return synctest.Wait, i.Release
					}
				})
			})
		})
	}
}
