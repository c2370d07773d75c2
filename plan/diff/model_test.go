package diff_test

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/diff"
	"github.com/locktree/locktree/plan/diff/access"
	"github.com/locktree/locktree/plan/record"
	"github.com/locktree/locktree/plan/tx"
	"github.com/locktree/locktree/recipes/kind"
)

// model is a ZooKeeper reduced to what a transaction needs: it refuses what the
// server refuses, and runs a transaction whole or not at all.
type model struct {
	nodes map[string]*mnode
	zxid  int64
}

type mnode struct {
	data              []byte
	acl               kind.List
	czxid             int64
	version, aversion int32
}

// newModel returns a model with the tool's own nodes, as an apply leaves them before its transaction.
func newModel(root, stack string) *model {
	m := &model{nodes: map[string]*mnode{"/": {}}}
	for _, p := range []string{root, record.ScaffoldPath(root), kind.ParentPath(record.IndexPath(root, stack)), record.LockPath(root, stack)} {
		for ; m.nodes[p] == nil; p = kind.ParentPath(p) {
			m.nodes[p] = &mnode{acl: kind.WorldAll()}
		}
	}
	return m
}

func (m *model) children(path string) (out []string) {
	for p := range m.nodes {
		if p != "/" && kind.ParentPath(p) == path {
			out = append(out, p)
		}
	}
	slices.Sort(out)
	return out
}

func (m *model) multi(ops []tx.Op) error {
	next := &model{nodes: map[string]*mnode{}, zxid: m.zxid + 1}
	for p, n := range m.nodes {
		d := *n
		next.nodes[p] = &d
	}
	for i, op := range ops {
		if err := next.do(op); err != nil {
			return fmt.Errorf("op %d, %s %s: %w", i, op.Kind, op.Path, err)
		}
	}
	*m = *next
	return nil
}

func (m *model) do(op tx.Op) error {
	n := m.nodes[op.Path]
	if op.Kind == tx.OpCreate {
		if n != nil {
			return fmt.Errorf("node exists")
		}
		if m.nodes[kind.ParentPath(op.Path)] == nil {
			return fmt.Errorf("no parent")
		}
		if len(op.ACL) == 0 {
			return fmt.Errorf("invalid acl")
		}
		m.nodes[op.Path] = &mnode{data: op.Data, acl: op.ACL, czxid: m.zxid}
		return nil
	}
	if n == nil {
		return fmt.Errorf("no node")
	}
	if op.Version != -1 && n.version != op.Version {
		return fmt.Errorf("bad version: %d, not %d", n.version, op.Version)
	}
	switch op.Kind {
	case tx.OpSet:
		n.data = op.Data
		n.version++
	case tx.OpDelete:
		if c := m.children(op.Path); len(c) > 0 {
			return fmt.Errorf("not empty: %v", c)
		}
		delete(m.nodes, op.Path)
	case tx.OpCheck:
	default:
		return fmt.Errorf("unknown operation")
	}
	return nil
}

func (m *model) setACL(s plan.ACLStep) error {
	n := m.nodes[s.Path]
	if n == nil || n.aversion != s.Aversion {
		return fmt.Errorf("set acl %s: no node, or bad version", s.Path)
	}
	n.acl = s.ACL
	n.aversion++
	return nil
}

// read returns the tree that a read of the model finds.
func (m *model) read(t require.TestingT, root, stack string) *plan.Tree {
	tree := &plan.Tree{Root: root, Stack: stack, IndexPin: plan.Pin{Path: record.IndexPath(root, stack), Absent: true}}
	if n := m.nodes[tree.IndexPin.Path]; n != nil {
		x, err := record.Decode(n.data)
		require.NoError(t, err)
		tree.Index = x
		tree.IndexPin = plan.Pin{Path: tree.IndexPin.Path, Czxid: n.czxid, Version: n.version, Aversion: n.aversion}
	}
	tree.Destroys = m.nodes[record.LockPath(root, stack)].version
	children := map[string]int{}
	for path := range m.nodes {
		if path != "/" {
			children[kind.ParentPath(path)]++
		}
	}
	for path, n := range m.nodes {
		if !access.Under(path, root) || path == record.ScaffoldPath(root) || access.Under(path, record.ScaffoldPath(root)) {
			continue
		}
		if p := m.nodes[kind.ParentPath(path)]; p != nil {
			if pp, err := kind.Decode(p.data); err == nil && !pp.Params.Kind().Container {
				continue // a structural child
			}
		}
		tree.Nodes = append(tree.Nodes, m.node(path, n, children[path]))
	}
	slices.SortFunc(tree.Nodes, func(a, b *plan.Node) int { return strings.Compare(a.Path, b.Path) })
	for _, n := range tree.Nodes {
		if n.Payload == nil || n.Payload.Owner.Stack != stack {
			tree.Unmanaged = append(tree.Unmanaged, n.Path)
		}
	}
	return tree
}

func (m *model) node(path string, n *mnode, children int) *plan.Node {
	out := &plan.Node{Path: path, ACL: n.acl, Live: &plan.Live{
		Czxid: n.czxid, Version: n.version, Aversion: n.aversion, Children: children,
		DataLength: len(n.data),
	}}
	payload, err := kind.Decode(n.data)
	if err != nil {
		out.Live.Trouble, out.Live.Detail = plan.TroubleForeign, err.Error()
		return out
	}
	out.Payload, out.Addr = payload, plan.Addr(payload.Owner.Addr)
	for _, name := range payload.Children() {
		p := m.nodes[kind.JoinPath(path, name)]
		if p == nil {
			out.Live.Parts = append(out.Live.Parts, plan.Part{Name: name, Absent: true})
			continue
		}
		out.Live.Parts = append(out.Live.Parts, plan.Part{
			Name: name, Czxid: p.czxid, Version: p.version, Aversion: p.aversion, ACL: p.acl,
		})
	}
	return out
}

// apply does to the model what an apply does to an ensemble.
func (m *model) apply(t require.TestingT, p *plan.Plan) {
	require.True(t, p.Applyable(), "%s", p)
	ops, err := operations(p, "0123456789abcdef", kind.WorldAll())
	require.NoError(t, err)
	require.NoError(t, m.multi(ops))
	for _, s := range p.ACLSteps() {
		require.NoError(t, m.setACL(s))
	}
}

const (
	testRoot  = "/locks"
	testStack = "shop"
)

var (
	admin  = kind.ACL{Scheme: "digest", ID: "provisioner:AAAAAAAAAAAAAAAAAAAAAAAAAAA=", Perms: kind.PermAll}
	worker = kind.ACL{Scheme: "digest", ID: "worker:BBBBBBBBBBBBBBBBBBBBBBBBBBB=", Perms: kind.PermCreate | kind.PermRead | kind.PermDelete}
	reads  = kind.ACL{Scheme: "digest", ID: worker.ID, Perms: kind.PermRead} // in a namespace
	us     = kind.List{{Scheme: "world", ID: "anyone"}, {Scheme: "digest", ID: admin.ID}}
)

// declare makes a desired node; change completes it.
func declare(path string, k *kind.Kind, change ...func(*plan.Node)) *plan.Node {
	p := &kind.Payload{Params: k.New()}
	n := &plan.Node{
		Path: path, Addr: plan.Addr("namespace.x").Child(k.Name, strings.ReplaceAll(path[1:], "/", "_")),
		Origin: "locks.locktree.hcl:1", Payload: p, ACL: kind.List{admin, worker},
	}
	if k.Container {
		n.ACL = kind.List{admin, reads}
	}
	for _, f := range change {
		f(n)
	}
	p.Owner = kind.Owner{Stack: testStack, Addr: string(n.Addr)}
	return n
}

func declared(nodes ...*plan.Node) *plan.Tree {
	return &plan.Tree{Root: testRoot, Stack: testStack, Nodes: nodes}
}

func addr(a string) func(*plan.Node)     { return func(n *plan.Node) { n.Addr = plan.Addr(a) } }
func acl(l ...kind.ACL) func(*plan.Node) { return func(n *plan.Node) { n.ACL = l } }
func protect(n *plan.Node)               { n.Payload.Protect = true }
func set(name string, v any) func(*plan.Node) {
	return func(n *plan.Node) {
		for _, f := range n.Payload.Params.Fields() {
			if f.Name == name {
				if err := f.Set(v); err != nil {
					panic(err)
				}
				return
			}
		}
		panic("no parameter " + name)
	}
}

// applied returns a model to which the tree was applied.
func applied(t require.TestingT, tree *plan.Tree) *model {
	m := newModel(testRoot, testStack)
	m.apply(t, diff.Compare(m.read(t, testRoot, testStack), tree, plan.Options{Identities: us}))
	return m
}

func replan(t require.TestingT, m *model, tree *plan.Tree) *plan.Plan {
	return diff.Compare(m.read(t, testRoot, testStack), tree, plan.Options{Identities: us})
}

// actions lists what a plan does, in order, without the nodes left alone.
func actions(p *plan.Plan) (out []string) {
	for i := range p.Changes {
		if c := &p.Changes[i]; c.Action != plan.NoOp {
			out = append(out, c.Action.Symbol()+" "+c.Path)
		}
	}
	return out
}

func codes(p *plan.Plan) (out []string) {
	for _, q := range p.Problems {
		out = append(out, string(q.Severity)+" "+string(q.Code))
	}
	return out
}

// nextRecord returns the record as the plan leaves it.
func nextRecord(p *plan.Plan, applyID string) (x *record.Record, err error) {
	err = tx.Each(p, applyID, nil, func(batch *tx.Transaction) error {
		x = batch.Index
		return nil
	})
	return x, err
}

// operations returns the operations of all transactions, in order.
func operations(p *plan.Plan, applyID string, indexACL kind.List) (ops []tx.Op, err error) {
	err = tx.Each(p, applyID, indexACL, func(batch *tx.Transaction) error {
		ops = append(ops, batch.Ops...)
		return nil
	})
	return ops, err
}
