package config

import (
	"slices"

	"github.com/hashicorp/hcl/v2"

	"github.com/locktree/locktree/plan"
)

const (
	testSuffix     = ".locktreetest.hcl"
	testJSONSuffix = ".locktreetest.json"
)

// testLanguage is the body of a file of tests.
var testLanguage = &blockType{blocks: []*blockType{
	{name: "variables", doc: "Values of variables for all runs of the file. They override all others.", single: true, anyArgs: true},
	{
		name: "run", doc: "A plan or an apply of the configuration, and what is expected of it.", labels: []string{"name"},
		args: []argument{
			arg("command", "plan or apply", "What is done; apply by default."),
			arg("expect_failures", "list(address)", "What must fail: variables (var.NAME), checks (check.NAME) and nodes. Anything else must not."),
		},
		blocks: []*blockType{
			{name: "variables", doc: "Values of variables for this run. They override those of the file.", single: true, anyArgs: true},
			{
				name: "plan_options", doc: "What else the plan is asked for.", single: true,
				args: []argument{
					arg("destroy", "bool", "Remove everything the stack owns; false by default."),
					arg("allow_mass_destroy", "bool", "Allow a plan that removes more than 30 % of a namespace; false by default."),
					arg("target", "list(address)", "Plan only these and what they need."),
					arg("exclude", "list(address)", "Plan everything except these and what needs them."),
					arg("replace", "list(address)", "Remove these and create them again."),
				},
			},
			assertion("A condition that must hold after the run."),
		},
	},
}}

// TestFile is a file of tests beside a configuration, *.locktreetest.hcl or *.locktreetest.json.
type TestFile struct {
	Name string // as diagnostics show it
	Runs []*TestRun

	source    *hcl.File
	variables []*attribute
}

// TestRun is a run block. [TestRun.Load] loads the configuration for it.
type TestRun struct {
	Name      string
	PlanOnly  bool         // command = plan
	Options   plan.Options // what plan_options says
	DeclRange hcl.Range

	file      *TestFile
	variables []*attribute
	asserts   []*block
	expected  []expectation
}

// expectation is an element of expect_failures.
type expectation struct {
	addr plan.Addr
	at   hcl.Range
	node bool // else a variable or a check
}

// LoadTests reads the files of tests in dir, in the order of their names. The files by name are for snippets. There may be
// none, and a file may have no run.
func LoadTests(dir string) ([]*TestFile, map[string]*hcl.File, hcl.Diagnostics) {
	d := directories{dir: dir}
	defer d.close()
	r := &report{dir: dir}
	fsys, err := d.open(".")
	if err != nil {
		r.noDirectory(dir, err)
		return nil, nil, r.sorted()
	}
	s := &sources{fsys: fsys, dir: dir, files: map[string]*hcl.File{}, report: r}
	names, _ := s.ending(testSuffix, testJSONSuffix)
	var out []*TestFile
	for _, name := range names {
		if body := s.parse(name); body != nil {
			out = append(out, s.tests(name, body))
		}
	}
	return out, s.files, r.sorted()
}

func (s *sources) tests(name string, body hcl.Body) *TestFile {
	all := decodeBody(body, testLanguage, s.report)
	all.complete(s.report)
	f := &TestFile{Name: s.display(name), source: s.files[s.display(name)], variables: all.settings()}
	first := map[string]*TestRun{}
	for _, b := range all.nested("run") {
		run := &TestRun{
			Name: b.name(), DeclRange: b.head, file: f,
			PlanOnly: s.isPlan(b.arg("command")), Options: s.planOptions(b), variables: b.settings(), asserts: b.nested("assert"), expected: s.expectations(b.arg("expect_failures")),
		}
		if other := first[run.Name]; other != nil {
			s.errorf(b.head, "Duplicate declaration", "run %q is already declared at %s. Rename one of the two, or delete it.", run.Name, s.where(other.DeclRange))
		}
		s.checkLabel(b, run.Name)
		first[run.Name] = run
		f.Runs = append(f.Runs, run)
	}
	return f
}

// settings are the values of the variables block.
func (b *block) settings() (out []*attribute) {
	for _, v := range b.nested("variables") {
		out = append(out, v.args...)
	}
	return out
}

func (s *sources) isPlan(a *attribute) bool {
	if a == nil {
		return false
	}
	word := hcl.ExprAsKeyword(a.expr)
	if word != "plan" && word != "apply" {
		s.errorf(a.expr.Range(), "Invalid command", "A run is command = plan or command = apply, without quotes.")
	}
	return word == "plan"
}

func (s *sources) planOptions(run *block) (out plan.Options) {
	for _, b := range run.nested("plan_options") {
		out.Destroy = s.constantBool(b.arg("destroy"), false)
		out.AllowMassDestroy = s.constantBool(b.arg("allow_mass_destroy"), false)
		for name, to := range map[string]*[]string{"target": &out.Targets, "exclude": &out.Excludes, "replace": &out.Replace} {
			for _, a := range s.elements(b.arg(name)) {
				if addr, ok := s.parseAddress(a); ok {
					*to = append(*to, string(addr))
				}
			}
		}
	}
	return out
}

// elements are those of a list of addresses.
func (s *sources) elements(a *attribute) (out []*attribute) {
	if a == nil {
		return nil
	}
	list, diags := hcl.ExprList(a.expr)
	if diags.HasErrors() {
		s.errorf(a.expr.Range(), "Wrong type", "%s must be written as a list of addresses: [mutex.a, mutex.b].", a.name)
	}
	for _, expr := range list {
		out = append(out, &attribute{name: "Each element of " + a.name, expr: expr})
	}
	return out
}

func (s *sources) expectations(a *attribute) (out []expectation) {
	for _, element := range s.elements(a) {
		e := expectation{at: element.expr.Range()}
		t, diags := hcl.AbsTraversalForExpr(written(element.expr))
		root, ok := "", false
		if !diags.HasErrors() {
			root = t.RootName()
			_, ok = word(t, 1)
		}
		switch {
		case root == "variable":
			s.errorf(e.at, "Invalid address", "A variable is written as in an expression: var.NAME.")
			continue
		case (root == "var" || root == "check") && ok && len(t) == 2:
			name, _ := word(t, 1)
			e.addr = plan.Addr(root + "." + name)
		default:
			if e.addr, e.node = s.parseAddress(element); !e.node {
				continue
			}
		}
		if !slices.ContainsFunc(out, func(o expectation) bool { return o.addr == e.addr }) {
			out = append(out, e)
		}
	}
	return out
}
