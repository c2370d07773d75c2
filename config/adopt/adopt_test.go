package adopt_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/config"
	"github.com/locktree/locktree/config/adopt"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes/kind"
)

// A digest without its hash matches no user: writing it would close the node for good.
func TestAMaskedAccessListIsNotWritten(t *testing.T) {
	for id, masked := range map[string]bool{"us:x": true, "us": true, "us:" + strings.Repeat("A", 27) + "=": false} {
		acl := kind.List{{Scheme: "world", ID: "anyone", Perms: kind.PermRead}, {Scheme: "digest", ID: id, Perms: kind.PermAll}}
		made := adopt.Write(&config.Config{}, &config.Ensemble{Root: "/t", Tree: &plan.Tree{}}, []*adopt.Existing{{Path: "/t/a", Kind: kind.Mutex, Params: kind.Mutex.New(), ACL: acl}}, "f")
		text := string(made.Source)
		require.Equal(t, masked, !strings.Contains(text, "acl = acl.f-1"), text)
		require.Equal(t, masked, strings.Contains(text, "# Its access list cannot be written here"), text)
		require.Equal(t, masked, !strings.Contains(text, "digest"+"\""), text)
	}
}

// A list that lets every address in was written without allow_world, so the plan refused it.
func TestAListForEveryAddressIsWrittenAsOneForEverybody(t *testing.T) {
	acl := kind.List{{Scheme: "ip", ID: "0.0.0.0/0", Perms: kind.PermAll}}
	made := adopt.Write(&config.Config{}, &config.Ensemble{Root: "/t", Tree: &plan.Tree{}}, []*adopt.Existing{{Path: "/t/a", Kind: kind.Mutex, Params: kind.Mutex.New(), ACL: acl}}, "f")
	require.Contains(t, string(made.Source), "allow_world = true")
}
