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

// checker type-checks source text against the library as it was compiled.
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

// Any configuration that is correct gives code that compiles, is formatted, holds nothing of the values that variables get, and is
// the same when it is generated again.
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

// walker locks through each handle of a package: with each of the keys that it is given, where there is one for each key. What is
// not declared has no such lock. It prints the paths.
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

// Every handle of the code takes its lock after an apply of the configuration, wherever its root is, and there is a handle for every
// lock. So it is below a root of which Provision makes a copy.
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
