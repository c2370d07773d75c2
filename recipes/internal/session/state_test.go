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

// A link that is dead stays dead, and one that retires does not also leave.
func TestALinkMakesOnlyLegalMoves(t *testing.T) {
	all := map[linkState][]linkState{}
	for from := linkOpen; from <= linkDead; from++ {
		for to := linkOpen; to <= linkDead; to++ {
			if l := (&link{state: from}); l.move(to) {
				require.Equal(t, to, l.state)
				all[from] = append(all[from], to)
			} else {
				require.Equal(t, from, l.state)
			}
		}
	}
	require.Equal(t, map[linkState][]linkState{
		linkOpen:     {linkRetiring, linkLeaving, linkDead},
		linkRetiring: {linkDead},
		linkLeaving:  {linkDead},
	}, all)
}
