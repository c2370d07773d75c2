package config_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/config"
	"github.com/locktree/locktree/recipes/kind"
)

// A program with no right on a lock deleted it because the namespace granted d.
func TestLockRoleNeverDeletesLocks(t *testing.T) {
	namespace, lock := config.RolePerms("lock")
	require.Zero(t, namespace&(kind.PermCreate|kind.PermDelete|kind.PermAdmin|kind.PermWrite))
	require.Equal(t, "cdr", lock.String())
}
