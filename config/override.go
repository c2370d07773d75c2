package config

import "slices"

// override merges a block of an override file into the block it names, as Terraform does
// (developer.hashicorp.com/terraform/language/files/override). An argument replaces the argument of that name. Nested blocks
// with a name are merged with the block of that name, and so is lifecycle: an override of one of its arguments must not
// lose prevent_destroy. Other blocks replace all blocks of their type, because nothing says which of two grants is meant.
func (b *block) override(over *block, r *report) {
	for _, a := range over.sorted() {
		b.attrs[a.name] = a
	}
	replaced := map[string]bool{}
	for _, o := range over.blocks {
		switch {
		case b.typ.top && o.typ.name == "locals":
			b.overrideLocals(o, r)
		case b.typ.top && len(o.typ.labels) == 0 && !o.typ.single:
			b.blocks = append(b.blocks, o) // it has no name that could match another one
		case o.typ.name == "lifecycle" && b.find(o) != nil:
			b.find(o).override(o, r)
		case b.typ.top || o.typ.kind != nil:
			base := b.find(o)
			if base == nil {
				r.errorf(o.head, "Nothing to override",
					"There is no %s to override. Override files change what other files declare: declare it in another file first.", o.title())
				continue
			}
			base.override(o, r)
		default:
			if name := o.typ.repeats(); !replaced[name] {
				b.blocks = slices.DeleteFunc(b.blocks, func(n *block) bool { return n.typ.repeats() == name })
				replaced[name] = true
			}
			b.blocks = append(b.blocks, o)
		}
	}
}

// overrideLocals goes by the names of the values: locals blocks have no names, and one file may hold several. A name that is
// declared twice is replaced twice, and reported as a duplicate later.
func (b *block) overrideLocals(over *block, r *report) {
	for _, a := range over.sorted() {
		found := false
		for _, base := range b.blocks {
			if base.typ == over.typ && base.attrs[a.name] != nil {
				base.attrs[a.name], found = a, true
			}
		}
		if !found {
			r.errorf(a.nameRange, "Nothing to override",
				"There is no local.%s to override. Override files change what other files declare: declare it in another file first.", a.name)
		}
	}
}

func (b *block) find(like *block) *block {
	for _, n := range b.blocks {
		if n.typ == like.typ && n.name() == like.name() {
			return n
		}
	}
	return nil
}
