package main

import (
	"github.com/spf13/cobra"

	"github.com/locktree/locktree/cmd/locktree/internal/help"
	"github.com/locktree/locktree/cmd/locktree/internal/stack"
	"github.com/locktree/locktree/cmd/locktree/internal/view"
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
		"var", "set a variable: `NAME=VALUE`; may be repeated; the last value wins")
	c.Flags().Var(inputFlag{&f.inputs, func(text string) config.Input { return config.Input{File: text} }},
		"var-file", "the variables in this `FILE`, - for standard input; may be repeated")
}

// treeFlags say which locks to look at: those of the stack, or others.
type treeFlags struct {
	loadFlags
	servers, prefix string
}

func (t *treeFlags) register(c *cobra.Command) {
	t.loadFlags.register(c)
	c.Flags().StringVar(&t.servers, "servers", "", "look at these `SERVERS`, without a configuration: zk1:2181,zk2:2181")
	c.Flags().StringVar(&t.prefix, "prefix", "", "show every lock below this `PATH`, also of other programs; / is everything")
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

// configured loads the stack's configuration, or describes the servers that the command line and the environment name. The
// parameter at is the argument of the command: an address, a path, or "". If it is an address, configured sets t.prefix to the
// path of the address.
func (t *treeFlags) configured(c *cobra.Command, l *stack.Loader, at string) (*config.Config, error) {
	address := stack.IsAddress(at)
	if !address && at != "" {
		t.prefix = at
	}
	if err := t.checkPrefix(c); err != nil && !address {
		return nil, err
	}
	if address && t.servers != "" {
		return nil, usage(c, "Not a path", "%s is an address in a configuration, but with -servers no configuration is read. Give the path.", at)
	}
	cfg, where, err := l.Find(stack.Where{Inputs: t.inputs, Servers: t.servers, Prefix: t.prefix}, at)
	t.prefix = where
	return cfg, err
}

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

// messageFlag is -message.
type messageFlag string

// maxMessage bounds -message, in bytes.
const maxMessage = 300

func (f *messageFlag) register(c *cobra.Command) {
	c.Flags().StringVar((*string)(f), "message", "", "why, as `TEXT` for the history of the stack (\"locktree history\")")
	c.PreRunE = func(c *cobra.Command, _ []string) error {
		switch text := string(*f); {
		case len(text) > maxMessage:
			return usage(c, "Bad message", "-message has %d bytes, and at most %d are allowed.", len(text), maxMessage)
		case kind.Visible(text) != text:
			return usage(c, "Bad message", "-message has control characters or invisible characters: write plain text.")
		}
		return nil
	}
}

// compatible accepts a switch that other tools have and that does nothing here. The help does not list it.
func compatible(c *cobra.Command, name string) {
	c.Flags().Bool(name, true, "accepted for compatibility")
	_ = c.Flags().MarkHidden(name) // it fails for unknown flags only
}

// onlyCommands refuses each argument, as the name of a command that does not exist.
func onlyCommands(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return help.UnknownCommand(c, args)
	}
	return nil
}

// usage is an error on the command line.
func usage(c *cobra.Command, summary, detail string, args ...any) error {
	return view.Failf(summary, detail+"\n\nFor the flags and arguments, run: "+c.CommandPath()+" -help", args...)
}

// atMost refuses more than n arguments. Its advice is for users of old Terraform versions, which took a directory as an argument.
func atMost(n int) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) > n {
			return usage(c, "Too many command line arguments", "%q is one argument too many. To work on another directory, use -chdir=DIR.", args[n])
		}
		return nil
	}
}
