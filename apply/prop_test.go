package apply_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/locktree/locktree/apply/failure"
	"github.com/locktree/locktree/apply/internal/prepare"
	"github.com/locktree/locktree/apply/read"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/diff"
	"github.com/locktree/locktree/plan/problem"
	"github.com/locktree/locktree/plan/record"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest/effort"
)

// someTree draws a declaration of two levels from few names. Two of them overlap in every way, also at the names of structural children.
func someTree(t *rapid.T, s *site) *plan.Tree {
	var nodes []*plan.Node
	add := func(path string) *plan.Node {
		k := rapid.SampledFrom([]*kind.Kind{nil, nil, kind.Namespace, kind.Mutex, kind.RWLock, kind.Semaphore, kind.Keyed}).Draw(t, path)
		if k == nil {
			return nil
		}
		of := func(n *plan.Node) {
			if p, ok := n.Payload.Params.(*kind.KeyedParams); ok {
				p.Of = rapid.SampledFrom([]string{"mutex", "rwlock"}).Draw(t, "of")
				p.Fanout = rapid.SampledFrom([]string{"", "16", "256"}).Draw(t, "fanout")
			}
		}
		n := declare(path, k, of, set("description", rapid.SampledFrom([]string{"", "x"}).Draw(t, "description")))
		if rapid.Bool().Draw(t, "admin only") {
			adminOnly(n)
		}
		nodes = append(nodes, n)
		return n
	}
	for _, a := range []string{"a", "b", "locks"} {
		n := add("/" + a)
		if n == nil || !n.Kind().Container {
			continue
		}
		for _, b := range []string{"a", "leases", "locks"} {
			add(fmt.Sprintf("/%s/%s", a, b))
		}
	}
	return s.tree(nodes...)
}

// The server agrees with the model that the plan's own tests use. It accepts a plan from any tree to any other in one transaction, and
// nothing is left to do.
func TestAnyTreeBecomesAnyOtherInOneApply(t *testing.T) {
	s, c := provisioned(t)
	rapid.Check(t, func(r *rapid.T) {
		tree := someTree(r, s) // from whatever the last check left
		p := s.plan(c, tree)
		require.Empty(r, p.Problems)
		_, err := executor(c).Run(t.Context(), p)
		require.NoError(r, err)
		again := s.plan(c, tree)
		require.False(r, again.HasChanges(), "%s", again)
		live, err := read.Tree(t.Context(), s.session(c), tree)
		require.NoError(r, err)
		require.Len(r, live.Nodes, len(tree.Nodes))
		for i, n := range tree.Nodes {
			require.Equal(r, n.Path, live.Nodes[i].Path)
			require.Equal(r, n.Kind(), live.Nodes[i].Kind())
			require.True(r, n.ACL.Equal(live.Nodes[i].ACL))
		}
	})
}

func TestRootOfTheEnsembleCanBeTheRoot(t *testing.T) {
	s := inMemory(t)
	s.root = ""
	c := s.provisioner()
	tree := s.shop()
	tree.Root = "/"
	s.apply(c, tree)
	_, ok := s.server.Get("/.locktree/stacks/shop")
	require.True(t, ok)
	p := s.plan(c, tree)
	require.False(t, p.HasChanges(), "%s", p)
	require.NoError(t, s.destroy(c, tree))
	n, _ := s.server.Get("/")
	require.Equal(t, []string{".locktree", "zookeeper"}, n.Children)
}

// people are identities. Two of them are one user with an old and a new password, whom servers show alike to readers.
var people = []string{"ann:1", "ann:2", "bob:3", "cid:4"}

// charter is what one configuration declares: the nodes, and who may do what.
type charter struct {
	has map[string]bool // by path

	stack           string
	admins, readers []string
	grants          map[string]map[string]string // by path; nil for a node without an acl
	visits          int                          // part of the descriptions, so that each visit is a change
}

var charterNodes = []struct {
	path string
	kind *kind.Kind
}{
	{"", kind.Namespace}, {"/lamp", kind.Mutex}, {"/ledger", kind.Mutex}, {"/pool", kind.Semaphore}, {"/solo", kind.Election},
	{wing, kind.Namespace}, {wing + "/lamp", kind.Mutex},
}

// wing is a namespace. If another program made a node in it, it stays when it is no longer declared. The lamp's path changes between the
// wing and the place beside it.
const wing = "/wing"

func someCharter(t *rapid.T, stack string) *charter {
	some := func(name string, least int) []string {
		return rapid.SliceOfNDistinct(rapid.SampledFrom(people), least, len(people), rapid.ID[string]).Draw(t, name)
	}
	c := &charter{stack: stack, admins: some("admins", 1), readers: some("readers", 0), grants: map[string]map[string]string{}}
	c.has = map[string]bool{"": true, wing: rapid.Bool().Draw(t, "a wing")}
	for _, path := range []string{"/ledger", "/pool", "/solo"} {
		c.has[path] = rapid.IntRange(0, 3).Draw(t, path) > 0
	}
	c.has[wing+"/lamp"] = c.has[wing] && rapid.Bool().Draw(t, "the lamp is there")
	c.has["/lamp"] = !c.has[wing+"/lamp"]
	for _, n := range charterNodes {
		if rapid.IntRange(0, 2).Draw(t, "acl of "+n.path) > 0 {
			continue
		}
		grants := map[string]string{}
		for _, who := range some("grants", 1) {
			grants[who] = rapid.SampledFrom([]string{"admin", "admin", "lock", "observe"}).Draw(t, "role")
		}
		if rapid.IntRange(0, 4).Draw(t, "an administrator") > 0 {
			grants[c.admins[0]] = "admin"
		}
		c.grants[n.path] = grants
	}
	return c
}

var charterRoles = map[string]kind.Perm{
	"admin": kind.PermAll, "lock": kind.PermCreate | kind.PermRead | kind.PermDelete, "observe": kind.PermRead,
}

func (c *charter) access() *plan.Access { return may(c.admins, c.readers) }

func (c *charter) tree(s *site) *plan.Tree {
	tree := &plan.Tree{Ensemble: "main", Root: s.root, Stack: c.stack}
	tree.Intent.Access = c.access()
	for _, d := range charterNodes {
		if !c.has[d.path] {
			continue
		}
		n := declare("/"+c.stack+d.path, d.kind, set("description", fmt.Sprint(c.visits)))
		n.Path, n.Payload.Owner.Stack = s.root+n.Path, c.stack
		n.ACL = c.access().List()
		n.Payload.ChildACL = n.ACL
		if grants := c.grants[d.path]; grants != nil {
			n.ACL = nil
			for who, role := range grants {
				n.ACL = append(n.ACL, kind.ACL{Scheme: "digest", ID: digest(who), Perms: charterRoles[role]})
			}
			n.ACL = n.ACL.Normalize()
			n.Payload.ChildACL = n.ACL
		}
		if d.kind.Container {
			n.Payload.ChildACL = nil
		}
		tree.Nodes = append(tree.Nodes, n)
	}
	return tree
}

// rights returns the permissions that a list gives to one of the people.
func rights(list kind.List, who string) (p kind.Perm) {
	for _, a := range list {
		if a.ID == digest(who) {
			p |= a.Perms
		}
	}
	return p
}

// manages reports whether people together can do with the nodes of a tree whatever an apply may need.
func manages(tree *plan.Tree, who ...string) bool {
	for _, n := range tree.Nodes {
		var p kind.Perm
		for _, w := range who {
			p |= rights(n.ACL, w)
		}
		if p != kind.PermAll {
			return false
		}
	}
	return true
}

// there returns the root's set of administrators and readers: the list of .locktree; nil if there is none yet.
func (l *land) there() kind.List { return l.everyList()[record.ScaffoldPath(l.root)].Normalize() }

// applied notes that a charter was applied.
func (l *land) applied(c *charter) { l.now, l.left = c, l.there() }

// may reports whether some people together have all permissions of the parameter need, on each of some nodes.
func (l *land) may(lists map[string]kind.List, need kind.Perm, who ...string) bool {
	for _, list := range lists {
		var p kind.Perm
		for _, w := range who {
			p |= rights(list, w)
		}
		if need&kind.PermAll&^p != 0 {
			return false
		}
	}
	return true
}

func meet(a, b []string) bool {
	return slices.ContainsFunc(a, func(x string) bool { return slices.Contains(b, x) })
}

// land is a root with a stack, and what was applied to it last.
type land struct {
	*site
	r       *rapid.T
	clients map[string]*recipes.Client
	kept    int // nodes that stayed without a declaration
	now     *charter
	left    kind.List // the root's set after the last apply

	closed map[string]bool // by path, for the last plan: those who applied had no ADMIN on the node
	told   map[string]bool // by path: the plan has a problem there
	lent   map[string]bool // by path: others might create nodes in it
	spared map[string]bool // by path: nodes that the last apply left out for these reasons, see passedOver
}

func (l *land) client(who ...string) *recipes.Client {
	key := strings.Join(who, " ")
	if l.clients[key] == nil {
		l.clients[key] = l.as(who...)
	}
	return l.clients[key]
}

func (l *land) try(c *recipes.Client, tree *plan.Tree) (*plan.Plan, error) {
	live, err := read.Tree(l.t.Context(), l.session(c), tree)
	if err != nil {
		return nil, err
	}
	return diff.Compare(live, tree, plan.Options{Identities: identities(c), AllowMassDestroy: true}), nil
}

// passing is a test whose servers and clients end with each check, and not after all of them. A closed client keeps its buffers for as long
// as it is referenced.
type passing struct {
	testing.TB
	cleanups []func()
}

func (p *passing) Cleanup(f func()) { p.cleanups = append(p.cleanups, f) }

func (p *passing) end() {
	for _, f := range slices.Backward(p.cleanups) {
		f()
	}
}

// Identities, grants and changes of them are drawn, and so are those who apply. Declared readers can plan, declared administrators can
// apply, and no other identity can write. No identity that could apply is locked out, unless that was asked for.
func TestAnyIdentitiesGiveWayToAnyOthers(t *testing.T) {
	effort.Proof(t, effort.Unraced)
	applied, refused, kept := 0, 0, 0
	rapid.Check(t, func(r *rapid.T) {
		passing := &passing{TB: t}
		defer passing.end()
		l := &land{site: inMemory(passing), r: r, clients: map[string]*recipes.Client{}}
		for range rapid.IntRange(2, 5).Draw(r, "applies") {
			next := someCharter(r, stack)
			by := rapid.SliceOfNDistinct(rapid.SampledFrom(people), 1, len(people), rapid.ID[string]).Draw(r, "by")
			if was := l.now; rapid.Bool().Draw(r, "both credentials") {
				by = append(by, next.admins[0])
				if was != nil {
					by = append(by, was.admins[0])
				}
				slices.Sort(by)
				by = slices.Compact(by)
			}
			left := l.left
			if l.turn(next, by) {
				applied++
				l.stays(next, left)
				l.squat(next)
			} else {
				refused++
			}
			if l.now != nil {
				l.holds(l.now)
			}
		}
		kept += l.kept
	})
	t.Logf("%d applied, %d refused, %d nodes stayed without a declaration", applied, refused, kept)
	require.Positive(t, kept)
	require.Positive(t, applied)
	require.Positive(t, refused)
}

// turn applies one charter. It asserts that an apply is only refused for a reason, and then changes nothing.
func (l *land) turn(next *charter, by []string) bool {
	r, was := l.r, l.now
	before, set := l.everyList(), next.access().List()
	tree := next.tree(l.site)
	p, err := l.try(l.client(by...), tree)
	if err != nil {
		require.ErrorContains(r, err, "READ")
		require.False(r, l.may(before, kind.PermRead, by...), "%v: %v", by, err)
		return false
	}
	if l.may(before, kind.PermAll, by...) { // otherwise it does not see all hashes
		require.Equal(r, set.String(), p.Set.List().String())
	}
	l.closed, l.told, l.lent = map[string]bool{}, map[string]bool{}, map[string]bool{}
	spared := l.spared
	l.spared = map[string]bool{}
	defer func() {
		if l.now == was { // nothing was applied
			l.spared = spared
		}
	}()
	for path, list := range before {
		l.closed[path] = !slices.ContainsFunc(by, func(who string) bool { return rights(list, who)&kind.PermAdmin != 0 })
	}
	applies := slices.Concat(set, next.access().Admins, l.left)
	for path, list := range before {
		l.lent[path] = slices.ContainsFunc(people, func(who string) bool {
			return rights(list, who)&(kind.PermCreate|kind.PermAdmin) != 0 && rights(applies, who)&kind.PermAdmin == 0
		})
	}
	for _, q := range p.Problems {
		l.told[q.Path] = true
	}
	able := slices.ContainsFunc(next.admins, func(who string) bool { return manages(tree, who) })
	lockedOut := slices.ContainsFunc(tree.Nodes, func(n *plan.Node) bool {
		return !slices.ContainsFunc(next.admins, func(who string) bool { return managesNode(n, who) })
	})
	if lockedOut {
		require.False(r, p.Applyable(), "%s", p)
		require.False(r, able)
	}
	if !p.Applyable() {
		for _, q := range p.Problems {
			if q.Severity == problem.Error && q.Code != problem.LockOut {
				// An earlier charter may have left a node, closed to those who apply, where this one declares something.
				closed := q.Code == problem.Unreadable && !slices.ContainsFunc(by, func(who string) bool { return rights(before[q.Path], who)&kind.PermRead != 0 })
				left := func() bool {
					return closed && !slices.ContainsFunc(was.tree(l.site).Nodes, func(n *plan.Node) bool { return n.Path == q.Path })
				}
				require.False(r, was != nil && meet(by, was.admins) && manages(was.tree(l.site), by...) && !left(), "%v", q)
			}
		}
		return false
	}
	_, err = executor(l.client(by...)).Run(l.t.Context(), p)
	if err != nil {
		// An identity that creates a semaphore or a namespace needs rights on it, to create the nodes in it. On existing nodes it needs all
		// rights. These include the tool's own nodes, which a refused first apply leaves.
		sure := slices.ContainsFunc(by, func(who string) bool { return rights(set, who) == kind.PermAll }) && manages(tree, by...) && l.may(before, kind.PermAll, by...)
		require.False(r, sure, "%v may do all of it: %v", by, err)
		var half *failure.ACLPhaseError
		if errors.As(err, &half) {
			// All people together finish it.
			p, err := l.try(l.client(people...), tree)
			require.NoError(r, err)
			_, err = executor(l.client(people...)).Run(l.t.Context(), p)
			require.NoError(r, err)
			l.applied(next)
			return true
		}
		after := l.everyList()
		if was == nil {
			for _, path := range prepare.ScaffoldPaths(l.root, next.stack) {
				if before[path] == nil {
					delete(after, path)
				}
			}
		}
		require.Equal(r, before, after, "refused (%v), but something was written", err)
		return false
	}
	l.applied(next)
	// The plan passed over some nodes. An identity that may read them plans more: changes of them, and of the nodes around them.
	base := l.root + "/" + next.stack
	for path := range before {
		for at := path; l.passedOver(path) && strings.HasPrefix(at, base+"/") && tree.Find(at) == nil; at = kind.ParentPath(at) {
			l.spared[at] = true
		}
	}
	l.exact(set, next.stack)
	return true
}

// stays checks the nodes that stay although they are no longer declared. They must admit those who may use the root now, and not those who
// administered it before.
func (l *land) stays(now *charter, left kind.List) {
	tree, lists, base, set := now.tree(l.site), l.everyList(), l.root+"/"+now.stack, l.there()
	for _, path := range []string{base + wing, base + wing + "/lamp", base + "/lamp"} {
		list := lists[path]
		if list == nil || tree.Find(path) != nil {
			continue
		}
		if l.passedOver(path) {
			continue
		}
		l.kept++
		for _, who := range people {
			switch p := rights(set, who); {
			case p&kind.PermAdmin != 0:
				require.Zero(l.r, kind.PermAll&^rights(list, who), "%s: %s", path, who)
			case p != 0:
				require.NotZero(l.r, rights(list, who)&kind.PermRead, "%s: %s", path, who)
			case rights(left, who)&kind.PermAdmin != 0:
				require.Zero(l.r, rights(list, who), "%s: %s", path, who)
			}
		}
	}
}

// passedOver reports whether the last plan left out a node, or one around it, because it was closed to those who applied. A tenant may have
// closed it. The plan named that node, unless others may create nodes there: then it may be theirs.
func (l *land) passedOver(path string) bool {
	for ; path != l.root; path = kind.ParentPath(path) {
		if l.closed[path] && (l.told[path] || l.lent[kind.ParentPath(path)]) {
			return true
		}
	}
	return false
}

// blurred reports whether the root's set may look like another one to an identity. The set has two passwords of one user, and servers hide
// its hashes from all but administrators.
func (l *land) blurred(who string) bool {
	users, twice := map[string]bool{}, false
	for _, a := range l.there() {
		user, _, _ := strings.Cut(a.ID, ":")
		twice = twice || users[user]
		users[user] = true
	}
	return twice && rights(l.there(), who)&kind.PermAdmin == 0
}

// squat makes another program's node in the wing, if one of the people may.
func (l *land) squat(c *charter) {
	if !c.has[wing] || !rapid.Bool().Draw(l.r, "somebody else's node") {
		return
	}
	s := l.session(l.client(people...))
	_, err := s.Create(l.t.Context(), l.root+"/"+c.stack+wing+foreign, nil, 0, zk.WorldACL(zk.PermAll))
	if !errors.Is(err, zk.ErrNodeExists) && !errors.Is(err, zk.ErrNoAuth) {
		require.NoError(l.r, err)
	}
}

func managesNode(n *plan.Node, who string) bool {
	need := kind.PermRead | kind.PermWrite | kind.PermAdmin
	if n.Kind().Container || len(n.Kind().Children) > 0 {
		need = kind.PermAll
	}
	return need&^rights(n.ACL, who) == 0
}

// exact asserts that the root and the tool's directories have exactly the given access list.
func (l *land) exact(set kind.List, stack string) {
	for _, path := range []string{l.root, record.ScaffoldPath(l.root), kind.ParentPath(record.IndexPath(l.root, stack)), kind.ParentPath(record.LockPath(l.root, stack))} {
		require.Equal(l.r, set.String(), l.everyList()[path].String(), path)
	}
}

// holds asserts what must hold after an apply. Everyone who may read the stack plans it, and finds nothing to do with its locks. Everyone
// with all rights applies it. The readers and administrators that it declares are among them.
func (l *land) holds(c *charter) {
	r, tree := l.r, c.tree(l.site)
	all := l.everyList()
	for _, path := range []string{record.IndexPath(l.root, c.stack), record.LockPath(l.root, c.stack)} {
		require.Equal(r, l.left.String(), all[path].String(), path)
	}
	require.Equal(r, c.access().List().String(), l.there().String())
	for _, who := range people {
		declared := slices.Contains(append(slices.Clone(c.admins), c.readers...), who)
		if !declared && !l.may(all, kind.PermRead, who) {
			continue
		}
		p, err := l.try(l.client(who), tree)
		require.NoError(r, err, "%s cannot plan %s", who, c.stack)
		blind := slices.ContainsFunc(tree.Nodes, func(n *plan.Node) bool { return rights(n.ACL, who)&kind.PermRead == 0 })
		if blind {
			continue
		}
		require.Empty(r, p.Drifted)
		for i := range p.Changes {
			if !l.spared[p.Changes[i].Path] {
				require.Equal(r, plan.NoOp, p.Changes[i].Action, "%s: %s", who, p)
			}
		}
		for _, a := range p.Access {
			require.True(r, l.spared[a.Pin.Path] || l.blurred(who), "%s: %s: %s %v", who, c.stack, p, said(p))
		}
	}
	for _, n := range tree.Nodes {
		if !l.spared[n.Path] {
			require.Equal(r, n.ACL.String(), all[n.Path].String(), n.Path)
		}
	}
	for _, who := range people {
		declared := slices.Contains(c.admins, who)
		if !manages(tree, who) || len(l.spared) > 0 || !declared && !(rights(l.there(), who) == kind.PermAll && l.may(l.everyList(), kind.PermAll, who)) {
			continue // the plan says so
		}
		c.visits++
		next := c.tree(l.site)
		p, err := l.try(l.client(who), next)
		require.NoError(r, err)
		require.True(r, p.HasChanges() && p.Applyable(), "%s", p)
		_, err = executor(l.client(who)).Run(l.t.Context(), p)
		require.NoError(r, err, "%s cannot apply %s", who, c.stack)
		l.applied(c)
	}
}
