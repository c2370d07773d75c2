package apply_test

import (
	"fmt"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/plan/record"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/direct"
	"github.com/locktree/locktree/recipes/kind"
)

func (s *site) dumpNode(session *direct.Session, path string, out map[string]string) {
	s.t.Helper()
	stat, err := session.Exists(s.t.Context(), path)
	require.NoError(s.t, err)
	if stat == nil {
		return
	}
	data, _, err := session.Get(s.t.Context(), path)
	require.NoError(s.t, err)
	acl, _, err := session.GetACL(s.t.Context(), path)
	require.NoError(s.t, err)
	out[path] = fmt.Sprintf("czxid %d version %d aversion %d %s %v", stat.Czxid, stat.Version, stat.Aversion, data, acl)
	names, _, err := session.Children(s.t.Context(), path)
	require.NoError(s.t, err)
	for _, name := range names {
		child := kind.JoinPath(path, name)
		// Contenders of the apply lock come and go with a refused apply.
		if !strings.HasPrefix(child, record.LockPath(s.root, stack)+"/") {
			s.dumpNode(session, child, out)
		}
	}
}

// unchangedBut is unchanged except below one path.
func (s *site) unchangedBut(c *recipes.Client, except string, f func()) {
	s.t.Helper()
	strip := func(d map[string]string) map[string]string {
		for path := range d {
			if strings.HasPrefix(path, except) {
				delete(d, path)
			}
		}
		return d
	}
	before := strip(s.dump(c))
	f()
	require.Equal(s.t, before, strip(s.dump(c)), "something was written")
}
