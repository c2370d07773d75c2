package config

import (
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/locktree/locktree/plan"
)

// Trial is the configuration as one run of a file of tests loads it. Close it in any case.
type Trial struct {
	*Config
	// Diagnostics are what Load reported, without what the run expects to fail.
	Diagnostics hcl.Diagnostics
	// Loaded: the configuration has no errors, so it can be planned.
	Loaded bool

	run    *TestRun
	l      *loading
	dirs   *directories
	before map[string]cty.Value // the outputs of earlier runs, by name
	met    map[plan.Addr]bool   // what was expected to fail, and did
}

// Load loads the configuration in dir for the run, after the earlier ones of its file in their order: their outputs are
// run.NAME.OUTPUT.
func (t *TestRun) Load(dir string, opts Options, earlier ...*Trial) *Trial {
	trial := &Trial{run: t, l: newLoading(dir, opts), dirs: &directories{dir: dir}, before: map[string]cty.Value{}, met: map[plan.Addr]bool{}}
	for _, e := range earlier {
		trial.before[e.run.Name] = e.outputs()
	}
	trial.l.given = trial.readVariables
	trial.Config = trial.l.load(trial.dirs.open)
	trial.Sources[t.file.Name] = t.file.source
	trial.checkExpectations()
	trial.Loaded = !trial.l.diags.HasErrors()
	for _, d := range trial.l.sorted() {
		owner := trial.l.owners[d]
		isCheck := owner.Local().Type() == "check"
		switch {
		case (d.Severity == hcl.DiagError || isCheck) && trial.Expects(owner):
			continue
		case isCheck: // a warning outside of tests
			d.Severity = hcl.DiagError
		}
		trial.Diagnostics = append(trial.Diagnostics, d)
	}
	return trial
}

// Close releases the files that expressions may read.
func (t *Trial) Close() { t.dirs.close() }

// Expects reports whether the run expects a declaration to fail, and notes that it did.
func (t *Trial) Expects(addr plan.Addr) bool {
	expected := false
	for _, e := range t.run.expected {
		if addr == e.addr || addr.Block() == e.addr.Block() && (addr == addr.Block() || e.addr == e.addr.Block()) {
			t.met[e.addr], expected = true, true
		}
	}
	return expected
}

// checkExpectations reports what is expected to fail and does not exist.
func (t *Trial) checkExpectations() {
	root := t.l.root
	if root == nil {
		return // nothing could be read
	}
	for _, e := range t.run.expected {
		if e.node {
			if _, why, ok := root.lookup(e.addr); !ok && why != "" {
				t.l.errorf(e.at, "Unknown address", "%s", why)
			}
			continue
		}
		kind, name, _ := strings.Cut(string(e.addr), ".")
		if root.named[kind][name] == nil && !root.declarations.incomplete {
			t.l.errorf(e.at, "Unknown address", "There is no %s.%s", e.addr, hint(name, root.names[kind], "None is declared."))
		}
	}
}

// readVariables gives the values of the file's and of the run's variables blocks. Those of the file are constants or come from
// functions; those of the run may refer to them, and to outputs of earlier runs.
func (t *Trial) readVariables(e *evaluation) {
	inFile := map[string]cty.Value{}
	t.readBlock(e, t.run.file.variables, nil, inFile)
	t.readBlock(e, t.run.variables, map[string]cty.Value{"var": cty.ObjectVal(inFile), "run": cty.ObjectVal(t.before)}, map[string]cty.Value{})
}

func (t *Trial) readBlock(e *evaluation, settings []*attribute, known, values map[string]cty.Value) {
	for _, a := range settings {
		v := e.variables[a.name]
		if v == nil {
			e.errorf(a.nameRange, "Value for undeclared variable", "There is no variable %q.%s", a.name, hint(a.name, e.names["var"], "None is declared."))
			continue
		}
		at := a.expr.Range()
		value, diags := compute(a.expr, &hcl.EvalContext{Variables: known, Functions: e.functions}, t.run.file.source.Bytes[at.Start.Byte:at.End.Byte])
		e.add(diags...)
		e.inputs[a.name] = input{value: value, from: e.where(at), rng: &at, failed: diags.HasErrors()}
		if values[a.name] = value; v.sensitive {
			values[a.name] = value.Mark(sensitive)
		}
	}
}

// outputs are those of the configuration, sensitive ones marked.
func (t *Trial) outputs() cty.Value {
	out := map[string]cty.Value{}
	if t.Loaded {
		for _, d := range t.l.root.outputs {
			out[d.block.name()] = t.l.root.of(d).value
		}
	}
	return cty.ObjectVal(out)
}

var testFailure = failure{severity: hcl.DiagError, summary: "Test assertion failed"}

// Judge returns what is wrong after the plans were made and, if the run says so, applied: assertions that do not hold, and what
// was expected to fail and did not. Without plans no assertion is evaluated, and each is reported as such.
func (t *Trial) Judge(plans []*plan.Plan) hcl.Diagnostics {
	before := len(t.l.diags)
	for _, b := range t.run.asserts {
		if plans == nil || !t.Loaded {
			t.l.errorf(b.head, "Assertion not evaluated", "The configuration has no values, because what was expected to fail did. Put the assertion into another run.")
			continue
		}
		t.assert(b, plans)
	}
	for _, e := range t.run.expected {
		if !t.met[e.addr] {
			t.l.errorf(e.at, "Missing expected failure", "%s was expected to fail, and it did not.", e.addr)
		}
	}
	return slices.Clone(t.l.diags[before:])
}

func (t *Trial) assert(b *block, plans []*plan.Plan) {
	root := t.l.root
	d := &decl{addr: "run." + t.run.Name, head: b.head, block: b, attrs: b.args}
	for _, a := range b.args {
		for _, ref := range a.expr.Variables() {
			if !t.refers(resolver{root.declarations, t.l.report, d, a}, ref) {
				return
			}
		}
	}
	s := root.apart(d)
	s.ctx = s.ctx.NewChild()
	s.ctx.Variables = map[string]cty.Value{"output": t.outputs(), "run": cty.ObjectVal(t.before), "plan": planValue(plans)}
	s.evaluateAssert(b, &plan.Check{Verdict: plan.CheckPass}, testFailure)
}

// refers resolves a reference of an assertion: what there is only in tests, or what there is in the configuration.
func (t *Trial) refers(r resolver, ref hcl.Traversal) bool {
	switch root := ref.RootName(); root {
	case "plan":
		return true
	case "output":
		return r.member(ref, root, r.names["output"])
	case "run":
		return r.member(ref, root, slices.Sorted(maps.Keys(t.before)))
	}
	return r.traversal(ref)
}

var (
	changeType  = map[string]cty.Type{"action": cty.String, "path": cty.String, "previous_address": cty.String}
	problemType = map[string]cty.Type{"address": cty.String, "code": cty.String, "severity": cty.String, "summary": cty.String}
)

// planValue is what assertions see of plans: changes by address, the figures of the summary line, and problems.
func planValue(plans []*plan.Plan) cty.Value {
	changes, problems, sum := map[string]cty.Value{}, []cty.Value{}, plan.Counts{}
	text := cty.StringVal
	for _, p := range plans {
		for _, c := range p.Shown() {
			action := c.Action.String()
			if c.Action == plan.NoOp && c.PreviousAddr != "" {
				action = "move"
			}
			changes[string(c.Addr)] = cty.ObjectVal(map[string]cty.Value{"action": text(action), "path": text(c.Path),
				"previous_address": text(string(c.PreviousAddr))})
		}
		for _, q := range p.Problems {
			problems = append(problems, cty.ObjectVal(map[string]cty.Value{"address": text(string(q.Addr)), "code": text(string(q.Code)),
				"severity": text(string(q.Severity)), "summary": text(q.Summary)}))
		}
		sum = sum.Plus(p.Summary())
	}
	value := map[string]cty.Value{"changes": cty.MapValEmpty(cty.Object(changeType)), "problems": cty.ListValEmpty(cty.Object(problemType))}
	if len(changes) > 0 {
		value["changes"] = cty.MapVal(changes)
	}
	if len(problems) > 0 {
		value["problems"] = cty.ListVal(problems)
	}
	for name, n := range map[string]int{"add": sum.Add, "change": sum.Change, "destroy": sum.Destroy, "import": sum.Import, "forget": sum.Forget} {
		value[name] = cty.NumberIntVal(int64(n))
	}
	return cty.ObjectVal(value)
}
