package config

import (
	"maps"
	"slices"

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

// body is the schema hcl wants. No argument is required there: complete says with better words what is missing.
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

// schemaFormat grows when a field changes its meaning; new fields do not change it.
const schemaFormat = 1

// LanguageSchema is the whole language as data: what decodes the files, not a copy of it.
type LanguageSchema struct {
	Format int `json:"format_version"`
	// Blocks are the blocks that are at the top of a file, in the order in which
	// the reference explains them.
	Blocks []*BlockSchema `json:"blocks"`
	// Functions are the names of the functions an expression can call, sorted.
	Functions []string `json:"functions"`
}

// BlockSchema is one type of block.
type BlockSchema struct {
	Name   string   `json:"name"`
	Doc    string   `json:"doc"`
	Labels []string `json:"labels,omitempty"` // what each label means
	// Single blocks may be in their parent once.
	Single bool `json:"single,omitempty"`
	// Module is true on blocks at the top that may also be in a module.
	Module bool `json:"module,omitempty"`
	// AnyArguments: arguments of any name are taken besides the ones listed.
	AnyArguments bool             `json:"any_arguments,omitempty"`
	Arguments    []ArgumentSchema `json:"arguments,omitempty"`
	// Blocks are those that are inside, without the ones that declare nodes.
	Blocks []*BlockSchema `json:"blocks,omitempty"`
	// Contains are the names of blocks at the top that may also be inside.
	Contains []string `json:"contains,omitempty"`
	// Attributes are what a reference to a declared node offers.
	Attributes []AttributeSchema `json:"attributes,omitempty"`
}

// ArgumentSchema is one argument of a block.
type ArgumentSchema struct {
	Name string `json:"name"`
	Doc  string `json:"doc"`
	// Type is a type of the language (string, number, bool, list(string), any), or
	// what else is there: type, name, address, acl, ensemble, principal.
	Type     string `json:"type"`
	Required bool   `json:"required,omitempty"`
	// Default is what a missing argument means; nil where no one value says it.
	Default any      `json:"default,omitempty"`
	OneOf   []string `json:"one_of,omitempty"`
	// Min and Max are the inclusive bounds of a number, absent without bounds.
	Min *int `json:"min,omitempty"`
	Max *int `json:"max,omitempty"`
	// ForcesReplace: a change cannot be made in place.
	ForcesReplace bool `json:"forces_replace,omitempty"`
}

// AttributeSchema is one attribute of a reference.
type AttributeSchema struct {
	Name string `json:"name"`
	Type string `json:"type"`
}

// Schema returns the language. The result is a new one at each call.
func Schema() *LanguageSchema {
	s := &LanguageSchema{Format: schemaFormat}
	s.Functions = slices.Sorted(maps.Keys(new(declarations).functionsOf(nil)))
	for _, t := range language.blocks {
		b := t.describe()
		b.Module = childLanguage.nested(t.name) != nil
		s.Blocks = append(s.Blocks, b)
	}
	return s
}

func (t *blockType) describe() *BlockSchema {
	b := &BlockSchema{Name: t.name, Doc: t.doc, Labels: t.labels, Single: t.single, AnyArguments: t.anyArgs, Arguments: slices.Clone(t.args)}
	for _, n := range t.blocks {
		if n.kind != nil {
			b.Contains = append(b.Contains, n.name)
		} else {
			b.Blocks = append(b.Blocks, n.describe())
		}
	}
	if t.kind != nil {
		types := objectType(t.kind)
		for _, name := range slices.Sorted(maps.Keys(types)) {
			b.Attributes = append(b.Attributes, AttributeSchema{name, types[name].FriendlyName()})
		}
	}
	return b
}
