package main

import (
	"encoding/json"
	"fmt"
	"io"
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

// writeBlock writes a block as it is written in a file, each argument with its type and
// meaning.
func writeBlock(w io.Writer, b *config.BlockSchema, indent string) {
	head := b.Name
	for _, l := range b.Labels {
		head += ` "` + strings.ToUpper(l) + `"`
	}
	doc := b.Doc
	if b.Single {
		doc += " At most one."
	}
	fmt.Fprintf(w, "%s# %s\n%s%s {\n", indent, doc, indent, head)
	width := 0
	for _, a := range b.Arguments {
		width = max(width, len(a.Name))
	}
	for _, a := range b.Arguments {
		fmt.Fprintf(w, "%s  %-*s = %s # %s%s\n", indent, width, a.Name, a.Type, a.Doc, argumentNotes(&a))
	}
	if b.AnyArguments {
		fmt.Fprintf(w, "%s  NAME = any # Any name.\n", indent)
	}
	for _, n := range b.Blocks {
		writeBlock(w, n, indent+"  ")
	}
	if len(b.Contains) > 0 {
		fmt.Fprintf(w, "%s  # Inside: %s.\n", indent, strings.Join(b.Contains, ", "))
	}
	fmt.Fprintf(w, "%s}\n", indent)
	if len(b.Attributes) > 0 {
		names := make([]string, len(b.Attributes))
		for i, a := range b.Attributes {
			names[i] = "." + a.Name
		}
		fmt.Fprintf(w, "%s# Attributes of a reference: %s.\n", indent, strings.Join(names, ", "))
	}
}

// argumentNotes are the facts of an argument besides its description.
func argumentNotes(a *config.ArgumentSchema) string {
	var notes []string
	if a.Required {
		notes = append(notes, "required")
	}
	if len(a.OneOf) > 0 {
		notes = append(notes, "one of "+strings.Join(a.OneOf, ", "))
	}
	if a.Min != nil {
		notes = append(notes, fmt.Sprintf("at least %d", *a.Min))
	}
	if a.Max != nil {
		notes = append(notes, fmt.Sprintf("at most %d", *a.Max))
	}
	if text, err := json.Marshal(a.Default); a.Default != nil && err == nil {
		notes = append(notes, "default "+string(text))
	}
	if a.ForcesReplace {
		notes = append(notes, "a change forces replacement")
	}
	if len(notes) == 0 {
		return ""
	}
	return " (" + strings.Join(notes, "; ") + ")"
}
