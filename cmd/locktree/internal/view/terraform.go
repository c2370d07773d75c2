package view

import (
	"cmp"

	"github.com/locktree/locktree/plan"
)

// What Terraform's documents have besides the changes themselves: values as they
// are and as they will be, module by module; what was changed by hand; checks.

// moduleJSON are the values of a module: its own resources, and the modules it
// calls.
type moduleJSON struct {
	Address   plan.Addr     `json:"address,omitempty"`
	Resources []fields      `json:"resources"`
	Children  []*moduleJSON `json:"child_modules,omitempty"`
}

// modulesJSON puts resources into the modules their addresses name.
func modulesJSON(resources []fields) *moduleJSON {
	root := &moduleJSON{Resources: []fields{}}
	known := map[plan.Addr]*moduleJSON{"": root}
	var in func(addr plan.Addr) *moduleJSON
	in = func(addr plan.Addr) *moduleJSON {
		if m := known[addr]; m != nil {
			return m
		}
		m := &moduleJSON{Address: addr, Resources: []fields{}}
		known[addr] = m
		around := in(addr.Parent())
		around.Children = append(around.Children, m)
		return m
	}
	for _, f := range resources {
		addr, _ := f["address"].(plan.Addr)
		m := in(addr.Module())
		m.Resources = append(m.Resources, f)
	}
	return root
}

func valuesOf(ensemble string, addr plan.Addr, n *plan.Node) fields {
	f := resourceJSON(ensemble, addr)
	if k := n.Kind(); k != nil {
		f["type"] = k.Name // before a replacement it may have been another one
	}
	f["schema_version"] = 0
	f["values"] = valuesJSON(n)
	f["sensitive_values"] = fields{}
	return f
}

// priorJSON is the present state of what the plan is about, in the form of a state.
// Nodes of other programs are not part of it.
func priorJSON(version string, plans []*plan.Plan) fields {
	var resources []fields
	for _, p := range plans {
		for i := range p.Changes {
			if c := &p.Changes[i]; c.Before != nil && c.Before.Payload != nil {
				resources = append(resources, valuesOf(p.Ensemble, cmp.Or(c.PreviousAddr, c.Addr), c.Before))
			}
		}
	}
	return fields{"format_version": "1.0", "terraform_version": version, "values": fields{"root_module": modulesJSON(resources)}}
}

// driftJSON is what was changed by hand since the last apply. Only a hash is stored of
// what that apply left, so "before" is what the configuration says, if it says anything.
func driftJSON(plans []*plan.Plan) []fields {
	out := []fields{}
	for _, p := range plans {
		changes := make(map[string]*plan.Change, len(p.Drifted))
		for i := range p.Changes {
			changes[p.Changes[i].Path] = &p.Changes[i]
		}
		for _, drifted := range p.Drifted {
			c := changes[drifted.Path]
			if c == nil { // nothing will be done about it
				c = &plan.Change{}
			}
			out = append(out, oneDriftJSON(p.Ensemble, drifted, c))
		}
	}
	return out
}

// driftAction is Terraform's word for what happened.
func driftAction(d plan.Drift) string {
	if d.What == plan.DriftChanged {
		return "update"
	}
	return "delete" // what is there now, if anything, is another program's
}

func oneDriftJSON(ensemble string, drifted plan.Drift, c *plan.Change) fields {
	f := resourceJSON(ensemble, drifted.Addr)
	change := fields{"actions": []string{driftAction(drifted)}, "before": fields{"path": drifted.Path}, "after": nil, "after_unknown": fields{}, "before_sensitive": fields{}, "after_sensitive": false}
	if c.After != nil {
		change["before"] = valuesJSON(c.After)
	}
	if drifted.What == plan.DriftChanged && c.Before != nil {
		change["after"], change["after_sensitive"] = valuesJSON(c.Before), fields{}
	}
	f["change"] = change
	return f
}

// checksJSON are the results of check blocks, each with its one instance.
func checksJSON(checks []plan.Check) []fields {
	out := []fields{}
	for _, c := range checks {
		in, name := c.Addr.Module(), c.Addr.Name()
		address := fields{"to_display": c.Addr, "kind": "check", "name": name}
		instance := fields{"to_display": c.Addr}
		if in != "" {
			address["module"], instance["module"] = in, in
		}
		one := fields{"address": instance, "status": string(c.Verdict)}
		if len(c.Problems) > 0 {
			var problems []fields
			for _, text := range c.Problems {
				problems = append(problems, fields{"message": text})
			}
			one["problems"] = problems
		}
		out = append(out, fields{"address": address, "status": string(c.Verdict), "instances": []fields{one}})
	}
	return out
}
