package recipes_test

import (
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/zktest"
)

// What Close reports, and logs, is a server that does not confirm, and how long that was waited for.
func TestCloseNamesOnlyAServerThatDoesNotConfirm(t *testing.T) {
	for name, test := range map[string]struct {
		held   bool
		waited string // "": the server confirms
	}{
		"confirmed":                         {},
		"something held, and confirmed":     {held: true},
		"nothing held, and not confirmed":   {waited: "1s"},
		"something held, and not confirmed": {held: true, waited: "12s"},
	} {
		runInLab(t, name, func(t *testing.T, l *lab) {
			var warnings atomic.Int32
			c := l.Client("a", func(cfg *recipes.Config) {
				cfg.Logger = slog.New(handler(func(line slog.Record) {
					if line.Level >= slog.LevelWarn {
						warnings.Add(1)
					}
				}))
			})
			if test.held {
				l.Lock(c.Mutex(l.Mutex()).Lock)
			}
			if test.waited == "" {
				require.NoError(t, c.Close())
				require.Zero(t, warnings.Load())
				return
			}
			l.Srv.Inject(zktest.On("closeSession"), zktest.DropRequest)
			err := c.Close()
			require.ErrorContains(t, err, "zk:2181: ")
			require.ErrorContains(t, err, "did not confirm the end of the session within "+test.waited+")")
			require.Equal(t, 1, strings.Count(err.Error(), "2181"))
			require.EqualValues(t, 1, warnings.Load())
		})
	}
}
