package config

import (
	"github.com/hashicorp/hcl/v2"

	"github.com/locktree/locktree/recipes/kind"
)

// argument declares one argument of a block.
type argument struct {
	name, doc string
	required  bool
}

// blockType declares one type of block: what it is called, what stands in it.
// The tables below decode the files; they are the language.
type blockType struct {
	name, doc string
	labels    []string // what each label means
	args      []argument
	blocks    []*blockType
	single    bool       // at most one in its parent
	anyArgs   bool       // arguments of any name, as in locals
	kind      *kind.Kind // set for blocks that declare a node
}

// language is the body of a file.
var language = newLanguage()

func newLanguage() *blockType {
	return &blockType{blocks: append([]*blockType{
		{
			name: "locktree", doc: "Settings of the whole configuration.", single: true,
			args: []argument{
				{"required_version", "The versions of locktree that may read this configuration.", false},
				{"stack", "Ownership id, written into every node: what another stack declared is never touched.", true},
			},
		},
		newEnsembleType(),
		{
			name: "variable", doc: "An input.", labels: []string{"name"},
			args: []argument{
				{"type", "Type constraint.", false},
				{"default", "Value when none is given.", false},
				{"description", "For people.", false},
				{"sensitive", "Never show the value.", false},
				{"nullable", "Whether null is a value; true by default.", false},
			},
			blocks: []*blockType{{
				name: "validation", doc: "A rule the value must keep.",
				args: []argument{
					{"condition", "True when the value is good.", true},
					{"error_message", "What to tell whoever set it.", true},
				},
			}},
		},
		{name: "locals", doc: "Named values.", anyArgs: true},
		{
			name: "principal", doc: "Somebody who can be granted rights.", labels: []string{"name"},
			args: []argument{
				{"scheme", "world, digest, x509, ip or sasl.", true},
				{"id", "Who, in the form the scheme asks for.", false},
			},
		},
		{
			name: "acl", doc: "A list of grants that namespaces and locks refer to.", labels: []string{"name"},
			args: []argument{
				{"allow_world", "Let everybody do more than read.", false},
				{"allow_lockout", "Let an apply give up its own admin right.", false},
			},
			blocks: []*blockType{{
				name: "grant", doc: "Rights for some principals.",
				args: []argument{
					{"to", "List of principals.", true},
					{"allow", `"lock", "observe", "admin", or letters of "cdrwa".`, true},
				},
			}},
		},
		{
			name: "output", doc: "A value to show after an apply.", labels: []string{"name"},
			args: []argument{
				{"value", "The value.", true},
				{"description", "For people.", false},
				{"sensitive", "Show and store the name only.", false},
			},
		},
	}, nodeTypes()...)}
}

func newEnsembleType() *blockType {
	return &blockType{
		name: "ensemble", doc: "A ZooKeeper ensemble and how to reach it.", labels: []string{"name"},
		args: []argument{
			{"servers", `Servers as "host:port".`, true},
			{"root", "Absolute path put before every declared path; / by default.", false},
			{"session_timeout", `Session timeout, as "15s".`, false},
			{"connect_timeout", `How long to try to reach a server, as "5s".`, false},
		},
		blocks: []*blockType{
			{
				name: "tls", doc: "Encrypt the connection.", single: true,
				args: []argument{
					{"ca_file", "Certificate authorities that may sign the servers' certificates.", false},
					{"cert_file", "Our certificate.", false},
					{"key_file", "The key of our certificate.", false},
					{"server_name", "Name expected in the servers' certificates.", false},
				},
			},
			{
				name: "auth", doc: "An identity of this program.", labels: []string{"scheme"},
				args: []argument{
					{"username", "User name.", true},
					{"password", "Password; a sensitive variable or env(NAME), never a literal.", true},
				},
			},
		},
	}
}

// nodeTypes turns the tables of package kind into block types: a new recipe
// type needs no change here.
func nodeTypes() []*blockType {
	kinds := kind.All()
	types := make([]*blockType, len(kinds))
	for i, k := range kinds {
		t := &blockType{
			name: k.Name, doc: k.Doc, kind: k, labels: []string{"name"},
			args: []argument{
				{"for_each", "A map or a set of strings: one node for each element.", false},
				{"name", "Name of the znode; the label, or label-key, by default.", false},
				{"acl", "Access list; inherited by what stands inside.", false},
				{"ensemble", "The ensemble, on top-level blocks when there are several.", false},
			},
			blocks: []*blockType{{
				name: "lifecycle", doc: "Rules for changes.", single: true,
				args: []argument{{"prevent_destroy", "Refuse to delete the node, even after its block is gone.", false}},
			}},
		}
		for _, f := range k.New().Fields() {
			t.args = append(t.args, argument{f.Name, f.Doc, f.Required})
		}
		types[i] = t
	}
	for _, t := range types {
		if t.kind.Container {
			t.blocks = append(t.blocks, types...)
		}
	}
	return types
}

// body is the schema hcl wants. No argument is required there: whether one is
// missing can only be told after override files are merged.
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
