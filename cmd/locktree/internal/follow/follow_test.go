package follow

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/cmd/locktree/internal/stack"
	"github.com/locktree/locktree/config"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes"
)

// With a connect_timeout of ten minutes the page said for that long that the first look was under way. It gave no reason for a later outage.
func TestThePageNamesTheReasonOfAnOutageSoon(t *testing.T) {
	var asked time.Duration
	s := &source{loader: &stack.Loader{Dial: func(_ context.Context, cfg recipes.Config) (*recipes.Client, error) {
		asked = cfg.ConnectTimeout
		return nil, recipes.ErrUnreachable
	}}}
	for declared, want := range map[time.Duration]time.Duration{0: 0, time.Second: time.Second, 10 * time.Minute: 10 * time.Second} {
		e := &config.Ensemble{Name: "main", Servers: []string{"zk:1"}, ConnectTimeout: declared, Tree: &plan.Tree{Root: "/locks"}}
		target := s.setup(&config.Config{Ensembles: []*config.Ensemble{e}}).Targets[0]
		_, err := target.Dial(t.Context())
		require.ErrorIs(t, err, recipes.ErrUnreachable)
		require.Equal(t, want, asked)
		require.LessOrEqual(t, target.Patience, 20*time.Second)
		require.Equal(t, declared, e.ConnectTimeout)
	}
}

// Each frame is painted over the last one. A frame that is higher than the terminal says what it leaves out.
func TestAFrameFitsTheTerminal(t *testing.T) {
	require.Equal(t, "\x1b[Ha\x1b[K\nb\x1b[K\n\x1b[J", string(repainted([]byte("a\nb\n"), 24)))
	require.Equal(t, "\x1b[H1\x1b[K\n2\x1b[K\nand 3 more lines; -in-use, -owner and -longer show less\x1b[K\n\x1b[J", string(repainted([]byte("1\n2\n3\n4\n5\n"), 4)))
}
