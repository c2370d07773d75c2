package main

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/locktree/locktree/config"
)

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
	for _, e := range cfg.Ensembles {
		for _, n := range e.Tree.Nodes {
			out = append(out, string(n.Addr))
		}
	}
	return out
}

// completeAddresses completes the flags of the command that take an address.
func (a *app) completeAddresses(c *cobra.Command, flags *loadFlags) {
	for _, name := range []string{"target", "exclude", "replace", "force-break"} {
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
