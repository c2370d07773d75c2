package help

import (
	"bytes"
	"io"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// longFlag is a flag in Terraform's spelling: one dash and more than one letter.
// No command combines one-letter flags, so it cannot be mistaken for those.
var longFlag = regexp.MustCompile(`^-[a-z][a-z-]+(=|$)`)

// Normalize gives flags in Terraform's spelling the second dash that cobra expects:
// -auto-approve becomes --auto-approve. The value after a flag that takes one, a
// lone "-" (standard input), and everything after "--" are never touched.
func Normalize(root *cobra.Command, args []string) []string {
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

var twoDashes = regexp.MustCompile(`(?m)^( +(?:-[a-zA-Z], )?)--|( )--(help)`)

// unlisted matches what the help leaves out, so that it fits on one screen: commands without a group, runbooks (a topic lists
// them) and some usage lines.
var unlisted = regexp.MustCompile(`\n\nAdditional Commands:(\n  .*)+|\n  locktree \S+ +Runbook: .*|\n  locktree \[flags\]|\n\nUse "locktree.*`)

// OneDash writes the flags of a help text as the documentation does, and lists only the commands that belong to a group.
func OneDash(help func(*cobra.Command, []string)) func(*cobra.Command, []string) {
	return func(c *cobra.Command, args []string) {
		out := c.OutOrStdout()
		var text bytes.Buffer
		c.SetOut(&text)
		help(c, args)
		c.SetOut(out)
		_, _ = io.WriteString(out, unlisted.ReplaceAllString(twoDashes.ReplaceAllString(text.String(), "$1$2-$3"), ""))
	}
}
