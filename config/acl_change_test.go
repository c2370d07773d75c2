package config_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHowAnAccessListChangesIsDeclaredOnLocks(t *testing.T) {
	c := mustLoad(t, `
acl "all" {
  allow_world   = true
  allow_lockout = true
  grant {
    to    = [principal.everybody]
    allow = "admin"
  }
}
principal "everybody" {
  scheme = "world"
}
mutex "a" {
  acl = acl.all
  lifecycle {
    acl_change = "replace"
  }
}
mutex "b" {
  acl = acl.all
  lifecycle {
    acl_change = "in_place"
  }
}
semaphore "c" {
  acl     = acl.all
  permits = 2
}
`)
	got := map[string]bool{}
	for _, n := range c.Ensembles[0].Tree.Nodes {
		got[string(n.Addr)] = n.ReplaceForACL
	}
	require.Equal(t, map[string]bool{"mutex.a": true, "mutex.b": false, "semaphore.c": false}, got)
}
