package config

import (
	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/locktree/locktree/plan"
)

// loading is what all evaluations of one Load share, and what they have found.
type loading struct {
	*report
	opts      Options
	code      *Code       // of LoadCode; nil: values are given to variables
	root      *evaluation // of the configuration itself
	expanded  int         // nodes and modules so far
	instances []*instance // every node, parents first, in the order of the configuration
	checks    []plan.Check
	intents
	// given gives variables values beside those of opts, above all of them; nil outside of tests.
	given func(*evaluation)
	// owners are the declarations that diagnostics of the evaluation are about.
	owners map[*hcl.Diagnostic]plan.Addr
}

// evaluation is one instance of a module, or the configuration itself. It is made for its declarations and reads them only.
type evaluation struct {
	*declarations
	*loading
	outer  *evaluation // of the module block that calls it; nil: the configuration itself
	call   *decl       // that block
	at     element     // of its for_each
	calls  map[*decl][]*evaluation
	prefix string // of its addresses: "" or module.team["search"].
	inputs map[string]input
	unread bool      // a file of them could not be read, which has been reported
	home   *Ensemble // of nodes at the top that name none

	results []result // by the number of the declaration
	bad     map[*attribute]bool
	top     siblings
}

// result is what a declaration has come to.
type result struct {
	value  cty.Value
	failed bool // it has none, and the reason has been reported
}

// siblings are the instances of blocks within one instance of the block around them.
type siblings map[*nodeDecl][]*instance

func newEvaluation(of *declarations, in *loading, outer *evaluation, prefix string) *evaluation {
	e := &evaluation{declarations: of, loading: in, outer: outer, prefix: prefix, inputs: map[string]input{}, calls: map[*decl][]*evaluation{},
		results: make([]result, len(of.all)), bad: map[*attribute]bool{}, top: siblings{}}
	for i, d := range of.all {
		// The value fits everywhere, should anybody look before it is known.
		e.results[i] = result{cty.DynamicVal, d.broken}
	}
	return e
}

func (e *evaluation) of(d *decl) *result { return &e.results[d.number] }

// isBad reports whether an argument is wrong, for all instances of its block; that has been reported.
func (e *evaluation) isBad(a *attribute) bool { return a.unresolved || e.bad[a] }

// run gives every declaration its value and collects the nodes. Variables come first, because a rule may refer to any of them.
func (e *evaluation) run() {
	e.evaluateVariables()
	for _, d := range e.steps {
		if d.evaluate != nil && !(e.code != nil && d.isUnseen()) {
			e.own(plan.Addr(e.prefix+d.addr), func() { d.evaluate(e.scope(d)) })
		}
	}
	e.collectInstances(e.nodes, e.top)
}

// own notes that what f reports is about the declaration at an address. What is inside a module has an owner there.
func (l *loading) own(addr plan.Addr, f func()) {
	before := len(l.diags)
	f()
	for _, found := range l.diags[before:] {
		if l.owners[found] == "" {
			l.owners[found] = addr
		}
	}
}

// collectInstances collects the instances of nodes and of those in them, parents first, in the order of the configuration.
func (e *evaluation) collectInstances(nodes []*nodeDecl, at siblings) {
	for _, n := range nodes {
		for _, i := range at[n] {
			i.failed = e.of(n.decl).failed
			e.instances = append(e.instances, i)
			i.orders()
			e.collectInstances(n.children, i.inside)
		}
	}
}

// of are all instances of a node, however deep inside the node outer whose siblings these are, in the order of the configuration and
// of their keys.
func (s siblings) of(n, outer *nodeDecl) []*instance {
	if n.parent == outer {
		return s[n]
	}
	var out []*instance
	for _, at := range s.of(n.parent, outer) {
		out = append(out, at.inside[n]...)
	}
	return out
}

// explained fails closed: it returns false, with an error, when something has no value and no reason was reported. What
// fails in silence is missing from all that refers to it, and a lock without its declared access list is open to others.
func (e *evaluation) explained() bool {
	sound := true
	silent := func(failed bool, at hcl.Range, addr any) {
		if failed && sound {
			sound = false
			e.errorf(at, "No value",
				"%s could not be evaluated, and no reason was given. This is a bug in locktree: please report it.", addr)
		}
	}
	for _, d := range e.all {
		silent(e.of(d).failed, d.head, d.addr)
	}
	for _, i := range e.instances {
		silent(i.failed, i.decl.head, i.addr)
	}
	return sound
}
