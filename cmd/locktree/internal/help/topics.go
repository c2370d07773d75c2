// Package help has the texts that the program shows about itself: long helps, topics, man pages, and advice on commands and flags that do
// not exist. It also accepts flags with one dash. It knows commands only as cobra's values, and runs none.
//
//	root.SetArgs(help.Normalize(root, args))
//	root.AddCommand(help.Topics()...)
package help

import (
	"embed"
	"strings"

	"github.com/spf13/cobra"
)

//go:embed topics/*.txt commands/*.txt
var texts embed.FS

// Long is the long help of a command, or "".
func Long(command string) string {
	text, _ := texts.ReadFile("commands/" + command + ".txt")
	return strings.TrimRight(string(text), "\n")
}

// Topics are texts for "locktree help NAME", in the form of commands that do nothing.
func Topics() []*cobra.Command {
	all := []*cobra.Command{
		{Use: "exit-codes", SuggestFor: []string{"exit", "codes", "exitcodes"}, Short: "Exit codes"},
		{Use: "environment", SuggestFor: []string{"env", "variables"}, Short: "Environment variables"},
		{Use: "json", Short: "What -json prints"},
		{Use: "jobs", SuggestFor: []string{"job"}, Short: "Jobs under a lock: what exec does"},
		{Use: "from-terraform", SuggestFor: []string{"terraform"}, Short: "For people who know Terraform"},
		{Use: "from-curator", SuggestFor: []string{"curator", "kazoo"}, Short: "For programs that use Apache Curator or kazoo"},
		{Use: "runbooks", SuggestFor: []string{"runbook"}, Short: "Instructions step by step: passwords, backups, moves"},
		// Runbooks are step-by-step instructions. Tests type what is in them (TestRunbook… in examples).
		{Use: "rotate-password", SuggestFor: []string{"rotate", "rotation"}, Short: "Runbook: rotate passwords"},
		{Use: "ci-access", SuggestFor: []string{"ci"}, Short: "Runbook: let CI plan without the right to change anything"},
		{Use: "restore-backup", SuggestFor: []string{"restore", "backup"}, Short: "Runbook: restore the locks from a backup of ZooKeeper"},
		{Use: "migrate-ensemble", SuggestFor: []string{"migrate", "move"}, Short: "Runbook: move a stack to another ensemble"},
		{Use: "take-over-stack", SuggestFor: []string{"takeover", "superuser", "recover"}, Short: "Runbook: take over a stack whose administrator is gone"},
		{Use: "two-teams", SuggestFor: []string{"teams"}, Short: "Runbook: two teams, each with locks of its own"},
		{Use: "nightly-job", SuggestFor: []string{"nightly", "cron", "timer"}, Short: "Runbook: a nightly job on three machines that runs once"},
	}
	for _, c := range all {
		text, err := texts.ReadFile("topics/" + c.Use + ".txt")
		if err != nil {
			panic(err) // a topic without a file: each topic has a test
		}
		c.Long = strings.TrimRight(string(text), "\n")
	}
	return all
}
