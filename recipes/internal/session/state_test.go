package session

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A session that is lost stays lost, and only a server's grant makes one active.
func TestASessionMakesOnlyLegalMoves(t *testing.T) {
	all := map[string][]string{}
	for from := StateActive; from <= stateAsked; from++ {
		for to := StateActive; to <= stateAsked; to++ {
			s := &Session{client: &Client{}, state: from, changed: make(chan struct{})}
			if s.move(to); s.state != from {
				all[from.String()] = append(all[from.String()], s.state.String())
			}
		}
	}
	require.Equal(t, map[string][]string{
		"asked":   {"active", "lost"},
		"active":  {"suspect", "lost"},
		"suspect": {"active", "lost"},
	}, all)
}
