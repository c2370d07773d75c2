package apply_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/apply"
	"github.com/locktree/locktree/apply/checkup"
	"github.com/locktree/locktree/apply/failure"
	"github.com/locktree/locktree/apply/read"
	"github.com/locktree/locktree/plan/record"
	"github.com/locktree/locktree/recipes/kind"
)

// The same names led to another ensemble, and the stack was planned there anew, as if nothing of it were there.
func TestAnEnsembleWithAnotherIDIsRefusedBeforeAnythingElseIsRead(t *testing.T) {
	s, c := provisioned(t)
	want := s.tree(declare("/ledger", kind.Mutex))
	s.apply(c, want)
	mark, ok := s.server.Get(record.ScaffoldPath(s.root))
	require.True(t, ok)
	id := record.MarkedAs(mark.Data)
	require.True(t, record.IsEnsembleID(id), "the first apply draws one: %q", mark.Data)

	pinned := *want
	pinned.EnsembleID = id
	_, err := read.Tree(t.Context(), s.session(c), &pinned)
	require.NoError(t, err)
	s.apply(c, s.tree(declare("/ledger", kind.Mutex), declare("/another", kind.Mutex)))
	again, _ := s.server.Get(record.ScaffoldPath(s.root))
	require.Equal(t, mark.Data, again.Data, "and no later one another")

	other := pinned
	other.EnsembleID = "0123456789abcdef0123456789abcdef"
	s.server.ResetCounts()
	_, err = read.Tree(t.Context(), s.session(c), &other)
	wrong := errorAs[*failure.WrongEnsembleError](t, err)
	require.Equal(t, id, wrong.Got)
	_, err = apply.Begin(t.Context(), c, &other, apply.Options{})
	require.ErrorAs(t, err, &wrong)
	require.ErrorContains(t, err, id)
	_, err = checkup.Stack(t.Context(), c, &other, 10)
	require.ErrorAs(t, err, &wrong)
	require.Equal(t, map[string]int{"getData": 3}, s.server.Counts().ByOp, "the id, by each of them")

	empty := inMemory(t) // where no apply has been
	_, err = read.Tree(t.Context(), empty.session(empty.provisioner()), &pinned)
	require.ErrorAs(t, err, &wrong)
	require.True(t, wrong.Absent)
	require.ErrorContains(t, err, "no apply was here, or its nodes were deleted")
}

// Another program may have made the node of the id.
func TestAnEnsembleThatHasNoIDGetsOneWithTheNextApply(t *testing.T) {
	s, c := provisioned(t)
	want := s.tree(declare("/ledger", kind.Mutex))
	s.apply(c, want)
	path := record.ScaffoldPath(s.root)
	require.NoError(t, s.server.Set(path, nil))
	pinned := *want
	pinned.EnsembleID = "0123456789abcdef0123456789abcdef"
	_, err := read.Tree(t.Context(), s.session(c), &pinned)
	require.ErrorContains(t, err, "another program made it")

	s.apply(c, s.tree(declare("/ledger", kind.Mutex), declare("/another", kind.Mutex)))
	mark, _ := s.server.Get(path)
	require.NotEmpty(t, record.MarkedAs(mark.Data))
	found, err := checkup.Stack(t.Context(), c, want, 10)
	require.NoError(t, err)
	require.Contains(t, found.Locks[0].What, record.MarkedAs(mark.Data))
}

// The list of .locktree is the set of the root, so the plan pins the node into which the id is written.
func TestAnEnsembleOfAdministratorsGetsAnIDToo(t *testing.T) {
	s := inMemory(t)
	access := may([]string{oldKey}, []string{ciKey})
	c := s.as(oldKey)
	s.apply(c, s.administered(access))
	path := record.ScaffoldPath(s.root)
	for _, keys := range [][]string{{oldKey}, {oldKey, newKey}} { // something else, and administrators that are replaced
		require.NoError(t, s.server.Set(path, nil))
		tree := s.administered(may(keys, []string{ciKey}))
		set("description", strings.Join(keys, " "))(tree.Nodes[1])
		s.apply(c, tree)
		mark, _ := s.server.Get(path)
		require.NotEmpty(t, record.MarkedAs(mark.Data))
		require.False(t, s.plan(c, tree).HasChanges())
	}
}
