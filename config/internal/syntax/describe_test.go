package syntax

import (
	"cmp"
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

// A part of docs/language.md is written from the tables that decode the files: "make golden" writes it.
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

// reference is the language as people read it. Arguments that several kinds of nodes share stand there once.
func reference() string {
	var b strings.Builder
	shared := sharedArguments()
	for _, t := range Language.blocks {
		if t.Kind == nil {
			t.write(&b, "", nil)
			b.WriteString("\n")
		}
	}
	b.WriteString("# Shared arguments of the blocks below.\n")
	writeArguments(&b, "", slices.SortedFunc(maps.Values(shared), func(a, b describedArgument) int {
		return cmp.Or(a.order-b.order, strings.Compare(a.name, b.name))
	}))
	b.WriteString("# Rules for changes. At most one.\nlifecycle {\n")
	for _, a := range lifecycleOf(Language).args {
		fmt.Fprintf(&b, "  %s = %s # %s\n", a.name, a.typ, a.doc)
	}
	b.WriteString("}\n# Attributes of a reference: .path, and each argument except for_each, acl, ensemble and order.\n\n")
	for _, t := range Language.blocks {
		if t.Kind != nil {
			t.write(&b, "", shared)
			b.WriteString("\n")
		}
	}
	return b.String()
}

// describedArgument is an argument with the facts of a parameter of its kind.
type describedArgument struct {
	argument
	notes string
	order int
}

// described are the arguments of a block in their order.
func (t *BlockType) described() []describedArgument {
	notes := map[string]string{}
	if t.Kind != nil {
		for _, f := range t.Kind.New().Fields() {
			notes[f.Name] = fieldNotes(f)
		}
	}
	var all []describedArgument
	for i, a := range t.args {
		note := notes[a.name]
		if note == "" && a.required {
			note = " (required)"
		}
		all = append(all, describedArgument{a, note, i})
	}
	return all
}

func (a describedArgument) text() string { return fmt.Sprintf("%s # %s%s", a.typ, a.doc, a.notes) }

// sharedArguments are those that at least three kinds have with the same text, by name.
func sharedArguments() map[string]describedArgument {
	counts, shared := map[string]int{}, map[string]describedArgument{}
	for _, t := range Language.blocks {
		if t.Kind == nil {
			continue
		}
		for _, a := range t.described() {
			if counts[a.name+a.text()]++; counts[a.name+a.text()] == 3 {
				shared[a.name] = a
			}
		}
	}
	return shared
}

func lifecycleOf(t *BlockType) *BlockType { return t.nested("mutex").nested("lifecycle") }

func writeArguments(b *strings.Builder, indent string, all []describedArgument) {
	width := 0
	for _, a := range all {
		width = max(width, len(a.name))
	}
	for _, a := range all {
		fmt.Fprintf(b, "%s%-*s = %s\n", indent, width, a.name, a.text())
	}
}

// write writes a block as it is written in a file, each argument with its type and meaning.
func (t *BlockType) write(b *strings.Builder, indent string, shared map[string]describedArgument) {
	doc := t.doc
	if t.single {
		doc += " At most one."
	}
	fmt.Fprintf(b, "%s# %s\n%s%s {\n", indent, doc, indent, t.header())
	var own []describedArgument
	without := maps.Clone(shared)
	for _, a := range t.described() {
		if known, ok := shared[a.name]; !ok || known.text() != a.text() {
			own = append(own, a)
		}
		delete(without, a.name)
	}
	writeArguments(b, indent+"  ", own)
	if t.anyArgs {
		fmt.Fprintf(b, "%s  NAME = any # Any name.\n", indent)
	}
	var inside []string
	for _, n := range t.blocks {
		switch {
		case n.Kind != nil:
			inside = append(inside, n.Name)
		case shared != nil && n.Name == "lifecycle":
			// It stands among the shared arguments.
		default:
			n.write(b, indent+"  ", nil)
		}
	}
	switch missing := strings.Join(slices.Sorted(maps.Keys(without)), ", "); {
	case shared == nil:
	case missing == "":
		fmt.Fprintf(b, "%s  # Also the shared arguments.\n", indent)
	default:
		fmt.Fprintf(b, "%s  # Also the shared arguments except %s.\n", indent, missing)
	}
	if len(inside) > 0 {
		fmt.Fprintf(b, "%s  # Inside: %s.\n", indent, strings.Join(inside, ", "))
	}
	fmt.Fprintf(b, "%s}\n", indent)
}

// The page says once which attributes a reference has.
func TestAReferenceHasThePathAndTheArguments(t *testing.T) {
	for _, k := range kind.All() {
		want := []string{"path"}
		for _, a := range Language.nested(k.Name).args {
			if !slices.Contains([]string{"for_each", "acl", "ensemble", "order"}, a.name) {
				want = append(want, a.name)
			}
		}
		require.ElementsMatch(t, want, slices.Collect(maps.Keys(ObjectType(k))), k.Name)
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

// Without a name, a type and a sentence, no user can look an argument up.
func TestEveryArgumentIsDescribed(t *testing.T) {
	eachType(Language.blocks, func(b *BlockType) {
		require.True(t, strings.HasSuffix(b.doc, "."), b.Name)
		for _, a := range b.args {
			require.NotEmpty(t, a.typ, "%s.%s", b.Name, a.name)
			require.True(t, strings.HasSuffix(a.doc, "."), "%s.%s: %s", b.Name, a.name, a.doc)
		}
	})
}

// This is the acceptance test of the architecture: every kind of package kind is a block of the language with exactly its parameters. The
// block stands at the top, in modules and in containers.
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
