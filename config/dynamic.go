package config

import "github.com/hashicorp/hcl/v2"

// A dynamic block becomes one nested block per element. hcl's own extension
// (ext/dynblock) expands a body while it is decoded, which is before anything has
// a value here; so the block is decoded by tables as all others, its references
// are resolved with theirs, and it is repeated when it is evaluated.

// withDynamic lets the nested block of t be written as a dynamic one.
func withDynamic(t *blockType) *blockType {
	inner := t.blocks[0]
	t.blocks = append(t.blocks, &blockType{
		name: "dynamic", doc: "Repeats the block named by its label, once for each element.", labels: []string{"block type"}, of: inner,
		args:   []argument{arg("for_each", "list(any), set(any) or map(any)", "One block for each element, whose key and value it names by its type: grant.value.").must()},
		blocks: []*blockType{{name: "content", doc: "The arguments of the block.", single: true, args: inner.args}},
	})
	return t
}

// typeOf returns the table of a nested block, nil for a dynamic one of a type
// that does not exist here.
func (t *blockType) typeOf(raw *hcl.Block, r *report) *blockType {
	n := t.nested(raw.Type)
	if n.of != nil && n.of.name != raw.Labels[0] {
		r.errorf(raw.LabelRanges[0], "Unsupported block type", "Blocks of type %q are not expected in %s block.%s",
			raw.Labels[0], article(t.name), hint(raw.Labels[0], []string{n.of.name}, ""))
		return nil
	}
	return n
}

// bindElement tells the arguments of content which name is the element's.
func (b *block) bindElement() {
	for _, content := range b.blocks {
		for _, a := range content.args {
			a.element = b.typ.of.name
		}
	}
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
		out = append(out, nestedBlock{content[0], s.element(n.typ.of.name, k, e)})
	}
	return out
}
