package config_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The defaults that the reference names.
func TestDefaultsOfTheReferenceHold(t *testing.T) {
	c := mustLoad(t, "mutex \"m\" {}\nvariable \"v\" { default = null }\nremoved { from = mutex.x }\noutput \"o\" { value = var.v }\n")
	e := c.Ensembles[0]
	require.Equal(t, "/", e.Root)
	require.True(t, e.Tree.Intent.Removals[0].Destroy)
	require.False(t, c.Outputs[0].Sensitive)
	require.Equal(t, "null", string(c.Outputs[0].Value))
	require.False(t, e.Tree.Nodes[0].AllowLockout)
}
