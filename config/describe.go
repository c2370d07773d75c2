package config

import (
	"encoding/json"
	"io"
	"maps"
	"slices"
)

// schemaFormat is the version of what WriteSchema writes. Readers ignore fields that they do not know.
const schemaFormat = "1.0"

type blockSchema struct {
	Description   string                    `json:"description"`
	Labels        []string                  `json:"labels,omitempty"`
	Single        bool                      `json:"single,omitempty"`
	Attributes    map[string]argumentSchema `json:"attributes,omitempty"`
	AnyAttributes bool                      `json:"any_attributes,omitempty"`
	BlockTypes    map[string]blockSchema    `json:"block_types,omitempty"`
	Contains      []string                  `json:"contains,omitempty"`
	Module        bool                      `json:"module,omitempty"`
	Exports       map[string]string         `json:"exports,omitempty"`
}

type argumentSchema struct {
	Type        string   `json:"type"`
	Description string   `json:"description"`
	Required    bool     `json:"required,omitempty"`
	Default     any      `json:"default,omitempty"`
	OneOf       []string `json:"one_of,omitempty"`
	Minimum     *int     `json:"minimum,omitempty"`
	Maximum     *int     `json:"maximum,omitempty"`
	Replaces    bool     `json:"forces_replacement,omitempty"`
}

// WriteSchema writes the language as JSON, out of the tables that decode the files. docs/editor.md describes the fields.
func WriteSchema(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(struct {
		Format    string                 `json:"format_version"`
		Blocks    map[string]blockSchema `json:"block_types"`
		TestFile  map[string]blockSchema `json:"test_block_types"`
		Functions []string               `json:"functions"`
	}{schemaFormat, language.schema().BlockTypes, testLanguage.schema().BlockTypes, functionNames()})
}

func functionNames() []string { return slices.Sorted(maps.Keys(new(declarations).functionsOf(nil))) }

// schema leaves the kinds of nodes inside a namespace to their names: they contain each other.
func (t *blockType) schema() blockSchema {
	s := blockSchema{
		Description: t.doc, Labels: t.labels, Single: t.single, AnyAttributes: t.anyArgs, Attributes: map[string]argumentSchema{}, BlockTypes: map[string]blockSchema{},
	}
	for _, a := range t.args {
		s.Attributes[a.name] = argumentSchema{Type: a.typ, Description: a.doc, Required: a.required}
	}
	for _, b := range t.blocks {
		if b.kind != nil && !t.top {
			s.Contains = append(s.Contains, b.name)
			continue
		}
		inner := b.schema()
		inner.Module = t.top && childLanguage.nested(b.name) != nil
		s.BlockTypes[b.name] = inner
	}
	if t.kind == nil {
		return s
	}
	for _, f := range t.kind.New().Fields() {
		if f.Derived {
			continue
		}
		a := s.Attributes[f.Name]
		a.OneOf, a.Replaces = f.Named(), f.Replace
		if f.Number {
			a.Minimum, a.Maximum = &f.Min, &f.Max
		}
		if !f.Required && f.Default != "" {
			a.Default = f.Default
		}
		s.Attributes[f.Name] = a
	}
	s.Exports = map[string]string{}
	for name, typ := range objectType(t.kind) {
		s.Exports[name] = typ.FriendlyName()
	}
	return s
}
