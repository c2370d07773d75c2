package diff_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/diff"
	"github.com/locktree/locktree/plan/problem"
	"github.com/locktree/locktree/recipes/kind"
)

// mask hides the hashes of digests, as servers do for readers without ADMIN on a node.
func mask(list kind.List) kind.List {
	out := slices.Clone(list)
	for i, a := range out {
		if user, _, ok := strings.Cut(a.ID, ":"); ok && a.Scheme == "digest" {
			out[i].ID = user + ":x"
		}
	}
	return out
}

// masked is a model whose lists are shown to a reader.
func masked(t *testing.T, tree *plan.Tree) *model {
	m := applied(t, tree)
	for _, n := range m.nodes {
		n.acl = mask(n.acl)
	}
	return m
}

// uncompared are the problems that say so.
func uncompared(p *plan.Plan) (out []plan.Problem) {
	for _, q := range p.Problems {
		if q.Summary == "Passwords were not compared" {
			out = append(out, q)
		}
	}
	return out
}

func TestMaskedListsAreComparedBySchemeAndName(t *testing.T) {
	alone := kind.List{admin}
	another, more, stranger := worker, worker, worker
	another.ID = "worker:CCCCCCCCCCCCCCCCCCCCCCCCCCC="
	more.Perms |= kind.PermWrite
	stranger.ID = "stranger:BBBBBBBBBBBBBBBBBBBBBBBBBBB="
	sasl := kind.ACL{Scheme: "sasl", ID: "worker", Perms: worker.Perms}
	for name, c := range map[string]struct {
		to      kind.List
		changes bool
	}{
		"the same":                    {kind.List{worker, admin}, false},
		"another password":            {kind.List{admin, another}, false},
		"other permissions":           {kind.List{admin, more}, true},
		"another name":                {kind.List{admin, stranger}, true},
		"one entry fewer":             {alone, true},
		"one entry more":              {kind.List{admin, worker, stranger}, true},
		"a second password":           {kind.List{admin, worker, another}, true},
		"the name in another scheme":  {kind.List{admin, sasl}, true},
		"an entry without a password": {kind.List{admin, worker, sasl}, true},
	} {
		t.Run(name, func(t *testing.T) {
			tree := base()
			tree.Nodes[3].ACL = kind.List{admin, worker}
			m := masked(t, tree)
			tree.Nodes[3].ACL = c.to
			p := replan(t, m, tree)
			require.Equal(t, c.changes, slices.Contains(actions(p), "~ /locks/solo"), "%s", actions(p))
			require.Empty(t, p.Drifted)
			require.Len(t, uncompared(p), 1)
		})
	}
}

// The plan says it once, for every identity, and where an administrator would see more.
func TestAPlanSaysOnceForWhomPasswordsWereNotCompared(t *testing.T) {
	require.Empty(t, uncompared(replan(t, applied(t, base()), base())), "an administrator is shown all hashes")
	m := masked(t, base())
	p := replan(t, m, base())
	said := uncompared(p)
	require.Len(t, said, 1)
	require.Equal(t, problem.Warning, said[0].Severity)
	require.Contains(t, said[0].Detail, "hides the password hashes of digest:provisioner, digest:worker from this connection")
	require.Contains(t, said[0].Detail, "compared these entries by scheme and name")
	require.NotContains(t, said[0].Detail, "AAAA")
	require.Empty(t, uncompared(diff.Compare(m.read(t, testRoot, testStack), base(), plan.Options{Destroy: true, Identities: us})), "a destroy compares nothing")
}

// The list of a node is hidden from a reader, and its data is not: a change by hand of that is still drift.
func TestAReaderSeesThatDataWasChangedByHand(t *testing.T) {
	m := masked(t, base())
	pool := payloadAt(t, m, "/locks/pay/pool")
	tree := base()
	set("permits", 9)(tree.Nodes[2])
	pool.Params = tree.Nodes[2].Payload.Params
	data, err := pool.Encode()
	require.NoError(t, err)
	m.nodes["/locks/pay/pool"].data = data
	p := replan(t, m, base())
	require.Equal(t, []string{"~ /locks/pay/pool"}, actions(p))
	require.Len(t, p.Drifted, 1)
	require.Equal(t, "/locks/pay/pool", p.Drifted[0].Path)
	require.True(t, p.Changes[2].Drift)
}
