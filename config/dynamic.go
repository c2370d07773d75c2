package config

import (
	"maps"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/locktree/locktree/recipes/kind"
)

// A dynamic block becomes one nested block per element. hcl's own extension
// (ext/dynblock) expands a body while it is decoded, which is before anything has
// a value here; so the block is decoded by tables as all others, its references
// are resolved with theirs, and it is repeated when it is evaluated.

// withDynamic lets the unnamed, repeatable blocks of t be written as dynamic ones.
func withDynamic(t *blockType) *blockType {
	t.dynamic = map[string]*blockType{}
	for _, inner := range t.blocks {
		t.dynamic[inner.name] = newDynamicType(inner, inner.args)
	}
	t.blocks = append(t.blocks, newDynamicType(nil, nil))
	return t
}

func newDynamicType(of *blockType, args []argument) *blockType {
	return &blockType{
		name: "dynamic", doc: "Repeats the block named by its label, once for each element.", labels: []string{"block type"}, of: of,
		args: []argument{
			arg("for_each", "list(any), set(any) or map(any)", "One block for each element.").must(),
			arg("iterator", "name", "What key and value of the element are called in content; the block type by default."),
		},
		blocks: []*blockType{{name: "content", doc: "The arguments of the block.", single: true, args: args}},
	}
}

// typeOf returns the table of a nested block, nil for a dynamic one of a type
// that does not exist here.
func (t *blockType) typeOf(raw *hcl.Block, r *report) *blockType {
	if t.dynamic == nil || raw.Type != "dynamic" {
		return t.nested(raw.Type)
	}
	inner := t.dynamic[raw.Labels[0]]
	if inner == nil {
		r.errorf(raw.LabelRanges[0], "Unsupported block type", "Blocks of type %q are not expected in %s block.%s",
			raw.Labels[0], article(t.name), hint(raw.Labels[0], slices.Collect(maps.Keys(t.dynamic)), ""))
	}
	return inner
}

// bindIterator tells the arguments of content which name is theirs.
func (b *block) bindIterator(r *report) {
	name := b.typ.of.name
	if a := b.arg("iterator"); a != nil {
		b.args = slices.DeleteFunc(b.args, func(other *attribute) bool { return other == a }) // a name, and nothing to evaluate
		given := hcl.ExprAsKeyword(a.expr)
		switch {
		case !hclsyntax.ValidIdentifier(given):
			r.errorf(a.expr.Range(), "Invalid name", "iterator must be a name, such as iterator = element.")
		case given == "path" || given == "each" || slices.Contains(namedRoots, given) || kind.Lookup(given) != nil:
			r.errorf(a.expr.Range(), "Reserved name", "References that start with %q already mean something else. Choose another name.", given)
		default:
			name = given
		}
	}
	for _, content := range b.blocks {
		for _, a := range content.args {
			a.iterator = name
		}
	}
	b.iterator = name
}

// nestedBlock is one block to evaluate, with the scope it is in.
type nestedBlock struct {
	*block
	s scope
}

// expandNested returns the blocks of a type that are in b, dynamic ones expanded.
func (s scope) expandNested(b *block, name string) []nestedBlock {
	var out []nestedBlock
	for _, n := range b.blocks {
		switch {
		case n.typ.name == name:
			out = append(out, nestedBlock{n, s})
		case n.typ.of != nil && n.typ.of.name == name:
			out = append(out, s.expandDynamic(n)...)
		}
	}
	return out
}

func (s scope) expandDynamic(n *block) []nestedBlock {
	a := n.arg("for_each")
	content := n.nested("content")
	v, ok := s.value(a)
	if !ok || len(content) == 0 {
		s.fail() // complete reports what is missing
		return nil
	}
	// Only a mark of the whole is one of its length; what the elements carry goes with them. A set has all its
	// marks itself.
	if v.ContainsMarked() {
		unmarked, marks := v.Unmark()
		if len(marks) > 0 {
			s.wrong(a, "Sensitive value", "Plans show how many blocks there are, so for_each cannot be sensitive. If it is not secret, wrap it in nonsensitive(...).")
			return nil
		}
		v = unmarked
	}
	if v.IsNull() || !v.CanIterateElements() {
		s.wrong(a, "Wrong type", "for_each of a dynamic block must be a list, a set or a map.")
		return nil
	}
	if !s.count(v.LengthInt()) {
		return nil
	}
	var out []nestedBlock
	for it := v.ElementIterator(); it.Next(); {
		k, e := it.Element()
		out = append(out, nestedBlock{content[0], s.element(n.iterator, k, e)})
	}
	return out
}
