package apply_test

import (
	"slices"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/apply"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
)

// estate is a stack in which everything is that has an access list: the tool's own nodes, namespaces, locks with
// and without structural children, and the note that a move left.
func (s *site) estate(a *plan.Access) *plan.Tree {
	tree := s.tree(
		declare("/pay", kind.Namespace), declare("/pay/ledger", kind.Mutex),
		declare("/pay/pool", kind.Semaphore, set("permits", 3)), declare("/bills", kind.Mutex),
	)
	for _, n := range tree.Nodes {
		n.ACL = a.List()
		if !n.Kind().Container {
			n.ACL, n.Payload.ChildACL = append(a.List(), worker), append(a.List(), crew)
		}
	}
	tree.Intent.Access = a
	tree.Intent.PathMoves = []plan.PathMove{{From: s.root + "/invoices", To: s.root + "/bills"}}
	return tree
}

// settle makes an estate, its note included.
func (s *site) settle(a *plan.Access, keys ...string) {
	s.t.Helper()
	first := s.estate(a)
	first.Intent.PathMoves = nil
	for _, n := range first.Nodes {
		if n.Path == s.root+"/bills" {
			n.Path = s.root + "/invoices"
		}
	}
	slices.SortFunc(first.Nodes, func(a, b *plan.Node) int { return len(a.Path) - len(b.Path) })
	c := s.as(keys...)
	s.apply(c, first)
	s.apply(c, s.estate(a))
}

// rotations are the steps in which an identity is replaced: who applies, who carries on when they died at any
// write, and between what.
var rotations = map[string]struct {
	before, after []string // administrators
	by            []string // credentials presented
	survivors     [][]string
}{
	"the new one beside the old one":              {[]string{oldKey}, []string{oldKey, newKey}, []string{oldKey, newKey}, [][]string{{oldKey}, {oldKey, newKey}}},
	"the new one beside it, by the old one alone": {[]string{oldKey}, []string{oldKey, newKey}, []string{oldKey}, [][]string{{oldKey}, {oldKey, newKey}}},
	"the old one goes":                            {[]string{oldKey, newKey}, []string{newKey}, []string{newKey}, [][]string{{newKey}, {oldKey, newKey}}},
	"in one step":                                 {[]string{oldKey}, []string{newKey}, []string{oldKey, newKey}, [][]string{{oldKey, newKey}}},
}

// The program that rotates dies, or only a reply is lost, at every write. Whoever is said to carry on does, a program's
// lock is held through all of it, and a reader can plan at any moment.
func TestCrashAtEveryWriteOfARotation(t *testing.T) {
	const least = 14 // lock, transaction, the lists of ten nodes at least, journal, unlock
	i := 0
	for name, r := range rotations {
		atEveryWrite(t, name, &i, least, func(t *testing.T, k int, fault zktest.Fault, dies bool) (struck bool) {
			for _, survivor := range r.survivors {
				synctest.Test(t, func(t *testing.T) {
					struck = inMemory(t).strikeRotation(r.before, r.after, r.by, survivor, k, fault, dies)
				})
			}
			return struck
		})
	}
}

func (s *site) strikeRotation(before, after, by, survivor []string, k int, fault zktest.Fault, dies bool) bool {
	t := s.t
	readers := []string{ciKey}
	s.settle(may(before, readers), before...)
	program := s.dial("worker:w")
	lease, err := program.Mutex(s.root + "/pay/ledger").Lock(t.Context())
	require.NoError(t, err)

	tree := s.estate(may(after, readers))
	hit, err := s.runAsStruck(s.as(by...), s.plan(s.as(by...), tree), k, fault, dies, nil)
	if !dies || !hit {
		require.NoError(t, err)
	}

	s.somebodyCanDoEverything(before, after)
	ci := s.as(ciKey)
	live, err := apply.Read(t.Context(), s.session(ci), tree)
	require.NoError(t, err, "a reader plans at any moment")
	require.Empty(t, live.Unreadable)
	require.NoError(t, lease.Verify(t.Context()), "the program was disturbed")

	c := s.as(survivor...)
	p := s.plan(c, tree)
	require.True(t, p.Applyable(), "%s", p)
	_, err = executor(c).Run(t.Context(), p)
	require.NoError(t, err)
	s.arrived(tree, after)
	require.NoError(t, lease.Unlock(t.Context()))
	_, err = program.Mutex(s.root + "/bills").TryLock(t.Context())
	require.NoError(t, err)
	return hit
}

// somebodyCanDoEverything asserts that one identity alone has all rights on every node of the stack, so that it can
// carry on, or go back.
func (s *site) somebodyCanDoEverything(before, after []string) {
	s.t.Helper()
	lacks := map[string]string{}
	for _, key := range append(slices.Clone(before), after...) {
		who := allOf(key)
		for path, list := range s.everyList() {
			if !slices.ContainsFunc(list, func(a kind.ACL) bool { return a.ID == who.ID && a.Perms == kind.PermAll }) {
				lacks[key] += " " + path
			}
		}
		if lacks[key] == "" {
			return
		}
	}
	require.Fail(s.t, "nobody alone can do everything", "%v", lacks)
}

// everyList has the lists of all nodes below the root and of it, but for contenders: as the server has them.
func (s *site) everyList() map[string][]kind.ACL {
	out := map[string][]kind.ACL{}
	var walk func(string)
	walk = func(path string) {
		n, ok := s.server.Get(path)
		if !ok || n.Stat.EphemeralOwner != 0 {
			return
		}
		for _, a := range n.ACL {
			out[path] = append(out[path], kind.ACL{Scheme: a.Scheme, ID: a.ID, Perms: kind.Perm(a.Perms)})
		}
		for _, name := range n.Children {
			walk(kind.JoinPath(path, name))
		}
	}
	walk(s.root)
	return out
}

// arrived asserts that everybody who is declared can plan, that nothing is left to do, and that nobody else is in any list.
func (s *site) arrived(tree *plan.Tree, admins []string) {
	s.t.Helper()
	for _, keys := range append([]string{ciKey}, admins...) {
		p := s.plan(s.as(keys), tree)
		require.False(s.t, p.HasChanges(), "%s: %s %+v", keys, p, p.Access)
		require.Empty(s.t, p.Resumes)
		require.Empty(s.t, p.Drifted)
	}
	known := append(tree.Intent.Access.List(), worker)
	for path, list := range s.everyList() {
		for _, a := range list {
			require.True(s.t, slices.ContainsFunc(known, func(b kind.ACL) bool { return a.ID == b.ID && a.Perms&^b.Perms == 0 }), "%s: %s", path, a)
		}
	}
}

// On Apache ZooKeeper the program ends at each list that it sets, one after the other: its connection is closed in the middle.
func rotationDies(t *testing.T, s *site) {
	readers := []string{ciKey}
	s.settle(may([]string{oldKey}, readers), oldKey)
	after := s.estate(may([]string{newKey}, readers))
	died := 0
	for {
		c := s.as(oldKey, newKey)
		p := s.plan(c, after)
		if !p.HasChanges() {
			break
		}
		x := executor(c)
		lists := 0
		x.Events = func(e apply.Event) {
			if _, ok := e.(apply.ACLApplied); ok && lists == 0 {
				lists++
				_ = c.Close()
			}
		}
		_, err := x.Run(t.Context(), p)
		if lists > 0 && err != nil {
			died++
		}
		_, err = apply.Read(t.Context(), s.session(s.as(ciKey)), after)
		require.NoError(t, err, "a reader plans at any moment")
	}
	require.GreaterOrEqual(t, died, 8, "each list but the last was an end")
	for _, keys := range []string{ciKey, newKey} {
		require.False(t, s.plan(s.as(keys), after).HasChanges())
	}
	_, err := apply.Read(t.Context(), s.session(s.as(oldKey)), after)
	require.Error(t, err, "the old one sees nothing any more")
}
