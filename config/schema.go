package config

import (
	"github.com/hashicorp/hcl/v2"

	"github.com/locktree/locktree/recipes/kind"
)

// arg declares an optional argument. The type is for people: what an argument
// takes is checked where it is evaluated, with a message that knows the context.
func arg(name, typ, doc string) ArgumentSchema {
	return ArgumentSchema{Name: name, Type: typ, Doc: doc}
}

func (a ArgumentSchema) must() ArgumentSchema            { a.Required = true; return a }
func (a ArgumentSchema) or(def any) ArgumentSchema       { a.Default = def; return a }
func (a ArgumentSchema) of(all ...string) ArgumentSchema { a.OneOf = all; return a }

func (a ArgumentSchema) within(lo, hi int) ArgumentSchema { a.Min, a.Max = &lo, &hi; return a }

// blockType declares one type of block: its name and its contents.
// The tables in language.go decode the files; they are the language.
type blockType struct {
	name, doc string
	labels    []string // what each label means
	args      []ArgumentSchema
	blocks    []*blockType
	single    bool       // at most one in its parent
	anyArgs   bool       // arguments of any name besides args, as in locals
	kind      *kind.Kind // set for blocks that declare a node
	// dynamic are the types that may be written as dynamic blocks, by name; of is
	// set on a dynamic block's type.
	dynamic map[string]*blockType
	of      *blockType
	// top is set for the body of a file, child when that belongs to a module.
	top, child bool
}

// body is the schema hcl wants. No argument is required there: whether one is
// missing is known only after override files are merged.
func (t *blockType) body() *hcl.BodySchema {
	s := &hcl.BodySchema{}
	for _, a := range t.args {
		s.Attributes = append(s.Attributes, hcl.AttributeSchema{Name: a.Name})
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
		names[i] = a.Name
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
