package document

import (
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes/kind"
)

// Of makes the document that "locktree show -json" prints of plans and checks. The parameter version is that of the program that
// made them.
func Of(version string, checks []plan.Check, plans ...*plan.Plan) *Plan {
	d := &Plan{
		FormatVersion: "1.4", Version: version, Complete: true,
		Ensembles: []Ensemble{}, ResourceChanges: []Change{}, ResourceDrift: []Change{}, AccessChanges: []AccessChange{},
		OutputChanges: map[string]OutputChange{}, Problems: []Problem{}, Checks: []Check{}, Transactions: []Transaction{},
	}
	for _, p := range plans {
		d.Errored = d.Errored || !p.Applyable()
		d.Applyable = d.Applyable || p.HasChanges()
		d.Complete = d.Complete && !p.Targeted
		d.add(p)
		for _, o := range p.Outputs {
			d.OutputChanges[o.Name] = outputChange(o)
		}
	}
	d.Applyable = d.Applyable && !d.Errored
	for _, c := range checks {
		d.Checks = append(d.Checks, check(c))
	}
	return d
}

// add adds what a plan does.
func (d *Plan) add(p *plan.Plan) {
	d.Ensembles = append(d.Ensembles, Ensemble{Ensemble: p.Ensemble, Root: p.Root, Stack: p.Stack, Servers: p.Servers, Destroy: p.Destroy, DrainMs: p.Drain, Resumes: p.Resumes, Sum: p.Sum(), NotRead: p.Unread})
	d.Transactions = append(d.Transactions, Transaction{Ensemble: p.Ensemble, Ops: p.Transaction.Ops, Bytes: p.Transaction.Bytes, ACLPhase: p.Transaction.ACLPhase})
	d.AccessChanges = append(d.AccessChanges, AccessOf(p)...)
	at := make(map[string]*plan.Change, len(p.Drifted))
	for c := range p.Each() {
		at[c.Path] = c
	}
	for _, c := range p.Shown() {
		d.ResourceChanges = append(d.ResourceChanges, change(c, p.Ensemble))
	}
	for _, drifted := range p.Drifted {
		d.ResourceDrift = append(d.ResourceDrift, drift(drifted, p.Ensemble, at[drifted.Path]))
	}
	for _, q := range p.Problems {
		d.Problems = append(d.Problems, Problem{Severity: string(q.Severity), Code: string(q.Code), Address: string(q.Addr), Path: q.Path,
			Origin: q.Origin, Summary: q.Summary, Detail: q.Detail})
	}
}

// AccessOf returns the changed access lists of the tool's own nodes.
func AccessOf(p *plan.Plan) []AccessChange {
	out := []AccessChange{}
	for _, c := range p.Access {
		name := "acl"
		if c.Contenders {
			name = "contender_acl"
		}
		out = append(out, AccessChange{Ensemble: p.Ensemble, Address: string(c.Addr), Path: c.Pin.Path, List: name, Before: listed(c.Before), After: listed(c.After)})
	}
	return out
}

// OfTrees is what "locktree show -json" prints of live trees. Nodes of other programs are left out.
func OfTrees(version string, outputs map[string]Output, trees ...*plan.Tree) *State {
	var all []Value
	for _, tree := range trees {
		for _, n := range tree.Nodes {
			if n.Payload != nil {
				v := value(n, tree.Ensemble)
				v.Live = live(n)
				all = append(all, v)
			}
		}
	}
	return &State{FormatVersion: "1.0", Version: version, Values: Values{Outputs: outputs, Root: modules(all)}}
}

func change(c *plan.Change, ensemble string) Change {
	d := Change{Resource: resource(ensemble, c.Addr), Reason: string(c.Reason)}
	if c.PreviousAddr != c.Addr {
		d.PreviousAddress = string(c.PreviousAddr)
	}
	n := &d.Change
	n.Actions, n.Origin = verbs(c.Action), OriginOf(c)
	if c.Before != nil && c.Before.Payload != nil {
		n.Before, n.Live = settings(c.Before), live(c.Before)
	}
	if c.After != nil {
		n.After = settings(c.After)
	}
	for _, name := range c.ForcesReplace {
		n.ReplacePaths = append(n.ReplacePaths, []string{name})
	}
	n.BeforeSensitive, n.AfterSensitive = Sensitive(n.Before), Sensitive(n.After)
	return d
}

// OriginOf says which existing node the change takes over.
func OriginOf(c *plan.Change) Origin {
	o := Origin{}
	if c.Importing != "" {
		o.Importing = &Importing{ID: c.Importing}
	}
	return o
}

// drift says what was changed by hand since the last apply. Only a sum of what that apply left is stored. So "before" is the
// declaration, if there is one. c is nil if nothing will be done about the drift.
func drift(d plan.Drift, ensemble string, c *plan.Change) Change {
	out := Change{Resource: resource(ensemble, d.Addr)}
	n := &out.Change
	n.Actions, n.Before = []string{d.Action().String()}, Settings{"path": d.Path}
	if c != nil && c.After != nil {
		n.Before = settings(c.After)
	}
	if c != nil && c.Before != nil {
		n.After = settings(c.Before)
	}
	n.BeforeSensitive, n.AfterSensitive = Sensitive(n.Before), Sensitive(n.After)
	return out
}

// verbs is the "actions" array of Terraform's JSON plan.
func verbs(a plan.Action) []string {
	if a == plan.Replace {
		return []string{"delete", "create"}
	}
	return []string{a.String()}
}

func resource(ensemble string, addr plan.Addr) Resource {
	r := Resource{Address: string(addr), Mode: "managed", Type: addr.Type(), Name: addr.Name(), Module: string(addr.Module()), Provider: "locktree", Ensemble: ensemble}
	if key, ok := addr.Key(); ok {
		r.Index = &key
	}
	return r
}

// settings returns the path of a node and its parameters and access lists.
func settings(n *plan.Node) Settings {
	s := Settings{"path": n.Path, "acl": listed(n.ACL)}
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

// listed returns the entries, digests without their hashes: a hash is enough to guess a weak password.
func listed(list kind.List) []string {
	out := []string{}
	for _, a := range list.Normalize() {
		out = append(out, a.String())
	}
	return out
}

func value(n *plan.Node, ensemble string) Value {
	v := Value{Resource: resource(ensemble, n.Addr), Values: settings(n)}
	if k := n.Kind(); k != nil {
		v.Type = k.Name // a node that was replaced by hand may be of another type than its address
	}
	return v
}

func live(n *plan.Node) *Live {
	if n.Live == nil {
		return nil
	}
	return &Live{Czxid: n.Live.Czxid, DataVersion: n.Live.Version, ACLVersion: n.Live.Aversion, Generation: n.Payload.Gen, Usage: NewUsage(n.Live.Usage)}
}

// modules puts nodes into the modules that their addresses name.
func modules(nodes []Value) *Module {
	root := &Module{Resources: []Value{}}
	known := map[plan.Addr]*Module{"": root}
	var in func(addr plan.Addr) *Module
	in = func(addr plan.Addr) *Module {
		if m := known[addr]; m != nil {
			return m
		}
		m := &Module{Address: string(addr), Resources: []Value{}}
		known[addr] = m
		around := in(addr.Parent())
		around.Children = append(around.Children, m)
		return m
	}
	for _, v := range nodes {
		m := in(plan.Addr(v.Module))
		m.Resources = append(m.Resources, v)
	}
	return root
}

// OfOutput is an output with its value, unless that is sensitive.
func OfOutput(o *plan.Output) Output {
	d := Output{Sensitive: o.Sensitive, Type: o.Type}
	if !o.Sensitive {
		d.Value = o.Value
	}
	return d
}

func outputChange(o plan.OutputChange) OutputChange {
	d := OutputChange{Actions: verbs(o.Action)}
	if b := o.Before; b != nil {
		d.BeforeSensitive, d.Before = b.Sensitive, OfOutput(b).Value
	}
	if a := o.After; a != nil {
		d.AfterSensitive, d.After = a.Sensitive, OfOutput(a).Value
	}
	return d
}

func check(c plan.Check) (d Check) {
	one := CheckInstance{Status: string(c.Verdict)}
	in := string(c.Addr.Module())
	one.Address.Display, one.Address.Module = string(c.Addr), in
	for _, text := range c.Problems {
		one.Problems = append(one.Problems, Message{Message: text})
	}
	d.Address.Kind, d.Address.Name, d.Address.Display, d.Address.Module = "check", c.Addr.Name(), string(c.Addr), in
	d.Status, d.Instances = one.Status, []CheckInstance{one}
	return d
}
