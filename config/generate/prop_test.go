package generate_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/format"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/locktree/locktree/apply"
	"github.com/locktree/locktree/config"
	"github.com/locktree/locktree/config/generate"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
	"github.com/locktree/locktree/recipes/zktest/effort"
)

// checker type-checks source text against the compiled library.
func checker(t testing.TB) func(source string) error {
	out, err := exec.Command("go", "list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}", "github.com/locktree/locktree/recipes/once", "strconv", "strings").Output()
	require.NoError(t, err)
	compiled := map[string]string{}
	for line := range strings.Lines(string(out)) {
		pkg, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		compiled[pkg] = file
	}
	fset := token.NewFileSet()
	from := importer.ForCompiler(fset, "gc", func(pkg string) (io.ReadCloser, error) { return os.Open(compiled[pkg]) })
	return func(source string) error {
		file, err := parser.ParseFile(fset, "locks.go", source, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		_, err = (&types.Config{Importer: from}).Check("locks", fset, []*ast.File{file}, nil)
		return err
	}
}

// Any correct configuration gives code that compiles, is formatted, and holds none of the values that variables get. It is the same when it
// is generated again.
func TestAnyConfigurationGivesCodeThatCompiles(t *testing.T) {
	effort.Proof(t, effort.Unraced)
	check := checker(t)
	base := t.TempDir()
	n, checked := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		dir := filepath.Join(base, fmt.Sprint(n))
		files := drawn(rt)
		write(t, dir, files)
		_, code, ok := load(t, dir, "zk1:2181", "/given")
		if !ok {
			return
		}
		checked++
		source := goSource(t, code)
		require.NoError(rt, check(source), "%s\n%s", files, source)
		again, err := format.Source([]byte(source))
		require.NoError(rt, err)
		require.Equal(rt, source, string(again))
		for _, secret := range []string{"zk1:2181", "/given", "swordfish", "t-2"} {
			require.NotContains(rt, source, secret)
		}
		second, diags := generate.Load(dir, "")
		require.False(rt, diags.HasErrors(), "%v", diags)
		require.Equal(rt, source, goSource(t, second), "the values of variables are no input")
	})
	require.Greater(t, checked, 10)
}

// walker locks through each handle of a package, and with each given key if there is a handle for each key. A key that is not declared has
// no lock. It prints the paths.
const walker = `
func walk(v reflect.Value, outer string, keys []string) {
	for i := range v.NumMethod() {
		m := v.Method(i)
		switch args := m.Type().NumIn() - 1; {
		case strings.HasPrefix(m.Type().Out(0).Name(), "Keyed"):
			if _, several := reflect.Zero(m.Type().Out(0)).Interface().(interface {
				Lock(context.Context, ...string) (*recipes.Lease, error)
				TryLock(context.Context, ...string) (*recipes.Lease, error)
				Do(context.Context, func(context.Context, *recipes.Lease) error, ...string) error
			}); several != (m.Type().Out(0).Name() == "KeyedMutex") {
				fmt.Println("refused", m.Type().Out(0), "takes several keys:", several)
			}
			for _, key := range append(keys[:len(keys):len(keys)], "")[:max(args*len(keys), 1)] {
				in := []reflect.Value{reflect.ValueOf(key)}[:args]
				for _, id := range []string{"an order", "42"} {
					lock(outer+key, m.Call(in)[0].MethodByName("For").Call([]reflect.Value{reflect.ValueOf(id)})[0].Interface())
				}
			}
		case m.Type().Out(0).Kind() == reflect.Struct:
			for _, key := range keys {
				walk(m.Call([]reflect.Value{reflect.ValueOf(key)})[0], outer+key, keys)
			}
		case m.Type().Out(0).Kind() == reflect.String:
		case args == 0:
			lock(outer, m.Call(nil)[0].Interface())
		default:
			for _, key := range keys {
				lock(outer+key, m.Call([]reflect.Value{reflect.ValueOf(key)})[0].Interface())
			}
		}
	}
	for i := range v.NumField() {
		if f := v.Type().Field(i); f.IsExported() {
			walk(v.Field(i), outer, keys)
		}
	}
}

func lock(keys string, handle any) {
	ctx, cancel := context.WithTimeout(context.Background(), 5 * time.Minute)
	defer cancel()
	var l *recipes.Lease
	var err error
	switch h := handle.(type) {
	case *recipes.Mutex:
		l, err = h.TryLock(ctx)
	case *recipes.RWMutex:
		l, err = h.TryLock(ctx)
	case *recipes.Semaphore:
		l, err = h.TryAcquire(ctx, 1)
	case *recipes.Election:
		l, err = h.Campaign(ctx)
	}
	if err == nil {
		fmt.Println("locked", l.Path())
		err = l.Unlock(ctx)
	}
	if err != nil {
		fmt.Println("refused", strconv.Quote(keys), strings.ReplaceAll(err.Error(), "\n", " "))
	}
}
`

// After an apply, every handle of the code takes its lock below any root, and there is a handle for every lock. The same holds below a root
// to which Provision copies the locks.
func TestEveryHandleTakesItsLockAfterApply(t *testing.T) {
	effort.Proof(t, effort.Unraced)
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	base, overlay := t.TempDir(), map[string]string{}
	put := func(path, text string) {
		real := filepath.Join(base, strings.ReplaceAll(path, "/", "_"))
		require.NoError(t, os.WriteFile(real, []byte(text), 0o666))
		overlay[filepath.Join(root, "config/generate/drawn", path)] = real
	}
	var imports, calls strings.Builder
	var want [][]string // by draw: the paths of all locks
	server := zktest.Start(t)
	for seed := 0; len(want) < 12; seed++ {
		dir := filepath.Join(base, fmt.Sprint("d", seed))
		write(t, dir, rapid.Custom(drawn).Example(seed))
		below := fmt.Sprintf("/root-%d", len(want))
		c, code, ok := load(t, dir, server.Addr(), below)
		if !ok {
			continue
		}
		applyTo(t, server, c)
		n := len(want)
		var paths []string
		for _, node := range c.Ensembles[0].Tree.Nodes {
			if family, ok := node.Payload.Params.(*kind.KeyedParams); ok {
				for _, id := range []string{"an order", "42"} {
					path, err := family.Path(node.Path, id)
					require.NoError(t, err)
					paths = append(paths, path)
				}
			} else if !node.Kind().Container {
				paths = append(paths, node.Path)
			}
		}
		slices.Sort(paths)
		want = append(want, paths)
		put(fmt.Sprintf("d%d/locks.go", n), goSource(t, code))
		fmt.Fprintf(&imports, "d%d \"github.com/locktree/locktree/config/generate/drawn/d%d\"\n", n, n)
		fmt.Fprintf(&calls, "fmt.Println(\"draw\", %d)\nwalk(reflect.ValueOf(d%d.At(client, %q)), \"\", append(os.Args[2:], keys...))\n", n, n, below)
		fmt.Fprintf(&calls, "must(d%d.Provision(copied, \"/copy-%d/\"))\nfmt.Println(\"copy\", %d)\nwalk(reflect.ValueOf(d%d.At(copies, \"/copy-%d/\")), \"\", keys)\n", n, n, n, n, n)
	}
	put("main.go", "package main\n\nimport (\n\"context\"\n\"fmt\"\n\"os\"\n\"reflect\"\n\"strconv\"\n\"strings\"\n\"time\"\n\n\"github.com/locktree/locktree/recipes\"\n\"github.com/locktree/locktree/recipes/zktest\"\n"+imports.String()+
		")\n\nfunc must(err error) {\nif err != nil {\npanic(err)\n}\n}\n\nfunc dial(addr string) *recipes.Client {\nc, err := recipes.Dial(context.Background(), recipes.Config{Servers: []string{addr}})\nmust(err)\nreturn c\n}\n\n"+
		"func main() {\nkeys := []string{\"x\", \"y z\", \"ü\", \"one\", \"two\", \"k\", \"u\", \"a/b\"}\nclient := dial(os.Args[1])\ndefer client.Close()\ncopied := zktest.New()\ndefer copied.Close()\ncopies := dial(copied.Addr())\ndefer copies.Close()\n"+calls.String()+"}\n"+walker)
	replace, err := json.Marshal(map[string]any{"Replace": overlay})
	require.NoError(t, err)
	write(t, base, map[string]string{"overlay.json": string(replace)})
	program := filepath.Join(base, "program")
	out, err := exec.Command("go", "build", "-overlay", filepath.Join(base, "overlay.json"), "-o", program, "github.com/locktree/locktree/config/generate/drawn").CombinedOutput()
	require.NoError(t, err, "%s", out)
	out, err = exec.Command(program, append([]string{server.Addr()}, openKeys...)...).CombinedOutput()
	require.NoError(t, err, "%s", out)

	got, copies, at := make([][]string, len(want)), make([]int, len(want)), &[]string{}
	copied := 0
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		what, rest, _ := strings.Cut(lines.Text(), " ")
		var n int
		switch what {
		case "draw":
			_, err = fmt.Sscan(rest, &n)
			at = &got[n]
		case "copy":
			_, err = fmt.Sscan(rest, &n)
			at, copied = &[]string{}, n
		case "locked":
			*at = append(*at, rest)
			if strings.HasPrefix(rest, "/copy-") {
				copies[copied]++
			}
		default:
			require.Regexp(t, `^refused "..*" .*(not provisioned|contains a NUL character)`, lines.Text(), "without a key, there is a lock")
		}
		require.NoError(t, err)
	}
	for n := range want {
		slices.Sort(got[n])
		require.Equal(t, want[n], got[n], "draw %d\n%s", n, out)
		require.Positive(t, copies[n])
	}
}

func applyTo(t testing.TB, server *zktest.Server, c *config.Config) {
	client, err := recipes.Dial(t.Context(), recipes.Config{Servers: []string{server.Addr()}})
	require.NoError(t, err)
	defer client.Close()
	run, err := apply.Begin(t.Context(), client, c.Ensembles[0].Tree, apply.Options{})
	require.NoError(t, err)
	p := run.Plan(plan.Options{})
	require.True(t, p.Applyable(), "%v", p.Problems)
	_, err = run.Apply(t.Context(), p)
	require.NoError(t, err)
}

// preamble has variables of every sort, and an ensemble that depends on one without a default.
const preamble = `
locktree { stack = "drawn" }
variable "servers" { type = list(string) }
variable "root" { type = string }
variable "open" { type = set(string) }
variable "pools" {
  type    = map(object({ permits = number }))
  default = { one = { permits = 1 }, "t/wo" = { permits = 2 } }
}
variable "secret" {
  sensitive = true
  default   = "swordfish"
}
variable "n" { type = number }
locals {
  pools = { for k, v in var.pools : replace(k, "/", "") => v }
  names = { for k, v in local.pools : k => "named-${k}" }
}
ensemble "main" {
  servers = var.servers
  root    = var.root
}
principal "anyone" { scheme = "world" }
acl "open" {
  allow_world = true
  grant {
    to    = [principal.anyone]
    allow = "admin"
  }
}
`

// given are values for the variables. openKeys are those of the set.
var openKeys = []string{"t1", "t-2"}

func given(addr, root string) []config.Input {
	return []config.Input{{Var: "servers=[\"" + addr + "\"]"}, {Var: "root=" + root}, {Var: `open=["t1", "t-2"]`}, {Var: "n=3"}}
}

// drawing is a configuration that is being drawn.
type drawing struct {
	*rapid.T
	nodes int
}

// labels include keywords, names of the generated code, and labels that differ only in characters that no identifier has.
var labels = []string{"ledger", "a-b", "a_b", "ab", "A", "a", "type", "func", "Root", "root", "at", "Locks", "locks", "client", "place", "x1", "_", "__", "été", "日本", "String", "in", "wait", "class", "output-o"}

// repeated are values of for_each. The keys of the last two are not known to code.
var repeated = []string{`toset(["x", "y z", "ü"])`, "local.pools", `{ k = { permits = 4 } }`, "toset([for k in var.open : k])", "{ for k in var.open : k => { permits = 2 } }"}

func (d *drawing) blocks(b *strings.Builder, depth int) {
	for _, label := range rapid.SliceOfNDistinct(rapid.SampledFrom(labels), 1, 5, rapid.ID).Draw(d.T, "labels") {
		kinds := []string{"mutex", "rwlock", "semaphore", "election", "keyed"}
		if depth > 0 {
			kinds = append(kinds, "namespace", "namespace", "namespace")
		}
		k := rapid.SampledFrom(kinds).Draw(d.T, "kind")
		d.nodes++
		fmt.Fprintf(b, "%s %q {\n", k, label)
		each := 0
		if rapid.IntRange(0, 2).Draw(d.T, "repeated") == 0 {
			each = rapid.IntRange(1, len(repeated)).Draw(d.T, "for_each")
			fmt.Fprintf(b, "for_each = %s\n", repeated[each-1])
		}
		own := fmt.Sprintf("n%d", d.nodes)
		names := []string{"", fmt.Sprintf("name = %q\n", own)}
		if each > 0 {
			names = []string{"", fmt.Sprintf("name = \"%s-${each.key}\"\n", own), fmt.Sprintf("name = \"${each.key}.%s\"\n", own)}
		}
		if each == 2 {
			names = append(names, fmt.Sprintf("name = \"%s${local.names[each.key]}\"\n", own))
		}
		b.WriteString(rapid.SampledFrom(names).Draw(d.T, "name"))
		if k == "semaphore" {
			fmt.Fprintf(b, "permits = %s\n", rapid.SampledFrom([]string{"2", "var.n", "length(var.open)"}).Draw(d.T, "permits"))
		}
		if k == "keyed" {
			b.WriteString(rapid.SampledFrom([]string{"kind = \"mutex\"\nfanout = \"16\"\n", "kind = \"rwlock\"\n", "kind = \"semaphore\"\npermits = var.n\n"}).Draw(d.T, "of"))
		}
		b.WriteString(rapid.SampledFrom([]string{"", "description = \"*/ \\\"\\\"\\\" \\\\u000a\\nfunc x() {} // @ <\"\n", "owner = \"team\"\n", "description = \"${var.n} at a time\"\n"}).Draw(d.T, "more"))
		if k == "namespace" {
			d.blocks(b, depth-1)
		}
		b.WriteString("}\n")
	}
}

// drawn are the files of a correct configuration, with an access list that lets everyone in.
func drawn(t *rapid.T) map[string]string {
	d := &drawing{T: t}
	var main, mod strings.Builder
	main.WriteString(preamble + "namespace \"top\" {\nacl = acl.open\n")
	d.blocks(&main, 2)
	main.WriteString("}\noutput \"o\" { value = namespace.top.path }\noutput \"p\" { value = { a = [1, \"x\"] } }\noutput \"q\" { value = var.n }\n" +
		"output \"r\" {\n  value = var.secret\n  sensitive = true\n}\noutput \"s\" { value = 1.5 }\n")
	mod.WriteString("variable \"acl\" {}\nvariable \"name\" {}\nvariable \"open\" {}\nvariable \"n\" {}\nlocals {\n  pools = { u = {} }\n  names = { u = \"u\" }\n}\nnamespace \"m\" {\nacl = var.acl\nname = var.name\n")
	d.blocks(&mod, 1)
	mod.WriteString("}\n")
	switch rapid.IntRange(0, 2).Draw(t, "module") {
	case 0:
		main.WriteString("module \"call\" {\nsource = \"./mod\"\nacl = acl.open\nname = \"called\"\nopen = var.open\nn = var.n\n}\n")
	case 1:
		main.WriteString("module \"call\" {\nsource = \"./mod\"\nfor_each = local.pools\nacl = acl.open\nname = \"called-${each.key}\"\nopen = var.open\nn = each.value.permits\n}\n")
	}
	return map[string]string{"main.locktree.hcl": main.String(), "mod/m.locktree.hcl": mod.String()}
}

func write(t testing.TB, dir string, files map[string]string) {
	for name, text := range files {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o777))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666))
	}
}

// load evaluates a configuration both ways. It returns false if the configuration declares a path twice or nests names below unknown keys.
func load(t testing.TB, dir, addr, root string) (*config.Config, *generate.Code, bool) {
	c, diags := config.Load(dir, config.Options{Inputs: given(addr, root)})
	if diags.HasErrors() {
		require.Contains(t, diags.Error(), "Duplicate path")
		return nil, nil, false
	}
	code, diags := generate.Load(dir, "")
	if diags.HasErrors() { // a listed name below keys that are not known
		require.Contains(t, diags.Error(), "Not known to programs")
		return nil, nil, false
	}
	return c, code, true
}

func goSource(t testing.TB, code *generate.Code) string {
	source, err := generate.Go(code, "locks")
	require.NoError(t, err)
	return string(source)
}
