package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/locktree/locktree/cmd/locktree/internal/view"
)

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
