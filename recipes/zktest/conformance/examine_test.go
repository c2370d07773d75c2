//go:build linux

package conformance

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/zktest"
	"github.com/locktree/locktree/recipes/zktest/realzk"
)

// examined requires that a server passes, and that nothing is left there.
func examined(t *testing.T, dial Dial, root string) *Examination {
	t.Helper()
	x, err := Examine(t.Context(), dial, root)
	require.NoError(t, err)
	require.Len(t, x.Results, len(checks()))
	for _, r := range x.Results {
		require.NoError(t, r.Err, r.Name)
		require.Empty(t, r.Difference, r.Name)
		require.Positive(t, r.Compared, r.Name)
	}
	h, err := newHand(dial)
	require.NoError(t, err)
	defer h.end()
	names, err := h.list(root)
	require.NoError(t, err)
	require.Empty(t, names)
	return x
}

func TestTheRealServerIsExaminedBesideOthersThatWrite(t *testing.T) {
	t.Parallel()
	s := realzk.Start(t, realzk.Options{Config: map[string]string{"forceSync": "no"}})
	dial := TCP(s.Addr)
	h, err := newHand(dial)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	busy := make(chan error, 1)
	go func() {
		var err error
		for ctx.Err() == nil && err == nil {
			if err = h.do(create(0, "/busy", 0)); err == nil {
				err = h.do(del(0, "/busy"))
			}
		}
		h.end()
		busy <- err
	}()
	x := examined(t, dial, NewRoot("/"))
	cancel()
	require.NoError(t, <-busy)
	require.Equal(t, "Apache ZooKeeper", x.Kind)
	require.Contains(t, x.Version, "Zookeeper version: ")
}

// A server that is not what it should be is told apart, and the checks go on.
func TestADifferenceIsShownWithWhatLedThere(t *testing.T) {
	s := zktest.Start(t)
	s.Inject(zktest.On("sync"), zktest.Fail(zktest.CodeSystemError))
	x, err := Examine(t.Context(), pipe(s), "/own")
	require.NoError(t, err)
	differ := 0
	for _, r := range x.Results {
		if r.Differs() {
			differ++
			require.Equal(t, "versions and refusals", r.Name)
			require.Contains(t, r.Difference, "sync")
		}
	}
	require.Equal(t, 1, differ)
	_, there := s.Get("/own")
	require.False(t, there)
}

func TestNothingIsExaminedWhereANodeIsAlready(t *testing.T) {
	s := zktest.Start(t)
	require.NoError(t, s.Create("/own/theirs", nil))
	_, err := Examine(t.Context(), pipe(s), "/own")
	require.ErrorContains(t, err, "NodeExists")
	_, there := s.Get("/own/theirs")
	require.True(t, there)
}

func TestAnExaminationThatIsInterruptedLeavesNothing(t *testing.T) {
	s := zktest.Start(t)
	ctx, cancel := context.WithCancel(t.Context())
	s.Inject(func(r zktest.Request) bool {
		if strings.Contains(r.Path, "/c03") {
			cancel()
		}
		return false
	}, zktest.Fault{})
	_, err := Examine(ctx, pipe(s), "/own")
	require.ErrorIs(t, err, context.Canceled)
	_, there := s.Get("/own")
	require.False(t, there)
}
