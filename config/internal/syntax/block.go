package syntax

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/locktree/locktree/recipes/kind"
)

// Block is a block of a file as its schema describes it, from native or JSON syntax.
type Block struct {
	Type        *BlockType
	labels      []string
	labelRanges []hcl.Range
	Args        []*Attribute // in the order of their names, so that nothing depends on the order of a map
	Blocks      []*Block
	stray       bool      // it has an argument for_each, which its type does not allow
	Head        hcl.Range // type and labels: where the block as a whole is wrong
}

// Attribute is one argument.
type Attribute struct {
	Name      string
	Expr      hcl.Expression
	NameRange hcl.Range
	Required  bool // null, which means not set, is an error
}

// Name is the first label, "" without one.
func (b *Block) Name() string {
	if b == nil || len(b.labels) == 0 {
		return ""
	}
	return b.labels[0]
}

// title is the name of the block in diagnostics: mutex "ledger".
func (b *Block) title() string {
	if len(b.labels) == 0 {
		return b.Type.Name
	}
	return b.Type.Name + ` "` + strings.Join(b.labels, `" "`) + `"`
}

// Arg is the argument of that name, nil when there is none.
func (b *Block) Arg(name string) *Attribute {
	i, found := slices.BinarySearchFunc(b.Args, name, func(a *Attribute, name string) int { return strings.Compare(a.Name, name) })
	if !found {
		return nil
	}
	return b.Args[i]
}

// StrayForEach reports whether the block, or one in it that declares nothing, has an argument for_each that was refused.
func (b *Block) StrayForEach() bool {
	return b != nil && (b.stray || slices.ContainsFunc(b.Blocks, func(n *Block) bool { return n.Type.Kind == nil && n.StrayForEach() }))
}

// Nested are the blocks of a type in the block.
func (b *Block) Nested(name string) []*Block {
	var out []*Block
	for _, n := range b.Blocks {
		if n.Type.Name == name {
			out = append(out, n)
		}
	}
	return out
}

// Decode reads one body by its table, and everything in it.
func Decode(body hcl.Body, t *BlockType, r *Report) *Block {
	b := &Block{Type: t}
	if t.anyArgs {
		attrs, diags := body.JustAttributes()
		r.Add(Advised(diags)...)
		b.setArgs(attrs)
		return b
	}
	content, diags := body.Content(t.body())
	for _, d := range diags {
		// Only these hold declarations that others could refer to.
		if holdsNames := t.top || t.Kind != nil && t.Kind.Container; holdsNames && isUnknownBlock(d) {
			r.Incomplete = true
		}
		if m := quotedName.FindStringSubmatch(d.Detail); m != nil && m[1] == "for_each" {
			b.stray = true
		}
		r.Add(t.explain(d))
	}
	b.setArgs(content.Attributes)
	for _, arg := range t.args {
		if a := b.Arg(arg.name); a != nil {
			a.Required = arg.required
		}
	}
	for _, raw := range content.Blocks {
		n := Decode(raw.Body, t.nested(raw.Type), r)
		n.labels, n.labelRanges, n.Head = raw.Labels, raw.LabelRanges, raw.DefRange
		b.Blocks = append(b.Blocks, n)
	}
	return b
}

func (b *Block) setArgs(all hcl.Attributes) {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		a := all[name]
		b.Args = append(b.Args, &Attribute{Name: name, Expr: a.Expr, NameRange: a.NameRange})
	}
}

// isUnknownBlock goes by hcl's words, since its diagnostics have no codes. Should they change with a new
// version, testdata/config/unknown-block.txtar fails.
func isUnknownBlock(d *hcl.Diagnostic) bool {
	return d.Summary == "Unsupported block type" || d.Summary == "Extraneous JSON object property"
}

var quotedName = regexp.MustCompile(`(?:named|of type) "([^"]*)"`)

// explain rewrites hcl's diagnostics about names that do not exist here. hcl never suggests a name that the body already sets. But
// the unknown name may be a misspelling of exactly that one.
func (t *BlockType) explain(d *hcl.Diagnostic) *hcl.Diagnostic {
	if before, typ, ok := strings.Cut(d.Summary, " for "); ok && t.nested(typ) != nil && (strings.HasPrefix(before, "Missing ") || before == "Extraneous label") {
		out := *d
		out.Detail = fmt.Sprintf("Write %s { ... }.", t.nested(typ).header())
		return &out
	}
	m := quotedName.FindStringSubmatch(d.Detail)
	if m == nil {
		return Advise(d)
	}
	given, where := m[1], "here"
	if t.Name != "" {
		where = "in " + Article(t.Name) + " block"
	}
	out := *d
	switch d.Summary {
	case "Unsupported argument":
		out.Detail = fmt.Sprintf("An argument named %q is not expected %s.%s", given, where, t.argumentHint(given))
	case "Unsupported block type":
		out.Detail = fmt.Sprintf("Blocks of type %q are not expected %s.%s", given, where, t.blockHint(given))
	case "Extraneous JSON object property":
		all := append(t.ArgNames(), t.blockNames()...)
		out.Detail = fmt.Sprintf("No argument or block named %q is expected %s.%s", given, where, Hint(given, all, "It takes none."))
	default:
		return d
	}
	return &out
}

// header is the first line of a block of this type.
func (t *BlockType) header() string {
	out := t.Name
	for _, label := range t.labels {
		out += ` "` + strings.ToUpper(label) + `"`
	}
	return out
}

// Article puts "a" or "an" before a noun.
func Article(noun string) string {
	if strings.ContainsRune("aeiou", rune(noun[0])) {
		return "an " + noun
	}
	return "a " + noun
}

func (t *BlockType) argumentHint(given string) string {
	if text := cmp.Or(TerraformArguments[given], formerArguments[given]); text != "" {
		return text
	}
	if t.top {
		return " Arguments are written in blocks."
	}
	if t.nested(given) != nil {
		return fmt.Sprintf(" It is a block: write %s { ... } without the equals sign.", given)
	}
	return Hint(given, t.ArgNames(), "It takes no arguments.")
}

func (t *BlockType) blockHint(given string) string {
	if text := terraformBlocks[given]; text != "" && (t.top || given == "dynamic") {
		return text
	}
	if slices.Contains(t.ArgNames(), given) {
		return fmt.Sprintf(" It is an argument: write %s = ... with an equals sign.", given)
	}
	if t.child && Language.nested(given) != nil {
		return " It belongs in the configuration that calls the module."
	}
	if t.Kind != nil && t.Kind.Container && given == "module" {
		return " A module block belongs at the top of a file; declare the namespace in it, or give it the path as an argument."
	}
	if len(t.blocks) == 0 && t.Kind != nil {
		return " Only namespaces hold other blocks."
	}
	if text := Hint(given, t.blockNames(), "It takes no blocks."); text != "" || !t.top {
		return text
	}
	return " docs/language.md lists the blocks."
}

// Complete reports what is missing or duplicated, here and inside.
func (b *Block) Complete(r *Report) {
	for _, a := range b.Type.args {
		if a.required && b.Arg(a.name) == nil {
			r.Errorf(b.Head, "Missing required argument", "%s needs the argument %q. Add %s = ... (%s).",
				UpperFirst(b.title()), a.name, a.name, LowerFirst(strings.TrimSuffix(a.doc, ".")))
		}
	}
	first := map[*BlockType]*Block{}
	for _, n := range b.Blocks {
		if n.Type.single && first[n.Type] != nil {
			r.Errorf(n.Head, "Duplicate block", "Only one %s block is allowed here; the first one is at %s. Merge the two.",
				n.Type.Name, r.Where(first[n.Type].Head))
		}
		if first[n.Type] == nil {
			first[n.Type] = n
		}
		n.Complete(r)
	}
}

// All are the arguments of the block and of the blocks in it that declare nothing.
func (b *Block) All() []*Attribute {
	out := slices.Clone(b.Args)
	for _, n := range b.Blocks {
		if n.Type.Kind == nil {
			out = append(out, n.All()...)
		}
	}
	return out
}

// LabelAt is the place of the first label; the place of the block where it has none.
func (b *Block) LabelAt() hcl.Range {
	if len(b.labelRanges) > 0 {
		return b.labelRanges[0]
	}
	return b.Head
}

// argument is one argument of a block. The type is for people: what an argument takes is checked where it is evaluated, with a
// message that knows the context.
type argument struct {
	name, typ, doc string
	required       bool
}

// arg declares an optional argument.
func arg(name, typ, doc string) argument { return argument{name: name, typ: typ, doc: doc} }

func (a argument) must() argument {
	a.required = true
	return a
}

// BlockType declares one type of block: its name and its contents.
// The tables in language.go decode the files; they are the language.
type BlockType struct {
	Name, doc string
	labels    []string // what each label means
	args      []argument
	blocks    []*BlockType
	single    bool       // at most one in its parent
	anyArgs   bool       // arguments of any name besides args, as in locals
	Kind      *kind.Kind // set for blocks that declare a node
	// top is set for the body of a file, child when that belongs to a module.
	top, child bool
}

// body is the schema hcl wants. No argument is required there: Complete says with better words what is missing.
func (t *BlockType) body() *hcl.BodySchema {
	s := &hcl.BodySchema{}
	for _, a := range t.args {
		s.Attributes = append(s.Attributes, hcl.AttributeSchema{Name: a.name})
	}
	for _, b := range t.blocks {
		s.Blocks = append(s.Blocks, hcl.BlockHeaderSchema{Type: b.Name, LabelNames: b.labels})
	}
	return s
}

func (t *BlockType) nested(name string) *BlockType {
	for _, b := range t.blocks {
		if b.Name == name {
			return b
		}
	}
	return nil
}

// ArgNames are the names of its arguments, in the order of the table.
func (t *BlockType) ArgNames() []string {
	names := make([]string, len(t.args))
	for i, a := range t.args {
		names[i] = a.name
	}
	return names
}

func (t *BlockType) blockNames() []string {
	names := make([]string, len(t.blocks))
	for i, b := range t.blocks {
		names[i] = b.Name
	}
	return names
}

// FieldType is the type of a parameter.
func FieldType(f kind.Field) cty.Type {
	if f.Number {
		return cty.Number
	}
	return cty.String
}

// ObjectType is the attributes that a reference to a node of this kind offers.
func ObjectType(k *kind.Kind) map[string]cty.Type {
	types := map[string]cty.Type{"path": cty.String, "name": cty.String}
	for _, f := range k.New().Fields() {
		if !f.Derived {
			types[f.Name] = FieldType(f)
		}
	}
	return types
}
