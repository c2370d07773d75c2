package main

import (
	"context"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/spf13/cobra"

	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/config"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kerberos"
	"github.com/locktree/locktree/recipes/zktest"
)

type testFlags struct {
	loadFlags
	filter  []string
	verbose bool
	junit   string
}

func testCommand(a *app) *cobra.Command {
	var f testFlags
	c := &cobra.Command{
		Use:   "test",
		Short: "Run the tests beside the configuration, on an embedded server",
		Long: "test runs the files *.locktreetest.hcl beside the configuration, in the grammar of Terraform's\n" +
			"tests: each run block plans or applies the configuration on an in-memory ZooKeeper in this\n" +
			"process, and its assertions say what must hold. The runs of a file share servers, one for each\n" +
			"ensemble; files do not. No other server is contacted. Exit code 1: something failed.",
		Args: atMost(0),
		RunE: func(c *cobra.Command, _ []string) error { return a.test(c.Context(), &f) },
	}
	f.register(c)
	c.Flags().StringArrayVar(&f.filter, "filter", nil, "run only this `FILE`, or the run of this name and those before it in its file; may be repeated")
	c.Flags().BoolVar(&f.verbose, "verbose", false, "show the plan of each run")
	c.Flags().StringVar(&f.junit, "junit-xml", "", "write the results to a `FILE`, too, in the form of JUnit")
	a.jsonFlag(c, streamJSON, "print a stream of JSON messages")
	_ = c.RegisterFlagCompletionFunc("filter", completes(func() []string { return a.testNames() }))
	return c
}

func (a *app) test(ctx context.Context, f *testFlags) error {
	defer a.interruptible(ctx)()
	files, sources, diags := config.LoadTests(a.path("."))
	a.view().Diagnostics(diags, sources)
	if diags.HasErrors() {
		return exitWith(exitError)
	}
	files, err := filtered(files, f.filter)
	if err != nil {
		return err
	}
	opts, err := a.testOptions(f)
	if err != nil {
		return err
	}
	all := make(view.Tests, len(files))
	for i, file := range files {
		all[i].Name = file.Name
		for _, r := range file.Runs {
			all[i].Names = append(all[i].Names, r.Name)
		}
	}
	a.show(all)
	for i, file := range files {
		if err := a.testFile(ctx, f, opts, file, &all[i]); err != nil {
			return err
		}
	}
	a.show(all)
	if f.junit != "" {
		if err := replaceFile(a.path(f.junit), 0o644, func(w io.Writer) error { return all.JUnit(w) }); err != nil {
			return view.Failf("Cannot write the results", "%v. Choose another file for -junit-xml.", err)
		}
	}
	if !all.Passed() {
		return exitWith(exitError)
	}
	return nil
}

// testOptions are the options of every run's Load: standard input can be read once.
func (a *app) testOptions(f *testFlags) (func() config.Options, error) {
	stdin := map[int]string{}
	for i, in := range a.options(&f.loadFlags).Inputs {
		if in.Reader == nil {
			continue
		}
		text, err := io.ReadAll(in.Reader)
		if err != nil {
			return nil, view.Failf("Cannot read standard input", "%v.", err)
		}
		stdin[i] = string(text)
	}
	return func() config.Options {
		opts := a.options(&f.loadFlags)
		for i, text := range stdin {
			opts.Inputs[i].Reader = strings.NewReader(text)
		}
		return opts
	}, nil
}

// filtered are the files and runs that the filters name, all without one. A run needs those before it.
func filtered(files []*config.TestFile, filters []string) ([]*config.TestFile, error) {
	files = slices.DeleteFunc(files, func(f *config.TestFile) bool { return len(f.Runs) == 0 })
	if len(files) == 0 {
		return nil, view.Failf("No tests", "There is no *.locktreetest.hcl file with a run block beside the configuration. "+
			"Write one, such as run \"plan\" { command = plan }; -chdir=DIR works on another directory. docs/test.md describes them.")
	}
	if len(filters) == 0 {
		return files, nil
	}
	keep, names := map[*config.TestFile]int{}, []string{}
	for _, filter := range filters {
		found := false
		for _, f := range files {
			base := filepath.Base(f.Name)
			names = append(names, base)
			if filepath.Clean(filter) == f.Name || filter == base {
				keep[f], found = len(f.Runs), true
			}
			for i, r := range f.Runs {
				names = append(names, r.Name)
				if r.Name == filter {
					keep[f], found = max(keep[f], i+1), true
				}
			}
		}
		if !found {
			return nil, view.Failf("No such test", "-filter=%s names neither a file of tests nor a run.%s", filter, plan.DidYouMean(filter, names))
		}
	}
	files = slices.DeleteFunc(files, func(f *config.TestFile) bool { return keep[f] == 0 })
	for _, f := range files {
		f.Runs = f.Runs[:keep[f]]
	}
	return files, nil
}

// testNames complete -filter.
func (a *app) testNames() (names []string) {
	files, _, _ := config.LoadTests(a.path("."))
	for _, f := range files {
		names = append(names, filepath.Base(f.Name))
		for _, r := range f.Runs {
			names = append(names, r.Name)
		}
	}
	return names
}

// testFile runs one file. Its error ends the command.
func (a *app) testFile(ctx context.Context, f *testFlags, opts func() config.Options, file *config.TestFile, out *view.TestFile) error {
	t := &tester{app: a, verbose: f.verbose, servers: map[string]*zktest.Server{}}
	defer t.close()
	a.show(*out)
	for _, r := range file.Runs {
		run := view.TestRun{File: file.Name, Name: r.Name, Status: view.TestSkip}
		if out.Status() != view.TestError {
			begun := time.Now()
			t.run(ctx, r, opts(), &run)
			run.Elapsed = time.Since(begun)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		out.Ended = append(out.Ended, run)
		a.show(run)
	}
	a.show(*out)
	return nil
}

// tester runs the runs of one file.
type tester struct {
	*app
	verbose bool
	servers map[string]*zktest.Server // by ensemble
	trials  []*config.Trial
}

func (t *tester) close() {
	for _, trial := range t.trials {
		trial.Close()
	}
	for _, s := range t.servers {
		s.Close()
	}
}

func (t *tester) run(ctx context.Context, r *config.TestRun, opts config.Options, out *view.TestRun) {
	trial := r.Load(t.path("."), opts, t.trials...)
	t.trials = append(t.trials, trial)
	out.Status, out.Sources = view.TestPass, trial.Sources
	found := func(worst view.TestStatus, diags hcl.Diagnostics) (ok bool) {
		if out.Diagnostics = append(out.Diagnostics, diags...); diags.HasErrors() {
			out.Status = worst
		}
		return !diags.HasErrors()
	}
	var plans []*plan.Plan
	if trial.Loaded {
		found(view.TestFail, trial.Diagnostics) // of checks
		var err error
		if plans, err = t.planned(ctx, trial, r); err != nil {
			found(view.TestError, view.Explain(err))
			return
		}
		shown := view.Plan{Plans: plans, Files: trial.Sources, NoAdvice: true}
		if t.verbose {
			rest := about(shown, func(q plan.Problem) bool { return q.Severity != plan.Error })
			out.Plan = &rest
		}
		unexpected := about(shown, func(q plan.Problem) bool { return q.Severity == plan.Error && !trial.Expects(q.Addr) })
		if !found(view.TestError, view.Problems(unexpected)) {
			return
		}
	} else if !found(view.TestError, trial.Diagnostics) {
		return
	}
	found(view.TestFail, trial.Judge(plans))
}

// about are plans with some of their problems only.
func about(p view.Plan, keep func(plan.Problem) bool) view.Plan {
	plans := p.Plans
	p.Plans = nil
	for _, one := range plans {
		some := *one
		some.Problems = slices.DeleteFunc(slices.Clone(one.Problems), func(q plan.Problem) bool { return !keep(q) })
		p.Plans = append(p.Plans, &some)
	}
	return p
}

// planned makes the plans of a run, and applies them unless they fail or the run only plans.
func (t *tester) planned(ctx context.Context, trial *config.Trial, r *config.TestRun) (plans []*plan.Plan, err error) {
	s := &stack{Config: trial.Config}
	for _, e := range trial.Ensembles {
		client, err := t.client(ctx, e)
		if err != nil {
			return nil, err
		}
		defer client.Close() // nothing is held
		s.clients = append(s.clients, client)
	}
	if len(s.clients) == 0 {
		return nil, view.Failf("No configuration", "The configuration declares no ensemble, so there is nothing to test.")
	}
	if r.PlanOnly {
		_, plans, err = s.ask(ctx, r.Options)
		return plans, err
	}
	quiet := &app{terminal: t.terminal, dir: t.dir, v: unheard{}, underWay: t.underWay}
	err = quiet.planAndApply(ctx, &applyFlags{autoApprove: true}, s, r.Options, func(p *plan.Plan) { plans = append(plans, p) })
	if view.Failing(plans) {
		return plans, nil // the plans say why
	}
	return plans, err
}

// embedded is what the tests' servers are called, and the password of every SASL login on them.
const embedded = "embedded"

// client connects to the embedded server that stands for an ensemble, as the identities that the ensemble declares. Who logs
// in with Kerberos does so by the same name with a password; a certificate has no counterpart.
func (t *tester) client(ctx context.Context, e *config.Ensemble) (*recipes.Client, error) {
	server := t.servers[e.Name]
	if server == nil {
		server = zktest.New(zktest.WithSASL(func(string) string { return embedded }))
		t.servers[e.Name] = server
	}
	e.Tree.EnsembleID = "" // the server is new
	here := config.Ensemble{Name: e.Name, Servers: []string{embedded}, Auth: e.Auth, SessionTimeout: demoSession}
	with, err := here.ClientConfig(recipes.Config{Logger: t.logger(), Dialer: server.DialContext})
	if l := e.Login; l != nil {
		name := l.User
		if l.Kerberos != nil {
			name = kerberos.NameOf(*l.Kerberos)
		}
		with.SASL = recipes.DigestMD5(name, func() (recipes.Secret, error) { return embedded, nil })
	}
	if err != nil {
		return nil, err
	}
	return recipes.Dial(ctx, with)
}

// unheard is the output of an apply inside of a test: what is told of it comes from its plan and its error.
type unheard struct{}

func (unheard) Diagnostics(hcl.Diagnostics, map[string]*hcl.File) {}
func (unheard) Message(string)                                    {}
func (unheard) Progress(*view.Progress)                           {}
func (unheard) Show(view.Result)                                  {}
