package config

import (
	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/locktree/locktree/recipes/kind"
)

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

// blockType declares one type of block: its name and its contents.
// The tables in language.go decode the files; they are the language.
type blockType struct {
	name, doc string
	labels    []string // what each label means
	args      []argument
	blocks    []*blockType
	single    bool       // at most one in its parent
	anyArgs   bool       // arguments of any name besides args, as in locals
	kind      *kind.Kind // set for blocks that declare a node
	// top is set for the body of a file, child when that belongs to a module.
	top, child bool
}

// body is the schema hcl wants. No argument is required there: complete says with better words what is missing.
func (t *blockType) body() *hcl.BodySchema {
	s := &hcl.BodySchema{}
	for _, a := range t.args {
		s.Attributes = append(s.Attributes, hcl.AttributeSchema{Name: a.name})
	}
	for _, b := range t.blocks {
		s.Blocks = append(s.Blocks, hcl.BlockHeaderSchema{Type: b.name, LabelNames: b.labels})
	}
	return s
}

func (t *blockType) nested(name string) *blockType {
	for _, b := range t.blocks {
		if b.name == name {
			return b
		}
	}
	return nil
}

func (t *blockType) argNames() []string {
	names := make([]string, len(t.args))
	for i, a := range t.args {
		names[i] = a.name
	}
	return names
}

func (t *blockType) blockNames() []string {
	names := make([]string, len(t.blocks))
	for i, b := range t.blocks {
		names[i] = b.name
	}
	return names
}

func fieldType(f kind.Field) cty.Type {
	if f.Number {
		return cty.Number
	}
	return cty.String
}
