// Package vet finds mistakes in Go programs that use package recipes: paths that no configuration declares, leases that are not
// given back, work that goes on after a lock is lost.
//
// Each analyzer looks at one package at a time and knows the functions of recipes by their types. A finding is a statement about
// the program, so where a program cannot be followed (a handle from another package, a lease that is stored or passed on, an
// error that is examined in a way not known here) nothing is found. Test files are not looked at: tests lose, leak and nest
// leases on purpose.
package vet

import (
	"go/ast"
	"go/token"
	"go/types"
	"reflect"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/cfg"
	"golang.org/x/tools/go/types/typeutil"
)

const library = "github.com/locktree/locktree/recipes"

// Advice is the category of findings that are worth a thought and need not be mistakes.
const Advice = "advice"

// advised is whether advice is given.
var advised bool

// Analyzers are all of them, in the order of the documentation.
var Analyzers = []*analysis.Analyzer{
	undeclared, wrongkind,
	unreleased, overwritten, discarded, afterunlock, deferloop,
	outerctx, unwatched,
	relock, lockorder,
	errequal, retryall, dial,
	background, token_,
}

// Title is a finding in words.
func Title(name string) string {
	for _, a := range Analyzers {
		if a.Name == name {
			title, _, _ := strings.Cut(a.Doc, "\n")
			return strings.ToUpper(title[:1]) + title[1:]
		}
	}
	return name
}

// calls is what the others stand on: the functions of a package and the values of its variables.
var calls = &analysis.Analyzer{
	Name:       "locktreecalls",
	Doc:        "find the functions and handles that the analyzers of locktree look at",
	ResultType: reflect.TypeFor[*pkg](),
	Run: func(pass *analysis.Pass) (any, error) {
		p := &pkg{Pass: pass, origins: map[types.Object][]ast.Expr{}}
		if !p.imports() {
			return p, nil
		}
		for _, file := range pass.Files {
			ast.Inspect(file, p.assigned)
			if !strings.HasSuffix(pass.Fset.File(file.Pos()).Name(), "_test.go") {
				p.collect(file)
			}
		}
		return p, nil
	},
}

// analyzer makes one of a function that is called with each function of a package.
func analyzer(name, doc string, run func(*pkg, *function)) *analysis.Analyzer {
	return packageAnalyzer(name, doc, func(p *pkg) {
		for _, f := range p.functions {
			run(p, f)
		}
	})
}

func packageAnalyzer(name, doc string, run func(*pkg)) *analysis.Analyzer {
	return &analysis.Analyzer{Name: name, Doc: doc, URL: "https://github.com/locktree/locktree/blob/main/docs/vet.md#" + name,
		Requires: []*analysis.Analyzer{calls},
		Run: func(pass *analysis.Pass) (any, error) {
			p := *pass.ResultOf[calls].(*pkg)
			p.Pass = pass
			run(&p)
			return nil, p.failed
		}}
}

// pkg is a package that uses the library.
type pkg struct {
	*analysis.Pass
	functions []*function
	failed    error                       // what is declared could not be read
	origins   map[types.Object][]ast.Expr // all that is assigned to a variable or field; nil stands for what is not known
}

// function is one body: of a declaration, or of a literal.
type function struct {
	name  string // of a declaration
	kind  *ast.FuncType
	body  *ast.BlockStmt
	loops []ast.Node // in it, not in literals

	flow   *cfg.CFG
	leases []*held // that it takes and that can be followed
}

func (p *pkg) imports() bool {
	for _, i := range p.Pkg.Imports() {
		if i.Path() == library {
			return true
		}
	}
	return false
}

func (p *pkg) collect(file *ast.File) {
	ast.Inspect(file, func(n ast.Node) bool {
		f := &function{}
		switch n := n.(type) {
		case *ast.FuncDecl:
			f.name, f.kind, f.body = n.Name.Name, n.Type, n.Body
		case *ast.FuncLit:
			f.kind, f.body = n.Type, n.Body
		}
		if f.body != nil {
			within(f.body, func(n ast.Node) {
				switch n.(type) {
				case *ast.ForStmt, *ast.RangeStmt:
					f.loops = append(f.loops, n)
				}
			})
			f.flow = p.flow(f)
			p.follow(f)
			p.functions = append(p.functions, f)
		}
		return true
	})
}

// assigned notes what variables and fields are set to.
func (p *pkg) assigned(n ast.Node) bool {
	note := func(to ast.Expr, what ast.Expr) {
		if obj := p.variable(to); obj != nil {
			p.origins[obj] = append(p.origins[obj], what)
		}
	}
	each := func(to []ast.Expr, what []ast.Expr) {
		for i, e := range to {
			if len(to) == len(what) {
				note(e, what[i])
			} else {
				note(e, nil)
			}
		}
	}
	switch n := n.(type) {
	case *ast.AssignStmt:
		each(n.Lhs, n.Rhs)
	case *ast.ValueSpec:
		for i, name := range n.Names {
			if len(n.Values) == len(n.Names) {
				note(name, n.Values[i])
			} else if len(n.Values) > 0 {
				note(name, nil)
			}
		}
	case *ast.RangeStmt:
		for _, e := range []ast.Expr{n.Key, n.Value} {
			if e != nil {
				note(e, nil)
			}
		}
	case *ast.UnaryExpr:
		if n.Op == token.AND {
			note(n.X, nil)
		}
	case *ast.CompositeLit:
		p.fields(n, note)
	}
	return true
}

func (p *pkg) fields(lit *ast.CompositeLit, note func(to, what ast.Expr)) {
	t, ok := p.TypesInfo.TypeOf(lit).Underlying().(*types.Struct)
	for i, e := range lit.Elts {
		if kv, keyed := e.(*ast.KeyValueExpr); keyed && ok {
			note(kv.Key, kv.Value)
		} else if ok {
			p.origins[t.Field(i)] = append(p.origins[t.Field(i)], e)
		}
	}
}

// variable is the variable or field that an expression is; nil if it is none.
func (p *pkg) variable(e ast.Expr) types.Object {
	switch e := ast.Unparen(e).(type) {
	case *ast.Ident:
		if v, ok := p.TypesInfo.ObjectOf(e).(*types.Var); ok {
			return v
		}
	case *ast.SelectorExpr:
		if v, ok := p.TypesInfo.ObjectOf(e.Sel).(*types.Var); ok {
			return v
		}
	}
	return nil
}

// is reports whether an expression is the variable.
func (p *pkg) is(e ast.Expr, v types.Object) bool {
	id, ok := ast.Unparen(e).(*ast.Ident)
	return ok && v != nil && p.TypesInfo.ObjectOf(id) == v
}

// mentions reports whether a variable occurs anywhere in a node.
func (p *pkg) mentions(n ast.Node, v types.Object) bool {
	for n := range ast.Preorder(n) {
		if id, ok := n.(*ast.Ident); ok && p.is(id, v) {
			return true
		}
	}
	return false
}

// receiver is what a method is called on; nil if no method of a value is called.
func receiver(call *ast.CallExpr) ast.Expr {
	if s, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr); ok {
		return s.X
	}
	return nil
}

// within visits what a function executes itself: not the bodies of literals.
func within(n ast.Node, visit func(ast.Node)) {
	ast.Inspect(n, func(n ast.Node) bool {
		if _, ok := n.(*ast.FuncLit); ok || n == nil {
			return false
		}
		visit(n)
		return true
	})
}

// callee is the function or method that is called, if it is known.
func (p *pkg) callee(call *ast.CallExpr) *types.Func {
	f, _ := typeutil.Callee(p.TypesInfo, call).(*types.Func)
	return f
}

// isFrom reports whether a function is of a package and has one of the names; none are all.
func isFrom(f *types.Func, pkg string, names ...string) bool {
	if f == nil || f.Pkg() == nil || f.Pkg().Path() != pkg {
		return false
	}
	for _, name := range names {
		if f.Name() == name {
			return true
		}
	}
	return len(names) == 0
}

// isMethod reports whether it is a method of a type of a package.
func isMethod(f *types.Func, pkg, typ string, names ...string) bool {
	return isFrom(f, pkg, names...) && f.Signature().Recv() != nil && isType(f.Signature().Recv().Type(), pkg, typ)
}

// isType reports whether it is the type, or a pointer to it.
func isType(t types.Type, pkg, name string) bool {
	if ptr, ok := types.Unalias(t).(*types.Pointer); ok {
		t = ptr.Elem()
	}
	n, ok := types.Unalias(t).(*types.Named)
	return ok && n.Obj().Name() == name && n.Obj().Pkg() != nil && n.Obj().Pkg().Path() == pkg
}

func isLease(t types.Type) bool { return isType(t, library, "Lease") }

// advise reports advice.
func (p *pkg) advise(at ast.Node, text string) {
	if advised {
		p.Report(analysis.Diagnostic{Pos: at.Pos(), End: at.End(), Category: Advice, Message: text})
	}
}
