//go:build linux

package conformance_test

import (
	"strings"
	"testing"
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
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(5 * time.Minute); !strings.Contains(servers[0].Word("srvr"), "Mode: read-only"); {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("no read-only mode within five minutes of losing the quorum: %s", servers[0].Word("srvr"))
		}
	}
	conformance.ReadOnly(t, conformance.TCP(servers[0].Addr))
}

func TestAnEnsembleInMemoryDoesSoToo(t *testing.T) {
	s := zktest.Start(t)
	follower, err := s.Replica().Listen("127.0.0.1:0")
	require.NoError(t, err)
	conformance.Moved(t, conformance.TCP(s.Addr()), conformance.TCP(follower))
	s.SetReadOnly(true)
	conformance.ReadOnly(t, conformance.TCP(s.Addr()))
}
