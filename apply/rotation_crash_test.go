package apply_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/apply/event"
	"github.com/locktree/locktree/apply/failure"
	"github.com/locktree/locktree/apply/read"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
	"github.com/locktree/locktree/recipes/zktest/effort"
)

// estate is a stack in which everything is that has an access list: the tool's own nodes, namespaces, locks with
// and without structural children, and a namespace that is no longer declared and stays because of a node in it
// that another program made.
func (s *site) estate(a *plan.Access, more ...*plan.Node) *plan.Tree {
	tree := s.tree(append(more,
		declare("/pay", kind.Namespace), declare("/pay/ledger", kind.Mutex),
		declare("/pay/pool", kind.Semaphore, set("permits", 3)), declare("/bills", kind.Mutex), declare("/solo", kind.Election),
	)...)
	for _, n := range tree.Nodes {
		n.ACL = a.List()
		if !n.Kind().Container {
			n.ACL, n.Payload.ChildACL = append(a.List(), worker), append(a.List(), crew)
		}
	}
	tree.Intent.Access = a
	return tree
}

// grown is an estate with more in it: an apply that makes an estate into it creates each kind of node that there is.
func (s *site) grown(a *plan.Access) *plan.Tree {
	tree := s.estate(a, declare("/more", kind.Namespace), declare("/more/pool", kind.Semaphore, set("permits", 3)), declare("/pay/new", kind.Mutex))
	s.rebase(tree, "/solo", "/more/solo")
	return tree
}

// rebase gives what is declared at a path another one.
func (s *site) rebase(tree *plan.Tree, from, to string) {
	for _, n := range tree.Nodes {
		if n.Path == s.root+from {
			n.Path = s.root + to
		}
	}
	slices.SortFunc(tree.Nodes, func(a, b *plan.Node) int { return strings.Compare(a.Path, b.Path) })
}

// settle makes an estate, with what it has left behind.
func (s *site) settle(a *plan.Access, keys ...string) {
	s.t.Helper()
	first := s.estate(a, declare("/old", kind.Namespace), declare("/odd", kind.Namespace), declare("/odd/in", kind.Namespace))
	s.rebase(first, "/bills", "/old/invoices")
	c := s.as(keys...)
	s.apply(c, first)
	_, err := s.session(c).Create(s.t.Context(), s.root+"/odd/in"+foreign, []byte("hi"), 0, zk.WorldACL(zk.PermAll))
	require.NoError(s.t, err)
	s.apply(c, s.estate(a))
}

// foreign is the name of nodes that somebody else makes.
const foreign = "/theirs"

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
	"in one step":                                 {[]string{oldKey}, []string{newKey}, []string{oldKey, newKey}, [][]string{{oldKey, newKey}, whoeverCan}},
}

// whoeverCan carries on alone: with its own configuration, which may be the one from before.
var whoeverCan []string

// The program that rotates dies, or only a reply is lost, at every write. Whoever is said to carry on does, a program's
// lock is held through all of it, and a reader can plan at any moment.
func TestCrashAtEveryWriteOfARotation(t *testing.T) {
	effort.Proof(t)
	const least = 20 // lock, transaction, the lists of sixteen nodes at least, journal, unlock
	i := 0
	for name, r := range rotations {
		atEveryWrite(t, name, &i, least, effort.Of(1, 19), func(t *testing.T, k int, fault zktest.Fault, dies bool) (struck bool) {
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

	tree := s.grown(may(after, readers))
	hit, err := s.runAsStruck(s.as(by...), s.plan(s.as(by...), tree), k, fault, dies, nil)
	if !dies || !hit {
		require.NoError(t, err)
	}

	able := s.somebodyCanDoEverything(before, after)
	ci := s.as(ciKey)
	live, err := read.Tree(t.Context(), s.session(ci), tree)
	require.NoError(t, err, "a reader plans at any moment")
	require.Empty(t, live.Unreadable)
	require.NoError(t, lease.Verify(t.Context()), "the program was disturbed")

	if slices.Equal(survivor, whoeverCan) {
		survivor = []string{able}
		if !slices.Contains(after, able) {
			after, tree = before, s.estate(may(before, readers))
		}
	}
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

// A rotation that creates more than a transaction holds ends between two of them. What the first ones created is of both, and
// nothing looks as if it had been changed by hand.
func TestRotationThatEndsBetweenTransactionsLeavesBothIn(t *testing.T) {
	s := inMemory(t)
	readers := []string{ciKey}
	s.settle(may([]string{oldKey}, readers), oldKey)
	more := bulk(1500, 0, strings.Repeat("long ", 100))
	before, after := s.estate(may([]string{oldKey}, readers)), s.estate(may([]string{newKey}, readers), more...)
	both := s.as(oldKey, newKey)
	p := s.plan(both, after)
	require.Greater(t, len(p.Batches), 1)
	lists := len(p.ACLSteps()) + len(more)
	require.GreaterOrEqual(t, p.Transaction.ACLPhase, lists, "what is created has a list to set, too")
	ctx, stop := context.WithCancel(t.Context())
	x := executor(both)
	x.Events = func(e event.Event) {
		if e, ok := e.(event.Committed); ok && e.Batch == 1 {
			stop()
		}
	}
	_, err := x.Run(ctx, p)
	var half *failure.PartialError
	require.ErrorAs(t, err, &half)

	s.somebodyCanDoEverything([]string{oldKey}, []string{newKey})
	for _, tree := range []*plan.Tree{before, after} {
		p := s.plan(s.as(oldKey), tree)
		require.True(t, p.HasChanges())
		require.Empty(t, p.Drifted)
	}
	s.apply(both, after)
	s.arrived(after, []string{newKey})
}

// somebodyCanDoEverything asserts that one identity alone has all rights on every node of the stack, so that it can
// carry on, or go back. It returns who can, the new one if both can.
func (s *site) somebodyCanDoEverything(before, after []string) string {
	s.t.Helper()
	lacks := map[string]string{}
	for _, key := range append(slices.Clone(after), before...) {
		who := allOf(key)
		for path, list := range s.everyList(s.root) {
			if !slices.ContainsFunc(list, func(a kind.ACL) bool { return a.ID == who.ID && kind.PermAll&^a.Perms == 0 }) {
				lacks[key] += " " + path
			}
		}
		if lacks[key] == "" {
			return key
		}
	}
	require.Fail(s.t, "nobody alone can do everything", "%v", lacks)
	return ""
}

// everyList has the lists of all nodes below the root and of it, or of others, but for contenders and somebody else's node:
// as the server has them.
func (s *site) everyList(roots ...string) map[string]kind.List {
	out := map[string]kind.List{}
	var walk func(string)
	walk = func(path string) {
		n, ok := s.server.Get(path)
		if !ok || n.Stat.EphemeralOwner != 0 || strings.HasSuffix(path, foreign) {
			return
		}
		for _, a := range n.ACL {
			out[path] = append(out[path], kind.ACL{Scheme: a.Scheme, ID: a.ID, Perms: kind.Perm(a.Perms)})
		}
		for _, name := range n.Children {
			walk(kind.JoinPath(path, name))
		}
	}
	if len(roots) == 0 {
		roots = []string{s.root}
	}
	for _, root := range roots {
		walk(root)
	}
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
		x.Events = func(e event.Event) {
			if _, ok := e.(event.ACLApplied); ok && lists == 0 {
				lists++
				_ = c.Close()
			}
		}
		_, err := x.Run(t.Context(), p)
		if lists > 0 && err != nil {
			died++
		}
		_, err = read.Tree(t.Context(), s.session(s.as(ciKey)), after)
		require.NoError(t, err, "a reader plans at any moment")
	}
	require.GreaterOrEqual(t, died, 8, "each list but the last was an end")
	for _, keys := range []string{ciKey, newKey} {
		require.False(t, s.plan(s.as(keys), after).HasChanges())
	}
	_, err := read.Tree(t.Context(), s.session(s.as(oldKey)), after)
	require.Error(t, err, "the old one sees nothing any more")
}
