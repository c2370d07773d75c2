package config_test

import (
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/config"
)

// The block replaced the other one, and the lock could be destroyed.
func TestOverrideOfLifecycleKeepsPreventDestroy(t *testing.T) {
	c, diags := config.LoadFS(fstest.MapFS{
		"main.locktree.hcl":     {Data: []byte(preamble + "mutex \"m\" {\n  lifecycle { prevent_destroy = true }\n}\nmutex \"n\" {}\n")},
		"override.locktree.hcl": {Data: []byte("mutex \"m\" {\n  lifecycle {}\n}\nmutex \"n\" {\n  lifecycle { prevent_destroy = true }\n}\n")},
	}, ".", config.Options{Environ: testEnviron})
	require.False(t, diags.HasErrors(), "%v", diags)
	for _, n := range c.Ensembles[0].Tree.Nodes {
		require.True(t, n.Payload.Protect, n.Path)
	}
}
