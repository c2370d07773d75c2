package main

import (
	"bytes"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/locktree/locktree/cmd/locktree/internal/view"
)

// longFlag is a flag in Terraform's spelling: one dash and more than one letter.
// No command combines one-letter flags, so it cannot be mistaken for those.
var longFlag = regexp.MustCompile(`^-[a-z][a-z-]+(=|$)`)

// normalizeArgs gives flags in Terraform's spelling the second dash that cobra expects:
// -auto-approve becomes --auto-approve. The value after a flag that takes one, a
// lone "-" (standard input), and everything after "--" are never touched.
func normalizeArgs(root *cobra.Command, args []string) []string {
	flags := map[string]*pflag.Flag{}
	collectFlags(root, flags)
	out := make([]string, 0, len(args))
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if arg == "--" {
			return append(out, args[i:]...)
		}
		if longFlag.MatchString(arg) {
			arg = "-" + arg
		}
		out = append(out, arg)
		name, isFlag := strings.CutPrefix(arg, "--")
		if flag := flags[name]; isFlag && flag != nil && flag.NoOptDefVal == "" && i+1 < len(args) {
			i++
			out = append(out, args[i])
		}
	}
	return out
}

// collectFlags gathers the flags of a command and of everything below it. A test makes
// sure that flags of one name are of one type.
func collectFlags(c *cobra.Command, into map[string]*pflag.Flag) {
	add := func(f *pflag.Flag) { into[f.Name] = f }
	c.InitDefaultHelpFlag()
	c.PersistentFlags().VisitAll(add)
	c.Flags().VisitAll(add)
	for _, sub := range c.Commands() {
		collectFlags(sub, into)
	}
}

var twoDashes = regexp.MustCompile(`(?m)^( +(?:-[hv], )?)--|( )--(help)`)

// oneDashHelp writes the flags of a help text as the documentation does.
func oneDashHelp(help func(*cobra.Command, []string)) func(*cobra.Command, []string) {
	return func(c *cobra.Command, args []string) {
		out := c.OutOrStdout()
		var text bytes.Buffer
		c.SetOut(&text)
		help(c, args)
		c.SetOut(out)
		_, _ = io.WriteString(out, twoDashes.ReplaceAllString(text.String(), "$1$2-$3"))
	}
}

// argsVariable has arguments for every command; with _NAME appended, for one command.
const argsVariable = "LOCKTREE_CLI_ARGS"

// withEnvironment puts the arguments of the environment after the command's name and
// before those that were typed, which override them.
func (a *app) withEnvironment(root *cobra.Command, args []string) ([]string, error) {
	all, err := words(argsVariable, a.env.get(argsVariable))
	if err != nil {
		return nil, err
	}
	at := commandAt(root, args)
	if at < 0 {
		return args, nil
	}
	variable := argsVariable + "_" + args[at]
	own, err := words(variable, a.env.get(variable))
	if err != nil || len(all)+len(own) == 0 {
		return args, err
	}
	return slices.Concat(args[:at+1], all, own, args[at+1:]), nil
}

// commandAt is the index of the command's name, -1 without one. The commands by which
// shells complete a command line are left alone: their arguments are what was typed so far.
func commandAt(root *cobra.Command, args []string) int {
	for i, arg := range args {
		for _, c := range root.Commands() {
			if c.Name() == arg {
				return i
			}
		}
		if strings.HasPrefix(arg, "__") {
			return -1
		}
	}
	return -1
}

// words splits text as a shell does, with quotes and backslashes, and expands nothing.
func words(variable, text string) ([]string, error) {
	var out []string
	var word strings.Builder
	quote, open := byte(0), false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && quote != '\'' && i+1 < len(text):
			i++
			if quote == '"' && text[i] != '"' && text[i] != '\\' {
				word.WriteByte('\\')
			}
			word.WriteByte(text[i])
			open = true
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '"' || c == '\''):
			quote, open = c, true
		case quote == 0 && (c == ' ' || c == '\t' || c == '\n'):
			if open {
				out = append(out, word.String())
			}
			word.Reset()
			open = false
		default:
			word.WriteByte(c)
			open = true
		}
	}
	if quote != 0 {
		return nil, view.Failf("Bad arguments in the environment", "A quote (%c) in the environment variable %s is not closed. Close it, or unset the variable.", quote, variable)
	}
	if open {
		out = append(out, word.String())
	}
	return out, nil
}
