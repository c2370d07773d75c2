package recipes

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// What tests in real time share. A machine may run none of their goroutines, or a server none of its threads, for
// seconds: nothing may depend on that.

// patience bounds what must happen some time; nothing is proven by its passing.
const patience = 5 * time.Minute

// noneLeft requires that the goroutines there are end, except those that opts ignore. (goleak allows them 0.4 s.)
func noneLeft(t *testing.T, opts ...goleak.Option) {
	t.Helper()
	err := goleak.Find(opts...)
	for deadline := time.Now().Add(patience); err != nil && time.Now().Before(deadline); {
		err = goleak.Find(opts...)
	}
	require.NoError(t, err)
}

// closed closes a client, and requires that its server has confirmed it, unless that took longer than Close waits.
func closed(t *testing.T, c *Client) {
	t.Helper()
	began := time.Now()
	if err := c.Close(); time.Since(began) < politely {
		require.NoError(t, err)
	}
}

// refused requires that no session is to be had, and that Dial says why. What it says is of the last attempt, which may
// be one that had no time: then a second one has more.
func refused(t *testing.T, cfg Config, why string) {
	t.Helper()
	for cfg.ConnectTimeout = time.Second; ; cfg.ConnectTimeout *= 2 {
		c, err := Dial(t.Context(), cfg)
		if err == nil {
			_ = c.Close()
		}
		require.ErrorIs(t, err, ErrUnreachable)
		if strings.Contains(err.Error(), why) {
			t.Log(err)
			return
		}
		require.Less(t, cfg.ConnectTimeout, time.Minute, "want %q: %v", why, err)
	}
}
