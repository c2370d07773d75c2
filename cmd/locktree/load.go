package main

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/locktree/locktree/cmd/locktree/internal/stack"
	"github.com/locktree/locktree/config"
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

func (t *treeFlags) checkPrefix(c *cobra.Command) error {
	if stack.IsAddress(t.prefix) {
		return usage(c, "Not a path", "%s is an address. \"locktree status ADDRESS\" shows the locks at an address, and their paths.", t.prefix)
	}
	if err := kind.ValidatePath(t.prefix); err != nil && t.prefix != "" {
		return usage(c, "Not a path", "%v. A path is absolute, as in \"/locks/payments\".", err)
	}
	return nil
}

// configured is the stack's configuration, or what the command line and the environment say about where to look. at is the
// argument of the command: an address, a path, or "". The prefix is then the path of the address.
func (t *treeFlags) configured(c *cobra.Command, l *stack.Loader, at string) (*config.Config, error) {
	address := stack.IsAddress(at)
	if !address && at != "" {
		t.prefix = at
	}
	if err := t.checkPrefix(c); err != nil && !address {
		return nil, err
	}
	if address && t.servers != "" {
		return nil, usage(c, "Not a path", "%s is an address, which stands in a configuration, and -servers reads none. Give the path.", at)
	}
	cfg, where, err := l.Find(stack.Where{Inputs: t.inputs, Servers: t.servers, Prefix: t.prefix}, at)
	t.prefix = where
	return cfg, err
}

// says replaces the help of a flag that several commands share, where it does something different.
func says(c *cobra.Command, name, usage string) { c.Flags().Lookup(name).Usage = usage }

// keyFlag is -key.
type keyFlag struct{ stack.Key }

func (f *keyFlag) register(c *cobra.Command) {
	c.Flags().Var(f, "key", "the `KEY` of a lock in a family of keyed locks")
}
func (f *keyFlag) String() string { return f.Key.Key }
func (f *keyFlag) Type() string   { return "string" }
func (f *keyFlag) Set(key string) error {
	f.Key = stack.Key{Key: key, Given: true}
	return nil
}

// completes offers names, and no files.
func completes(names func() []string) cobra.CompletionFunc {
	return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return names(), cobra.ShellCompDirectiveNoFileComp
	}
}

// completing loads the configuration to complete a command line: a shell must not wait for a server, and standard input is the
// shell's.
func (a *app) completing(flags *loadFlags) *config.Config {
	l := a.loader()
	opts := l.Options(flags.inputs)
	opts.Inputs = slices.DeleteFunc(opts.Inputs, func(in config.Input) bool { return in.Reader != nil })
	cfg, _ := config.Load(l.Path("."), opts)
	return cfg
}

// addresses completes from the configuration.
func (a *app) addresses(flags *loadFlags) (out []string) {
	for _, addr := range stack.Addresses(a.completing(flags)) {
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

// completeAddresses completes the flags of the command that take an address.
func (a *app) completeAddresses(c *cobra.Command, flags *loadFlags) {
	for _, name := range []string{"target", "replace", "force-break"} {
		// It fails where the command has no such flag.
		_ = c.RegisterFlagCompletionFunc(name, completes(func() []string { return a.addresses(flags) }))
	}
}
