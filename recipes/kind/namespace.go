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

// Kind and Fields implement [Params].
func (*NamespaceParams) Kind() *Kind       { return Namespace }
func (p *NamespaceParams) Fields() []Field { return bind(namespaceTable, p) }

var namespaceTable = append([]parameter{
	{Name: "description", at: func(p Params) any { return &p.common().Description }, Default: "", Doc: "What the namespace is for, for people who read the plan."},
}, limitsTable...)
