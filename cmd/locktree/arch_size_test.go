package main

import (
	"encoding/json"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// size is how much of a package a newcomer must keep in mind at once.
type size struct {
	lines  int
	files  int
	circle int // files of the largest circle, in which every file leads to every other
}

// sizeOf is the ceiling of a package that oversized does not name. A circle may be larger outside the library.
func sizeOf(pkg string) size {
	if pkg == "recipes" || strings.HasPrefix(pkg, "recipes/") {
		return size{2500, 20, 9}
	}
	return size{2500, 20, 15}
}

// oversized has the packages with a ceiling of their own. Ceilings only fall, and a row goes when the package fits without it.
var oversized = map[string]size{
	"recipes/internal/session": {3750, 16, 9}, // connection and session use each other's names: 66 one way, 110 the other
	"recipes/zktest":           {2650, 20, 14},
	"cmd/locktree":             {1640, 27, 15}, // a file for each command
}

// scattered has the types whose methods stand in more than three files. These numbers only fall, too.
var scattered = map[string]int{
	// A constructor stands with the type that it makes.
	"recipes.Client": 12,
	// The package has no other subject.
	"recipes/internal/session.Session": 10, "recipes/kerberos.Login": 5,
	"config/internal/static.reading": 4,
	"recipes/zktest.Server":          12, "recipes/zktest.conn": 10,
	"apply/read.reader":                  4,
	"recipes/zktest/internal/store.Tree": 5, "recipes/zktest/internal/store.txn": 4,
}

func TestPackagesFitIntoAHead(t *testing.T) {
	for _, p := range checked(t, "/...", "") {
		pkg := strings.TrimPrefix(p.types.Path(), module+"/")
		if strings.HasPrefix(pkg, "examples/") {
			continue
		}
		is := size{files: len(p.files)}
		for _, file := range p.files {
			is.lines += p.fset.File(file.Pos()).LineCount() - 1
		}
		file := func(pos token.Pos) string { return filepath.Base(p.fset.Position(pos).Filename) }
		leads := map[string][]string{}
		for name, object := range p.info.Uses {
			if from, to := file(name.Pos()), ""; object != nil && object.Pkg() == p.types && belongsToAPackage(object, p.types) {
				if to = file(object.Pos()); from != to && !slices.Contains(leads[from], to) {
					leads[from] = append(leads[from], to)
				}
			}
		}
		is.circle = largestCircle(slices.Collect(maps.Keys(leads)), leads)
		most, named := oversized[pkg]
		if !named {
			most = sizeOf(pkg)
		}
		assert.LessOrEqual(t, is.lines, most.lines, "lines of %s", pkg)
		assert.LessOrEqual(t, is.files, most.files, "files of %s", pkg)
		assert.LessOrEqual(t, is.circle, most.circle, "largest circle of files in %s", pkg)
		if usual := sizeOf(pkg); named && is.lines <= usual.lines && is.files <= usual.files && is.circle <= usual.circle {
			t.Errorf("%s fits without a ceiling of its own: take it out of oversized", pkg)
		}
		methods := map[string][]string{}
		for _, object := range p.info.Defs {
			f, ok := object.(*types.Func)
			if !ok || f.Signature().Recv() == nil {
				continue
			}
			of := f.Signature().Recv().Type()
			if pointer, ok := of.(*types.Pointer); ok {
				of = pointer.Elem()
			}
			if named, ok := of.(*types.Named); ok && !slices.Contains(methods[named.Obj().Name()], file(f.Pos())) {
				methods[named.Obj().Name()] = append(methods[named.Obj().Name()], file(f.Pos()))
			}
		}
		for name, files := range methods {
			assert.LessOrEqual(t, len(files), max(3, scattered[pkg+"."+name]), "methods of %s.%s stand in %v", pkg, name, files)
		}
	}
}

// checkedPackage is a type-checked package.
type checkedPackage struct {
	fset  *token.FileSet
	files []*ast.File
	info  *types.Info
	types *types.Package
}

// checked returns, type-checked, the packages that a pattern needs and whose path in the module begins with prefix.
func checked(t *testing.T, pattern, prefix string) (all []checkedPackage) {
	out, err := exec.Command("go", "list", "-export", "-deps", "-json=ImportPath,Export,Dir,GoFiles", module+pattern).Output()
	require.NoError(t, err)
	exports, fset := map[string]string{}, token.NewFileSet()
	compiled := importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	for dec := json.NewDecoder(strings.NewReader(string(out))); dec.More(); {
		var p struct {
			ImportPath, Export, Dir string
			GoFiles                 []string
		}
		require.NoError(t, dec.Decode(&p))
		exports[p.ImportPath] = p.Export
		if !strings.HasPrefix(p.ImportPath, module+"/"+prefix) {
			continue
		}
		one := checkedPackage{fset: fset, info: &types.Info{Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{}, Selections: map[*ast.SelectorExpr]*types.Selection{}}}
		for _, name := range p.GoFiles {
			file, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			require.NoError(t, err)
			one.files = append(one.files, file)
		}
		one.types, err = (&types.Config{Importer: compiled}).Check(p.ImportPath, fset, one.files, one.info)
		require.NoError(t, err)
		all = append(all, one)
	}
	return all
}

// A program that imports the library, or provisions locks, meets these names: those of the packages, and the methods of their types.
func TestAPIsHaveFewNames(t *testing.T) {
	for _, api := range []struct {
		packages []string
		most     int
	}{{[]string{"recipes"}, 130}, {[]string{"config", "plan", "apply"}, 132}} {
		var names []string
		for _, pkg := range api.packages {
			names = append(names, exportedBy(t, pkg)...)
		}
		assert.LessOrEqual(t, len(names), api.most, "%v", names)
	}
}

func exportedBy(t *testing.T, pkg string) (names []string) {
	files, err := filepath.Glob("../../" + pkg + "/*.go")
	require.NoError(t, err)
	add := func(of string, ids ...*ast.Ident) {
		for _, id := range ids {
			if id.IsExported() {
				names = append(names, of+id.Name)
			}
		}
	}
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				of := ""
				if n.Recv != nil {
					if of = strings.TrimPrefix(types.ExprString(n.Recv.List[0].Type), "*"); !ast.IsExported(of) {
						return false
					}
					of += "."
				}
				add(of, n.Name)
				return false
			case *ast.ValueSpec:
				add("", n.Names...)
			case *ast.TypeSpec:
				add("", n.Name)
				if methods, ok := n.Type.(*ast.InterfaceType); ok && n.Name.IsExported() {
					for _, m := range methods.Methods.List {
						add(n.Name.Name+".", m.Names...)
					}
				}
			}
			return true
		})
	}
	return names
}

// belongsToAPackage reports whether an object is declared for all of the package: at its top level, as a method or as a field.
func belongsToAPackage(object types.Object, pkg *types.Package) bool {
	if f, ok := object.(*types.Func); ok && f.Signature().Recv() != nil {
		return true
	}
	v, ok := object.(*types.Var)
	return ok && v.IsField() || object.Parent() == pkg.Scope()
}

// largestCircle is the number of files in the largest strongly connected component (Tarjan).
func largestCircle(files []string, leads map[string][]string) (largest int) {
	index, low, stacked := map[string]int{}, map[string]int{}, map[string]bool{}
	var stack []string
	var visit func(string)
	visit = func(f string) {
		index[f], low[f], stacked[f] = len(index)+1, len(index)+1, true
		stack = append(stack, f)
		for _, to := range leads[f] {
			if index[to] == 0 {
				visit(to)
				low[f] = min(low[f], low[to])
			} else if stacked[to] {
				low[f] = min(low[f], index[to])
			}
		}
		if low[f] == index[f] {
			at := slices.Index(stack, f)
			for _, g := range stack[at:] {
				stacked[g] = false
			}
			largest = max(largest, len(stack)-at)
			stack = stack[:at]
		}
	}
	for _, f := range files {
		if index[f] == 0 {
			visit(f)
		}
	}
	return largest
}
