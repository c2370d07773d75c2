package apply_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/apply/failure"
	"github.com/locktree/locktree/apply/internal/wire"
	"github.com/locktree/locktree/apply/read"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/record"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/direct"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
	"github.com/locktree/locktree/recipes/zktest/effort"
)

const many = 240

// crowd is many locks in a namespace.
func (s *site) crowd(change ...func(*plan.Node)) *plan.Tree {
	nodes := []*plan.Node{declare("/many", kind.Namespace)}
	for i := range many {
		k := []*kind.Kind{kind.Mutex, kind.RWLock}[i%2]
		if i%80 == 50 {
			k = kind.Semaphore
		}
		nodes = append(nodes, declare(fmt.Sprintf("/many/lock-%03d", i), k, change...))
	}
	return s.tree(nodes...)
}

// settled applies the crowd, and another lock beside it.
func settled(t *testing.T, s *site) (*recipes.Client, *plan.Tree) {
	c := s.provisioner()
	s.apply(c, s.crowd())
	tree := s.tree(append(s.relative(s.crowd()), declare("/solo", kind.Election))...)
	s.apply(c, tree)
	s.agrees(c, tree)
	return c, tree
}

// relative are the nodes of a tree for another tree.
func (s *site) relative(tree *plan.Tree) (nodes []*plan.Node) {
	for _, n := range tree.Nodes {
		c := *n
		c.Path = strings.TrimPrefix(n.Path, s.root)
		nodes = append(nodes, &c)
	}
	return nodes
}

// rotated is the tree with other lists on all nodes, as after a rotation.
func rotated(tree *plan.Tree) *plan.Tree {
	out := *tree
	out.Nodes = nil
	for _, n := range tree.Nodes {
		c := *n
		adminOnly(&c)
		out.Nodes = append(out.Nodes, &c)
	}
	return &out
}

// agrees asserts that a read asks for every access list, and finds those that there are.
func (s *site) agrees(c *recipes.Client, tree *plan.Tree) {
	s.t.Helper()
	s.server.ResetCounts()
	got, err := read.Tree(s.t.Context(), s.session(c), tree)
	require.NoError(s.t, err)
	require.GreaterOrEqual(s.t, s.server.Counts().ByOp["getACL"], len(got.Nodes))
	for _, n := range got.Nodes {
		if n.Payload == nil { // it is closed to us
			require.Nil(s.t, n.ACL, n.Path)
			continue
		}
		acl, _, err := s.session(c).GetACL(s.t.Context(), n.Path)
		require.NoError(s.t, err)
		require.Equal(s.t, wire.FromZK(acl), n.ACL, n.Path)
		require.Equal(s.t, got.Index.Left(n.Path, n.Payload, n.ACL), n.Live.AsLeft, n.Path)
	}
}

var everybody = kind.WorldAll()

func (s *site) at(path string) zktest.Node {
	s.t.Helper()
	n, ok := s.server.Get(s.root + path)
	require.True(s.t, ok, path)
	return n
}

// again are the operations that make a node anew with its data and another list.
func (s *site) again(path string, acl kind.List) (ops []any) {
	n, at := s.at(path), s.root+path
	for _, part := range n.Children {
		ops = append(ops, &zk.DeleteRequest{Path: kind.JoinPath(at, part), Version: -1})
	}
	ops = append(ops, &zk.DeleteRequest{Path: at, Version: -1}, &zk.CreateRequest{Path: at, Data: n.Data, Acl: wire.ToZK(acl)})
	for _, part := range n.Children {
		ops = append(ops, &zk.CreateRequest{Path: kind.JoinPath(at, part), Data: []byte{}, Acl: wire.ToZK(acl)})
	}
	return ops
}

// hands are changes of a tree by hand, and the locks that the next plan names for each.
var hands = map[string]struct {
	do   func(s *site, one *direct.Session)
	want []string
}{
	"a list is set": {func(s *site, one *direct.Session) {
		_, err := one.SetACL(s.t.Context(), s.root+"/many/lock-007", wire.ToZK(everybody), -1)
		require.NoError(s.t, err)
	}, []string{"/many/lock-007"}},
	"a list is set and set back": {func(s *site, one *direct.Session) {
		for _, acl := range []kind.List{everybody, {admin, worker}} {
			_, err := one.SetACL(s.t.Context(), s.root+"/many/lock-007", wire.ToZK(acl), -1)
			require.NoError(s.t, err)
		}
	}, nil},
	"a node is made anew with another list": {func(s *site, one *direct.Session) {
		_, err := one.Multi(s.t.Context(), s.again("/many/lock-007", everybody)...)
		require.NoError(s.t, err)
	}, []string{"/many/lock-007"}},
	"a node is made anew with another's credentials": {func(s *site, one *direct.Session) {
		other := s.session(s.dial("other:o"))
		data := s.at("/many/lock-007").Data
		_, err := one.SetACL(s.t.Context(), s.root+"/many", wire.ToZK(everybody), -1)
		require.NoError(s.t, err)
		require.NoError(s.t, other.Delete(s.t.Context(), s.root+"/many/lock-007", -1))
		_, err = other.Create(s.t.Context(), s.root+"/many/lock-007", data, 0, []zk.ACL{{Scheme: "auth", Perms: 31}, {Scheme: "world", ID: "anyone", Perms: 1}})
		require.NoError(s.t, err)
		_, err = one.SetACL(s.t.Context(), s.root+"/many", wire.ToZK(kind.List{admin, reads}), -1)
		require.NoError(s.t, err)
	}, []string{"/many/lock-007"}},
	"all are made anew, in one transaction, by a tool that restores lists wrongly": {func(s *site, one *direct.Session) {
		var ops []any
		for i := range many {
			acl := kind.List{admin, worker}
			if i%2 == 1 {
				acl = everybody
			}
			ops = append(ops, s.again(fmt.Sprintf("/many/lock-%03d", i), acl)...)
		}
		_, err := one.Multi(s.t.Context(), ops...)
		require.NoError(s.t, err)
	}, odd()},
	"and the record with them": {func(s *site, one *direct.Session) {
		ops := s.again("/.locktree/stacks/"+stack, everybody)
		for i := range many {
			ops = append(ops, s.again(fmt.Sprintf("/many/lock-%03d", i), everybody)...)
		}
		_, err := one.Multi(s.t.Context(), ops...)
		require.NoError(s.t, err)
	}, nil},
	"the record is put back as it was": {func(s *site, _ *direct.Session) {
		require.NoError(s.t, s.server.Set(record.IndexPath(s.root, stack), s.at("/.locktree/stacks/"+stack).Data))
	}, nil},
	"the record is gone": {func(s *site, _ *direct.Session) {
		require.NoError(s.t, s.server.Delete(record.IndexPath(s.root, stack)))
	}, nil},
	"data is changed": {func(s *site, _ *direct.Session) {
		p, err := kind.Decode(s.at("/many/lock-008").Data)
		require.NoError(s.t, err)
		p.Protect = true
		data, err := p.Encode()
		require.NoError(s.t, err)
		require.NoError(s.t, s.server.Set(s.root+"/many/lock-008", data))
	}, []string{"/many/lock-008"}},
	"a node is closed to us": {func(s *site, one *direct.Session) {
		_, err := one.SetACL(s.t.Context(), s.root+"/many/lock-007", wire.ToZK(kind.List{worker}), -1)
		require.NoError(s.t, err)
	}, []string{"/many/lock-007"}},
}

func odd() (paths []string) {
	for i := 1; i < many; i += 2 {
		paths = append(paths, fmt.Sprintf("/many/lock-%03d", i))
	}
	return paths
}

func (s *site) editIndex(edit func(doc map[string]any)) {
	s.t.Helper()
	var doc map[string]any
	at := "/.locktree/stacks/" + stack
	require.NoError(s.t, json.Unmarshal(s.at(at).Data, &doc))
	edit(doc)
	data, err := json.Marshal(doc)
	require.NoError(s.t, err)
	require.NoError(s.t, s.server.Set(s.root+at, data))
}

// Every plan reads every list, so it sees each change by hand.
func TestChangesOfListsByHandAreSeen(t *testing.T) { someHands(t, settled) }

// So also when the lists are those that an apply has set since the nodes were created.
func TestChangesOfListsByHandAreSeenAfterARotation(t *testing.T) {
	effort.Proof(t, effort.Unraced)
	someHands(t, func(t *testing.T, s *site) (*recipes.Client, *plan.Tree) {
		c, tree := settled(t, s)
		s.apply(c, rotated(tree))
		s.apply(c, tree)
		s.agrees(c, tree)
		return c, tree
	})
}

func someHands(t *testing.T, settled func(*testing.T, *site) (*recipes.Client, *plan.Tree)) {
	for name, hand := range hands {
		t.Run(name, func(t *testing.T) {
			s := inMemory(t)
			c, tree := settled(t, s)
			hand.do(s, s.session(c))
			s.agrees(c, tree)
			p := s.plan(c, tree)
			var changed []string
			for _, ch := range p.Changes {
				if ch.Action != plan.NoOp {
					changed = append(changed, strings.TrimPrefix(ch.Path, s.root))
				}
			}
			for _, q := range p.Problems {
				if q.Code == plan.ProblemUnreadable {
					changed = append(changed, strings.TrimPrefix(q.Path, s.root))
				}
			}
			if hand.want == nil && name == "and the record with them" {
				require.Len(t, changed, many)
				return
			}
			require.Equal(t, hand.want, changed)
		})
	}
}

// Another list is declared. A read finds the lists that the nodes have, not those that they should have.
func TestListsDifferFromWhatIsDeclared(t *testing.T) {
	s := inMemory(t)
	c, tree := settled(t, s)
	closed := rotated(tree)
	s.agrees(c, closed)
	require.Equal(t, plan.Counts{Change: many + 2}, s.plan(c, closed).Summary())
	s.apply(c, closed)
	s.agrees(c, closed)
	s.converges(c, closed, plan.Options{})
	s.apply(c, tree)
	s.agrees(c, tree)
}

// An apply sets the list of one node, and a saved plan is applied after it.
func TestListOfOneNodeIsSet(t *testing.T) {
	s := inMemory(t)
	c, tree := settled(t, s)
	adminOnly(tree.Nodes[20])
	s.apply(c, tree)
	s.agrees(c, tree)
	_, err := executor(c).Run(t.Context(), s.resaved(s.plan(c, s.crowd())))
	require.NoError(t, err)
	s.agrees(c, s.crowd())
	require.NoError(t, s.destroy(c, s.crowd()))
}

// An apply sets half of the lists of a transaction, and somebody sets one of the others: both have the same aversion then.
func TestAListSetByHandIsNotTakenForOneThatAnApplySet(t *testing.T) {
	s := inMemory(t)
	c, tree := settled(t, s)
	half(tree, kind.List{admin, worker})
	s.apply(c, tree)
	s.agrees(c, tree)
	untouched, set := s.root+"/many/lock-007", s.root+"/many/lock-008"
	if tree.Find(untouched).ACL.Equal(kind.List{admin}) {
		untouched, set = set, untouched
	}
	_, err := s.session(c).SetACL(t.Context(), untouched, wire.ToZK(everybody), -1)
	require.NoError(t, err)
	require.Equal(t, s.at(strings.TrimPrefix(set, s.root)).Stat.Aversion, s.at(strings.TrimPrefix(untouched, s.root)).Stat.Aversion)
	s.agrees(c, tree)
	p := s.plan(c, tree)
	require.Equal(t, plan.Counts{Change: 1}, p.Summary())
}

// half gives every second node the other list, so that both are lists of one transaction.
func half(tree *plan.Tree, acl kind.List) {
	for i, n := range tree.Nodes {
		if n.ACL = (kind.List{admin}); i%2 == 0 {
			n.ACL = acl
		}
	}
}

// An apply that was cut off has noted lists that it did not set. Another one, which left those nodes out, kept what was noted.
func TestListsThatWereNotSetArePlannedAgain(t *testing.T) {
	s := inMemory(t)
	c := s.provisioner()
	tree := s.crowd()
	half(tree, kind.List{admin, worker})
	s.apply(c, tree)
	tree.Nodes = append(tree.Nodes, s.tree(declare("/solo", kind.Election)).Nodes...)
	s.apply(c, tree)
	s.agrees(c, tree)
	half(tree, kind.List{admin})
	in := s.server.Inject(func(q zktest.Request) bool { return q.Op == "setACL" }, zktest.Fail(zktest.CodeNoAuth))
	_, err := executor(c).Run(t.Context(), s.plan(c, tree))
	var cut *failure.ACLPhaseError
	require.ErrorAs(t, err, &cut)
	in.Remove()
	s.agrees(c, tree)
	set("description", "new")(tree.Find(s.root + "/solo"))
	p := s.plan(c, tree, plan.Options{Targets: []string{"solo.election"}})
	require.Equal(t, plan.Counts{Change: 1}, p.Summary())
	_, err = executor(c).Run(t.Context(), p)
	require.NoError(t, err)
	s.agrees(c, tree)
	require.Equal(t, plan.Counts{Change: many/2 + 1}, s.plan(c, tree).Summary())
}

// A tool has restored all nodes in one transaction, half of them with another list, which we may or may not read. The next apply is
// about something else, and keeps what is noted of these.
func TestListsThatAToolRestoredWronglyAreSeen(t *testing.T) {
	other := kind.ACL{Scheme: "digest", ID: digest("other:o"), Perms: kind.PermAll}
	for name, wrong := range map[string]kind.List{"open": everybody, "closed to us": {other}} {
		t.Run(name, func(t *testing.T) {
			s := inMemory(t)
			c, second := s.provisioner(), s.dial("other:o")
			tree := s.tree(append(s.relative(s.crowd(func(n *plan.Node) { n.ACL = kind.List{admin, other} })), declare("/solo", kind.Election))...)
			s.apply(c, tree)
			for _, path := range []string{"", "/.locktree", "/.locktree/stacks/" + stack, "/.locktree/apply/" + stack, "/solo"} {
				_, err := s.session(c).SetACL(t.Context(), s.root+path, wire.ToZK(everybody), -1)
				require.NoError(t, err)
			}
			tree.Find(s.root + "/solo").ACL = everybody
			tree.Find(s.root + "/solo").AllowWorld = true
			var ops []any
			for i := range many {
				acl := kind.List{admin, other}
				if i%2 == 1 {
					acl = wrong
				}
				ops = append(ops, s.again(fmt.Sprintf("/many/lock-%03d", i), acl)...)
			}
			_, err := s.session(c).Multi(t.Context(), ops...)
			require.NoError(t, err)
			in := s.server.Inject(func(q zktest.Request) bool {
				n, ok := s.server.Get(q.Path)
				return q.Op == "exists" && ok && n.ACL[0].ID == other.ID
			}, zktest.Fail(zktest.CodeNoAuth)) // as newer servers
			set("description", "new")(tree.Find(s.root + "/solo"))
			p := s.plan(c, tree, plan.Options{Targets: []string{"solo.election"}})
			require.Equal(t, plan.Counts{Change: 1}, p.Summary())
			_, err = executor(c).Run(t.Context(), p)
			require.NoError(t, err)
			in.Remove()
			s.agrees(second, tree)
			require.Equal(t, plan.Counts{Change: many / 2}, s.plan(second, tree).Summary())
		})
	}
}

// An apply of several transactions was cut off between two of them: the first has noted lists that only the end sets.
func TestListsBetweenTwoTransactionsArePlannedAgain(t *testing.T) {
	s := inMemory(t)
	c := s.provisioner()
	tree := s.tree(bulk(2500, 0, "x")...)
	half(tree, kind.List{admin, worker})
	s.apply(c, tree)
	s.agrees(c, tree)
	half(tree, kind.List{admin})
	for _, n := range tree.Nodes {
		if n.Kind() == kind.Mutex {
			set("description", "y")(n)
		}
	}
	p := s.plan(c, tree)
	sent := 0
	in := s.server.Inject(func(q zktest.Request) bool {
		if q.Op == "multi" && len(q.Paths) > 100 {
			sent++
		}
		return q.Op == "multi" && sent > 1
	}, zktest.Fail(zktest.CodeNoAuth))
	_, err := executor(c).Run(t.Context(), p)
	var part *failure.PartialError
	require.ErrorAs(t, err, &part)
	in.Remove()
	s.agrees(c, tree)
	lists := 0
	for _, ch := range s.plan(c, tree).Changes {
		if ch.ACL != nil {
			lists++
		}
	}
	require.Equal(t, len(p.ACLSteps()), lists)
}

// The servers store another list than they were sent. The apply says so, and so does every plan.
func TestListsThatTheServersWriteOtherwiseAreNotTakenAsSent(t *testing.T) {
	s := inMemory(t)
	c := s.provisioner()
	auth := func(n *plan.Node) { n.ACL = kind.List{{Scheme: "auth", Perms: kind.PermAll}} }
	tree := s.tree(bulk(2500, 0, "x")...)
	for _, n := range tree.Nodes {
		auth(n)
	}
	p := s.plan(c, tree)
	require.Greater(t, len(p.Batches), 1)
	_, err := executor(c).Run(t.Context(), p)
	var other *failure.VerifyError
	require.ErrorAs(t, err, &other)
	s.agrees(c, tree)
	require.Equal(t, plan.Counts{Change: len(tree.Nodes)}, s.plan(c, tree).Summary())
}

// To a reader who is no administrator the servers show no hashes.
func TestMaskedListsAreReadAsTheServersShowThem(t *testing.T) {
	s := inMemory(t)
	c, tree := settled(t, s)
	for _, path := range []string{"", "/.locktree", "/.locktree/stacks/" + stack, "/.locktree/apply/" + stack} {
		_, err := s.session(c).SetACL(t.Context(), s.root+path, wire.ToZK(everybody), -1)
		require.NoError(t, err)
	}
	s.agrees(c, tree)
	reader := s.dial("worker:w")
	s.agrees(reader, tree)
}

// Whatever is done to a tree, by hand and by applies that are cut off anywhere, a read finds the lists that are there.
func TestListsAreThoseThatAreThere(t *testing.T) {
	effort.Proof(t, effort.Unraced)
	for seed := range uint64(5) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { wander(t, inMemory(t), rand.New(rand.NewPCG(seed, 1))) })
		})
	}
}

func wander(t *testing.T, s *site, r *rand.Rand) {
	c, tree := settled(t, s)
	one, index := s.session(c), "/.locktree/stacks/"+stack
	lists := []kind.List{{admin, worker}, {admin}, {admin, {Scheme: "world", ID: "anyone", Perms: kind.PermRead}}}
	some := func() string { return fmt.Sprintf("/many/lock-%03d", r.IntN(many)) }
	old := s.at(index).Data
	for step := range 30 {
		switch r.IntN(9) {
		case 8: // all are made anew
			again := plan.Options{}
			for _, n := range tree.Nodes {
				n.ACL = kind.List{admin, {Scheme: "ip", ID: fmt.Sprint("10.0.0.", step), Perms: kind.PermRead}}
				if n.Kind() != kind.Namespace {
					again.Replace = append(again.Replace, string(n.Addr))
				}
			}
			s.apply(c, tree, again)
			for _, n := range tree.Nodes {
				n.ACL = lists[r.IntN(3)]
			}
			s.apply(c, tree)
			set("description", fmt.Sprint("d", step))(tree.Find(s.root + "/many/lock-100"))
			s.apply(c, tree)
		case 0:
			_, err := one.SetACL(t.Context(), s.root+some(), wire.ToZK(lists[r.IntN(3)]), -1)
			require.NoError(t, err)
		case 1:
			_, err := one.Multi(t.Context(), s.again(some(), lists[r.IntN(3)])...)
			require.NoError(t, err)
		case 2: // half of them, as by a tool that restores
			var ops []any
			for i := range many / 2 {
				ops = append(ops, s.again(fmt.Sprintf("/many/lock-%03d", i), lists[r.IntN(1+step%3)])...)
			}
			_, err := one.Multi(t.Context(), ops...)
			require.NoError(t, err)
		case 3:
			require.NoError(t, s.server.Set(s.root+some(), s.at(some()).Data))
		case 4:
			switch r.IntN(3) {
			case 0:
				require.NoError(t, s.server.Set(s.root+index, old))
			case 1:
				old = s.at(index).Data
			default:
				s.editIndex(func(doc map[string]any) { doc["apply"] = "0123456789abcdef" })
			}
		default: // other lists and other data, all of them or a few, cut off after some writes or not
			share := []int{1, 5, 50}[r.IntN(3)]
			for _, n := range tree.Nodes {
				if r.IntN(share) == 0 {
					n.ACL = lists[r.IntN(3)]
				}
				if r.IntN(share) == 0 && n.Kind() == kind.Mutex {
					set("description", fmt.Sprint(step))(n)
				}
			}
			p := s.plan(c, tree)
			require.True(t, p.Applyable(), "%s", p)
			left := r.IntN(30)
			in := s.server.Inject(func(q zktest.Request) bool {
				if q.Op == "multi" || q.Op == "setACL" {
					left--
				}
				return left < 0 && (q.Op == "multi" || q.Op == "setACL")
			}, zktest.Fail(zktest.CodeNoAuth))
			_, _ = executor(c).Run(t.Context(), p) // cut off or not
			in.Remove()
			time.Sleep(time.Minute)
		}
		one = s.session(c)
		s.agrees(c, tree)
	}
}
