package vet

import (
	"fmt"
	"go/ast"
	"path"
	"slices"

	"github.com/locktree/locktree/plan"
)

// Declared are the locks that configurations declare: kinds by path.
type Declared map[string][]string

// declare says what is declared; nil if no configuration was given: then nothing is said about paths.
var declare func() (Declared, error)

// Declare sets where the analyzers undeclared and wrongkind learn what is declared, once a package opens a lock.
func Declare(by func() (Declared, error)) { declare = by }

// Advise sets whether advice is given.
func Advise(on bool) { advised = on }

var undeclared = analyzer("undeclared", `a lock is opened at a path that no configuration declares

The program gets ErrNotProvisioned there. This is looked at if configurations are given (-config), for paths that are constants.
Give all configurations whose locks the program uses. A lock that is opened WithCreate or WithParams needs no declaration.

Bad:

	ledger := client.Mutex("/locks/payments/leger") // the configuration declares /locks/payments/ledger

Good:

	ledger := client.Mutex("/locks/payments/ledger")
`, func(p *pkg, f *function) {
	p.paths(f, func(declared Declared, o opened, at string) {
		if len(declared[at]) > 0 || slices.Contains(declared[path.Dir(at)], "keyed") || slices.Contains(declared[path.Dir(path.Dir(at))], "keyed") {
			return
		}
		var known []string
		for path := range declared {
			known = append(known, path)
		}
		p.Reportf(o.path.Pos(), "no configuration declares %q.%s", at, plan.DidYouMean(at, known))
	})
})

var wrongkind = analyzer("wrongkind", `a lock is opened as another kind than the configuration declares

The program gets ErrKindMismatch. This is looked at if configurations are given (-config), for paths that are constants.

Bad:

	pool := client.Mutex("/locks/payments/pool") // a semaphore in the configuration

Good:

	pool := client.Semaphore("/locks/payments/pool")
`, func(p *pkg, f *function) {
	p.paths(f, func(declared Declared, o opened, at string) {
		if is := declared[at]; o.kind != "" && len(is) > 0 && !slices.Contains(is, o.kind) {
			p.Reportf(o.call.Pos(), "%q is declared as %s, and opened as %s%s", at, is[0], o.kind, opener(is[0]))
		}
	})
})

func opener(kind string) string {
	for method, k := range kinds {
		if k == kind {
			return fmt.Sprintf(": use Client.%s", method)
		}
	}
	return ""
}

// paths visits the calls that open a lock at a constant path and bring no declaration of their own.
func (p *pkg) paths(f *function, visit func(Declared, opened, string)) {
	within(f.body, func(n ast.Node) {
		call, ok := n.(*ast.CallExpr)
		if !ok || declare == nil || p.failed != nil {
			return
		}
		o, ok := p.opens(call)
		if !ok || p.option(o, "WithCreate") != no || p.option(o, "WithParams") != no {
			return
		}
		if at, ok := p.constant(o.path); ok {
			declared, err := declare()
			if p.failed = err; err == nil {
				visit(declared, o, at)
			}
		}
	})
}
