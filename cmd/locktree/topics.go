package main

import (
	"embed"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

//go:embed topics/*.txt
var topicTexts embed.FS

// topicText is what a topic says.
func topicText(name string) string {
	text, err := topicTexts.ReadFile("topics/" + name + ".txt")
	if err != nil {
		panic(err) // it is no part of the program: each topic has a test
	}
	return strings.TrimRight(string(text), "\n")
}

// runbooks are the topics with step-by-step instructions. Tests type what is in them (TestRunbook… in examples).
var runbooks = []struct {
	name, short string
	suggestFor  []string
}{
	{"rotate-password", "Runbook: rotate passwords", []string{"rotate", "rotation"}},
	{"ci-access", "Runbook: let CI plan without the right to change anything", []string{"ci"}},
	{"restore-backup", "Runbook: restore the locks from a backup of ZooKeeper", []string{"restore", "backup"}},
	{"migrate-ensemble", "Runbook: move a stack to another ensemble", []string{"migrate", "move"}},
	{"take-over-stack", "Runbook: take over a stack whose administrator is gone", []string{"takeover", "superuser", "recover"}},
	{"two-teams", "Runbook: two teams, each with locks of its own", []string{"teams"}},
}

// exitCodes are for the help, and for a test that compares them with the constants.
var exitCodes = []struct {
	code int
	when string
}{
	{exitOK, "success; for plan -detailed-exitcode: no changes"},
	{exitError, "an error, an invalid configuration, a refused approval, an interrupt"},
	{exitChanges, "plan and status with -detailed-exitcode: there are changes"},
	{exitFmtRead, "fmt: a file does not parse, or does not exist"},
	{exitFmtDiff, "fmt -check: a file would change"},
	{exitStale, "apply with -detailed-exitcode: the saved plan is stale"},
	{exitLocked, "apply with -detailed-exitcode: another apply holds the lock"},
	{exitInUse, "apply with -detailed-exitcode: a lock to be removed, replaced or moved is in use"},
	{exitLost, "exec: the lock was lost while the command ran, or locktree ended the command"},
	{exitConflict, "exec: the lock was not acquired; -E sets another code and silences the message"},
	{exitOwn, "exec: something else failed outside the command"},
	{exitCannotRun, "exec: the command is not executable"},
	{exitNotFound, "exec: the command was not found"},
}

// topics are texts for "locktree help NAME": commands that do nothing else.
func topics() []*cobra.Command {
	var codes strings.Builder
	codes.WriteString("Exit codes. Those listed with -detailed-exitcode need that flag.\n\n")
	for _, e := range exitCodes {
		fmt.Fprintf(&codes, "  %-3d  %s\n", e.code, e.when)
	}
	codes.WriteString("\nexec exits with the code of its command, or with 128+N if signal N killed it.\n")
	codes.WriteString("\nThe codes of apply are also those of destroy, import and state rebuild. 4, 5 and 6 mean that\n" +
		"nothing was written: an apply that stops between two transactions or ensembles exits with 1.\n\n" +
		"An interrupt (Ctrl-C) or SIGTERM ends the program within two seconds, unless a transaction was\n" +
		"sent: the program first finds out whether it was committed. A second one ends the program at\n" +
		"once, with 1. The transaction is then committed or not; \"locktree plan\" shows which.")
	all := []*cobra.Command{
		{Use: "exit-codes", SuggestFor: []string{"exit", "codes", "exitcodes"}, Short: "Exit codes", Long: codes.String()},
		{Use: "environment", SuggestFor: []string{"env", "variables"}, Short: "Environment variables", Long: topicText("environment")},
		{Use: "json", Short: "What -json prints", Long: topicText("json")},
		{Use: "from-terraform", SuggestFor: []string{"terraform"}, Short: "For people who know Terraform", Long: topicText("from-terraform")},
		{Use: "from-curator", SuggestFor: []string{"curator", "kazoo"}, Short: "For programs that use Apache Curator or kazoo", Long: topicText("from-curator")},
	}
	for _, r := range runbooks {
		all = append(all, &cobra.Command{Use: r.name, SuggestFor: r.suggestFor, Short: r.short, Long: topicText(r.name)})
	}
	return all
}

// helpCommand shows the help of a command, or a topic, and is an error where there is
// neither.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "help [COMMAND | TOPIC]",
		Short:   "Help about a command or a topic",
		GroupID: "other",
		ValidArgsFunction: func(c *cobra.Command, args []string, _ string) (names []string, _ cobra.ShellCompDirective) {
			if of, _, err := c.Root().Find(args); err == nil {
				for _, sub := range of.Commands() {
					names = append(names, sub.Name()+"\t"+sub.Short)
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(c *cobra.Command, args []string) error {
			of, rest, err := c.Root().Find(args)
			if err != nil {
				return err
			}
			if len(rest) > 0 {
				return unknownCommand(of, rest[0])
			}
			of.InitDefaultHelpFlag()
			return of.Help()
		},
	}
}
