package kind

// Namespace is the kind of a node that holds other nodes and no contenders.
var Namespace = &Kind{
	Name:      "namespace",
	Doc:       "A directory of locks: gives them their path and the access list they inherit.",
	Container: true,
	New:       func() Params { return applyDefaults(&NamespaceParams{}) },
}

// NamespaceParams are the parameters of a namespace.
type NamespaceParams struct{ Common }

// Kind implements [Params].
func (*NamespaceParams) Kind() *Kind { return Namespace }

// Fields implements [Params].
func (p *NamespaceParams) Fields() []Field { return bind(namespaceTable, p) }

var namespaceTable = append([]parameter{
	stringField("description", func(p Params) *string { return &p.common().Description }, "", "What the namespace is for, for people who read the plan."),
}, limitsTable...)
