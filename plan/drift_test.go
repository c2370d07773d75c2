package plan_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes/kind"
)

// A plan said that something had changed, and not what.
func TestDriftNamesWhatIsNotAsDeclared(t *testing.T) {
	open := kind.ACL{Scheme: "world", ID: "anyone", Perms: kind.PermRead}
	tree := unlent
	for name, c := range map[string]struct {
		hand   func(*kind.Payload, *mnode)
		config func(*plan.Tree)
		want   []plan.Attribute
	}{
		"a number": {func(p *kind.Payload, _ *mnode) { p.Params.(*kind.SemaphoreParams).Permits = 9 }, nil, []plan.Attribute{{"permits", "3", "9"}}},
		"several": {func(p *kind.Payload, n *mnode) {
			p.Params.(*kind.SemaphoreParams).Permits, p.Protect, p.ChildACL = 9, true, kind.List{open}
			n.acl = kind.List{open}
		}, nil, []plan.Attribute{{"permits", "3", "9"}, {"acl", "[" + kind.List{admin, worker}.String() + "]", "[world:anyone:r]"}, {"contender_acl", "[]", "[world:anyone:r]"}, {"prevent_destroy", "false", "true"}}},
		"beside a change of the configuration": {func(_ *kind.Payload, n *mnode) { n.acl = kind.List{open} }, func(t *plan.Tree) { set("permits", 5)(t.Nodes[2]) },
			[]plan.Attribute{{"permits", "5", "3"}, {"acl", "[" + kind.List{admin, worker}.String() + "]", "[world:anyone:r]"}}},
		"what is declared so by now": {func(p *kind.Payload, _ *mnode) { p.Params.(*kind.SemaphoreParams).Permits = 9 }, func(t *plan.Tree) { set("permits", 9)(t.Nodes[2]) }, nil},
		"what is declared no more":   {func(p *kind.Payload, _ *mnode) { p.Params.(*kind.SemaphoreParams).Permits = 9 }, func(t *plan.Tree) { t.Nodes = append(t.Nodes[:2:2], t.Nodes[3:]...) }, nil},
	} {
		m := applied(t, tree())
		payload := payloadAt(t, m, "/locks/pay/pool")
		c.hand(payload, m.nodes["/locks/pay/pool"])
		m.nodes["/locks/pay/pool"].data, _ = payload.Encode()
		desired := tree()
		if c.config != nil {
			c.config(desired)
		}
		p := replan(t, m, desired)
		require.Len(t, p.Drifted, 1, name)
		require.Equal(t, c.want, p.Drifted[0].Attributes, name)
	}
}

// A node is as it was left by its path, its data and its list, for who has the key.
func TestANodeIsAsLeftByItsSum(t *testing.T) {
	m := applied(t, base())
	live := m.read(t, testRoot, testStack)
	for _, n := range live.Nodes {
		require.True(t, live.Index.Left(n), n.Path)
		other := *n
		other.ACL = n.ACL[:1]
		require.False(t, live.Index.Left(&other), "another list")
		other = *n
		other.Path += "x"
		require.False(t, live.Index.Left(&other), "a copy elsewhere")
		changed := *n.Payload
		other, changed.Protect = *n, !changed.Protect
		other.Payload = &changed
		require.False(t, live.Index.Left(&other), "other data")
		require.False(t, (*plan.Index)(nil).Left(n))
		another := *live.Index
		another.Key = "another"
		require.False(t, another.Left(n))
	}
}
