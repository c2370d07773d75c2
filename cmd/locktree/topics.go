package main

import (
	_ "embed"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

//go:embed topics/from-terraform.txt
var fromTerraform string

//go:embed topics/from-curator.txt
var fromCurator string

//go:embed topics/json.txt
var jsonFormats string

// exitCodes are what the program ends with, for the help and for a test that
// holds them against the constants.
var exitCodes = []struct {
	code int
	when string
}{
	{exitOK, "done; for plan -detailed-exitcode: no changes"},
	{exitError, "an error, an invalid configuration, a refused approval, an interrupt"},
	{exitChanges, "plan and status with -detailed-exitcode: there are changes"},
	{exitFmtRead, "fmt: a file does not parse, or does not exist"},
	{exitFmtDiff, "fmt -check: a file would change"},
	{exitStale, "apply and destroy with -detailed-exitcode: the saved plan is stale"},
	{exitLocked, "apply and destroy with -detailed-exitcode: another apply holds the lock"},
	{exitInUse, "apply and destroy with -detailed-exitcode: a lock to be removed, replaced or moved is in use"},
}

// topics are texts for "locktree help NAME": commands that do nothing else.
func topics() []*cobra.Command {
	var codes strings.Builder
	codes.WriteString("What the program ends with. Only what is listed with -detailed-exitcode needs that flag.\n\n")
	for _, e := range exitCodes {
		fmt.Fprintf(&codes, "  %d  %s\n", e.code, e.when)
	}
	codes.WriteString("\nA second interrupt (Ctrl-C) ends the program at once, with 1. An apply is one transaction,\nso it is then done or not done; \"locktree plan\" tells.")
	return []*cobra.Command{
		{Use: "exit-codes", Short: "What the program ends with", Long: codes.String()},
		{Use: "json", Short: "What -json prints", Long: strings.TrimRight(jsonFormats, "\n")},
		{Use: "from-terraform", Short: "For people who know Terraform", Long: strings.TrimRight(fromTerraform, "\n")},
		{Use: "from-curator", Short: "For programs that use Apache Curator or kazoo", Long: strings.TrimRight(fromCurator, "\n")},
	}
}
