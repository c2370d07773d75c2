package main

import (
	"go/ast"
	"go/types"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// mutexOrder lists the library's mutexes, outermost first. A goroutine that holds one takes only later ones.
var mutexOrder = []string{
	"lock.crowds.mu", "lock.crowd.mu", "turn.Turns.mu", "lock.Client.Mu",
	"znode.ClientNodes.mu", "declare.sharedParts.mu",
	"znode.SessionNodes.mu", "znode.janitor.Mu",
	"held.Lock.mu",
	"session.Client.mu", "session.Session.mu", "session.reach.mu", "session.link.mu", "servers.Rotation.mu", "servers.Book.mu",
	"znode.Workers.mu", "recipes.eventQueue.mu", "journal.Journal.mu",
}

// taking is what one function does with mutexes.
type taking struct {
	takes map[string]bool            // in its own body
	calls map[string]bool            // the functions that it calls
	lets  map[string]bool            // it unlocks for its caller
	under map[string]map[string]bool // for each mutex that it holds: the mutexes (with a *) that it takes meanwhile, and the functions that it calls
}

func TestMutexesAreTakenInOneOrder(t *testing.T) {
	all := map[string]*taking{}
	for _, p := range checked(t, "/recipes/once", "recipes") {
		for _, file := range p.files {
			for _, d := range file.Decls {
				if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil {
					own := &taking{map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]map[string]bool{}}
					own.follow(p.info, f.Body, map[string]bool{})
					all[p.info.Defs[f.Name].(*types.Func).FullName()] = own
				}
			}
		}
	}
	for grows := true; grows; { // a function also takes the mutexes of its callees
		grows = false
		for _, f := range all {
			before := len(f.takes)
			for callee := range f.calls {
				if g := all[callee]; g != nil {
					maps.Copy(f.takes, g.takes)
				}
			}
			grows = grows || len(f.takes) > before
		}
	}
	met := map[string]bool{}
	for name, f := range all {
		for had, then := range f.under {
			for next := range then {
				inner := map[string]bool{strings.TrimPrefix(next, "*"): true}
				if g := all[next]; g != nil && !g.lets[had] {
					inner = g.takes
				} else if !strings.HasPrefix(next, "*") {
					continue
				}
				for mutex := range inner {
					from, to := slices.Index(mutexOrder, had), slices.Index(mutexOrder, mutex)
					assert.True(t, 0 <= from && from < to, "%s has %s and takes %s (%s): mutexOrder has them the other way round, or not", name, had, mutex, next)
				}
			}
		}
		maps.Copy(met, f.takes)
	}
	for _, mutex := range mutexOrder {
		assert.True(t, met[mutex], "%s is in mutexOrder, and no function takes it", mutex)
	}
}

// follow walks a statement with the mutexes that the goroutine holds. If a branch ends with return, break, continue or goto, the mutexes
// that it takes or releases do not count after the statement.
func (own *taking) follow(info *types.Info, s ast.Stmt, has map[string]bool) {
	branch := func(s ast.Stmt, list []ast.Stmt) {
		then := maps.Clone(has)
		for _, each := range list {
			own.follow(info, each, then)
		}
		if block, ok := s.(*ast.BlockStmt); ok {
			list = block.List
		}
		if s != nil {
			own.follow(info, s, then)
		}
		leaves := false
		if n := len(list); n > 0 {
			switch list[n-1].(type) {
			case *ast.ReturnStmt, *ast.BranchStmt:
				leaves = true
			}
		}
		if !leaves {
			clear(has)
			maps.Copy(has, then)
		}
	}
	switch s := s.(type) {
	case *ast.BlockStmt:
		for _, each := range s.List {
			own.follow(info, each, has)
		}
	case *ast.IfStmt:
		own.calling(info, s.Init, has)
		own.calling(info, s.Cond, has)
		branch(s.Body, nil)
		branch(s.Else, nil)
	case *ast.ForStmt:
		own.calling(info, s.Init, has)
		own.calling(info, s.Cond, has)
		branch(s.Body, nil)
	case *ast.RangeStmt:
		own.calling(info, s.X, has)
		branch(s.Body, nil)
	case *ast.SwitchStmt:
		own.calling(info, s.Init, has)
		own.calling(info, s.Tag, has)
		for _, c := range s.Body.List {
			branch(nil, c.(*ast.CaseClause).Body)
		}
	case *ast.TypeSwitchStmt:
		for _, c := range s.Body.List {
			branch(nil, c.(*ast.CaseClause).Body)
		}
	case *ast.SelectStmt:
		for _, c := range s.Body.List {
			branch(nil, c.(*ast.CommClause).Body)
		}
	case *ast.DeferStmt:
		if mutex, _ := mutexOf(info, s.Call); mutex == "" { // skip a deferred Unlock: the mutex is held to the end
			own.calling(info, s.Call, has)
		}
	case *ast.GoStmt:
		own.apart().calling(info, s.Call, map[string]bool{})
	case nil:
	default:
		own.calling(info, s, has)
	}
}

// apart is for code that runs at another time, or in another goroutine.
func (own *taking) apart() *taking {
	return &taking{map[string]bool{}, map[string]bool{}, map[string]bool{}, own.under}
}

// calling notes the calls in an expression. A function literal may run at any time, so it begins with no mutex.
func (own *taking) calling(info *types.Info, n ast.Node, has map[string]bool) {
	if n == nil || reflect.ValueOf(n).IsNil() {
		return
	}
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			own.apart().follow(info, n.Body, map[string]bool{})
			return false
		case *ast.CallExpr:
			mutex, op := mutexOf(info, n)
			if mutex != "" && strings.HasSuffix(op, "nlock") {
				own.lets[mutex] = own.lets[mutex] || !has[mutex]
				delete(has, mutex)
				return false
			}
			next := "*" + mutex
			if mutex == "" {
				if next = calleeOf(info, n); next == "" {
					return true
				}
				own.calls[next] = true
			}
			for had := range has {
				if own.under[had] == nil {
					own.under[had] = map[string]bool{}
				}
				own.under[had][next] = true
			}
			if mutex != "" {
				has[mutex], own.takes[mutex] = true, true
			}
		}
		return true
	})
}

// calleeOf names the called function, or is "" if the code does not say which.
func calleeOf(info *types.Info, call *ast.CallExpr) string {
	name, ok := ast.Unparen(call.Fun).(*ast.Ident)
	if s, is := ast.Unparen(call.Fun).(*ast.SelectorExpr); is {
		name, ok = s.Sel, true
	}
	if !ok {
		return ""
	}
	if f, ok := info.Uses[name].(*types.Func); ok {
		return f.Origin().FullName()
	}
	return ""
}

// mutexOf names the mutex, as package.Type.field, that a call locks or unlocks.
func mutexOf(info *types.Info, call *ast.CallExpr) (mutex, op string) {
	s, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || !strings.HasPrefix(calleeOf(info, call), "(*sync.") || !strings.HasSuffix(s.Sel.Name, "ock") {
		return "", ""
	}
	x, ok := s.X.(*ast.SelectorExpr)
	if !ok || info.Selections[x] == nil {
		return "", ""
	}
	field := info.Selections[x]
	of := field.Recv()
	deref := func() {
		if p, ok := of.(*types.Pointer); ok {
			of = p.Elem()
		}
	}
	deref()
	for _, i := range field.Index()[:len(field.Index())-1] {
		of = of.Underlying().(*types.Struct).Field(i).Type()
		deref()
	}
	named, ok := of.(*types.Named)
	if !ok {
		return "", ""
	}
	return named.Obj().Pkg().Name() + "." + named.Obj().Name() + "." + field.Obj().Name(), s.Sel.Name
}
