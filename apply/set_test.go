package apply_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/apply"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
)

// of is the tree of another stack below the same root.
func (s *site) of(name string, a *plan.Access) *plan.Tree {
	tree := s.tree(declare("/"+name, kind.Mutex))
	tree.Stack = name
	tree.Nodes[0].Payload.Owner.Stack = name
	if tree.Intent.Access = a; a != nil {
		tree.Nodes[0].ACL = a.List()
	}
	return tree
}

func warnings(p *plan.Plan) (out []string) {
	for _, q := range p.Problems {
		out = append(out, q.Summary+": "+q.Detail)
	}
	return out
}

// visited is a tree that says something else of its first lock than before, which is a reason for an apply.
func visited(tree *plan.Tree, text string) *plan.Tree {
	set("description", text)(tree.Nodes[0])
	return tree
}

const (
	replaced  = "Administrators of the root were replaced"
	differs   = "Root has other administrators"
	company   = "Other stacks are on this root"
	notShown  = "Access lists cannot be planned"
	byName    = "Passwords were not compared"
	onlyOldCi = "digest:ci:r, digest:provisioner:cdrwa"
	onlyNewCi = "digest:ci:r, digest:successor:cdrwa"
	allThree  = "digest:ci:r, digest:provisioner:cdrwa, digest:successor:cdrwa"
)

// ownOf are the lists of the record and the apply lock of a stack, and of what all stacks share.
func (s *site) ownOf(c *recipes.Client, name string) (own []string) {
	for _, list := range s.lists(c, append(apply.ScaffoldPaths(s.root, name), plan.IndexPath(s.root, name))...) {
		if !slices.Contains(own, list) {
			own = append(own, list)
		}
	}
	return own
}

// quiet asserts that there is nothing to do and nothing to say.
func (s *site) quiet(tree *plan.Tree, keys ...string) {
	s.t.Helper()
	for _, key := range keys {
		p := s.plan(s.as(key), tree)
		require.False(s.t, p.HasChanges(), "%s: %s %+v", key, p, p.Access)
		require.Empty(s.t, s.told(p), key)
		require.Empty(s.t, p.Drifted, key)
	}
}

// told are the problems of a plan, without what it tells once a reader to whom the servers show no hashes.
func (s *site) told(p *plan.Plan) []plan.Problem {
	s.t.Helper()
	rest := slices.DeleteFunc(slices.Clone(p.Problems), func(q plan.Problem) bool { return q.Summary == byName })
	require.LessOrEqual(s.t, len(p.Problems)-len(rest), 1)
	return rest
}

func (s *site) says(p *plan.Plan, summaries ...string) {
	s.t.Helper()
	require.True(s.t, p.Applyable(), "%s", p)
	var got []string
	for _, q := range s.told(p) {
		got = append(got, q.Summary)
	}
	require.ElementsMatch(s.t, summaries, got, "%v", warnings(p))
}

// Two stacks on one root name the same set, or one of them leaves it out.
func TestStacksOnOneRootHaveOneSet(t *testing.T) {
	for name, second := range map[string]*plan.Access{"named twice": may([]string{oldKey}, []string{ciKey}), "left out": nil} {
		t.Run(name, func(t *testing.T) {
			s := inMemory(t)
			a, b := s.of("a", may([]string{oldKey}, []string{ciKey})), s.of("b", second)
			b.Nodes[0].ACL = a.Nodes[0].ACL
			s.apply(s.as(oldKey), a)
			s.says(s.plan(s.as(oldKey), b))
			s.apply(s.as(oldKey), b)
			s.quiet(a, oldKey, ciKey)
			s.quiet(b, oldKey, ciKey)
			for _, stack := range []string{"a", "b"} {
				require.Equal(t, []string{onlyOldCi}, s.ownOf(s.as(oldKey), stack))
			}
			s.wroteNothing(s.as(oldKey), func() {
				_, err := apply.Begin(t.Context(), s.as(newKey), a, apply.Options{})
				require.ErrorContains(t, err, "the administrators declared in the ensemble block are digest:provisioner")
			})
		})
	}
}

// A stack that leaves the set out follows whoever replaces it, and is refused to who is not in it.
func TestAStackThatLeavesTheSetOutTakesWhatIsThere(t *testing.T) {
	s := inMemory(t)
	readers := []string{ciKey}
	b := s.of("b", nil)
	b.Nodes[0].ACL = kind.List{allOf(oldKey), allOf(newKey), may(nil, readers).Readers[0]}
	s.apply(s.as(oldKey), s.of("a", may([]string{oldKey}, readers)))
	s.apply(s.as(oldKey), b)
	_, err := executor(s.as(ciKey)).Run(t.Context(), s.plan(s.as(oldKey), visited(b, "one")))
	require.ErrorContains(t, err, "we are digest:ci, and the administrators of /locks are digest:provisioner")
	_, err = apply.Begin(t.Context(), s.as(ciKey), b, apply.Options{})
	require.ErrorContains(t, err, "we are digest:ci, and the administrators of /locks are digest:provisioner")

	s.apply(s.as(oldKey), s.of("a", may([]string{oldKey, newKey}, readers)))
	p := s.plan(s.as(oldKey), b)
	s.says(p)
	require.True(t, p.HasChanges())
	s.says(s.plan(s.as(ciKey), b), notShown)
	s.apply(s.as(oldKey), b)
	s.quiet(b, oldKey, newKey, ciKey)
	require.Equal(t, []string{allThree}, s.ownOf(s.as(newKey), "b"))

	s.apply(s.as(newKey), s.of("a", may([]string{newKey}, readers)))
	s.apply(s.as(newKey), b)
	s.quiet(b, newKey, ciKey)
	require.Equal(t, []string{onlyNewCi}, s.ownOf(s.as(newKey), "b"))

	// It names the set, and replaces it then.
	s.apply(s.as(newKey), s.of("b", may([]string{newKey}, readers)))
	s.apply(s.as(newKey), s.of("b", may([]string{newKey, oldKey}, readers)))
	require.Equal(t, []string{allThree}, s.ownOf(s.as(oldKey), "b"))
}

// A stack that names another set than the root has: that is said of the root, and its locks are planned and applied.
func TestAnotherSetIsAProblemOfTheRootAlone(t *testing.T) {
	s := inMemory(t)
	a, b := s.of("a", may([]string{oldKey}, []string{ciKey})), s.of("b", may([]string{newKey}, []string{ciKey}))
	s.apply(s.as(oldKey), a)
	both := s.as(oldKey, newKey)
	for i := range 3 {
		b = visited(b, strings.Repeat("x", i+1))
		p := s.plan(both, b)
		s.says(p, differs)
		require.Empty(t, p.Access)
		require.Contains(t, warnings(p)[0], "The root /locks has other administrators and readers ("+onlyOldCi+") than ensemble.main names ("+onlyNewCi+")")
		_, err := executor(s.as(newKey)).Run(t.Context(), p)
		require.ErrorContains(t, err, "we are digest:successor, and the administrators of /locks are digest:provisioner")
		s.apply(both, b)
		p = s.plan(both, b)
		s.says(p, differs)
		require.False(t, p.HasChanges(), "%s %v", p, p.Access)
		require.Empty(t, p.Drifted)
		require.Equal(t, []string{onlyOldCi}, s.ownOf(both, "b"))
		require.Equal(t, onlyNewCi, s.lists(both, "/locks/b")["/locks/b"], "the list of the lock is as declared")
		s.quiet(a, oldKey, ciKey)
	}
	s.says(s.plan(s.as(ciKey), b), differs)

	// It names what is there, and may then replace it.
	s.apply(both, s.of("b", may([]string{oldKey}, []string{ciKey})))
	s.quiet(s.of("b", may([]string{oldKey}, []string{ciKey})), oldKey, ciKey)
	s.apply(both, s.of("b", may([]string{oldKey, newKey}, []string{ciKey})))
	require.Equal(t, []string{allThree}, s.ownOf(both, "b"))
	s.says(s.plan(both, a), replaced)
}

// Any of two stacks replaces the set, in two steps; the other one warns, and applies, until its configuration follows. A reader
// plans both at any time.
func TestOneStackReplacesTheSetAndTheOtherFollows(t *testing.T) {
	readers := []string{ciKey}
	before, both, after := may([]string{oldKey}, readers), may([]string{oldKey, newKey}, readers), may([]string{newKey}, readers)
	for _, order := range [][4]string{{"a", "b", "a", "b"}, {"b", "a", "b", "a"}, {"a", "b", "b", "a"}, {"b", "a", "a", "b"}} {
		t.Run(strings.Join(order[:], " "), func(t *testing.T) {
			s := inMemory(t)
			s.apply(s.as(oldKey), s.of("a", before))
			s.apply(s.as(oldKey), s.of("b", before))
			looks := func(name string, a *plan.Access, summaries ...string) {
				t.Helper()
				s.says(s.plan(s.as(ciKey), s.of(name, a)), summaries...)
			}
			step := func(first, second string, from, to *plan.Access, by string, seen []string, warned ...string) {
				t.Helper()
				p := s.plan(s.as(by), s.of(first, to))
				s.says(p, warned...)
				s.apply(s.as(by), s.of(first, to))
				s.quiet(s.of(first, to), by, ciKey)

				late := visited(s.of(second, from), "late")
				s.says(s.plan(s.as(by), late), replaced)
				looks(second, from, seen...)
				s.apply(s.as(by), late)
				require.Equal(t, []string{to.List().String()}, s.ownOf(s.as(by), second), "its text does not undo it")
				s.quiet(s.of(first, to), by, ciKey)
				looks(second, to)
				s.apply(s.as(by), s.of(second, to))
				s.quiet(s.of(second, to), by, ciKey)
			}
			step(order[0], order[1], before, both, oldKey, []string{replaced, notShown})
			s.quiet(s.of("a", both), oldKey, newKey)
			s.quiet(s.of("b", both), oldKey, newKey)
			step(order[2], order[3], both, after, newKey, []string{replaced, notShown}, company)
			for _, name := range []string{"a", "b"} {
				require.Equal(t, []string{onlyNewCi}, s.ownOf(s.as(newKey), name))
				_, err := apply.Read(t.Context(), s.session(s.as(oldKey)), s.of(name, after))
				require.Error(t, err)
			}
		})
	}
}

// Whoever shuts an administrator out before the other stack has followed is told what it takes.
func TestAStackThatDidNotFollowNeedsBothCredentials(t *testing.T) {
	s := inMemory(t)
	readers := []string{ciKey}
	before, after := may([]string{oldKey}, readers), may([]string{newKey}, readers)
	s.apply(s.as(oldKey), s.of("a", before))
	s.apply(s.as(oldKey), s.of("b", before))
	both := s.as(oldKey, newKey)
	p := s.plan(both, s.of("a", after))
	s.says(p, company)
	require.Contains(t, warnings(p)[0], "digest:provisioner will have no rights any more on /locks")
	s.apply(both, s.of("a", after))
	_, err := apply.Read(t.Context(), s.session(s.as(newKey)), s.of("b", after))
	require.ErrorContains(t, err, "READ")
	s.apply(both, s.of("b", after))
	s.quiet(s.of("b", after), newKey, ciKey)
	require.Equal(t, []string{onlyNewCi}, s.ownOf(s.as(newKey), "b"))
}

// Of two stacks that replace the set at the same moment, one comes first. The plan of the other one is stale.
func TestTwoStacksReplaceTheSetAtOnce(t *testing.T) {
	s := inMemory(t)
	before := may([]string{oldKey}, nil)
	s.apply(s.as(oldKey), s.of("a", before))
	s.apply(s.as(oldKey), s.of("b", before))
	both := s.as(oldKey, newKey)
	a, b := s.of("a", may([]string{oldKey, newKey}, nil)), s.of("b", may([]string{oldKey, "third:x"}, nil))
	p, q := s.plan(both, a), s.plan(both, b)
	_, err := executor(both).Run(t.Context(), p)
	require.NoError(t, err)
	_, err = executor(both).Run(t.Context(), q)
	var stale *apply.StaleError
	require.ErrorAs(t, err, &stale)
	require.True(t, slices.ContainsFunc(stale.Differences, func(d apply.Difference) bool { return d.Path == plan.ScaffoldPath(s.root) }), "%v", stale)
	s.says(s.plan(both, b), differs)
}

// A reader has the name of an administrator, and another password. To it the servers show no hashes, so it looks like one.
func TestAReaderWithTheNameOfAnAdministratorCannotApply(t *testing.T) {
	s := inMemory(t)
	b := s.of("b", nil)
	b.Nodes[0].ACL = kind.List{allOf(oldKey), allOf(nextKey)}
	s.apply(s.as(oldKey), s.of("a", may([]string{oldKey}, []string{nextKey})))
	s.apply(s.as(oldKey), b)
	c, next := s.as(nextKey), visited(b, "one")
	p := s.plan(c, next)
	s.wroteNothing(s.as(oldKey), func() {
		_, err := apply.Begin(t.Context(), c, next, apply.Options{})
		require.ErrorContains(t, err, "our password differs from theirs")
		_, err = executor(c).Run(t.Context(), p)
		require.ErrorContains(t, err, "our password differs from theirs")
	})
	_, err := executor(s.as(oldKey)).Run(t.Context(), p)
	require.NoError(t, err, "what a reader planned, an administrator applies")
	s.quiet(b, oldKey, nextKey)
}

// A list that somebody changed by hand is put back where no other stack can have changed it.
func TestTheSetOfAStackThatIsAloneIsPutBack(t *testing.T) {
	s := inMemory(t)
	a := s.of("a", may([]string{oldKey}, []string{ciKey}))
	s.apply(s.as(oldKey), a)
	s.setByHand(s.as(oldKey), plan.ScaffoldPath(s.root), allOf(oldKey), allOf("mate:x"))
	p := s.plan(s.as(oldKey), a)
	require.Len(t, p.Access, 1)
	require.Len(t, p.Drifted, 1)
	s.apply(s.as(oldKey), a)
	s.quiet(a, oldKey, ciKey)

	// A root that is open to everybody gets the set that is named first.
	open := inMemory(t)
	open.apply(open.as(), func() *plan.Tree {
		tree := open.of("a", nil)
		tree.Nodes[0].ACL = kind.WorldAll()
		tree.Nodes[0].AllowWorld = true
		return tree
	}())
	b := open.of("b", may([]string{oldKey}, nil))
	open.apply(open.as(oldKey), b)
	open.apply(open.as(oldKey), b)
	open.quiet(b, oldKey)
	require.Equal(t, []string{"digest:provisioner:cdrwa"}, open.ownOf(open.as(oldKey), "b"))
}

func (s *site) lists(c *recipes.Client, paths ...string) map[string]string {
	s.t.Helper()
	out := map[string]string{}
	for _, path := range paths {
		acl, _, err := s.session(c).GetACL(s.t.Context(), path)
		require.NoError(s.t, err, path)
		out[path] = apply.FromZK(acl).String()
	}
	return out
}

// A root that somebody made is added to, and what an apply of ours added goes again. One that is a declaration
// belongs to whoever declares it.
func TestARootOfSomebodyElseIsAddedToOrLeftAlone(t *testing.T) {
	s := inMemory(t)
	c, sre := s.as(oldKey, newKey), kind.ACL{Scheme: "digest", ID: digest("sre:x"), Perms: kind.PermAll}
	make := func(path string, data []byte, acl ...kind.ACL) {
		_, err := s.session(c).Create(t.Context(), path, data, 0, apply.ToZK(acl))
		require.NoError(t, err)
	}
	make("/locks", nil, sre, admin)
	first, second := s.administered(may([]string{oldKey}, []string{ciKey})), s.administered(may([]string{newKey}, nil))
	s.apply(c, first)
	s.apply(c, first)
	require.Equal(t, "digest:ci:r, digest:provisioner:cdrwa, digest:sre:cdrwa", s.lists(c, "/locks")["/locks"])
	require.False(t, s.plan(c, first).HasChanges())
	s.apply(c, second)
	require.Equal(t, "digest:sre:cdrwa, digest:successor:cdrwa", s.lists(c, "/locks")["/locks"])
	require.Empty(t, s.plan(c, second).Problems)

	team := declare("/x", kind.Namespace).Payload
	team.Owner.Stack = "platform"
	data, err := team.Encode()
	require.NoError(t, err)
	make("/team", data, sre, admin)
	s.root = "/team"
	of := s.administered(may([]string{oldKey}, []string{ciKey}))
	s.apply(c, of)
	p := s.plan(c, of)
	require.False(t, p.HasChanges(), "%v", p.Access)
	require.Empty(t, p.Problems)
	require.Equal(t, "digest:provisioner:cdrwa, digest:sre:cdrwa", s.lists(c, "/team")["/team"])
	p = s.plan(c, s.administered(may([]string{newKey}, nil)))
	require.Contains(t, strings.Join(warnings(p), "\n"), "/team grants CREATE and DELETE to none of digest:successor, who need both to manage the nodes right below it. "+
		"This stack does not set its access list, because it is of stack platform: ask there")
}

// What is above the root and was made with it follows, but never takes anything from others.
func TestAncestorsOfTheRootFollow(t *testing.T) {
	s := inMemory(t)
	s.root = "/a/b/locks"
	c := s.as(oldKey, newKey)
	s.apply(c, s.administered(may([]string{oldKey}, nil)))
	mate := kind.ACL{Scheme: "digest", ID: digest("mate:x"), Perms: kind.PermCreate}
	s.setByHand(c, "/a", admin, mate)
	next := s.administered(may([]string{newKey}, nil))
	s.apply(c, next)
	require.Equal(t, map[string]string{"/a": "digest:mate:c, digest:successor:cdrwa", "/a/b": "digest:successor:cdrwa"}, s.lists(c, "/a", "/a/b"))
	require.False(t, s.plan(c, next).HasChanges())
}
