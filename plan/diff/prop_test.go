package diff_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/locktree/locktree/config"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/diff"
	"github.com/locktree/locktree/plan/tx"
	"github.com/locktree/locktree/recipes/kind"
)

// trees generates declarations of up to three levels from few names. Two of them overlap in every way: same, changed, other kind, gone,
// moved below, at the name of a semaphore's structural child.
func trees() *rapid.Generator[*plan.Tree] {
	return rapid.Custom(func(t *rapid.T) *plan.Tree {
		tree := declared()
		grow(t, tree, testRoot, 0)
		slices.SortFunc(tree.Nodes, func(a, b *plan.Node) int { return bytes.Compare([]byte(a.Path), []byte(b.Path)) })
		return tree
	})
}

func grow(t *rapid.T, tree *plan.Tree, parent string, depth int) {
	for _, name := range []string{"a", "a-b", "leases", "ä"} {
		k := rapid.SampledFrom([]*kind.Kind{nil, kind.Namespace, kind.Mutex, kind.RWLock, kind.Semaphore, kind.Election, kind.Keyed}).Draw(t, "kind")
		if k == nil {
			continue
		}
		n := declare(kind.JoinPath(parent, name), k)
		n.Addr += rapid.SampledFrom([]plan.Addr{"", "", "", `["k"]`, "2"}).Draw(t, "addr")
		n.Payload.Owner.Addr = string(n.Addr)
		n.Payload.Protect = false
		n.ACL = rapid.SampledFrom([]kind.List{{admin, worker}, {worker, admin}, {admin}}).Draw(t, "acl")
		n.Payload.ChildACL = rapid.SampledFrom([]kind.List{nil, {admin}}).Draw(t, "child_acl")
		for _, f := range n.Payload.Params.Fields() {
			if err := f.Set(value(t, f)); err != nil {
				panic(err)
			}
		}
		if p, ok := n.Payload.Params.(*kind.KeyedParams); ok {
			fit(p)
		}
		tree.Nodes = append(tree.Nodes, n)
		if k.Container && depth < 2 {
			grow(t, tree, n.Path, depth+1)
		}
	}
}

// fit makes parameters that were drawn one by one go together. It leaves out the 256 directories, which only take time.
func fit(p *kind.KeyedParams) {
	if p.Of != kind.Semaphore.Name {
		p.Permits = 0
	} else {
		p.Permits, p.Wire = p.Permits+1, kind.WireCurator
	}
	if p.Fanout != "" {
		p.Fanout = "16"
	}
}

func value(t *rapid.T, f kind.Field) any {
	switch {
	case f.Number:
		return rapid.IntRange(f.Min, f.Min+2).Draw(t, f.Name)
	case len(f.OneOf) > 0:
		return rapid.SampledFrom(f.OneOf).Draw(t, f.Name)
	case f.Inherit: // a limit, with a form of its own
		some, known := map[string]string{"max_hold": "10m", "max_wait": "1.5s", "owner": "text", "runbook": "https://example.com/a"}[f.Name]
		if !known {
			panic("no value for the limit " + f.Name)
		}
		return rapid.SampledFrom([]string{"", some}).Draw(t, f.Name)
	default:
		return rapid.SampledFrom([]string{"", "text"}).Draw(t, f.Name)
	}
}

func TestPlanDoesNotDependOnTheOrderOfItsInput(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := trees().Draw(t, "a"), trees().Draw(t, "b")
		m := applied(t, a)
		current := m.read(t, testRoot, testStack)
		want := diff.Compare(current, b, plan.Options{Identities: us, AllowMassDestroy: true})
		current.Nodes = rapid.Permutation(current.Nodes).Draw(t, "current")
		b.Nodes = rapid.Permutation(b.Nodes).Draw(t, "desired")
		require.Equal(t, want, diff.Compare(current, b, plan.Options{Identities: us, AllowMassDestroy: true}))
	})
}

var errStopped = errors.New("the program died")

// applyCut applies a plan in transactions that it cuts at random, and stops after some of them. It calls whole after each.
func (m *model) applyCut(t *rapid.T, p *plan.Plan, whole func()) (done bool) {
	require.True(t, p.Applyable(), "%s", p)
	left := rapid.IntRange(1, 8).Draw(t, "transactions")
	err := tx.Each(p, "0123456789abcdef", kind.WorldAll(), func(batch *tx.Transaction) error {
		if batch.Divisible && rapid.Bool().Draw(t, "cut") {
			return tx.ErrTooLong
		}
		require.NoError(t, m.multi(batch.Ops))
		whole()
		if left--; left == 0 && !batch.Last {
			return errStopped
		}
		return nil
	})
	if errors.Is(err, errStopped) {
		return false
	}
	require.NoError(t, err)
	for _, s := range p.ACLSteps() {
		require.NoError(t, m.setACL(s))
	}
	return true
}

// whole asserts what must hold between any two transactions: no lock is half-made, and none is at two paths.
func (m *model) whole(t *rapid.T) {
	live := m.read(t, testRoot, testStack)
	if live.Index == nil {
		require.Empty(t, live.Nodes)
		return
	}
	active := map[string]string{}
	for _, n := range live.Nodes {
		require.NotNil(t, n.Payload, n.Path)
		if n.Kind().Container {
			continue // no program opens one
		}
		require.Empty(t, active[string(n.Addr)], "%s is usable twice", n.Addr)
		active[string(n.Addr)] = n.Path
		for _, part := range n.Live.Parts {
			require.False(t, part.Absent, n.Path)
		}
	}
}

// However a plan is cut, and wherever it stops, every node is whole, and later plans reach what was declared. The model refuses a creation
// without a parent, a deletion with children and a wrong version, so this also proves the order of every transaction.
func TestPlanCutAnywhereAndStoppedAnywhereConverges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(testRoot, testStack)
		for _, name := range []string{"a", "b"} {
			tree := trees().Draw(t, name)
			opts := plan.Options{Identities: us, AllowMassDestroy: true}
			for try := 0; !m.applyCut(t, diff.Compare(m.read(t, testRoot, testStack), tree, opts), func() { m.whole(t) }); try++ {
				require.Less(t, try, 200, "it does not come any further")
			}
			after := m.converged(t, tree, opts)
			for i, n := range tree.Nodes {
				require.Equal(t, n.Kind(), after.Nodes[i].Kind())
				require.Empty(t, kind.Diff(n.Payload.Params, after.Nodes[i].Payload.Params))
				require.True(t, n.ACL.Equal(after.Nodes[i].ACL), n.Path)
			}
			if after.Index == nil {
				require.Empty(t, tree.Nodes)
			}
		}
		last := m.read(t, testRoot, testStack)
		m.apply(t, diff.Compare(last, declared(last.Nodes...), plan.Options{Identities: us, Destroy: true}))
		require.Empty(t, m.read(t, testRoot, testStack).Nodes)
		require.Nil(t, m.read(t, testRoot, testStack).Index)
	})
}

// converged asserts that the declared nodes are there, and that nothing is left behind or to do.
func (m *model) converged(t *rapid.T, tree *plan.Tree, opts plan.Options) *plan.Tree {
	after := m.read(t, testRoot, testStack)
	again := diff.Compare(after, tree, opts)
	require.False(t, again.HasChanges(), "%s", again)
	require.Empty(t, again.Drifted)
	require.Equal(t, pathsOf(tree.Nodes), pathsOf(after.Nodes))
	return after
}

func pathsOf(nodes []*plan.Node) (out []string) {
	for _, n := range nodes {
		out = append(out, n.Path)
	}
	return out
}

// Paths change. Each lock is at one path at every moment, and nothing is left at the old paths.
func TestPathsThatChangeCutAnywhereKeepOneLockUsable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := trees().Draw(t, "a")
		m := applied(t, a)
		opts := plan.Options{Identities: us, AllowMassDestroy: true}
		b := declared()
		to := rapid.SampledFrom([]string{"/moved", "/a2", "/b"}).Draw(t, "to")
		for _, n := range a.Nodes {
			c, p := *n, *n.Payload
			c.Path, c.Payload = testRoot+strings.Replace(n.Path[len(testRoot):], "/a", to, 1), &p
			if !slices.ContainsFunc(b.Nodes, func(o *plan.Node) bool { return o.Path == c.Path }) {
				b.Nodes = append(b.Nodes, &c)
			}
		}
		slices.SortFunc(b.Nodes, func(x, y *plan.Node) int { return strings.Compare(x.Path, y.Path) })
		for try := 0; ; try++ {
			p := diff.Compare(m.read(t, testRoot, testStack), b, opts)
			if !p.Applyable() {
				return // two of them want one path: refused, whatever was cut
			}
			if m.applyCut(t, p, func() { m.whole(t) }) {
				break
			}
			require.Less(t, try, 200)
		}
		m.converged(t, b, opts)
	})
}

// edit changes one node of the model by hand, as a person might.
func (m *model) edit(t *rapid.T, n *plan.Node) {
	at := m.nodes[n.Path]
	switch rapid.SampledFrom([]string{"data", "list", "delete", "part"}).Draw(t, "edit") {
	case "data":
		p := *n.Payload
		p.Protect, p.ChildACL = false, kind.List{worker}
		at.data, _ = p.Encode()
		at.version++
	case "list":
		at.acl = kind.List{admin, {Scheme: "ip", ID: "10.0.0.1", Perms: kind.PermRead}}
		at.aversion++
	case "delete":
		for path := range m.nodes {
			if path == n.Path || strings.HasPrefix(path, n.Path+"/") {
				delete(m.nodes, path)
			}
		}
	case "part":
		for _, c := range m.children(n.Path) {
			if !n.Kind().Container {
				delete(m.nodes, c)
			}
		}
	}
}

// An apply puts back edits by hand, of any sort and of any number of nodes.
func TestHandEditsArePutBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tree := trees().Draw(t, "tree")
		m := applied(t, tree)
		opts := plan.Options{Identities: us, AllowMassDestroy: true}
		for _, n := range m.read(t, testRoot, testStack).Nodes {
			if m.nodes[n.Path] != nil && rapid.Bool().Draw(t, "edited") {
				m.edit(t, n)
			}
		}
		m.apply(t, diff.Compare(m.read(t, testRoot, testStack), tree, opts))
		m.converged(t, tree, opts)
	})
}

// A plan of a part changes only that part and what it needs. The plan of the whole afterwards comes to the same as without it.
func TestTargetedPlansAreStepsOnTheWayToTheWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := trees().Draw(t, "a"), trees().Draw(t, "b")
		m := applied(t, a)
		opts := plan.Options{Identities: us, AllowMassDestroy: true}
		all := slices.Concat(a.Nodes, b.Nodes)
		if len(all) == 0 {
			return
		}
		some := opts
		for range rapid.IntRange(1, 4).Draw(t, "targets") {
			some.Targets = append(some.Targets, string(rapid.SampledFrom(all).Draw(t, "node").Addr))
		}
		whole := diff.Compare(m.read(t, testRoot, testStack), b, opts)
		p := diff.Compare(m.read(t, testRoot, testStack), b, some)
		for _, line := range actions(p) {
			require.Contains(t, actions(whole), line, "a part does what the whole would not")
		}
		m.apply(t, p)
		m.apply(t, diff.Compare(m.read(t, testRoot, testStack), b, opts))
		m.converged(t, b, opts)
	})
}

// A plan that was applied cannot be applied again: something it relied on has moved.
func TestNoPlanFitsTwice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := trees().Draw(t, "a"), trees().Draw(t, "b")
		m := newModel(testRoot, testStack)
		for _, opts := range []plan.Options{{Identities: us, AllowMassDestroy: true}, {Identities: us, Destroy: true}} {
			m.apply(t, diff.Compare(m.read(t, testRoot, testStack), a, plan.Options{Identities: us, AllowMassDestroy: true}))
			p := diff.Compare(m.read(t, testRoot, testStack), b, opts)
			if !p.HasChanges() {
				continue
			}
			m.apply(t, p)
			ops, err := operations(p, "0123456789abcdef", kind.WorldAll())
			require.NoError(t, err)
			require.Error(t, m.multi(ops))
		}
	})
}

// part is a block of a configuration.
type part struct {
	typ, name string
	keys      []string // of for_each; nil without one
	znode     string   // the beginning of its nodes' names
	args      map[string]string
	in        []*part
}

func (b *part) block() string { return b.typ + "." + b.name }

// write writes blocks. The content of a module becomes files of its own. key distinguishes the instances of the surrounding module.
func write(files fstest.MapFS, dir, key string, blocks []*part) string {
	var out strings.Builder
	for _, b := range blocks {
		fmt.Fprintf(&out, "%s %q {\n", b.typ, b.name)
		own := key
		if b.keys != nil {
			own += "-${each.key}"
			fmt.Fprintf(&out, "for_each = toset([%s])\n", strings.Join(b.keys, ", "))
		}
		for name, value := range b.args {
			fmt.Fprintf(&out, "%s = %s\n", name, value)
		}
		if b.typ != "module" {
			fmt.Fprintf(&out, "name = \"%s%s\"\n%s", b.znode, own, write(files, dir, key, b.in))
		} else {
			inside := "variable \"key\" {\n}\n" + write(files, dir+b.name+"/", "${var.key}", b.in)
			files[dir+b.name+"/m.locktree.hcl"] = &fstest.MapFile{Data: []byte(inside)}
			fmt.Fprintf(&out, "source = \"./%s\"\nkey = \"%s\"\n", b.name, own)
		}
		out.WriteString("}\n")
	}
	return out.String()
}

func load(t require.TestingT, blocks []*part) *plan.Tree {
	files := fstest.MapFS{}
	files["main.locktree.hcl"] = &fstest.MapFile{Data: []byte(`locktree {
  stack = "shop"
}
ensemble "main" {
  root   = "/locks"
  admins = [principal.us]
}
principal "us" {
  scheme = "digest"
  id     = "provisioner:AAAAAAAAAAAAAAAAAAAAAAAAAAA="
}
` + write(files, "", "", blocks))}
	dir, err := os.MkdirTemp("", "reason")
	require.NoError(t, err)
	defer os.RemoveAll(dir)
	require.NoError(t, os.CopyFS(dir, files))
	c, diags := config.Load(dir, config.Options{})
	require.False(t, diags.HasErrors(), "%v\n%s", diags, files["main.locktree.hcl"].Data)
	return c.Ensembles[0].Tree
}

// parts draws blocks in which each name is used once, so that a reason can name only one.
func parts(t *rapid.T, in string, depth int, n *int) (out []*part) {
	types := []string{"mutex", "semaphore", "namespace", "module"}
	switch {
	case depth == 3:
		types = types[:2]
	case in == "namespace":
		types = types[:3]
	case depth == 0:
		types = types[2:]
	}
	for range rapid.IntRange(1, 2).Draw(t, "blocks") {
		*n++
		b := &part{typ: rapid.SampledFrom(types).Draw(t, "type"), name: fmt.Sprintf("b%d", *n), znode: fmt.Sprintf("b%d", *n), args: map[string]string{}}
		b.keys = [][]string{nil, {`"x"`}, {`"x"`, `"y.[z"`}}[rapid.IntRange(0, 2).Draw(t, "keys")]
		switch b.typ {
		case "semaphore":
			b.args["permits"] = "3"
		case "namespace", "module":
			b.in = parts(t, b.typ, depth+1, n)
		}
		out = append(out, b)
	}
	return out
}

func each(blocks []*part, f func(in []*part, i int)) {
	for i, b := range blocks {
		f(blocks, i)
		each(b.in, f)
	}
}

// One thing is changed. The plan gives it as the reason for all its changes, and has another id.
func TestAPlanNamesWhatWasChangedAsTheReason(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		blocks := parts(t, "", 0, new(int))
		before := load(t, blocks)
		m := applied(t, before)
		same := diff.Compare(m.read(t, testRoot, testStack), before, plan.Options{Identities: us})
		require.False(t, same.HasChanges(), "%s", same)

		var all []*part
		each(blocks, func(in []*part, i int) { all = append(all, in[i]) })
		b := rapid.SampledFrom(all).Draw(t, "changed")
		want := ""
		switch what := rapid.SampledFrom([]string{"block", "key", "for_each", "argument", "name"}).Draw(t, "what"); {
		case what == "key" && b.keys != nil:
			key := b.keys[0]
			b.keys = b.keys[1:] // perhaps none is left
			want = "key [" + key + "] is not in for_each map"
		case what == "for_each" && b.keys != nil:
			b.keys, want = nil, b.block()+" does not use for_each"
		case what == "for_each":
			b.keys, want = []string{`"x"`}, b.block()+" uses for_each"
		case what == "argument" && b.typ == "semaphore":
			b.args["permits"], want = "4", "permits"
		case what == "argument" && b.typ != "module":
			b.args["description"], want = `"text"`, "description"
		case what == "name" && b.typ != "module":
			b.znode, want = "other", "its path changes from /"
		default:
			gone := func(in []*part) []*part {
				return slices.DeleteFunc(in, func(x *part) bool { return x == b })
			}
			blocks = gone(blocks)
			each(blocks, func(in []*part, i int) { in[i].in = gone(in[i].in) })
			want = b.block() + " is not in configuration"
		}
		p := diff.Compare(m.read(t, testRoot, testStack), load(t, blocks), plan.Options{Identities: us, AllowMassDestroy: true})
		require.NotEqual(t, same.Sum(), p.Sum())
		require.True(t, p.HasChanges())
		for _, c := range p.Shown() {
			reason := c.ReasonText()
			for _, param := range c.Params {
				reason += param.Name
			}
			if c.Action != plan.NoOp && c.Action != plan.Create {
				require.Contains(t, reason, want, "%s %s", c.Action, c.Addr)
			}
		}
	})
}

// A plan with a deletion, the same plan with a broken lock, and one that also deletes an output had one id.
func TestPlansThatDoSomethingElseHaveAnotherID(t *testing.T) {
	does := func(t *rapid.T, p *plan.Plan) string {
		var out strings.Builder
		ops, err := operations(p, "0123456789abcdef", kind.WorldAll())
		require.NoError(t, err)
		for _, op := range ops {
			if op.Addr != "" {
				fmt.Fprintf(&out, "%v %s %s %+v\n", op.Kind, op.Path, op.Data, op.ACL)
			}
		}
		for _, s := range p.ACLSteps() {
			fmt.Fprintf(&out, "%s %+v\n", s.Path, s.ACL)
		}
		for c := range p.Each() {
			out.WriteString(fmt.Sprint(c.Break))
		}
		for _, o := range p.Outputs {
			if o.After != nil {
				fmt.Fprintf(&out, "%s %s %v\n", o.Name, o.After.Value, o.After.Sensitive)
			}
		}
		return fmt.Sprint(out.String(), p.Drain, p.Destroy)
	}
	output := func(t *rapid.T) []plan.Output {
		return rapid.SampledFrom([][]plan.Output{nil, {{Name: "o", Value: []byte("1")}}, {{Name: "o", Value: []byte("2")}}, {{Name: "o", Sensitive: true}}}).Draw(t, "outputs")
	}
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(testRoot, testStack)
		first := trees().Draw(t, "applied")
		first.Intent.Outputs = output(t)
		m.apply(t, diff.Compare(m.read(t, testRoot, testStack), first, plan.Options{Identities: us}))
		current := m.read(t, testRoot, testStack)
		second := trees().Draw(t, "declared")
		var p [2]*plan.Plan
		for i := range p {
			second.Intent.Outputs = output(t)
			opts := plan.Options{Identities: us, AllowMassDestroy: true, Drain: rapid.SampledFrom([]time.Duration{0, time.Second}).Draw(t, "drain")}
			for _, n := range first.Nodes {
				if rapid.IntRange(0, 3).Draw(t, "break") == 0 {
					opts.ForceBreak = append(opts.ForceBreak, string(n.Addr))
				}
			}
			p[i] = diff.Compare(current, second, opts)
			if n := len(second.Nodes); n > 0 && i == 0 {
				at := second.Nodes[rapid.IntRange(0, n-1).Draw(t, "changed")]
				switch rapid.IntRange(0, 3).Draw(t, "change") {
				case 0:
					other := worker
					other.ID = "worker:CCCCCCCCCCCCCCCCCCCCCCCCCCC="
					at.ACL = kind.List{admin, other}
				case 1:
					at.Payload.ChildACL = kind.List{admin, worker}
				case 2:
					at.Payload.Protect = true
				}
			}
		}
		if does(t, p[0]) != does(t, p[1]) {
			require.NotEqual(t, p[0].Sum(), p[1].Sum())
		} else {
			require.Equal(t, p[0].Sum(), p[1].Sum())
		}
	})
}
