package vet

import (
	"fmt"
	"go/ast"
	"maps"
	"slices"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes/kind"
)

// Declared are the locks that configurations declare, by path.
type Declared map[string][]Declaration

// Declaration is a lock in the configuration of a stack.
type Declaration struct {
	Stack string
	Addr  plan.Addr
	kind.Params
}

// declare says what is declared; nil if no configuration was given: then nothing is said about paths.
var declare func() (Declared, error)

// Declare sets where the analyzers undeclared, wrongkind and wrongorder learn what is declared, once a package opens a lock.
func Declare(by func() (Declared, error)) { declare = by }

func undeclared(p *pkg) {
	p.paths(func(declared Declared, o opened, at string) {
		if len(declared.at(at)) == 0 {
			p.report(o.path, "no configuration declares %q.%s", at, plan.DidYouMean(at, slices.Sorted(maps.Keys(declared))))
		}
	})
}

func wrongkind(p *pkg) {
	p.paths(func(declared Declared, o opened, at string) {
		is := declared[at]
		if o.kind == "" || len(is) == 0 || declared.has(at, o.kind) {
			return
		}
		use := ""
		for method, kind := range kinds {
			if kind == is[0].Kind().Name {
				use = fmt.Sprintf(": use Client.%s", method)
			}
		}
		p.report(o.call, "%q is declared as %s, and opened as %s%s", at, is[0].Kind().Name, o.kind, use)
	})
}

// paths visits the calls that open a lock at a constant path and bring no declaration of their own.
func (p *pkg) paths(visit func(Declared, opened, string)) {
	for call := range each[*ast.CallExpr](p) {
		o, ok := p.opens(call)
		if !ok || declare == nil || p.option(o, "WithCreate") != no || p.option(o, "WithParams") != no {
			continue
		}
		if at := p.constant(o.path); at != "" {
			declared, err := declare()
			if p.failed = err; err != nil {
				return
			}
			visit(declared, o, at)
		}
	}
}
