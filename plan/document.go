package plan

import (
	"encoding/json"

	"github.com/locktree/locktree/plan/document"
	"github.com/locktree/locktree/recipes/kind"
)

// MarshalJSON writes the whole plan, in the form of "locktree show -json", which is documented there.
func (p Plan) MarshalJSON() ([]byte, error) { return json.Marshal(Document("", nil, &p)) }

// Document is what "show -json" prints of plans and checks. version is of the program that made them.
func Document(version string, checks []Check, plans ...*Plan) *document.Plan {
	d := &document.Plan{
		FormatVersion: "1.4", Version: version, Complete: true,
		Ensembles: []document.Ensemble{}, ResourceChanges: []document.Change{}, ResourceDrift: []document.Change{}, AccessChanges: []document.AccessChange{},
		OutputChanges: map[string]document.OutputChange{}, Problems: []document.Problem{}, Checks: []document.Check{}, Transactions: []document.Transaction{},
	}
	for _, p := range plans {
		d.Errored = d.Errored || !p.Applyable()
		d.Applyable = d.Applyable || p.HasChanges()
		d.Complete = d.Complete && !p.Targeted
		p.document(d)
		for _, o := range p.Outputs {
			d.OutputChanges[o.Name] = o.document()
		}
	}
	d.Applyable = d.Applyable && !d.Errored
	for _, c := range checks {
		d.Checks = append(d.Checks, c.document())
	}
	return d
}

// document adds what a plan does.
func (p *Plan) document(d *document.Plan) {
	d.Ensembles = append(d.Ensembles, document.Ensemble{Ensemble: p.Ensemble, Root: p.Root, Stack: p.Stack, Servers: p.Servers, Destroy: p.Destroy, DrainMs: p.Drain, Resumes: p.Resumes, Sum: p.Sum(), NotRead: p.Unread})
	d.Transactions = append(d.Transactions, document.Transaction{Ensemble: p.Ensemble, Ops: p.Transaction.Ops, Bytes: p.Transaction.Bytes, ACLPhase: p.Transaction.ACLPhase})
	d.AccessChanges = append(d.AccessChanges, p.AccessDocument()...)
	at := make(map[string]*Change, len(p.Drifted))
	for c := range p.Each() {
		at[c.Path] = c
	}
	for _, c := range p.Shown() {
		d.ResourceChanges = append(d.ResourceChanges, c.document(p.Ensemble))
	}
	for _, drifted := range p.Drifted {
		d.ResourceDrift = append(d.ResourceDrift, drifted.document(p.Ensemble, at[drifted.Path]))
	}
	for _, q := range p.Problems {
		d.Problems = append(d.Problems, document.Problem{Severity: string(q.Severity), Code: string(q.Code), Address: string(q.Addr), Path: q.Path,
			Origin: q.Origin, Summary: q.Summary, Detail: q.Detail})
	}
}

// AccessDocument are the access lists of the tool's own nodes that change.
func (p *Plan) AccessDocument() []document.AccessChange {
	out := []document.AccessChange{}
	for _, c := range p.Access {
		out = append(out, document.AccessChange{Ensemble: p.Ensemble, Address: string(c.Addr), Path: c.Pin.Path, List: c.list(), Before: listed(c.Before), After: listed(c.After)})
	}
	return out
}

// list is the name of the list.
func (c *AccessChange) list() string {
	if c.Contenders {
		return "contender_acl"
	}
	return "acl"
}

// StateDocument is what "show -json" prints of live trees. Nodes of other programs are left out.
func StateDocument(version string, outputs map[string]document.Output, trees ...*Tree) *document.State {
	var all []document.Value
	for _, tree := range trees {
		for _, n := range tree.Nodes {
			if n.Payload != nil {
				v := n.value(tree.Ensemble, n.Addr)
				v.Live = n.live()
				all = append(all, v)
			}
		}
	}
	return &document.State{FormatVersion: "1.0", Version: version, Values: document.Values{Outputs: outputs, Root: modules(all)}}
}

func (c *Change) document(ensemble string) document.Change {
	d := document.Change{Resource: resource(ensemble, c.Addr), Reason: string(c.Reason)}
	if c.PreviousAddr != c.Addr {
		d.PreviousAddress = string(c.PreviousAddr)
	}
	n := &d.Change
	n.Actions, n.Origin = c.Action.verbs(), c.Origin()
	if c.Before != nil && c.Before.Payload != nil {
		n.Before, n.Live = c.Before.settings(), c.Before.live()
	}
	if c.After != nil {
		n.After = c.After.settings()
	}
	for _, name := range c.ForcesReplace {
		n.ReplacePaths = append(n.ReplacePaths, []string{name})
	}
	n.BeforeSensitive, n.AfterSensitive = document.Sensitive(n.Before), document.Sensitive(n.After)
	return d
}

// Origin says from which node the change takes what is there.
func (c *Change) Origin() document.Origin {
	o := document.Origin{}
	if c.Importing != "" {
		o.Importing = &document.Importing{ID: c.Importing}
	}
	return o
}

// document says what was changed by hand since the last apply. Only a sum is stored of what that apply left, so "before" is what
// the configuration says, if it says anything. c is nil if nothing will be done about it.
func (d Drift) document(ensemble string, c *Change) document.Change {
	out := document.Change{Resource: resource(ensemble, d.Addr)}
	n := &out.Change
	n.Actions, n.Before = []string{d.Action().String()}, document.Settings{"path": d.Path}
	if c != nil && c.After != nil {
		n.Before = c.After.settings()
	}
	if c != nil && c.Before != nil {
		n.After = c.Before.settings()
	}
	n.BeforeSensitive, n.AfterSensitive = document.Sensitive(n.Before), document.Sensitive(n.After)
	return out
}

func resource(ensemble string, addr Addr) document.Resource {
	r := document.Resource{Address: string(addr), Mode: "managed", Type: addr.Type(), Name: addr.Name(), Module: string(addr.Module()), Provider: "locktree", Ensemble: ensemble}
	if key, ok := addr.Key(); ok {
		r.Index = &key
	}
	return r
}

// settings are what can be set, and the path.
func (n *Node) settings() document.Settings {
	s := document.Settings{"path": n.Path, "acl": listed(n.ACL)}
	if n.Payload == nil {
		return s
	}
	for _, p := range n.Payload.Params.Fields() {
		s[p.Name] = p.Get()
	}
	s["prevent_destroy"] = n.Payload.Protect
	if len(n.Payload.ChildACL) > 0 {
		s["contender_acl"] = listed(n.Payload.ChildACL)
	}
	return s
}

// listed has the digests without their hashes: those are enough to guess a weak password from.
func listed(list kind.List) []string {
	out := []string{}
	for _, a := range list.Normalize() {
		out = append(out, a.String())
	}
	return out
}

func (n *Node) value(ensemble string, addr Addr) document.Value {
	v := document.Value{Resource: resource(ensemble, addr), Values: n.settings()}
	if k := n.Kind(); k != nil {
		v.Type = k.Name // a node that was replaced by hand may be of another type than its address
	}
	return v
}

func (n *Node) live() *document.Live {
	if n.Live == nil {
		return nil
	}
	return &document.Live{Czxid: n.Live.Czxid, DataVersion: n.Live.Version, ACLVersion: n.Live.Aversion, Generation: n.Payload.Gen, Usage: document.NewUsage(n.Live.Usage)}
}

// modules puts nodes into the modules that their addresses name.
func modules(nodes []document.Value) *document.Module {
	root := &document.Module{Resources: []document.Value{}}
	known := map[Addr]*document.Module{"": root}
	var in func(addr Addr) *document.Module
	in = func(addr Addr) *document.Module {
		if m := known[addr]; m != nil {
			return m
		}
		m := &document.Module{Address: string(addr), Resources: []document.Value{}}
		known[addr] = m
		around := in(addr.Parent())
		around.Children = append(around.Children, m)
		return m
	}
	for _, v := range nodes {
		m := in(Addr(v.Module))
		m.Resources = append(m.Resources, v)
	}
	return root
}

// Document is an output with its value, unless that is sensitive.
func (o *Output) Document() document.Output {
	d := document.Output{Sensitive: o.Sensitive, Type: o.Type}
	if !o.Sensitive {
		d.Value = o.Value
	}
	return d
}

func (o *OutputChange) document() document.OutputChange {
	d := document.OutputChange{Actions: o.Action.verbs()}
	if b := o.Before; b != nil {
		d.BeforeSensitive, d.Before = b.Sensitive, b.Document().Value
	}
	if a := o.After; a != nil {
		d.AfterSensitive, d.After = a.Sensitive, a.Document().Value
	}
	return d
}

func (c *Check) document() (d document.Check) {
	one := document.CheckInstance{Status: string(c.Verdict)}
	in := string(c.Addr.Module())
	one.Address.Display, one.Address.Module = string(c.Addr), in
	for _, text := range c.Problems {
		one.Problems = append(one.Problems, document.Message{Message: text})
	}
	d.Address.Kind, d.Address.Name, d.Address.Display, d.Address.Module = "check", c.Addr.Name(), string(c.Addr), in
	d.Status, d.Instances = one.Status, []document.CheckInstance{one}
	return d
}
