//go:build linux

package ensemble_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/zktest/effort"
	"github.com/locktree/locktree/recipes/zktest/realzk"
)

// What servers say who admit certain schemes only.
func TestRealServersThatEnforceASchemeSayWhatIsMissing(t *testing.T) {
	effort.Proof(t, effort.Raced)
	t.Parallel()
	at := realzk.Start(t, realzk.Options{TickTime: realTick, Config: map[string]string{"enforce.auth.enabled": "true", "enforce.auth.schemes": "digest", "maxSessionTimeout": "60000"}})
	cfg := recipes.Config{Servers: []string{at.Addr}, SessionTimeout: busyTimeout, ConnectTimeout: busyTimeout}
	c, err := recipes.Dial(t.Context(), cfg)
	require.NoError(t, err, "they look at the first request")
	defer c.Close()
	s := live(t, c)
	_, _, err = s.Get(t.Context(), "/")
	require.ErrorContains(t, err, "enforce.auth.schemes")
	<-s.Done()
	_, _, err = s.Get(t.Context(), "/")
	require.ErrorIs(t, err, recipes.ErrAuth)
	require.ErrorContains(t, err, "connected as world:anyone")

	cfg.Auth = []recipes.Auth{{Scheme: "digest", Credentials: "a:b"}}
	_, _, err = live(t, dial(t, cfg)).Get(t.Context(), "/")
	require.NoError(t, err)
}

// The scheme ensemble, where servers have it and where not.
func TestRealServersOfAnotherNameAreNotTalkedTo(t *testing.T) {
	effort.Proof(t, effort.Raced)
	t.Parallel()
	stock := realzk.Start(t, realzk.Options{TickTime: realTick, Config: map[string]string{"maxSessionTimeout": "60000"}})
	with := realzk.Start(t, realzk.Options{TickTime: realTick, Config: map[string]string{"maxSessionTimeout": "60000"}, Properties: map[string]string{
		"zookeeper.authProvider.ensemble": "org.apache.zookeeper.server.auth.EnsembleAuthenticationProvider", "zookeeper.ensembleAuthName": "prod,prod2"}})
	cfg := func(addr, name string) recipes.Config {
		return recipes.Config{Servers: []string{addr}, SessionTimeout: busyTimeout, ConnectTimeout: busyTimeout, Auth: []recipes.Auth{{Scheme: "digest", Credentials: "a:b"}, {Scheme: "ensemble", Credentials: recipes.Secret(name)}}}
	}
	c := dial(t, cfg(with.Addr, "prod2"))
	s := live(t, c)
	_, _, err := s.Get(t.Context(), "/")
	require.NoError(t, err)
	require.Len(t, c.Identities(), 2, "it is no identity")

	_, err = recipes.Dial(t.Context(), cfg(with.Addr, "test"))
	require.ErrorIs(t, err, recipes.ErrUnreachable)
	require.ErrorContains(t, err, `it was asked whether it belongs to ensemble "test"`)

	_, err = recipes.Dial(t.Context(), cfg(stock.Addr, "prod"))
	require.ErrorIs(t, err, recipes.ErrAuth)
	require.ErrorContains(t, err, "do not know the scheme ensemble")
}
