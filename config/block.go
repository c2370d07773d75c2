package config

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
)

// block is a block of a file after its schema, native and JSON syntax alike.
type block struct {
	typ         *blockType
	labels      []string
	labelRanges []hcl.Range
	args        []*attribute // in the order of their names, so that nothing depends on the order of a map
	blocks      []*block
	stray       bool      // it has an argument for_each, and may not
	head        hcl.Range // type and labels: where the block as a whole is wrong
}

// attribute is one argument and what the static pass found in it. What an evaluation finds out is not here.
type attribute struct {
	name      string
	expr      hcl.Expression
	nameRange hcl.Range
	deps      []*decl // what the expression refers to
	each      bool    // it refers to each.key or each.value
	// unresolved: it refers to something that does not exist, which has been reported.
	unresolved bool
	required   bool // null, which means not set, is an error: see scope.as
}

// name is the first label; "" without one, and of what no block declares.
func (b *block) name() string {
	if b == nil || len(b.labels) == 0 {
		return ""
	}
	return b.labels[0]
}

// title is the name of the block in diagnostics: mutex "ledger".
func (b *block) title() string {
	if len(b.labels) == 0 {
		return b.typ.name
	}
	return b.typ.name + ` "` + strings.Join(b.labels, `" "`) + `"`
}

// arg is the argument of that name, nil when there is none.
func (b *block) arg(name string) *attribute {
	i, found := slices.BinarySearchFunc(b.args, name, func(a *attribute, name string) int { return strings.Compare(a.name, name) })
	if !found {
		return nil
	}
	return b.args[i]
}

// strayForEach reports whether the block, or one in it that declares nothing, has an argument for_each that was refused.
func (b *block) strayForEach() bool {
	return b != nil && (b.stray || slices.ContainsFunc(b.blocks, func(n *block) bool { return n.typ.kind == nil && n.strayForEach() }))
}

func (b *block) nested(name string) []*block {
	var out []*block
	for _, n := range b.blocks {
		if n.typ.name == name {
			out = append(out, n)
		}
	}
	return out
}

// decodeBody reads one body by its table, and everything in it.
func decodeBody(body hcl.Body, t *blockType, r *report) *block {
	b := &block{typ: t}
	if t.anyArgs {
		attrs, diags := body.JustAttributes()
		r.add(advised(diags)...)
		b.setArgs(attrs)
		return b
	}
	content, diags := body.Content(t.body())
	for _, d := range diags {
		// Only these hold declarations that something else could refer to.
		if holdsNames := t.top || t.kind != nil && t.kind.Container; holdsNames && isUnknownBlock(d) {
			r.incomplete = true
		}
		if m := quotedName.FindStringSubmatch(d.Detail); m != nil && m[1] == "for_each" {
			b.stray = true
		}
		r.add(t.explain(d))
	}
	b.setArgs(content.Attributes)
	for _, arg := range t.args {
		if a := b.arg(arg.name); a != nil {
			a.required = arg.required
		}
	}
	for _, raw := range content.Blocks {
		n := decodeBody(raw.Body, t.nested(raw.Type), r)
		n.labels, n.labelRanges, n.head = raw.Labels, raw.LabelRanges, raw.DefRange
		b.blocks = append(b.blocks, n)
	}
	return b
}

func (b *block) setArgs(all hcl.Attributes) {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		a := all[name]
		b.args = append(b.args, &attribute{name: name, expr: a.Expr, nameRange: a.NameRange})
	}
}

// isUnknownBlock goes by hcl's words, since its diagnostics have no codes. Should they change with a new
// version, testdata/config/unknown-block.txtar fails.
func isUnknownBlock(d *hcl.Diagnostic) bool {
	return d.Summary == "Unsupported block type" || d.Summary == "Extraneous JSON object property"
}

var quotedName = regexp.MustCompile(`(?:named|of type) "([^"]*)"`)

// explain rewrites hcl's diagnostics about names that do not exist here: its own
// suggestions omit names that are already set in the body, and a misspelt duplicate is closest to just those.
func (t *blockType) explain(d *hcl.Diagnostic) *hcl.Diagnostic {
	if before, typ, ok := strings.Cut(d.Summary, " for "); ok && t.nested(typ) != nil && (strings.HasPrefix(before, "Missing ") || before == "Extraneous label") {
		out := *d
		out.Detail = fmt.Sprintf("Write %s { ... }.", t.nested(typ).header())
		return &out
	}
	m := quotedName.FindStringSubmatch(d.Detail)
	if m == nil {
		return advise(d)
	}
	given, where := m[1], "here"
	if t.name != "" {
		where = "in " + article(t.name) + " block"
	}
	out := *d
	switch d.Summary {
	case "Unsupported argument":
		out.Detail = fmt.Sprintf("An argument named %q is not expected %s.%s", given, where, t.argumentHint(given))
	case "Unsupported block type":
		out.Detail = fmt.Sprintf("Blocks of type %q are not expected %s.%s", given, where, t.blockHint(given))
	case "Extraneous JSON object property":
		all := append(t.argNames(), t.blockNames()...)
		out.Detail = fmt.Sprintf("No argument or block named %q is expected %s.%s", given, where, hint(given, all, "It takes none."))
	default:
		return d
	}
	return &out
}

// header is the first line of a block of this type.
func (t *blockType) header() string {
	out := t.name
	for _, label := range t.labels {
		out += ` "` + strings.ToUpper(label) + `"`
	}
	return out
}

func article(noun string) string {
	if strings.ContainsRune("aeiou", rune(noun[0])) {
		return "an " + noun
	}
	return "a " + noun
}

func (t *blockType) argumentHint(given string) string {
	if text := cmp.Or(terraformArguments[given], formerArguments[given]); text != "" {
		return text
	}
	if t.top {
		return " Arguments are written in blocks."
	}
	if t.nested(given) != nil {
		return fmt.Sprintf(" It is a block: write %s { ... } without the equals sign.", given)
	}
	return hint(given, t.argNames(), "It takes no arguments.")
}

func (t *blockType) blockHint(given string) string {
	if text := terraformBlocks[given]; text != "" && (t.top || given == "dynamic") {
		return text
	}
	if slices.Contains(t.argNames(), given) {
		return fmt.Sprintf(" It is an argument: write %s = ... with an equals sign.", given)
	}
	if t.child && language.nested(given) != nil {
		return " It belongs in the configuration that calls the module."
	}
	if t.kind != nil && t.kind.Container && given == "module" {
		return " A module block belongs at the top of a file; declare the namespace in it, or give it the path as an argument."
	}
	if len(t.blocks) == 0 && t.kind != nil {
		return " Only namespaces hold other blocks."
	}
	if text := hint(given, t.blockNames(), "It takes no blocks."); text != "" || !t.top {
		return text
	}
	return " docs/language.md lists the blocks."
}

// complete reports what is missing or duplicated, here and inside.
func (b *block) complete(r *report) {
	for _, a := range b.typ.args {
		if a.required && b.arg(a.name) == nil {
			r.errorf(b.head, "Missing required argument", "%s needs the argument %q. Add %s = ... (%s).",
				upperFirst(b.title()), a.name, a.name, lowerFirst(strings.TrimSuffix(a.doc, ".")))
		}
	}
	first := map[*blockType]*block{}
	for _, n := range b.blocks {
		if n.typ.single && first[n.typ] != nil {
			r.errorf(n.head, "Duplicate block", "Only one %s block is allowed here; the first one is at %s. Merge the two.",
				n.typ.name, r.where(first[n.typ].head))
		}
		if first[n.typ] == nil {
			first[n.typ] = n
		}
		n.complete(r)
	}
}
