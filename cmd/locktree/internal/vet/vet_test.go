package vet

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/format"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/go/analysis"

	"github.com/locktree/locktree/docs"
	"github.com/locktree/locktree/recipes/kind"
)

const root = "../../../.."

// payments is what the fixtures and examples stand on.
var payments = Declared{
	"/locks":                 {{Params: &kind.NamespaceParams{}}},
	"/locks/payments":        {{Params: &kind.NamespaceParams{}}},
	"/locks/payments/ledger": {{Params: &kind.MutexParams{}}},
	"/locks/payments/audit":  {{Params: &kind.MutexParams{}}},
	"/locks/payments/pool":   {{Params: &kind.SemaphoreParams{}}},
	"/locks/orders":          {{Params: &kind.KeyedParams{}}},
	"/locks/shop/account":    {{Params: &kind.MutexParams{Common: kind.Common{Order: "1 /locks/shop"}}}},
	"/locks/shop/item":       {{Params: &kind.KeyedParams{Common: kind.Common{Order: "2 /locks/shop"}}}},
	"/locks/shop/stock":      {{Params: &kind.RWLockParams{Common: kind.Common{Order: "3 /locks/shop"}}}},
	"/locks/hall/stock":      {{Params: &kind.MutexParams{Common: kind.Common{Order: "2 /locks/hall"}}}},
	// The locks of examples/recipes, if its namespace declared an order.
	"/recipes/prices":        {{"recipes", "namespace.recipes.rwlock.prices", &kind.RWLockParams{Common: kind.Common{Order: "1 /recipes"}}}},
	"/recipes/account-alice": {{"recipes", `namespace.recipes.mutex.account["alice"]`, &kind.MutexParams{Common: kind.Common{Order: "2 /recipes"}}}},
	"/recipes/account-bob":   {{"recipes", `namespace.recipes.mutex.account["bob"]`, &kind.MutexParams{Common: kind.Common{Order: "2 /recipes"}}}},
	"/other/account":         {{"other", "namespace.recipes.mutex.account", &kind.MutexParams{}}},
	// Of turns there is one in each of two namespaces: a program's is one of them.
	"/east/turns": {{"recipes", "namespace.recipes.mutex.turns", &kind.MutexParams{Common: kind.Common{Order: "1 /east"}}}},
	"/west/turns": {{"recipes", "namespace.recipes.mutex.turns", &kind.MutexParams{Common: kind.Common{Order: "1 /west"}}}},
}

type found struct {
	analyzer, file string
	line           int
	text           string
}

// listed is a package as the go command knows it.
type listed struct {
	ImportPath, Dir, Export string
	GoFiles, Imports        []string
	DepOnly                 bool
}

// packages are those of this repository, and what they import.
var packages = sync.OnceValue(func() map[string]listed {
	list := exec.Command("go", "list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles,Imports,DepOnly", "./...", "net/http", "database/sql")
	list.Dir, list.Stderr = root, os.Stderr
	all := map[string]listed{}
	for dec := json.NewDecoder(bytes.NewReader(must(list.Output()))); dec.More(); {
		var p listed
		if err := dec.Decode(&p); err != nil {
			panic(err)
		}
		all[p.ImportPath] = p
	}
	return all
})

var (
	files  = token.NewFileSet()
	export = sync.OnceValue(func() types.Importer {
		return importer.ForCompiler(files, "gc", func(path string) (io.ReadCloser, error) { return os.Open(packages()[path].Export) })
	})
)

// find runs the analyzers on a package: its texts by the names of the files.
func find(t *testing.T, d Declared, texts map[string]string) (all []found) {
	t.Helper()
	Declare(func() (Declared, error) { return d, nil })
	if d == nil {
		Declare(nil)
	}
	Advise(true)
	defer func() { Declare(nil); Advise(false) }()
	var parsed []*ast.File
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		f, err := parser.ParseFile(files, name, texts[name], parser.ParseComments)
		require.NoError(t, err)
		parsed = append(parsed, f)
	}
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{},
		Implicits: map[ast.Node]types.Object{}, Selections: map[*ast.SelectorExpr]*types.Selection{}, Instances: map[*ast.Ident]types.Instance{},
		Scopes: map[ast.Node]*types.Scope{}}
	pkg, err := (&types.Config{Importer: export()}).Check(parsed[0].Name.Name, files, parsed, info)
	require.NoError(t, err)
	pass := &analysis.Pass{Fset: files, Files: parsed, Pkg: pkg, TypesInfo: info, ResultOf: map[*analysis.Analyzer]any{}}
	pass.ResultOf[calls], err = calls.Run(pass)
	require.NoError(t, err)
	for _, a := range Analyzers {
		pass.Analyzer, pass.Report = a, func(d analysis.Diagnostic) {
			p := files.Position(d.Pos)
			all = append(all, found{a.Name, p.Filename, p.Line, d.Message})
		}
		_, err := a.Run(pass)
		require.NoError(t, err)
	}
	return all
}

var want = regexp.MustCompile("// want ((?:\\w+:`[^`]*` ?)+)")
var wanted = regexp.MustCompile("(\\w+):`([^`]*)`")

// Each fixture has comments where findings are, in the form of analysistest, with the analyzer in front; elsewhere is none.
func TestFixtures(t *testing.T) {
	dirs, err := filepath.Glob("testdata/*.go")
	require.NoError(t, err)
	require.NotEmpty(t, dirs)
	seen := map[string]int{}
	for _, name := range dirs {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		here := find(t, payments, map[string]string{name: string(text)})
		for i, line := range strings.Split(string(text), "\n") {
			if m := want.FindStringSubmatch(line); m != nil {
				for _, w := range wanted.FindAllStringSubmatch(m[1], -1) {
					at := slices.IndexFunc(here, func(f found) bool {
						return f.line == i+1 && f.analyzer == w[1] && regexp.MustCompile(w[2]).MatchString(f.text)
					})
					if at < 0 {
						t.Errorf("%s:%d: no finding %s", name, i+1, w[0])
						continue
					}
					seen[w[1]]++
					here = slices.Delete(here, at, at+1)
				}
			}
		}
		for _, f := range here {
			t.Errorf("%s:%d: %s: %s", name, f.line, f.analyzer, f.text)
		}
	}
	for _, a := range Analyzers {
		require.Positive(t, seen[a.Name], "no fixture has a finding of %s", a.Name)
	}
}

const prelude = `package example

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"

	"github.com/go-zookeeper/zk"
	"github.com/locktree/locktree/recipes"
)

var _ = []any{errors.Is, fmt.Sprint, http.Error, zk.ErrNoNode}

func work(context.Context) error                { return nil }
func pay(context.Context, *recipes.Lease) error { return nil }
`

// examples are the bad and the good one of an analyzer's documentation.
func examples(t *testing.T, a *analysis.Analyzer) (bad, good string) {
	m := regexp.MustCompile("(?s)\nBad:\n\n```go\n(.*)\n```\n\nGood:\n\n```go\n(.*)\n```\n?$").FindStringSubmatch(a.Doc)
	require.Len(t, m, 3, a.Name)
	return m[1], m[2]
}

// program is a file around an example.
func program(t *testing.T, a *analysis.Analyzer, example string) string {
	var lease, declared string
	if a.Name == "afterunlock" {
		lease = "lease, e := ledger.Lock(ctx)\nif e != nil { return e }\n"
	}
	if name, _, ok := strings.Cut(example, " :="); ok && !strings.ContainsAny(name, " ,\n") && !strings.Contains(example, "\n") {
		declared = "\n_ = " + name + "\nreturn nil"
	}
	text := prelude + example
	if !strings.HasPrefix(example, "func ") {
		handle := "ledger := client.Mutex(\"/locks/payments/ledger\")\n_ = ledger\n"
		if declared != "" || a.Name == "dial" {
			handle = ""
		}
		client := "client *recipes.Client, "
		if a.Name == "dial" {
			client = ""
		}
		named := "error"
		if a.Name == "retryall" {
			named = "(err error)"
		}
		text = prelude + "func example(ctx context.Context, " + client + "db *sql.DB, ids, servers []string, sum []byte) " + named + " {\n" + handle + lease + example + declared + "\n}\n"
	} else {
		text += "\n\nvar _ *sql.DB\n"
	}
	formatted, err := format.Source([]byte(text))
	require.NoError(t, err, text)
	return string(formatted)
}

// What the documentation calls bad is found by the analyzer, and by no other; in what it calls good nothing is found.
func TestTheExamplesOfTheDocumentation(t *testing.T) {
	for _, a := range Analyzers {
		bad, good := examples(t, a)
		for example, want := range map[string][]string{bad: {a.Name}, good: nil} {
			var got []string
			text := program(t, a, example)
			for _, f := range find(t, payments, map[string]string{a.Name + ".go": text}) {
				got = append(got, f.analyzer)
			}
			require.Equal(t, want, got, text)
		}
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// On this repository nothing is found: neither in the library, nor in the command, nor in the examples.
func TestNothingIsFoundInThisRepository(t *testing.T) {
	looked := 0
	for _, path := range slices.Sorted(maps.Keys(packages())) {
		p := packages()[path]
		if p.DepOnly || !slices.Contains(p.Imports, library) {
			continue
		}
		texts := map[string]string{}
		for _, name := range p.GoFiles {
			name = filepath.Join(p.Dir, name)
			texts[name] = string(must(os.ReadFile(name)))
		}
		for _, f := range find(t, nil, texts) {
			t.Errorf("%s:%d: %s: %s", f.file, f.line, f.analyzer, f.text)
		}
		looked++
	}
	require.Greater(t, looked, 10)
}

// The page is the documentation: of each analyzer it has a section, in their order, and of nothing else.
func TestThePageHasASectionForEachAnalyzer(t *testing.T) {
	var sections, names []string
	for _, m := range regexp.MustCompile("(?m)^## (.*)").FindAllStringSubmatch(docs.Vet, -1) {
		sections = append(sections, m[1])
	}
	for _, a := range Analyzers {
		names = append(names, a.Name)
	}
	require.Equal(t, names, sections)
}

func TestTheAnalyzersAreValid(t *testing.T) {
	require.NoError(t, analysis.Validate(Analyzers))
	require.GreaterOrEqual(t, len(Analyzers), 12)
}
