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

	"github.com/locktree/locktree/apply/internal/wire"
	"github.com/locktree/locktree/apply/read"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/problem"
	"github.com/locktree/locktree/plan/record"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
	"github.com/locktree/locktree/recipes/zktest/effort"
)

const many = 60

// crowd is many locks in a namespace.
func (s *site) crowd(change ...func(*plan.Node)) *plan.Tree {
	nodes := []*plan.Node{declare("/many", kind.Namespace)}
	for i := range many {
		k := []*kind.Kind{kind.Mutex, kind.RWLock}[i%2]
		if i%20 == 10 {
			k = kind.Semaphore
		}
		nodes = append(nodes, declare(fmt.Sprintf("/many/lock-%03d", i), k, change...))
	}
	return s.tree(nodes...)
}

// settled applies the crowd, and another lock beside it.
func settled(s *site) (*recipes.Client, *plan.Tree) {
	c := s.provisioner()
	s.apply(c, s.crowd())
	tree := s.tree(append(s.relative(s.crowd()), declare("/solo", kind.Election))...)
	s.apply(c, tree)
	s.agrees(c, tree)
	return c, tree
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
	do   func(s *site, one *recipes.Client)
	want []string
}{
	"a list is set": {func(s *site, one *recipes.Client) {
		s.setByHand(one, s.root+"/many/lock-007", everybody...)
	}, []string{"/many/lock-007"}},
	"a list is set and set back": {func(s *site, one *recipes.Client) {
		s.setByHand(one, s.root+"/many/lock-007", everybody...)
		s.setByHand(one, s.root+"/many/lock-007", admin, worker)
	}, nil},
	"a node is made anew with another's credentials": {func(s *site, one *recipes.Client) {
		other, path := s.session(s.dial("other:o")), s.root+"/many/lock-007"
		data := s.at("/many/lock-007").Data
		s.setByHand(one, s.root+"/many", everybody...)
		require.NoError(s.t, other.Delete(s.t.Context(), path, -1))
		_, err := other.Create(s.t.Context(), path, data, 0, []zk.ACL{{Scheme: "auth", Perms: 31}, {Scheme: "world", ID: "anyone", Perms: 1}})
		require.NoError(s.t, err)
		s.setByHand(one, s.root+"/many", admin, reads)
	}, []string{"/many/lock-007"}},
	"all are made anew, and the record, by a tool that restores lists wrongly": {func(s *site, one *recipes.Client) {
		ops := s.again("/.locktree/stacks/"+stack, everybody)
		for i := range many {
			ops = append(ops, s.again(fmt.Sprintf("/many/lock-%03d", i), []kind.List{{admin, worker}, everybody}[i%2])...)
		}
		_, err := s.session(one).Multi(s.t.Context(), ops...)
		require.NoError(s.t, err)
	}, odd()},
	"the record is put back as it was": {func(s *site, _ *recipes.Client) {
		require.NoError(s.t, s.server.Set(record.IndexPath(s.root, stack), s.at("/.locktree/stacks/"+stack).Data))
	}, nil},
	"the record is gone": {func(s *site, _ *recipes.Client) {
		require.NoError(s.t, s.server.Delete(record.IndexPath(s.root, stack)))
	}, nil},
	"data is changed": {func(s *site, _ *recipes.Client) { s.protect("/many/lock-008") }, []string{"/many/lock-008"}},
	"a node is closed to us": {func(s *site, one *recipes.Client) {
		s.setByHand(one, s.root+"/many/lock-007", worker)
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
func TestChangesOfListsByHandAreSeen(t *testing.T) {
	for name, hand := range hands {
		t.Run(name, func(t *testing.T) {
			s := inMemory(t)
			c, tree := settled(s)
			hand.do(s, c)
			s.agrees(c, tree)
			p := s.plan(c, tree)
			var changed []string
			for _, ch := range p.Changes {
				if ch.Action != plan.NoOp {
					changed = append(changed, strings.TrimPrefix(ch.Path, s.root))
				}
			}
			for _, q := range p.Problems {
				if q.Code == problem.Unreadable {
					changed = append(changed, strings.TrimPrefix(q.Path, s.root))
				}
			}
			require.Equal(t, hand.want, changed)
		})
	}
}

// To a reader who is no administrator the servers show no hashes.
func TestMaskedListsAreReadAsTheServersShowThem(t *testing.T) {
	s := inMemory(t)
	c, tree := settled(s)
	for _, path := range []string{"", "/.locktree", "/.locktree/stacks/" + stack, "/.locktree/apply/" + stack} {
		s.setByHand(c, s.root+path, everybody...)
	}
	s.agrees(c, tree)
	reader := s.dial("worker:w")
	s.agrees(reader, tree)
}

// Whatever is done to a tree, by hand and by applies that are cut off anywhere, a read finds the lists that are there.
func TestListsAreThoseThatAreThere(t *testing.T) {
	for seed := range uint64(effort.Of(5, 1)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { wander(t, inMemory(t), rand.New(rand.NewPCG(seed, 1))) })
		})
	}
}

func wander(t *testing.T, s *site, r *rand.Rand) {
	c, tree := settled(s)
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
			set("description", fmt.Sprint("d", step))(tree.Find(s.root + "/many/lock-050"))
			s.apply(c, tree)
		case 0:
			s.setByHand(c, s.root+some(), lists[r.IntN(3)]...)
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
		case 3: // a lock gets the declaration of another one; of another type, its parts would keep it from being made anew
			to, from := some(), some()
			for kindOf(tree.Find(s.root+to)) != kindOf(tree.Find(s.root+from)) {
				from = some()
			}
			require.NoError(t, s.server.Set(s.root+to, s.at(from).Data))
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
			opts := plan.Options{}
			if r.IntN(3) == 0 { // an apply that leaves most nodes out, and what is noted of them
				opts.Targets = []string{"solo.election"}
			}
			p := s.plan(c, tree, opts)
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
		for ch := range s.plan(c, tree).Each() {
			if n := tree.Find(ch.Path); n != nil && ch.Action == plan.NoOp {
				require.True(t, n.ACL.Equal(s.list(c, ch.Path)), "the list of %s is left as it is", ch.Path)
			}
		}
	}
}
