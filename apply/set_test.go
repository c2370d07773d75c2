package apply_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/apply"
	"github.com/locktree/locktree/apply/event"
	"github.com/locktree/locktree/apply/failure"
	"github.com/locktree/locktree/apply/internal/prepare"
	"github.com/locktree/locktree/apply/read"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/explain"
	"github.com/locktree/locktree/plan/record"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
)

// of returns the tree of a stack with one lock.
func (s *site) of(name string, a *plan.Access) *plan.Tree {
	tree := s.tree(declare("/"+name, kind.Mutex))
	tree.Stack = name
	tree.Nodes[0].Payload.Owner.Stack = name
	if tree.Intent.Access = a; a != nil {
		tree.Nodes[0].ACL = a.List()
	}
	return tree
}

// said returns the problems of a plan as text.
func said(p *plan.Plan) (text string) {
	for _, q := range p.Problems {
		text += q.Summary + ": " + q.Detail + "\n"
	}
	return text
}

const byName = "Passwords were not compared"

// ownOf returns the distinct access lists of a stack's record and of the nodes that every apply needs.
func (s *site) ownOf(c *recipes.Client, name string) (own []string) {
	for _, list := range s.lists(c, append(prepare.ScaffoldPaths(s.root, name), record.IndexPath(s.root, name))...) {
		if !slices.Contains(own, list) {
			own = append(own, list)
		}
	}
	return own
}

// quiet asserts that a plan has no changes, problems or drift.
func (s *site) quiet(tree *plan.Tree, keys ...string) {
	s.t.Helper()
	for _, key := range keys {
		p := s.plan(s.as(key), tree)
		require.False(s.t, p.HasChanges(), "%s: %s %+v", key, p, p.Access)
		require.Empty(s.t, s.told(p), key)
		require.Empty(s.t, p.Drifted, key)
	}
}

// told returns the problems of a plan, without the one that tells a reader, at most once, that passwords were not compared.
func (s *site) told(p *plan.Plan) []plan.Problem {
	s.t.Helper()
	rest := slices.DeleteFunc(slices.Clone(p.Problems), func(q plan.Problem) bool { return q.Summary == byName })
	require.LessOrEqual(s.t, len(p.Problems)-len(rest), 1)
	return rest
}

// A root belongs to one stack. Any other stack is refused, whoever applies it, and writes nothing. The error names the first stack and its
// record. Once the first stack is destroyed, another one may use the root.
func TestARootBelongsToOneStack(t *testing.T) {
	for name, second := range map[string]*plan.Access{"the same administrators": may([]string{oldKey}, nil), "others": may([]string{newKey}, nil), "nobody named": nil} {
		t.Run(name, func(t *testing.T) {
			s := inMemory(t)
			both := s.as(oldKey, newKey)
			a, b := s.of("a", may([]string{oldKey}, nil)), s.of("b", second)
			b.Nodes[0].ACL = kind.List{allOf(oldKey), allOf(newKey)}
			early := s.plan(both, b)
			s.apply(both, a)
			const belongs = `this root belongs to stack "a" (/locks/.locktree/stacks/a is its record), and a root belongs to one stack, so stack "b" cannot use it`
			s.wroteNothing(both, func() {
				_, err := read.Tree(t.Context(), s.session(both), b)
				require.ErrorContains(t, err, belongs)
				require.Equal(t, "Root belongs to another stack", explain.Of(err).Summary)
				_, err = apply.Begin(t.Context(), both, b, apply.Options{})
				require.ErrorContains(t, err, belongs)
				_, err = executor(both).Run(t.Context(), early)
				require.ErrorContains(t, err, belongs, "a plan of before")
			})
			s.quiet(a, oldKey)

			// A second record, however it came there, stops both stacks. Each error names the other stack.
			require.NoError(t, s.server.Create(record.IndexPath(s.root, "b"), nil))
			_, err := read.Tree(t.Context(), s.session(both), a)
			require.ErrorContains(t, err, `this root belongs to stack "b" (/locks/.locktree/stacks/b is its record)`)
			require.NoError(t, s.session(both).Delete(t.Context(), record.IndexPath(s.root, "b"), -1))

			require.NoError(t, s.destroy(both, a))
			s.apply(both, b)
			_, err = read.Tree(t.Context(), s.session(both), a)
			require.ErrorContains(t, err, `this root belongs to stack "b"`)
		})
	}
}

// Two plans replace the set of the root at the same moment. One comes first, and the other is stale.
func TestTwoPlansReplaceTheSetAtOnce(t *testing.T) {
	s := inMemory(t)
	s.apply(s.as(oldKey), s.of("a", may([]string{oldKey}, nil)))
	both := s.as(oldKey, newKey)
	p, q := s.plan(both, s.of("a", may([]string{oldKey, newKey}, nil))), s.plan(both, s.of("a", may([]string{oldKey, "third:x"}, nil)))
	s.runs(both, p)
	_, err := executor(both).Run(t.Context(), q)
	stale := errorAs[*failure.StaleError](t, err)
	require.True(t, slices.ContainsFunc(stale.Differences, func(d failure.Difference) bool { return d.Path == record.ScaffoldPath(s.root) }), "%v", stale)
}

// A reader has the name of an administrator, and another password. Servers show it no hashes, so the administrator's
// entry looks like its own.
func TestAReaderWithTheNameOfAnAdministratorCannotApply(t *testing.T) {
	s := inMemory(t)
	a := s.of("a", may([]string{oldKey}, []string{nextKey}))
	a.Nodes[0].ACL = kind.List{allOf(oldKey), allOf(nextKey)}
	s.apply(s.as(oldKey), a)
	c, next := s.as(nextKey), a
	set("description", "one")(next.Nodes[0])
	p := s.plan(c, next, plan.Options{Targets: []string{string(a.Nodes[0].Addr)}}) // so the plan takes the set from the root
	s.wroteNothing(s.as(oldKey), func() {
		_, err := apply.Begin(t.Context(), c, next, apply.Options{})
		require.ErrorContains(t, err, "our password differs from theirs")
		_, err = executor(c).Run(t.Context(), p)
		require.ErrorContains(t, err, "our password differs from theirs")
	})
	s.runs(s.as(oldKey), p)
	s.quiet(next, oldKey, nextKey)
}

func TestARootThatIsOpenGetsTheSetThatIsNamedFirst(t *testing.T) {
	open := inMemory(t)
	open.apply(open.as(), func() *plan.Tree {
		tree := open.of("a", nil)
		tree.Nodes[0].ACL = kind.WorldAll()
		tree.Nodes[0].AllowWorld = true
		return tree
	}())
	named := open.of("a", may([]string{oldKey}, nil))
	open.apply(open.as(oldKey), named)
	open.apply(open.as(oldKey), named)
	open.quiet(named, oldKey)
	require.Equal(t, []string{"digest:provisioner:cdrwa"}, open.ownOf(open.as(oldKey), "a"))
}

func (s *site) lists(c *recipes.Client, paths ...string) map[string]string {
	s.t.Helper()
	out := map[string]string{}
	for _, path := range paths {
		out[path] = s.list(c, path).String()
	}
	return out
}

// An apply adds its entries to the list of a root that another program made. A later apply removes those entries again.
func TestARootOfAnotherProgramIsAddedTo(t *testing.T) {
	s := inMemory(t)
	c, sre := s.as(oldKey, newKey), kind.ACL{Scheme: "digest", ID: digest("sre:x"), Perms: kind.PermAll}
	s.create(c, "/locks", "", sre, admin)
	first, second := s.administered(may([]string{oldKey}, []string{ciKey})), s.administered(may([]string{newKey}, nil))
	s.apply(c, first)
	s.apply(c, first)
	require.Equal(t, "digest:ci:r, digest:provisioner:cdrwa, digest:sre:cdrwa", s.lists(c, "/locks")["/locks"])
	require.False(t, s.plan(c, first).HasChanges())
	s.apply(c, second)
	require.Equal(t, "digest:sre:cdrwa, digest:successor:cdrwa", s.lists(c, "/locks")["/locks"])
	require.Empty(t, s.plan(c, second).Problems)
}

// Nodes above the root that were created with it get the new administrators, but no other program loses rights there.
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

// grants reports whether the server's list of a node has an entry.
func (s *site) grants(path string, a kind.ACL) bool {
	return slices.Contains(s.everyList()[path], a)
}

const nextKey = "provisioner:s3cr3t" // another password of the same user

// Servers show a reader no hashes. So an apply does not rely on a reader's plan for a list with hidden hashes. It reads the list again, and
// admits no identity that was shut out.
func TestAReadersPlanLetsNobodyInWhoWasShutOut(t *testing.T) {
	s := inMemory(t)
	readers := []string{ciKey}
	first, both, second := may([]string{oldKey}, readers), may([]string{oldKey, nextKey}, readers), may([]string{nextKey}, readers)
	s.apply(s.as(oldKey), s.of("a", first))
	s.apply(s.as(oldKey), s.of("a", both))
	s.apply(s.as(nextKey), s.of("a", second))
	a := s.of("a", may([]string{nextKey}, append(readers, "ops:x")))
	a.Nodes[0].ACL = append(a.Nodes[0].ACL, allOf(oldKey))
	p := s.plan(s.as(ciKey), a)
	in := s.server.Inject(func(r zktest.Request) bool {
		if r.Op == "setACL" {
			require.False(t, s.grants(record.ScaffoldPath(s.root), allOf(oldKey)))
		}
		return false
	}, zktest.Fault{})
	defer in.Remove()
	s.runs(s.as(oldKey, nextKey), p)
	for path := range s.lists(s.as(nextKey), prepare.ScaffoldPaths(s.root, "a")[:4]...) {
		require.False(t, s.grants(path, allOf(oldKey)), path)
	}
}

// An administrator may first have to give itself the right to write. The apply adds it to the list that is there, and not to the list as
// a reader was shown it.
func TestRightsAreAddedToTheListThatIsThere(t *testing.T) {
	s := inMemory(t)
	access := may([]string{oldKey, newKey}, []string{ciKey})
	s.apply(s.as(oldKey), s.administered(access))
	path := s.root + "/pay/ledger"
	weak := kind.List{{Scheme: "digest", ID: digest(oldKey), Perms: kind.PermAdmin | kind.PermRead}, worker, access.Readers[0]}
	s.setByHand(s.as(oldKey), path, weak...) // by hand: the node's sum does not fit this list
	next := s.administered(access)
	set("description", "new")(next.Nodes[1])
	p := s.plan(s.as(ciKey), next)
	x := executor(s.as(oldKey))
	widened := false
	x.Events = on(func(event.ACLWidened) {
		widened = true
		for _, a := range weak[1:] {
			require.True(t, s.grants(path, a))
		}
	})
	s.succeeds(x, p)
	require.True(t, widened)
}

// A reader planned without seeing the hashes of a list, so the apply leaves the list as it is. The record must not note it as the declared
// one. Otherwise an administrator would be told that it was changed by hand, and a reader that it is as declared.
func TestAListThatAReaderCouldNotCompareIsNotNotedAsDeclared(t *testing.T) {
	for name, edit := range map[string]func(*plan.Tree){
		"of a node that changes": func(tree *plan.Tree) { tree.Nodes[0].Payload.Protect = true },
		"of one that stays": func(tree *plan.Tree) {
			tree.Intent.Outputs = []plan.Output{{Name: "o", Value: json.RawMessage(`"v"`)}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := inMemory(t)
			access := may([]string{oldKey}, []string{ciKey})
			with := func(key string) *plan.Tree {
				tree := s.administered(access)
				tree.Nodes[0].ACL = append(access.List(), kind.ACL{Scheme: "digest", ID: digest(key), Perms: kind.PermRead})
				return tree
			}
			s.apply(s.as(oldKey), with("sre:before"))
			next := with("sre:after")
			edit(next)
			p := s.plan(s.as(ciKey), next)
			require.Contains(t, said(p), byName)
			s.runs(s.as(oldKey), p)

			p = s.plan(s.as(oldKey), next)
			require.Equal(t, 1, p.Summary().Change, "the list is still to be set")
			require.Empty(t, p.Drifted, "nobody has changed anything by hand")
			p = s.plan(s.as(ciKey), next)
			require.Contains(t, said(p), byName)
			s.apply(s.as(oldKey), next)
			require.Empty(t, s.told(s.plan(s.as(ciKey), next)))
		})
	}
}

// From a root that another program made, a reader's plan removes no entry that it cannot tell from ours.
func TestAReaderTakesNothingFromARootOfSomebodyElse(t *testing.T) {
	s := inMemory(t)
	s.create(s.as(oldKey), "/locks", "", allOf(nextKey), admin)
	s.apply(s.as(oldKey), s.administered(may([]string{oldKey}, []string{ciKey})))
	require.Empty(t, s.told(s.plan(s.as(ciKey), s.administered(may([]string{oldKey}, []string{ciKey})))))
	next := s.administered(may([]string{oldKey}, []string{ciKey, "ops:x"}))
	p := s.plan(s.as(ciKey), next)
	require.Contains(t, said(p), "The access list of /locks may differ from")
	s.runs(s.as(oldKey), p)
	require.True(t, s.grants("/locks", allOf(nextKey)))
	s.apply(s.as(oldKey), next)
	require.Len(t, s.everyList()["/locks"], 4)
}
