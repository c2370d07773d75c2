package diff_test

import (
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
	"github.com/locktree/locktree/recipes/kind"
)

// part is a block of a configuration.
type part struct {
	typ, name string
	keys      []string // of for_each; nil without one
	znode     string   // the beginning of its nodes' names
	args      map[string]string
	in        []*part
}

func (b *part) block() string { return b.typ + "." + b.name }

// write writes blocks; what is in a module becomes files of its own. key tells the instances of the module around apart.
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

// One thing is changed. It is the reason of all that the plan does, and the plan has another id.
func TestAPlanNamesWhatWasChangedAsTheReason(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		blocks := parts(t, "", 0, new(int))
		before := load(t, blocks)
		m := newModel(testRoot, testStack)
		m.apply(t, diff.Compare(m.read(t, testRoot, testStack), before, plan.Options{Identities: us}))
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

// A plan with a deletion, the same that breaks the lock, and one that also deletes an output had one id.
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
