package plan_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes/kind"
)

func TestUsersOfAMovedLockAreSentToItsNewPath(t *testing.T) {
	m := applied(t, base())
	tree := base()
	tree.Nodes[3] = declare("/locks/boss", kind.Election, addr("namespace.x.election.locks_solo"))
	m.apply(t, replan(t, m, tree))
	live := m.read(t, testRoot, testStack)
	live.Find("/locks/solo").Live.Usage = &kind.Usage{Holders: []kind.Party{{Name: "latch-0000000001", ID: "host-a"}}}
	p := plan.Diff(live, tree, plan.Options{Identities: us})
	require.Equal(t, []string{"warning in_use"}, codes(p))
	require.Contains(t, p.Problems[0].Detail, "has moved to /locks/boss")
	require.Contains(t, p.Problems[0].Detail, "Point these programs at the new path")
}

// A destroy said nothing of who stands in what a move left, and could not break it.
func TestDestroyOfAMovedLockThatIsStillInUseSaysSo(t *testing.T) {
	m := applied(t, base())
	tree := base()
	tree.Nodes[3] = declare("/locks/boss", kind.Election, addr("namespace.x.election.locks_solo"))
	m.apply(t, replan(t, m, tree))
	live := m.read(t, testRoot, testStack)
	live.Find("/locks/solo").Live.Usage = &kind.Usage{Holders: []kind.Party{{Name: "latch-0000000001", ID: "host-a"}}}
	p := plan.Diff(live, tree, plan.Options{Identities: us, Destroy: true})
	require.Equal(t, []string{"warning in_use"}, codes(p))
	require.Len(t, p.InUse(), 1)

	p = plan.Diff(live, tree, plan.Options{Identities: us, Destroy: true, Drain: time.Minute})
	require.Equal(t, []string{"warning in_use"}, codes(p))
	require.Contains(t, p.Problems[0].Detail, "waits 60 seconds")
	require.NotContains(t, p.Problems[0].Detail, "lets nobody else in", "who is in there does not read what it says")

	p = plan.Diff(live, tree, plan.Options{Identities: us, Destroy: true, ForceBreak: []string{"namespace.x.election.locks_solo"}})
	require.Equal(t, []string{"warning force_break"}, codes(p))
	require.Contains(t, p.Problems[0].Detail, "host-a")
}
