//go:build linux

package ensemble_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/internal/hostile"
)

// refused requires that no session is to be had, and that Dial says why.
func refused(t *testing.T, cfg recipes.Config, why string) {
	t.Helper()
	hostile.Refused(t, func(connectTimeout time.Duration) error {
		cfg.ConnectTimeout = connectTimeout
		c, err := recipes.Dial(t.Context(), cfg)
		if err == nil {
			_ = c.Close()
		}
		require.ErrorIs(t, err, recipes.ErrUnreachable)
		return err
	}, why)
}
