// Package vet finds mistakes in Go programs that use package recipes: paths that no configuration declares, leases that are not
// given back, work that goes on after a lock is lost.
//
// Each analyzer looks at one package at a time and knows the functions of recipes by their types. A finding is a statement about
// the program, so where a program cannot be followed (a handle from another package, a lease that is stored or passed on, an
// error that is examined in a way not known here) nothing is found. Test files are not looked at: tests lose, leak and nest
// leases on purpose.
package vet

import (
	"fmt"
	"go/ast"
	"reflect"
	"strings"

	"golang.org/x/tools/go/analysis"

	"github.com/locktree/locktree/docs"
)

// Advice is the category of findings that are worth a thought and need not be mistakes.
const Advice = "advice"

// advised is whether advice is given.
var advised bool

// Advise sets whether advice is given.
func Advise(on bool) { advised = on }

// finding is a kind of mistake. A section of docs/vet.md says what it is.
type finding struct {
	name   string
	look   func(*pkg)
	advice bool
}

// Analyzers are all of them, in the order of the documentation.
var Analyzers = analyzers(
	finding{name: "undeclared", look: undeclared},
	finding{name: "wrongkind", look: wrongkind},
	finding{name: "unreleased", look: unreleased},
	finding{name: "overwritten", look: overwritten},
	finding{name: "discarded", look: discarded},
	finding{name: "unchecked", look: unchecked},
	finding{name: "afterunlock", look: afterunlock},
	finding{name: "deferloop", look: deferloop},
	finding{name: "outerctx", look: outerctx},
	finding{name: "unwatched", look: unwatched},
	finding{name: "relock", look: relock},
	finding{name: "lockorder", look: lockorder},
	finding{name: "wrongorder", look: wrongorder},
	finding{name: "errequal", look: errequal},
	finding{name: "retryall", look: retryall},
	finding{name: "dial", look: dial},
	finding{name: "background", look: background, advice: true},
	finding{name: "token", look: unfenced, advice: true},
)

func analyzers(findings ...finding) (all []*analysis.Analyzer) {
	for _, f := range findings {
		_, doc, _ := strings.Cut(docs.Vet, "\n## "+f.name+"\n\n")
		doc, _, _ = strings.Cut(doc, "\n## ")
		Titles[f.name], _, _ = strings.Cut(doc, ".\n")
		all = append(all, &analysis.Analyzer{Name: f.name, Doc: doc, Requires: []*analysis.Analyzer{calls},
			URL: "https://github.com/locktree/locktree/blob/main/docs/vet.md#" + f.name,
			Run: func(pass *analysis.Pass) (any, error) {
				p := *pass.ResultOf[calls].(*pkg)
				p.Pass, p.finding = pass, f
				if !f.advice || advised {
					f.look(&p)
				}
				return nil, p.failed
			}})
	}
	return all
}

// Titles are the findings in words.
var Titles = map[string]string{}

// calls is what the others stand on: what a package does with the library.
var calls = &analysis.Analyzer{
	Name:       "locktreecalls",
	Doc:        "find the handles and leases that the analyzers of locktree look at",
	ResultType: reflect.TypeFor[*pkg](),
	Run:        read,
}

// report says that something is wrong at a node.
func (p *pkg) report(at ast.Node, format string, args ...any) {
	d := analysis.Diagnostic{Pos: at.Pos(), End: at.End(), Message: fmt.Sprintf(format, args...)}
	if p.advice {
		d.Category = Advice
	}
	p.Report(d)
}
