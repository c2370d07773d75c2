package apply_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/apply"
	"github.com/locktree/locktree/apply/failure"
	"github.com/locktree/locktree/apply/internal/wire"
	"github.com/locktree/locktree/apply/read"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/problem"
	"github.com/locktree/locktree/plan/record"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
)

// losses are the ways to lose a record.
var losses = map[string]func(*testing.T, *zktest.Server, string){
	"gone": func(t *testing.T, srv *zktest.Server, at string) { require.NoError(t, srv.Delete(at)) },
	"foreign data": func(t *testing.T, srv *zktest.Server, at string) {
		require.NoError(t, srv.Set(at, []byte("not a record")))
	},
	"cut off": func(t *testing.T, srv *zktest.Server, at string) {
		n, _ := srv.Get(at)
		require.NoError(t, srv.Set(at, n.Data[:len(n.Data)/2]))
	},
}

// longNames declares locks whose addresses make large marks.
func longNames(from, to int) []*plan.Node {
	nodes := []*plan.Node{declare("/many", kind.Namespace, adminOnly)} // no other program creates nodes there
	for i := from; i < to; i++ {
		n := declare(fmt.Sprintf("/many/lock-%04d", i), kind.Mutex)
		n.Addr = n.Addr.Instance(strings.Repeat("k", 4000))
		n.Payload.Owner.Addr = string(n.Addr)
		nodes = append(nodes, n)
	}
	return nodes
}

var sums = regexp.MustCompile(` version \d+|"sum":"[^"]+",`)

// If the record is gone or damaged, the next plan says so. An apply of the declared tree, changed or not, writes the record again.
// Besides that it writes only what was planned.
func TestLostRecordIsToldAndWrittenAnew(t *testing.T) {
	for name, lose := range losses {
		for what, nodes := range map[string][]*plan.Node{
			"nothing to change": longNames(0, 100),
			"changes":           append(longNames(10, 110), declare("/solo", kind.Election)),
		} {
			t.Run(name+", "+what, func(t *testing.T) {
				s, c := provisioned(t)
				s.apply(c, s.tree(longNames(0, 100)...))
				at := record.IndexPath(s.root, stack)
				lose(t, s.server, at)
				tree := s.tree(nodes...)
				p := s.plan(c, tree)
				require.True(t, p.Applyable(), "%s", p)
				require.True(t, p.HasChanges())
				require.Equal(t, problem.Index, p.Problems[0].Code)
				require.Equal(t, map[bool]string{true: "Record is missing", false: "Record is damaged"}[name == "gone"], p.Problems[0].Summary)
				require.Contains(t, p.Problems[0].Detail, at)
				saved := s.resaved(p)
				locks := s.lockDump(c)
				s.runs(c, saved)
				for path, now := range s.lockDump(c) {
					if was, stays := locks[path]; stays && tree.Find(path) != nil {
						if saved.Seals() { // the key of the sums was lost, too
							was, now = sums.ReplaceAllString(was, ""), sums.ReplaceAllString(now, "")
						}
						require.Equal(t, was, now, "no lock changes")
					}
				}
				s.converges(c, tree, plan.Options{})
				require.Empty(t, s.plan(c, tree).Drifted)
				require.NoError(t, s.destroy(c, tree))
				_, there := s.server.Get(at)
				require.False(t, there)
			})
		}
	}
}

// lockDump is dump without the tool's own nodes.
func (s *site) lockDump(c *recipes.Client) map[string]string {
	out := s.dump(c)
	for path := range out {
		if strings.HasPrefix(path, record.ScaffoldPath(s.root)) {
			delete(out, path)
		}
	}
	return out
}

// A plan finds the nodes in a namespace through the namespace, so it forgets those nodes first.
func TestNamespaceIsForgottenAfterTheNodesInIt(t *testing.T) {
	s, c := provisioned(t)
	tree := s.shop()
	s.apply(c, tree)
	inner := func(n *plan.Node) bool { return strings.HasPrefix(n.Path, s.root+"/pay") }
	tree.Nodes = slices.DeleteFunc(tree.Nodes, inner)
	tree.Intent.Removals = []plan.Removal{{From: "pay.namespace"}}
	part := s.plan(c, tree, plan.Options{Targets: []string{"pay.namespace"}})
	require.False(t, part.HasChanges())
	require.Contains(t, said(part), "/pay contains "+s.root+"/pay/batch, which stays (and 3 more): the namespace is not forgotten yet.")
	s.apply(c, tree, plan.Options{AllowMassDestroy: true})
	require.Empty(t, s.index(c).Untracked)
	require.Nil(t, s.node(c, "/pay/ledger"))
	require.NotNil(t, s.node(c, "/pay"), "another program's by now")
}

// A read does not walk into a namespace in which others may create nodes. It finds what is declared there and what the record names, even
// in an inner namespace that is closed to others. It counts the other nodes, whatever their marks say.
func TestNamespaceInWhichOthersMayCreateIsNotWalkedInto(t *testing.T) {
	s, c := provisioned(t)
	locks := func(names ...string) *plan.Tree {
		lent := func(n *plan.Node) { n.ACL = kind.List{admin, worker} }
		nodes := []*plan.Node{declare("/pay", kind.Namespace, lent), declare("/pay/in", kind.Namespace)}
		for _, name := range names {
			nodes = append(nodes, declare("/pay/"+name, kind.Mutex))
		}
		return s.tree(nodes...)
	}
	first, second := locks("in/old", "ledger", "old"), locks("ledger")
	s.apply(c, first)
	require.Equal(t, []string{"/locks/pay/in", "/locks/pay/in/old", "/locks/pay/ledger", "/locks/pay/old"}, s.index(c).Untracked)
	mark := s.at("/pay/old").Data
	for _, path := range []string{"/pay/forged", "/pay/in/forged", "/pay/.locktree/stacks/" + stack} {
		require.NoError(t, s.server.Create(s.root+path, mark))
	}
	listed := s.server.Inject(func(r zktest.Request) bool {
		return strings.HasPrefix(r.Op, "getChildren") && strings.HasPrefix(r.Path, s.root+"/pay") || strings.Contains(r.Path, "forged")
	}, zktest.Fault{})
	p := s.plan(c, first)
	require.False(t, p.HasChanges(), "%s", p)
	require.Empty(t, p.Problems)
	require.Equal(t, map[string]int{"/locks/pay": 2, "/locks/pay/in": 1}, p.Unread)
	require.Zero(t, listed.Hits())

	s.setByHand(c, s.root+"/pay/ledger", admin)
	p = s.plan(c, second)
	require.Equal(t, plan.Counts{Change: 1, Destroy: 2}, p.Summary())
	require.Len(t, p.Drifted, 1)
	require.Equal(t, s.root+"/pay/ledger", p.Drifted[0].Path)
	s.apply(c, second)
	require.Equal(t, []string{"/locks/pay/in", "/locks/pay/ledger"}, s.index(c).Untracked)
	p = s.plan(c, s.tree())
	require.Equal(t, plan.Counts{Destroy: 1}, p.Summary())
	require.Contains(t, said(p), "/locks/pay contains /locks/pay/* (2 nodes not read) (and 1 more): the namespace is left where it is.")
	require.NoError(t, s.destroy(c, second))
	require.Nil(t, s.node(c, "/pay/ledger"))
	require.NotNil(t, s.node(c, "/pay/forged"))
	require.NotNil(t, s.node(c, "/pay/in/forged"))
}

// Such a root was an error of every command, so any program that may create nodes in a namespace could stop them all.
func TestARootInANamespaceOfTheSameStackIsLeftAlone(t *testing.T) {
	s, c := shopped(t)
	inner := *s
	inner.root += "/pay"
	require.NoError(t, s.server.Create(record.ScaffoldPath(inner.root)+"/stacks/another", nil))
	require.False(t, s.plan(c, s.shop()).HasChanges(), "another stack may have its root there")
	require.NoError(t, s.server.Create(record.IndexPath(inner.root, stack), nil))
	data, err := declare("/theirs", kind.Mutex).Payload.Encode()
	require.NoError(t, err)
	require.NoError(t, s.server.Create(inner.root+"/theirs", data))
	tree := s.shop()
	p := s.plan(c, tree)
	require.False(t, p.HasChanges(), "%s", p)
	require.Equal(t, map[string]int{"/locks/pay": 2, "/locks/pay/batch": 0}, p.Unread)

	s.apply(c, s.tree(append(s.shopNodes(), declare("/more", kind.Mutex))...)) // the record now names the nodes that no read walks to
	tree.Nodes = slices.DeleteFunc(tree.Nodes, func(n *plan.Node) bool { return n.Path == s.root+"/pay/ledger" })
	s.apply(c, tree)
	require.Nil(t, s.node(c, "/pay/ledger"), "what the record names is ours")
	require.NoError(t, s.destroy(c, tree))
	require.NotNil(t, s.node(c, "/pay/theirs"))
	require.Nil(t, s.node(c, "/solo"))
}

func (s *site) node(c *recipes.Client, path string) *zk.Stat {
	s.t.Helper()
	stat, err := s.session(c).Exists(s.t.Context(), s.root+path)
	require.NoError(s.t, err)
	return stat
}

func TestRootsOfTwoStacksAreNeverInsideOfEachOther(t *testing.T) {
	s, c := provisioned(t)
	inner := *s
	inner.root += "/pay"
	tree := inner.of("pay", nil)
	inner.apply(c, tree)

	outer := s.tree(declare("/pay", kind.Namespace))
	outer.Intent.Imports = []plan.Import{{To: outer.Nodes[0].Addr, Path: outer.Nodes[0].Path}}
	_, err := read.Tree(t.Context(), s.session(c), outer)
	require.ErrorContains(t, err, `this root belongs to stack "pay" (/locks/pay/.locktree/stacks/pay is its record)`)

	require.NoError(t, inner.destroy(c, tree))
	p := inner.plan(c, tree)
	s.apply(c, s.tree(declare("/solo", kind.Election)))
	_, err = executor(c).Run(t.Context(), p)
	require.ErrorContains(t, err, `the root /locks, which is around this path, belongs to stack "shop" (/locks/.locktree/stacks/shop is its record)`)
}

// A record that a newer program wrote is not damaged: it is left for a newer program.
func TestRecordOfANewerVersionIsLeftAlone(t *testing.T) {
	s, c := shopped(t)
	require.NoError(t, s.server.Set(record.IndexPath(s.root, stack), []byte(`{"locktree":9,"apply":"","res":{}}`)))
	_, err := read.Tree(t.Context(), s.session(c), s.shop())
	errorAs[*record.VersionError](t, err)
	require.ErrorContains(t, err, "upgrade locktree")
}

// A node's access list lets those who apply set the list, but not write the data. The node keeps its mark, and stops no apply.
func TestANodeThatNobodyMayWriteKeepsItsMark(t *testing.T) {
	s := inMemory(t)
	access := may([]string{oldKey}, []string{ciKey})
	tree := s.administered(access)
	sealed := tree.Find(s.root + "/pay/ledger")
	sealed.AllowLockout = true
	sealed.ACL = kind.List{{Scheme: "digest", ID: digest(oldKey), Perms: kind.PermRead | kind.PermAdmin}, worker, access.Readers[0]}
	c := s.as(oldKey)
	s.apply(c, tree)
	require.NoError(t, s.server.Set(record.IndexPath(s.root, stack), []byte("x"))) // the record's key is lost
	s.apply(c, tree)
	p := s.plan(c, tree)
	require.False(t, p.HasChanges(), "%s", p)
	require.Empty(t, p.Drifted, "nobody has changed it")
}

// A namespace is lent to a team. The team cannot stop its owner's applies with an entry that only looks as if it let the owner write.
func TestAnEntryThatMayBeOursStopsNoApply(t *testing.T) {
	for name, trap := range map[string]kind.ACL{
		"an address":       {Scheme: "ip", ID: "203.0.113.1", Perms: kind.PermAll},
		"another password": {Scheme: "digest", ID: "provisioner:AAAA", Perms: kind.PermAll},
	} {
		t.Run(name, func(t *testing.T) {
			s := inMemory(t)
			tree := s.administered(may([]string{oldKey}, []string{ciKey}))
			c := s.as(oldKey)
			s.apply(c, tree)
			require.NoError(t, s.server.Set(s.root+"/pay", []byte(strings.Replace(string(s.at("/pay").Data), `"sum":"`, `"sum":"x`, 1))))
			s.setByHand(c, s.root+"/pay", trap, allOf("tenant:x"), kind.ACL{Scheme: "world", ID: "anyone", Perms: kind.PermRead | kind.PermCreate | kind.PermDelete})
			set("description", "new")(tree.Nodes[1])
			p := s.plan(c, tree)
			_, err := executor(c).Run(t.Context(), p)
			errorAs[*failure.ACLPhaseError](t, err, "all else is applied")
			require.Contains(t, string(s.at("/pay/ledger").Data), `"description":"new"`)

			require.NoError(t, s.server.Set(s.root+"/pay", []byte(strings.Replace(string(s.at("/pay").Data), `"protect":false`, `"protect":true`, 1))))
			set("description", "newer")(tree.Nodes[1])
			_, err = executor(c).Run(t.Context(), s.plan(c, tree))
			require.ErrorContains(t, err, "do not have WRITE", "to put its data back takes that right")
			s.apply(c, tree, plan.Options{Targets: []string{"pay.ledger.mutex"}})
			require.Contains(t, string(s.at("/pay/ledger").Data), `"description":"newer"`)
		})
	}
}

// A record that is put back by hand has an earlier key. That says nothing about who changed which node.
func TestAnOldIndexThatIsPutBackIsNoDriftOfEveryNode(t *testing.T) {
	apply.RandomKeys(t)
	s, c := provisioned(t)
	at := record.IndexPath(s.root, stack)
	s.apply(c, s.shop())
	old, _ := s.server.Get(at)
	require.NoError(t, s.server.Set(at, []byte("x")))
	s.apply(c, s.shop())
	require.NoError(t, s.server.Set(at, old.Data))
	p := s.plan(c, s.shop())
	require.Empty(t, p.Drifted)
	require.True(t, p.Seals())
	s.apply(c, s.shop())
	require.NoError(t, s.server.Set(s.root+"/pay/ledger", []byte(strings.Replace(string(s.at("/pay/ledger").Data), `"protect":false`, `"protect":true`, 1))))
	require.Len(t, s.plan(c, s.shop()).Drifted, 1, "now it is one")
}

// The key of a stack does not follow from that of another one.
func TestEachStackHasAKeyOfItsOwn(t *testing.T) {
	apply.RandomKeys(t)
	keys := map[string]bool{}
	for range 3 {
		s, c := shopped(t)
		keys[s.index(c).Key] = true
		s.apply(c, s.shop(set("description", "new")))
		keys[s.index(c).Key] = true
	}
	require.Len(t, keys, 3)
}

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
	tree := s.crowd()
	tree.Nodes = append(tree.Nodes, s.tree(declare("/solo", kind.Election)).Nodes...)
	s.apply(c, tree)
	s.agrees(c, tree)
	return c, tree
}

// agrees asserts that a read asks for every access list, and that the read's result has the lists of the nodes.
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

// again returns the operations that create a node again with its data and another list.
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
