package view

import (
	"cmp"
	"fmt"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes/inspect"
	"github.com/locktree/locktree/recipes/kind"
)

// Saved writes a plan as one, with the names of Terraform's
// show -json, so that policies and queries written for those keep working. What
// Terraform does not have is under "live" and "transactions".
func (p Saved) json(m *machine) {
	var changes, planned []fields
	transactions := []fields{}
	access := []fields{}
	outputs, values := fields{}, []plan.Output{}
	targeted := false // not all of the configuration was planned
	for _, one := range p.Plans {
		targeted = targeted || one.Targeted
		for i := range one.Changes {
			c := &one.Changes[i]
			changes = append(changes, changeJSON(one.Ensemble, c))
			if c.After != nil {
				planned = append(planned, valuesOf(one.Ensemble, c.Addr, c.After))
			}
		}
		for _, o := range one.Outputs {
			outputs[o.Name] = outputChangeJSON(o)
			if o.After != nil {
				values = append(values, *o.After)
			}
		}
		access = append(access, accessJSON(one.Ensemble, one.Access)...)
		transactions = append(transactions, fields{"ensemble": one.Ensemble, "ops": one.Transaction.Ops, "bytes": one.Transaction.Bytes, "acl_phase": one.Transaction.ACLPhase})
	}
	m.document(fields{
		"format_version": "1.2", "locktree_version": m.version,
		"terraform_version": m.version, // readers want one; it is the program that made the plan
		"planned_values":    fields{"outputs": outputsJSON(values), "root_module": modulesJSON(planned)},
		"prior_state":       priorJSON(m.version, p.Plans),
		"resource_changes":  nonNil(changes), "resource_drift": driftJSON(p.Plans), "output_changes": outputs, "access_changes": access,
		"checks":        checksJSON(p.Checks),
		"configuration": fields{"root_module": fields{}},
		"applyable":     !p.Failing() && Changed(p.Plans), "complete": !targeted, "errored": p.Failing(),
		"problems": problemsJSON(p.Plans), "transactions": transactions,
	})
}

func changeJSON(ensemble string, c *plan.Change) fields {
	f := resourceJSON(ensemble, c.Addr)
	if moved(c) {
		f["previous_address"] = c.PreviousAddr
	}
	if c.Reason != plan.ReasonNone {
		f["action_reason"] = string(c.Reason)
	}
	change := fields{"actions": c.Action.Verbs(), "before": nil, "after": nil, "after_unknown": fields{}, "before_sensitive": false, "after_sensitive": false}
	if c.Before != nil && c.Before.Payload != nil {
		change["before"], change["before_sensitive"] = valuesJSON(c.Before), fields{}
		change["live"] = liveJSON(c.Before)
	}
	if c.After != nil {
		change["after"], change["after_sensitive"] = valuesJSON(c.After), fields{}
	}
	if len(c.ForcesReplace) > 0 {
		paths := [][]string{}
		for _, name := range c.ForcesReplace {
			paths = append(paths, []string{name})
		}
		change["replace_paths"] = paths
	}
	addOrigin(change, c)
	if c.Tombstone {
		change["tombstone"] = true
	}
	f["change"] = change
	return f
}

// addOrigin says from which node a change takes what is there.
func addOrigin(change fields, c *plan.Change) {
	if c.Importing != "" {
		change["importing"] = fields{"id": c.Importing}
	}
	if c.PreviousPath != "" {
		change["previous_path"] = c.PreviousPath
	}
}

// resourceJSON is what names a resource in every document.
func resourceJSON(ensemble string, addr plan.Addr) fields {
	f := fields{"address": addr, "mode": "managed", "type": addr.Type(), "name": addr.Name(), "provider_name": "locktree", "ensemble": ensemble}
	if key, ok := addr.Key(); ok {
		f["index"] = key
	}
	if in := addr.Module(); in != "" {
		f["module_address"] = in
	}
	return f
}

// valuesJSON is a node as the configuration sees it: what can be set, and the path.
func valuesJSON(n *plan.Node) fields {
	f := fields{"path": n.Path, "acl": aclJSON(n.ACL)}
	if n.Payload == nil {
		return f
	}
	for _, p := range n.Payload.Params.Fields() {
		f[p.Name] = p.Get()
	}
	f["prevent_destroy"] = n.Payload.Protect
	if len(n.Payload.ChildACL) > 0 {
		f["contender_acl"] = aclJSON(n.Payload.ChildACL)
	}
	return f
}

// aclJSON has the digests without their hashes: those are enough to guess a weak
// password from.
func aclJSON(list []kind.ACL) []string {
	out := []string{}
	for _, a := range kind.NormalizeACL(list) {
		out = append(out, a.String())
	}
	return out
}

// liveDoc is a node as it is in ZooKeeper.
type liveDoc struct {
	Czxid       int64 `json:"czxid"`
	DataVersion int32 `json:"data_version"`
	ACLVersion  int32 `json:"acl_version"`
	Generation  int64 `json:"generation"`
	usageDoc
}

func liveJSON(n *plan.Node) *liveDoc {
	if n.Live == nil {
		return nil
	}
	d := &liveDoc{Czxid: n.Live.Czxid, DataVersion: n.Live.Version, ACLVersion: n.Live.Aversion, Generation: n.Payload.Gen, usageDoc: newUsageDoc(&inspect.Report{}, nil)}
	if u := usageJSON(n.Path, n.Live.Usage); u != nil {
		d.usageDoc = *u
	}
	return d
}

func outputChangeJSON(o plan.OutputChange) fields {
	f := fields{"actions": o.Action.Verbs(), "before": nil, "after": nil, "after_unknown": false, "before_sensitive": false, "after_sensitive": false}
	for side, v := range map[string]*plan.Output{"before": o.Before, "after": o.After} {
		if v == nil {
			continue
		}
		f[side+"_sensitive"] = v.Sensitive
		if !v.Sensitive {
			f[side] = v.Value
		}
	}
	return f
}

func problemsJSON(plans []*plan.Plan) []fields {
	out := []fields{}
	for _, p := range plans {
		for _, q := range p.Problems {
			out = append(out, fields{"severity": string(q.Severity), "code": string(q.Code), "address": q.Addr, "path": q.Path,
				"origin": q.Origin, "summary": q.Summary, "detail": q.Detail})
		}
	}
	return out
}

// SessionText writes a session id as ZooKeeper's own tools do.
func SessionText(id int64) string { return fmt.Sprintf("%#x", uint64(id)) }

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

// driftJSON is what was changed by hand since the last apply. Only a sum is stored of
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
