package vet

import (
	"go/ast"
	"go/token"
	"go/types"
	"strings"
)

var errequal = analyzer("errequal", `an error of recipes is compared with == or by a type assertion

Errors say what was tried, and wrap what they match. The comparison is false where errors.Is would be true.

Bad:

	lease, err := ledger.TryLock(ctx)
	if err == recipes.ErrHeld {
		return nil // somebody else does it
	}
	if err != nil {
		return err
	}
	return lease.Unlock(ctx)

Good:

	lease, err := ledger.TryLock(ctx)
	if errors.Is(err, recipes.ErrHeld) {
		return nil // somebody else does it
	}
	if err != nil {
		return err
	}
	return lease.Unlock(ctx)
`, func(p *pkg, f *function) {
	if f.name == "Is" { // errors.Is calls it with each error by itself
		return
	}
	compared := func(at ast.Node, e ast.Expr) {
		v := p.variable(e)
		if v != nil && v.Pkg() != nil && v.Pkg().Path() == library && v.Parent() == v.Pkg().Scope() && strings.HasPrefix(v.Name(), "Err") {
			p.Reportf(at.Pos(), "errors wrap recipes.%s: use errors.Is", v.Name())
		}
	}
	within(f.body, func(n ast.Node) {
		switch n := n.(type) {
		case *ast.BinaryExpr:
			if n.Op == token.EQL || n.Op == token.NEQ {
				compared(n, n.X)
				compared(n, n.Y)
			}
		case *ast.SwitchStmt:
			for _, c := range n.Body.List {
				for _, e := range c.(*ast.CaseClause).List {
					if n.Tag != nil {
						compared(e, e)
					}
				}
			}
		case *ast.TypeAssertExpr:
			if n.Type != nil && types.Identical(p.TypesInfo.TypeOf(n.X), types.Universe.Lookup("error").Type()) && isType(p.TypesInfo.TypeOf(n.Type), library, "HeldError") {
				p.Reportf(n.Pos(), "errors wrap *recipes.HeldError: use errors.As")
			}
		}
	})
})

var retryall = analyzer("retryall", `a loop repeats Do whatever the error was

An error that comes after the grant may come from the work, or from the release: the loop runs the work twice. Retryable is
false for these.

Bad:

	for range 3 {
		if err = ledger.Do(ctx, pay); err == nil {
			return nil
		}
	}
	return err

Good:

	for range 3 {
		if err = ledger.Do(ctx, pay); !recipes.Retryable(err) {
			return err
		}
	}
	return err
`, func(p *pkg, f *function) {
	for _, l := range f.loops {
		body := loopBody(l)
		for _, s := range body.List {
			if call, err := p.doInto(s); call != nil && p.retries(body, s, err) {
				p.Reportf(call.Pos(), "this loop repeats the work after any error, also after one that came when the work was done: repeat only if recipes.Retryable(%s)", err.Name())
			}
		}
	}
})

func loopBody(l ast.Node) *ast.BlockStmt {
	if l, ok := l.(*ast.ForStmt); ok {
		return l.Body
	}
	return l.(*ast.RangeStmt).Body
}

// doInto is the call of a statement `err = m.Do(...)`, or of an if that begins with it, and the error.
func (p *pkg) doInto(s ast.Stmt) (*ast.CallExpr, types.Object) {
	if i, ok := s.(*ast.IfStmt); ok && i.Init != nil {
		s = i.Init
	}
	a, ok := s.(*ast.AssignStmt)
	if !ok || len(a.Lhs) != 1 || len(a.Rhs) != 1 {
		return nil, nil
	}
	call, ok := ast.Unparen(a.Rhs[0]).(*ast.CallExpr)
	if !ok {
		return nil, nil
	}
	t, ok := p.take(call)
	err := p.variable(a.Lhs[0])
	if !ok || err == nil || t.method != "Do" && t.method != "RDo" {
		return nil, nil
	}
	return call, err
}

// retries reports whether a loop leaves when there is no error and goes on when there is one, whichever it is.
func (p *pkg) retries(body *ast.BlockStmt, do ast.Stmt, err types.Object) bool {
	leaves, examined := false, false
	ast.Inspect(body, func(n ast.Node) bool {
		i, ok := n.(*ast.IfStmt)
		if !ok {
			if s, ok := n.(*ast.SwitchStmt); ok { // it may tell errors from each other
				examined = examined || p.mentions(s, err)
			}
			if call, ok := n.(*ast.CallExpr); ok { // so may a function, unless it only prints
				examined = examined || p.judges(call, err)
			}
			return true
		}
		b, ok := ast.Unparen(i.Cond).(*ast.BinaryExpr)
		if ok && p.is(b.X, err) && p.TypesInfo.Types[b.Y].IsNil() {
			switch {
			case b.Op == token.EQL:
				leaves = leaves || leavesLoop(i.Body)
				examined = examined || i.Else != nil
			case b.Op == token.NEQ && i.Pos() >= do.Pos(): // if err != nil { continue }; return
				examined = examined || leavesLoop(i.Body)
			}
		} else if p.mentions(i.Cond, err) {
			examined = true
		}
		return true
	})
	return leaves && !examined
}

// judges reports whether an error is given to a function that may decide what it is.
func (p *pkg) judges(call *ast.CallExpr, err types.Object) bool {
	for _, arg := range call.Args {
		if p.is(arg, err) {
			f := p.callee(call)
			return !isFrom(f, "log") && !isFrom(f, "log/slog") && !isFrom(f, "fmt")
		}
	}
	return false
}

// leavesLoop reports whether a block ends with return or break.
func leavesLoop(b *ast.BlockStmt) bool {
	if len(b.List) == 0 {
		return false
	}
	switch s := b.List[len(b.List)-1].(type) {
	case *ast.ReturnStmt:
		return true
	case *ast.BranchStmt:
		return s.Tok == token.BREAK
	}
	return false
}

var dial = analyzer("dial", `each request makes a client of its own

A client is a session of ZooKeeper, with heartbeats: making one takes several round trips and two writes to the ensemble. One
client serves all goroutines of a program.

Bad:

	http.HandleFunc("/pay", func(w http.ResponseWriter, r *http.Request) {
		client, err := recipes.Dial(r.Context(), recipes.Config{Servers: servers})
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		defer client.Close()
	})
	return nil

Good:

	client, err := recipes.Dial(ctx, recipes.Config{Servers: servers})
	if err != nil {
		return err
	}
	defer client.Close()
	http.HandleFunc("/pay", func(w http.ResponseWriter, r *http.Request) {
		if err := client.Mutex("/locks/payments/ledger").Do(r.Context(), pay); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	})
	return http.ListenAndServe(":8080", nil)
`, func(p *pkg, f *function) {
	within(f.body, func(n ast.Node) {
		if call, ok := n.(*ast.CallExpr); ok && isFrom(p.callee(call), library, "Dial") && p.request(f) {
			p.Reportf(call.Pos(), "this makes a client, which is a session of ZooKeeper, for each request: make one when the program starts")
		}
	})
})

// request reports whether a function handles requests of HTTP.
func (p *pkg) request(f *function) bool {
	var writes, reads bool
	for _, field := range f.kind.Params.List {
		t := p.TypesInfo.TypeOf(field.Type)
		writes = writes || isType(t, "net/http", "ResponseWriter")
		reads = reads || isType(t, "net/http", "Request")
	}
	return writes && reads
}

var background = analyzer("background", `a request waits for a lock without an end (advice)

The request's own context ends when its client has gone; context.Background never ends, and waiting requests pile up.

Bad:

	http.HandleFunc("/pay", func(w http.ResponseWriter, r *http.Request) {
		if err := ledger.Do(context.Background(), pay); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	})
	return nil

Good:

	http.HandleFunc("/pay", func(w http.ResponseWriter, r *http.Request) {
		if err := ledger.Do(r.Context(), pay); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	})
	return nil
`, func(p *pkg, f *function) {
	if !p.request(f) {
		return
	}
	p.takes(f, func(t taking) {
		ctx, ok := ast.Unparen(t.call.Args[0]).(*ast.CallExpr)
		if ok && isFrom(p.callee(ctx), "context", "Background", "TODO") && t.waits() && p.known(f, t).bounded == no {
			p.advise(t.call, "this request may wait for ever: give "+t.method+" the request's context, or make the handle WithMaxWait")
		}
	})
})

var token_ = analyzer("token", `a database is written under a lock without the fencing token (advice)

A program that was stopped for longer than its session can write after the next holder. A store that keeps the greatest token
and refuses smaller ones closes that gap. This is looked at for package database/sql.

Bad:

	return ledger.Do(ctx, func(ctx context.Context, _ *recipes.Lease) error {
		_, err := db.ExecContext(ctx, "UPDATE totals SET sum = $1", sum)
		return err
	})

Good:

	return ledger.Do(ctx, func(ctx context.Context, lease *recipes.Lease) error {
		_, err := db.ExecContext(ctx, "UPDATE totals SET sum = $1, token = $2 WHERE token <= $2", sum, int64(lease.Token()))
		return err
	})
`, func(p *pkg, f *function) {
	p.takes(f, func(t taking) {
		if t.work == nil || p.usesLease(t.work) {
			return
		}
		within(t.work.Body, func(n ast.Node) {
			if call, ok := n.(*ast.CallExpr); ok && isFrom(p.callee(call), "database/sql", "Exec", "ExecContext") {
				p.advise(call, "this write does not carry the lease's Token: after a long pause it may come behind one of the next holder")
			}
		})
	})
})

// usesLease reports whether the work of Do looks at its lease.
func (p *pkg) usesLease(work *ast.FuncLit) bool {
	params := work.Type.Params.List
	for _, name := range params[len(params)-1].Names {
		if p.mentions(work.Body, p.TypesInfo.ObjectOf(name)) {
			return true
		}
	}
	return false
}
