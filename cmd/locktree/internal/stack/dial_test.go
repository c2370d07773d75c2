package stack

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/config"
	"github.com/locktree/locktree/recipes"
)

// The environment fills only what the configuration leaves open.
func TestConnectionDefaultsFromTheEnvironment(t *testing.T) {
	l := &Loader{Environ: Environ{"ZOOKEEPER_SESSION=30"}}
	e := &config.Ensemble{Servers: []string{"mine:1"}, Auth: []recipes.Auth{{Scheme: "digest", Credentials: "me:CANARY"}}}
	cfg, err := l.ClientConfig(e)
	require.NoError(t, err)
	require.Equal(t, []string{"mine:1"}, cfg.Servers)
	require.Equal(t, 30*time.Second, cfg.SessionTimeout)
	require.Equal(t, "me:CANARY", string(cfg.Auth[0].Credentials))
	require.NotContains(t, fmt.Sprintf("%v %+v %#v", cfg, cfg, cfg), "CANARY")

	e.SessionTimeout = time.Second
	cfg, err = l.ClientConfig(e)
	require.NoError(t, err)
	require.Equal(t, time.Second, cfg.SessionTimeout)
}

// No setting silently avoids the check of the servers' certificates.
func TestTLSIsVerified(t *testing.T) {
	cfg, err := (&Loader{Environ: Environ{"ZOOKEEPER_TLS_ENABLED=true"}}).ClientConfig(&config.Ensemble{Servers: []string{"zk:1"}})
	require.NoError(t, err)
	secure, err := cfg.GetTLS()
	require.NoError(t, err)
	require.False(t, secure.InsecureSkipVerify)
	require.Nil(t, secure.VerifyConnection)
}

func TestLogIsOffUnlessAskedFor(t *testing.T) {
	logger := func(env ...string) *slog.Logger {
		cfg, err := (&Loader{Environ: env}).ClientConfig(&config.Ensemble{Servers: []string{"zk:1"}})
		require.NoError(t, err)
		return cfg.Logger
	}
	require.Nil(t, logger())
	require.Nil(t, logger("LOCKTREE_LOG=loud"))
	require.True(t, logger("LOCKTREE_LOG=debug").Enabled(t.Context(), slog.LevelDebug))
	require.False(t, logger("LOCKTREE_LOG=warn").Enabled(t.Context(), slog.LevelInfo))
}
