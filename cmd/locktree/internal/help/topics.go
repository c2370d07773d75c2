// Package help has the texts that the program shows about itself: long helps, topics, man pages, and advice on commands and flags that do
// not exist. It also accepts flags with one dash. It knows commands only as cobra's values, and runs none.
//
//	root.SetArgs(help.Normalize(root, args))
//	root.AddCommand(help.Topics()...)
package help

import (
	"embed"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/locktree/locktree/cmd/locktree/internal/exit"
)

//go:embed topics/*.txt commands/*.txt
var texts embed.FS

// Long is the long help of a command, or "".
func Long(command string) string {
	text, _ := texts.ReadFile("commands/" + command + ".txt")
	return strings.TrimRight(string(text), "\n")
}

// exitCodes are for the help, and for a test that compares them with the constants.
var exitCodes = []struct {
	code int
	when string
}{
	{exit.OK, "success; for plan -detailed-exitcode: no changes"},
	{exit.Failed, "an error, an invalid configuration, a refused approval, an interrupt"},
	{exit.Changes, "plan and status with -detailed-exitcode: there are changes"},
	{exit.FmtRead, "fmt: a file does not parse, or does not exist"},
	{exit.FmtDiff, "fmt -check, generate -check: a file would change"},
	{exit.Stale, "apply with -detailed-exitcode: the saved plan is stale"},
	{exit.Locked, "apply with -detailed-exitcode: another apply holds the lock"},
	{exit.InUse, "apply with -detailed-exitcode: a lock to be removed or replaced is in use"},
	{exit.Slot, "exec -once: the slot was run before, or is skipped"},
	{exit.Lost, "exec: the lock was lost while the command ran, or locktree ended the command"},
	{exit.Conflict, "exec: the lock was not acquired; -E sets another code and silences the message"},
	{exit.Own, "exec: another failure outside the command"},
	{exit.CannotRun, "exec: the command is not executable"},
	{exit.NotFound, "exec: the command was not found"},
}

// Topics are texts for "locktree help NAME", in the form of commands that do nothing.
func Topics() []*cobra.Command {
	var codes strings.Builder
	codes.WriteString("Exit codes. Those listed with -detailed-exitcode need that flag.\n\n")
	for _, e := range exitCodes {
		fmt.Fprintf(&codes, "  %-3d  %s\n", e.code, e.when)
	}
	codes.WriteString("\nexec exits with the code of its command, or with 128+N if signal N killed it.\n")
	codes.WriteString("\nThe codes of apply are also those of destroy and import. 4, 5 and 6 mean that\n" +
		"nothing was written: an apply that stops between two transactions or ensembles exits with 1.\n\n" +
		"An interrupt (Ctrl-C), SIGTERM or SIGHUP (a closed terminal) ends the program within two seconds,\n" +
		"unless a transaction was sent: the program first finds out whether it was committed. A second\n" +
		"one ends the program at once, with 1. The transaction is then committed or not; \"locktree plan\"\n" +
		"shows which.")
	all := []*cobra.Command{
		{Use: "exit-codes", SuggestFor: []string{"exit", "codes", "exitcodes"}, Short: "Exit codes", Long: codes.String()},
		{Use: "environment", SuggestFor: []string{"env", "variables"}, Short: "Environment variables"},
		{Use: "json", Short: "What -json prints"},
		{Use: "jobs", SuggestFor: []string{"job"}, Short: "Jobs under a lock: what exec does"},
		{Use: "from-terraform", SuggestFor: []string{"terraform"}, Short: "For people who know Terraform"},
		{Use: "from-curator", SuggestFor: []string{"curator", "kazoo"}, Short: "For programs that use Apache Curator or kazoo"},
		// Runbooks are step-by-step instructions. Tests type what is in them (TestRunbook… in examples).
		{Use: "rotate-password", SuggestFor: []string{"rotate", "rotation"}, Short: "Runbook: rotate passwords"},
		{Use: "ci-access", SuggestFor: []string{"ci"}, Short: "Runbook: let CI plan without the right to change anything"},
		{Use: "restore-backup", SuggestFor: []string{"restore", "backup"}, Short: "Runbook: restore the locks from a backup of ZooKeeper"},
		{Use: "migrate-ensemble", SuggestFor: []string{"migrate", "move"}, Short: "Runbook: move a stack to another ensemble"},
		{Use: "take-over-stack", SuggestFor: []string{"takeover", "superuser", "recover"}, Short: "Runbook: take over a stack whose administrator is gone"},
		{Use: "two-teams", SuggestFor: []string{"teams"}, Short: "Runbook: two teams, each with locks of its own"},
		{Use: "nightly-job", SuggestFor: []string{"nightly", "cron", "timer"}, Short: "Runbook: a nightly job on three machines that runs once"},
	}
	for _, c := range all[1:] {
		text, err := texts.ReadFile("topics/" + c.Use + ".txt")
		if err != nil {
			panic(err) // it is no part of the program: each topic has a test
		}
		c.Long = strings.TrimRight(string(text), "\n")
	}
	return all
}
