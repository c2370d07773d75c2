package main

import (
	"github.com/hashicorp/hcl/v2"
	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/config"
	"github.com/spf13/cobra"
)

// loadFlags are the flags of every command that reads the configuration.
type loadFlags struct {
	vars, varFiles  []string
	compactWarnings bool
}

func (f *loadFlags) register(c *cobra.Command) {
	c.Flags().StringArrayVar(&f.vars, "var", nil, "set a variable: `NAME=VALUE`; may be repeated")
	c.Flags().StringArrayVar(&f.varFiles, "var-file", nil, "set the variables of a `FILE`; may be repeated; -var wins over it")
	c.Flags().BoolVar(&f.compactWarnings, "compact-warnings", false, "show warnings by their summaries alone, when there are no errors")
}

func (a *app) options(f *loadFlags) config.Options {
	opts := config.Options{Vars: f.vars, Environ: a.env, Version: version()}
	for _, file := range f.varFiles {
		opts.VarFiles = append(opts.VarFiles, a.path(file))
	}
	return opts
}

// load reads the configuration. Its mistakes are shown here; the error only
// ends the command.
func (a *app) load(f *loadFlags) (*config.Config, error) {
	cfg, diags := config.Load(a.path("."), a.options(f))
	if f.compactWarnings && !diags.HasErrors() {
		diags = compacted(diags)
	}
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

// compacted leaves of warnings their first line.
func compacted(diags hcl.Diagnostics) hcl.Diagnostics {
	out := make(hcl.Diagnostics, 0, len(diags))
	for _, d := range diags {
		out = append(out, &hcl.Diagnostic{Severity: d.Severity, Summary: d.Summary})
	}
	return out
}
