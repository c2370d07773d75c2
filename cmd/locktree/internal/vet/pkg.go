package vet

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"iter"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/types/typeutil"
)

const library = "github.com/locktree/locktree/recipes"

// pkg is a package that uses the library.
type pkg struct {
	*analysis.Pass
	finding                               // that is looked for
	failed    error                       // what is declared could not be read
	origins   map[*types.Var][]ast.Expr   // all that is assigned to a variable or field; nil stands for what is not known
	functions []*function                 // in the order of the source, as all that follows
	loops     map[*ast.BlockStmt]ast.Node // by their bodies
	cases     map[ast.Expr]ast.Expr       // what a switch compares with its cases, by these
	comms     map[ast.Node]ast.Stmt       // the cases of select, by what they send or receive
	waits     map[ast.Stmt]bool           // the last case of a select without default
	takings   []*taking                   // calls that take a lock
	leases    []*held
}

// function is one body: of a declaration, or of a literal.
type function struct {
	name  string // of a declaration
	kind  *ast.FuncType
	body  *ast.BlockStmt
	nodes []ast.Node // what it executes itself: not the bodies of literals in it
}

// read goes through a package once. What variables are set to in its tests counts, and nothing else there.
func read(pass *analysis.Pass) (any, error) {
	p := &pkg{Pass: pass, origins: map[*types.Var][]ast.Expr{}, loops: map[*ast.BlockStmt]ast.Node{}, cases: map[ast.Expr]ast.Expr{},
		comms: map[ast.Node]ast.Stmt{}, waits: map[ast.Stmt]bool{}}
	if !slices.ContainsFunc(pass.Pkg.Imports(), func(i *types.Package) bool { return i.Path() == library }) {
		return p, nil
	}
	for _, file := range pass.Files {
		tests := strings.HasSuffix(pass.Fset.File(file.Pos()).Name(), "_test.go")
		for n := range ast.Preorder(file) {
			p.assigned(n)
			switch n := n.(type) {
			case *ast.ForStmt:
				p.loops[n.Body] = n
			case *ast.RangeStmt:
				p.loops[n.Body] = n
			case *ast.SelectStmt:
				p.selects(n)
			case *ast.SwitchStmt:
				for _, clause := range n.Body.List {
					for _, e := range clause.(*ast.CaseClause).List {
						p.cases[e] = n.Tag
					}
				}
			case *ast.FuncDecl:
				p.function(&function{name: n.Name.Name, kind: n.Type, body: n.Body}, tests)
			case *ast.FuncLit:
				p.function(&function{kind: n.Type, body: n.Body}, tests)
			}
		}
	}
	for call, f := range each[*ast.CallExpr](p) {
		if t := p.take(call, f); t != nil {
			p.takings = append(p.takings, t)
		}
	}
	for _, f := range p.functions {
		p.follow(f)
	}
	return p, nil
}

func (p *pkg) selects(s *ast.SelectStmt) {
	waits := true
	for _, clause := range s.Body.List {
		if comm := clause.(*ast.CommClause).Comm; comm != nil {
			p.comms[comm] = clause
		} else {
			waits = false
		}
	}
	if n := len(s.Body.List); n > 0 {
		p.waits[s.Body.List[n-1]] = waits
	}
}

func (p *pkg) function(f *function, tests bool) {
	if f.body != nil && !tests {
		within(f.body, func(n ast.Node) { f.nodes = append(f.nodes, n) })
		p.functions = append(p.functions, f)
	}
}

// each yields the nodes of a type with the functions that execute them.
func each[N ast.Node](p *pkg) iter.Seq2[N, *function] {
	return func(yield func(N, *function) bool) {
		for _, f := range p.functions {
			for _, n := range f.nodes {
				if n, ok := n.(N); ok && !yield(n, f) {
					return
				}
			}
		}
	}
}

// taking is the call that an expression is, if it takes a lock; else nil.
func (p *pkg) taking(e ast.Expr) *taking {
	for _, t := range p.takings {
		if ast.Expr(t.call) == ast.Unparen(e) {
			return t
		}
	}
	return nil
}

// assigned notes what variables and fields are set to.
func (p *pkg) assigned(n ast.Node) {
	note := func(to ast.Expr, what []ast.Expr, i, of int) {
		v := p.variable(to)
		switch {
		case v == nil:
		case len(what) == of:
			p.origins[v] = append(p.origins[v], what[i])
		default:
			p.origins[v] = append(p.origins[v], nil)
		}
	}
	switch n := n.(type) {
	case *ast.AssignStmt:
		for i, e := range n.Lhs {
			note(e, n.Rhs, i, len(n.Lhs))
		}
	case *ast.ValueSpec:
		for i, name := range n.Names {
			if len(n.Values) > 0 {
				note(name, n.Values, i, len(n.Names))
			}
		}
	case *ast.RangeStmt:
		note(n.Key, nil, 0, 1)
		note(n.Value, nil, 0, 1)
	case *ast.UnaryExpr:
		if n.Op == token.AND {
			note(n.X, nil, 0, 1)
		}
	case *ast.CompositeLit:
		t, ok := p.TypesInfo.TypeOf(n).Underlying().(*types.Struct)
		for i, e := range n.Elts {
			if kv, keyed := e.(*ast.KeyValueExpr); ok && keyed {
				note(kv.Key, []ast.Expr{kv.Value}, 0, 1)
			} else if ok {
				p.origins[t.Field(i)] = append(p.origins[t.Field(i)], e)
			}
		}
	}
}

// variable is the variable or field that an expression is; nil if it is none.
func (p *pkg) variable(e ast.Expr) *types.Var {
	e = ast.Unparen(e)
	if s, ok := e.(*ast.SelectorExpr); ok {
		e = s.Sel
	}
	if id, ok := e.(*ast.Ident); ok {
		v, _ := p.TypesInfo.ObjectOf(id).(*types.Var)
		return v
	}
	return nil
}

// is reports whether an expression is the variable.
func (p *pkg) is(e ast.Expr, v *types.Var) bool {
	id, ok := ast.Unparen(e).(*ast.Ident)
	return ok && v != nil && p.variable(id) == v
}

func (p *pkg) isNil(e ast.Expr) bool { return p.TypesInfo.Types[e].IsNil() }

// mentions reports whether a variable occurs anywhere in a node.
func (p *pkg) mentions(n ast.Node, v *types.Var) bool {
	return has(n, func(id *ast.Ident) bool { return p.is(id, v) })
}

// assigns reports whether a variable gets a value in a node, or its address is taken there.
func (p *pkg) assigns(n ast.Node, v *types.Var) bool {
	return has(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			return slices.ContainsFunc(n.Lhs, func(e ast.Expr) bool { return p.is(e, v) })
		case *ast.UnaryExpr:
			return n.Op == token.AND && p.is(n.X, v)
		}
		return false
	})
}

// replaces reports whether a variable gets a context in a node that may be derived from another one than it has.
func (p *pkg) replaces(n ast.Node, v *types.Var) bool {
	return has(n, func(a *ast.AssignStmt) bool {
		if !slices.ContainsFunc(a.Lhs, func(e ast.Expr) bool { return p.is(e, v) }) {
			return false
		}
		other := func(e ast.Expr) bool {
			return !p.is(e, v) && !slices.Contains(a.Rhs, e) && isType(p.TypesInfo.TypeOf(e), "context", "Context")
		}
		return slices.ContainsFunc(a.Rhs, func(e ast.Expr) bool { return !p.mentions(e, v) || has(e, other) })
	})
}

// has reports whether a node of a type for which something is true is anywhere in another one.
func has[N ast.Node](in ast.Node, is func(N) bool) bool {
	for n := range ast.Preorder(in) {
		if n, ok := n.(N); ok && is(n) {
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
	return f != nil && f.Pkg() != nil && f.Pkg().Path() == pkg && (len(names) == 0 || slices.Contains(names, f.Name()))
}

// isMethod reports whether it is a method of a type of a package.
func isMethod(f *types.Func, pkg, typ string, names ...string) bool {
	return isFrom(f, pkg, names...) && f.Signature().Recv() != nil && isType(f.Signature().Recv().Type(), pkg, typ)
}

// isType reports whether it is one of the types, or a pointer to it.
func isType(t types.Type, pkg string, names ...string) bool {
	if ptr, ok := types.Unalias(t).(*types.Pointer); ok {
		t = ptr.Elem()
	}
	n, ok := types.Unalias(t).(*types.Named)
	return ok && slices.Contains(names, n.Obj().Name()) && n.Obj().Pkg() != nil && n.Obj().Pkg().Path() == pkg
}

func isLease(t types.Type) bool { return isType(t, library, "Lease") }

func (p *pkg) line(n ast.Node) int { return p.Fset.Position(n.Pos()).Line }

// lines are those of nodes, for people.
func (p *pkg) lines(nodes []ast.Node) string {
	var lines []int
	for _, n := range nodes {
		lines = append(lines, p.line(n))
	}
	slices.Sort(lines)
	lines = slices.Compact(lines)
	if len(lines) == 1 {
		return fmt.Sprint("line ", lines[0])
	}
	return "lines " + strings.Trim(strings.ReplaceAll(fmt.Sprint(lines), " ", ", "), "[]")
}
