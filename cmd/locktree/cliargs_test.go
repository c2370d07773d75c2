package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWords(t *testing.T) {
	for in, want := range map[string][]string{
		"":                             nil,
		"  \t\n":                       nil,
		"-input=false -lock-timeout 5": {"-input=false", "-lock-timeout", "5"},
		`-var 'a b' -var="c \"d\" \e"`: {"-var", "a b", `-var=c "d" \e`},
		`'' ""x'\n' \ y`:               {"", `x\n`, " y"},
	} {
		got, err := words("V", in)
		require.NoError(t, err, in)
		require.Equal(t, want, got, in)
	}
	_, err := words("V", `a "b`)
	require.ErrorContains(t, err, "variable V is not closed")
}

// The arguments of the environment stand behind the command, before what was
// typed, whatever stands before the command.
func TestArgumentsOfTheEnvironment(t *testing.T) {
	a := appWith("LOCKTREE_CLI_ARGS=-no-color", "LOCKTREE_CLI_ARGS_plan=-concise -out 'p q'")
	root := a.rootCommand()
	for in, want := range map[string]string{
		"-chdir=x plan -out=z": "-chdir=x|plan|-no-color|-concise|-out|p q|-out=z",
		"apply":                "apply|-no-color",
		"-version":             "-version",
		"__complete plan -o":   "__complete|plan|-o",
		"":                     "",
	} {
		got, err := a.withEnvironment(root, strings.Fields(in))
		require.NoError(t, err)
		require.Equal(t, want, strings.Join(got, "|"))
	}
	_, err := appWith("LOCKTREE_CLI_ARGS_plan='").withEnvironment(root, []string{"plan"})
	require.ErrorContains(t, err, "LOCKTREE_CLI_ARGS_plan")
}
