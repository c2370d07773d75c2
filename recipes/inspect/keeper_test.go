package inspect_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/inspect"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
)

func TestConditionsOfAKeeperAreItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Start(t, zktest.WithKeeper())
		require.NoError(t, srv.Provision("/m", &kind.Payload{Params: kind.Mutex.New()}))
		cfg := recipes.Config{Servers: []string{"zk"}, Dialer: srv.DialContext, SessionTimeout: 12 * time.Second, ReadOnly: true}
		c, err := recipes.Dial(t.Context(), cfg)
		require.NoError(t, err)
		defer c.Close()
		found, err := inspect.Check(t.Context(), c, "/m")
		require.NoError(t, err)
		verdicts := map[string]inspect.Verdict{}
		for _, k := range found {
			verdicts[k.Name] = k.Verdict
			require.NotContains(t, k.Next, "4lw.commands.whitelist")
		}
		require.Equal(t, map[string]inspect.Verdict{
			"server": inspect.VerdictUnsure, "session timeout": inspect.VerdictHolds, "access for everybody": inspect.VerdictUnsure,
			"clock": inspect.VerdictHolds, "access /m": inspect.VerdictHolds,
		}, verdicts)
		require.Contains(t, found[0].What, "ClickHouse Keeper, v24.8")
		require.Contains(t, found[0].Why, inspect.KeeperStop)

		cfg.ReadOnly = false // a holder whose connection nobody can be asked for
		holder, err := recipes.Dial(t.Context(), cfg)
		require.NoError(t, err)
		defer holder.Close()
		x, err := holder.Mutex("/m").Lock(t.Context())
		require.NoError(t, err)
		snap, err := inspect.Look(t.Context(), c, inspect.ScanOptions{Prefix: "/"})
		require.NoError(t, err)
		require.NotEmpty(t, snap.Unasked, "a Keeper's answer to cons does not say where it ends")
		for _, s := range snap.Sessions {
			require.False(t, s.Away)
		}
		for _, k := range snap.Conditions() {
			require.NotContains(t, k.Next, "4lw.commands.whitelist")
			if k.Name == "transaction ids" {
				require.Equal(t, inspect.VerdictHolds, k.Verdict)
			}
		}
		require.NoError(t, x.Unlock(t.Context()))
	})
}
