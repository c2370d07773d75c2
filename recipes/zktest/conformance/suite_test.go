//go:build linux

package conformance_test

import (
	"testing"

	"github.com/locktree/locktree/recipes/zktest"
	"github.com/locktree/locktree/recipes/zktest/conformance"
	"github.com/locktree/locktree/recipes/zktest/realzk"
)

// extended is the configuration both servers are given, so that TTL nodes and
// quotas have something to be compared by.
var (
	extended     = []zktest.Option{zktest.WithExtendedTypes(), zktest.WithQuotaEnforcement()}
	extendedReal = realzk.Options{Config: map[string]string{
		"extendedTypesEnabled": "true", "enforceQuota": "true", "forceSync": "no",
	}}
)

func TestRandomSequencesAreAnsweredAsByZooKeeper(t *testing.T) {
	s := realzk.Start(t, extendedReal)
	conformance.Random(t, conformance.TCP(s.Addr), extended...)
}
