package main

import (
	"cmp"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/spf13/cobra"

	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/config"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes/kind"
)

// loadFlags are the flags of every command that reads the configuration.
type loadFlags struct {
	inputs []config.Input // in the order of the command line
}

// inputFlag is -var or -var-file. Both append to one list: the later one wins.
type inputFlag struct {
	to    *[]config.Input
	input func(text string) config.Input
}

func (f inputFlag) String() string        { return "" }
func (f inputFlag) Type() string          { return "stringArray" }
func (f inputFlag) Set(text string) error { *f.to = append(*f.to, f.input(text)); return nil }

func (f *loadFlags) register(c *cobra.Command) {
	c.Flags().Var(inputFlag{&f.inputs, func(text string) config.Input { return config.Input{Var: text} }},
		"var", "set a variable: `NAME=VALUE`; may be repeated")
	c.Flags().Var(inputFlag{&f.inputs, func(text string) config.Input { return config.Input{File: text} }},
		"var-file", "set the variables of a `FILE`, - for standard input; may be repeated; the later of -var and -var-file wins")
}

func (a *app) options(f *loadFlags) config.Options {
	opts := config.Options{Environ: a.env, Version: version()}
	for _, in := range f.inputs {
		switch in.File {
		case "":
		case "-": // for a secret that must not be in a file or a list of processes
			in.File, in.Reader = "<stdin>", a.stdin
		default:
			in.File = a.path(in.File)
		}
		opts.Inputs = append(opts.Inputs, in)
	}
	return opts
}

// load reads the configuration. Its errors are shown here; the one it returns only
// ends the command.
func (a *app) load(f *loadFlags) (*config.Config, error) {
	stop := a.during("Reading the configuration", nil)
	cfg, diags := config.Load(a.path("."), a.options(f))
	stop()
	a.view().Diagnostics(diags, cfg.Sources)
	if diags.HasErrors() {
		return nil, exitWith(exitError)
	}
	if len(cfg.Ensembles) == 0 {
		a.view().Diagnostics(hcl.Diagnostics{a.noEnsemble()}, nil)
		return nil, exitWith(exitError)
	}
	return cfg, nil
}

// configOfEnvironment is an ensemble as the environment alone describes it, for commands that need to know no more than a
// path; nil where ZOOKEEPER_SERVERS is not set.
func (a *app) configOfEnvironment() (*config.Config, error) {
	e, err := config.FromEnvironment(a.path("."), a.env)
	if err != nil {
		return nil, view.Failf("Bad environment", "%v", err)
	}
	if e == nil {
		return nil, nil
	}
	e.Tree = &plan.Tree{Root: e.Root} // nothing is declared
	return &config.Config{Ensembles: []*config.Ensemble{e}}, nil
}

// treeFlags say which locks to look at: those of the stack, or others.
type treeFlags struct {
	loadFlags
	servers, prefix string
}

func (t *treeFlags) register(c *cobra.Command) {
	t.loadFlags.register(c)
	c.Flags().StringVar(&t.servers, "servers", "", "look at these `SERVERS`, without a configuration: zk1:2181,zk2:2181")
	c.Flags().StringVar(&t.prefix, "prefix", "", "show every lock below this `PATH`, whoever made it; / is everything")
}

// says replaces the help of a flag that several commands share, where it does something else.
func says(c *cobra.Command, name, usage string) { c.Flags().Lookup(name).Usage = usage }

func (t *treeFlags) checkPrefix(c *cobra.Command) error {
	if isAddress(t.prefix) {
		return usage(c, "Not a path", "%s is an address. \"locktree status ADDRESS\" shows the locks at an address, and their paths.", t.prefix)
	}
	if err := kind.ValidatePath(t.prefix); err != nil && t.prefix != "" {
		return usage(c, "Not a path", "%v. A path is absolute, as in \"/locks/payments\".", err)
	}
	return nil
}

// configured is the stack's configuration, or what the command line and the environment say about where to look.
func (a *app) configured(c *cobra.Command, t *treeFlags) (*config.Config, error) {
	if err := t.checkPrefix(c); err != nil {
		return nil, err
	}
	if t.servers != "" {
		a.env = append(slices.Clone(a.env), "ZOOKEEPER_SERVERS="+t.servers)
		t.prefix = cmp.Or(t.prefix, "/")
	}
	if t.prefix != "" {
		cfg, err := a.configOfEnvironment()
		if cfg != nil || err != nil {
			return cfg, err
		}
	}
	return a.load(&t.loadFlags)
}

// configuredAt is configured for a command that is given an address or a path. That of an address becomes the prefix, and its
// ensemble the only one.
func (a *app) configuredAt(c *cobra.Command, t *treeFlags, at string) (*config.Config, error) {
	switch {
	case !isAddress(at):
		t.prefix = at
		return a.configured(c, t)
	case t.servers != "":
		return nil, usage(c, "Not a path", "%s is an address, which stands in a configuration, and -servers reads none. Give the path.", at)
	}
	cfg, err := a.load(&t.loadFlags)
	if err != nil {
		return nil, err
	}
	e, path, err := declared(cfg, at)
	cfg.Ensembles, t.prefix = []*config.Ensemble{e}, path
	return cfg, err
}

// isAddress reports whether an argument was meant as the address of a lock or a namespace.
func isAddress(arg string) bool { return kind.Lookup(plan.Addr(arg).Type()) != nil }

// nodeAt finds what is declared at an address; nil if nothing is.
func nodeAt(cfg *config.Config, addr plan.Addr) (*config.Ensemble, *plan.Node) {
	for _, e := range cfg.Ensembles {
		for _, n := range e.Tree.Nodes {
			if n.Addr == addr {
				return e, n
			}
		}
	}
	return nil, nil
}

// declared returns the path of an address.
func declared(cfg *config.Config, addr string) (e *config.Ensemble, path string, err error) {
	if e, n := nodeAt(cfg, plan.Addr(addr)); n != nil {
		return e, n.Path, nil
	}
	return nil, "", view.Failf("Not declared", "The configuration declares nothing at the address %q.%s \"locktree status\" shows what is declared. A path begins with a slash.",
		addr, plan.NearestAddr(addr, allAddresses(cfg)))
}

// chosenEnsemble is the one that is named, or the only one.
func chosenEnsemble(cfg *config.Config, name string) (*config.Ensemble, error) {
	var names []string
	for _, e := range cfg.Ensembles {
		if e.Name == name || name == "" && len(cfg.Ensembles) == 1 {
			return e, nil
		}
		names = append(names, e.Name)
	}
	return nil, view.Failf("Which ensemble", "-ensemble=%s: the ensembles are %s. Name one of them.", name, strings.Join(names, ", "))
}

func (a *app) noEnsemble() *hcl.Diagnostic {
	dir := "This directory"
	if a.dir != "" {
		dir = "The directory " + a.dir
	}
	return &hcl.Diagnostic{Severity: hcl.DiagError, Summary: "No configuration",
		Detail: dir + " declares no ensemble, so there is nothing to do. " +
			"\"locktree init\" writes a configuration to start from; -chdir=DIR works on another directory.",
		Extra: view.Address("")}
}

// completes offers names, and no files.
func completes(names func() []string) cobra.CompletionFunc {
	return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return names(), cobra.ShellCompDirectiveNoFileComp
	}
}

// outputNames completes from the configuration: a shell must not wait for a server.
func (a *app) outputNames(flags *loadFlags) []string {
	cfg, _ := config.Load(a.path("."), a.completing(flags))
	names := make([]string, len(cfg.Outputs))
	for i, o := range cfg.Outputs {
		names[i] = o.Name
	}
	return names
}

// addresses completes from the configuration, too.
func (a *app) addresses(flags *loadFlags) []string {
	cfg, _ := config.Load(a.path("."), a.completing(flags))
	var out []string
	for _, addr := range allAddresses(cfg) {
		out = append(out, string(addr))
	}
	return out
}

// firstAddress completes the first argument from the addresses, and what follows as then says.
func (a *app) firstAddress(flags *loadFlags, then cobra.ShellCompDirective) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, then
		}
		return a.addresses(flags), cobra.ShellCompDirectiveNoFileComp
	}
}

func allAddresses(cfg *config.Config) (out []plan.Addr) {
	for _, e := range cfg.Ensembles {
		for _, n := range e.Tree.Nodes {
			out = append(out, n.Addr)
		}
	}
	return out
}

// completeAddresses completes the flags of the command that take an address.
func (a *app) completeAddresses(c *cobra.Command, flags *loadFlags) {
	for _, name := range []string{"target", "replace", "force-break"} {
		// It fails where the command has no such flag.
		_ = c.RegisterFlagCompletionFunc(name, completes(func() []string { return a.addresses(flags) }))
	}
}

// completing are the options without standard input, which belongs to the shell while it
// completes a command line.
func (a *app) completing(f *loadFlags) config.Options {
	opts := a.options(f)
	opts.Inputs = slices.DeleteFunc(opts.Inputs, func(in config.Input) bool { return in.Reader != nil })
	return opts
}
