package apply_test

import (
	"fmt"
	"strings"
	"testing"

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
		acl := s.list(c, n.Path)
		require.Equal(s.t, acl, n.ACL, n.Path)
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
