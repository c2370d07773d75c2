package syntax

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

// body is the schema hcl wants. No argument is required there: complete says with better words what is missing.
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
