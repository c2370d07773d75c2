package session

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/internal/hostile"
)

// refused requires that no session is to be had, and that Dial says why.
func refused(t *testing.T, cfg Config, why string) {
	t.Helper()
	hostile.Refused(t, func(connectTimeout time.Duration) error {
		cfg.ConnectTimeout = connectTimeout
		c, err := Dial(t.Context(), cfg)
		if err == nil {
			_ = c.Close()
		}
		require.ErrorIs(t, err, ErrUnreachable)
		return err
	}, why)
}
