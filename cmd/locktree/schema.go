package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/config"
)

func schemaCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "schema [BLOCK]",
		Short: "Show the language: every block and argument",
		Long: "schema prints the reference of the configuration language, or of one block. It is\n" +
			"generated from the tables that decode the files, so it is always up to date.",
		Args:              exactly(0, 1),
		ValidArgsFunction: completes(blockNames),
		RunE:              func(_ *cobra.Command, args []string) error { return a.schema(args) },
	}
	a.jsonFlag(c, documentJSON, "print one JSON document, for editors and generators")
	return c
}

func (a *app) schema(args []string) error {
	language := config.Schema()
	if len(args) == 1 {
		language.Blocks = slices.DeleteFunc(language.Blocks, func(b *config.BlockSchema) bool { return b.Name != args[0] })
		if len(language.Blocks) == 0 {
			return view.Failf("No such block", "There is no block %q. The blocks are: %s.", args[0], strings.Join(blockNames(), ", "))
		}
	}
	if a.json != 0 {
		enc := json.NewEncoder(a.stdout)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		return enc.Encode(language)
	}
	for i, b := range language.Blocks {
		if i > 0 {
			fmt.Fprintln(a.stdout)
		}
		writeBlock(a.stdout, b, "")
	}
	if len(args) == 0 {
		fmt.Fprintf(a.stdout, "\nFunctions: %s.\n", strings.Join(language.Functions, ", "))
	}
	return nil
}

func blockNames() []string {
	var out []string
	for _, b := range config.Schema().Blocks {
		out = append(out, b.Name)
	}
	return out
}
