package syntax

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/kind"
)

// The part of docs/language.md that is written from the tables which decode the files: "make golden" writes it.
func TestTheReferenceIsTheLanguage(t *testing.T) {
	const page, begin = "../../../docs/language.md", "<!-- make golden writes this block -->\n```\n"
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	before, rest, found := strings.Cut(string(text), begin)
	require.True(t, found)
	_, after, found := strings.Cut(rest, "\nFunctions: ")
	require.True(t, found)
	got := before + begin + reference() + "Functions: " + after
	if os.Getenv("GOLDEN") != "" {
		require.NoError(t, os.WriteFile(page, []byte(got), 0o644))
		return
	}
	require.Equal(t, string(text), got)
}

// reference is the language as people read it.
func reference() string {
	var b strings.Builder
	for _, t := range Language.blocks {
		t.write(&b, "")
		b.WriteString("\n")
	}
	return b.String()
}

// write writes a block as it is written in a file, each argument with its type and meaning.
func (t *BlockType) write(b *strings.Builder, indent string) {
	doc := t.doc
	if t.single {
		doc += " At most one."
	}
	fmt.Fprintf(b, "%s# %s\n%s%s {\n", indent, doc, indent, t.header())
	width, notes := 0, map[string]string{}
	for _, a := range t.args {
		width = max(width, len(a.name))
	}
	if t.Kind != nil {
		for _, f := range t.Kind.New().Fields() {
			notes[f.Name] = fieldNotes(f)
		}
	}
	for _, a := range t.args {
		note := notes[a.name]
		if note == "" && a.required {
			note = " (required)"
		}
		fmt.Fprintf(b, "%s  %-*s = %s # %s%s\n", indent, width, a.name, a.typ, a.doc, note)
	}
	if t.anyArgs {
		fmt.Fprintf(b, "%s  NAME = any # Any name.\n", indent)
	}
	var inside []string
	for _, n := range t.blocks {
		if n.Kind != nil {
			inside = append(inside, n.Name)
		} else {
			n.write(b, indent+"  ")
		}
	}
	if len(inside) > 0 {
		fmt.Fprintf(b, "%s  # Inside: %s.\n", indent, strings.Join(inside, ", "))
	}
	fmt.Fprintf(b, "%s}\n", indent)
	if t.Kind != nil {
		fmt.Fprintf(b, "%s# Attributes of a reference: .%s.\n", indent, strings.Join(slices.Sorted(maps.Keys(ObjectType(t.Kind))), ", ."))
	}
}

// fieldNotes are the facts of a parameter besides its description.
func fieldNotes(f kind.Field) string {
	var notes []string
	if f.Required {
		notes = append(notes, "required")
	}
	if len(f.OneOf) > 0 {
		notes = append(notes, "one of "+strings.Join(f.Named(), ", "))
	}
	if f.Number {
		notes = append(notes, fmt.Sprintf("from %d to %d", f.Min, f.Max))
	}
	if text, err := json.Marshal(f.Default); !f.Required && f.Default != "" && err == nil {
		notes = append(notes, "default "+string(text))
	}
	if f.Replace {
		notes = append(notes, "a change forces replacement")
	}
	if len(notes) == 0 {
		return ""
	}
	return " (" + strings.Join(notes, "; ") + ")"
}

func eachType(types []*BlockType, f func(*BlockType)) {
	for _, t := range types {
		f(t)
		if t.Kind == nil {
			eachType(t.blocks, f)
		}
	}
}

// Nobody can look up what has no name, type or sentence.
func TestEveryArgumentIsDescribed(t *testing.T) {
	eachType(Language.blocks, func(b *BlockType) {
		require.True(t, strings.HasSuffix(b.doc, "."), b.Name)
		for _, a := range b.args {
			require.NotEmpty(t, a.typ, "%s.%s", b.Name, a.name)
			require.True(t, strings.HasSuffix(a.doc, "."), "%s.%s: %s", b.Name, a.name, a.doc)
		}
	})
}

// The acceptance test of the architecture: whatever package kind declares is a block of the language, at the top, in modules and in
// containers, with exactly its parameters.
func TestEveryKindIsABlockWithItsParameters(t *testing.T) {
	for _, k := range kind.All() {
		b := Language.nested(k.Name)
		require.NotNil(t, b, k.Name)
		require.NotNil(t, ChildLanguage.nested(k.Name), k.Name)
		for _, f := range k.New().Fields() {
			i := slices.IndexFunc(b.args, func(a argument) bool { return a.name == f.Name })
			if f.Derived {
				require.Negative(t, i, "%s.%s", k.Name, f.Name)
				continue
			}
			require.GreaterOrEqual(t, i, 0, "%s.%s", k.Name, f.Name)
			require.Equal(t, f.Required, b.args[i].required)
			require.Equal(t, f.Doc, b.args[i].doc)
		}
		for _, other := range kind.All() {
			require.Equal(t, k.Container, b.nested(other.Name) != nil)
		}
		seen := map[string]bool{}
		for _, a := range b.args {
			require.False(t, seen[a.name], "%s declares %s, which every block has", k.Name, a.name)
			seen[a.name] = true
		}
	}
	for _, name := range []string{"ensemble", "import"} {
		require.NotNil(t, Language.nested(name))
		require.Nil(t, ChildLanguage.nested(name))
	}
}
