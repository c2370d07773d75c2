package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/locktree/locktree/config"
)

// writeBlock writes a block as it is written in a file, each argument with its type and
// meaning.
func writeBlock(w io.Writer, b *config.BlockSchema, indent string) {
	head := b.Name
	for _, l := range b.Labels {
		head += ` "` + strings.ToUpper(l) + `"`
	}
	fmt.Fprintf(w, "%s# %s%s\n%s%s {\n", indent, b.Doc, blockNotes(b), indent, head)
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
		fmt.Fprintf(w, "%s# A reference offers %s.\n", indent, strings.Join(names, ", "))
	}
}

func blockNotes(b *config.BlockSchema) string {
	if b.Single {
		return " At most one."
	}
	return ""
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
