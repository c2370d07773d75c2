package diff

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/diff/access"
	"github.com/locktree/locktree/plan/problem"
)

// maxOutputs bounds the bytes of the outputs, because every transaction of an apply writes them.
const maxOutputs = 256 << 10

// compareOutputs compares the declared output values with the stored ones.
//
// Outputs have no node and cannot be named as targets. So a plan with targets contains only those
// whose sources are all planned, as in Terraform (TargetsTransformer, 1.x). A sensitive output is stored
// without its value, so a new value cannot be detected.
func compareOutputs(p *plan.Plan, s *access.Sides, planned map[plan.Addr]bool) {
	before := map[string]*plan.Output{}
	if x := s.Current.Index; x != nil {
		for name, o := range x.Outputs {
			before[name] = &plan.Output{Name: name, Type: o.Type, Value: o.Value, Sensitive: o.Sensitive}
		}
	}
	gone := make(map[string]bool, len(before)) // whether a stored output goes, by its name
	for name := range before {
		gone[name] = !p.Targeted
	}
	for _, o := range s.Intent.Outputs {
		switch {
		case !asksFor(p, o, planned):
			gone[o.Name] = false
		case s.Opts.Destroy:
			gone[o.Name] = true
		default:
			if o.Sensitive {
				o.Value = nil
			}
			p.Outputs = append(p.Outputs, outputChange(before[o.Name], &o))
			delete(before, o.Name)
		}
	}
	for name, o := range before {
		c := plan.OutputChange{Name: name, Action: plan.Delete, Before: o}
		if !gone[name] {
			c.Action, c.After = plan.NoOp, o
		}
		p.Outputs = append(p.Outputs, c)
	}
	slices.SortFunc(p.Outputs, func(a, b plan.OutputChange) int { return cmp.Compare(a.Name, b.Name) })
	size := 0
	for _, o := range p.Outputs {
		if o.After != nil {
			size += len(o.Name) + len(o.After.Type) + len(o.After.Value)
		}
	}
	if size > maxOutputs {
		access.Tell(p, problem.Error, problem.Outputs, &plan.Node{}, "Outputs are too large",
			fmt.Sprintf("The outputs have %d bytes, and the limit is %d: every apply writes them. Remove or shorten outputs that have long values.", size, maxOutputs))
	}
}

func outputChange(before, after *plan.Output) plan.OutputChange {
	c := plan.OutputChange{Name: after.Name, Before: before, After: after, Action: plan.Create}
	if before != nil {
		c.Action = plan.Update
		if sameJSON(before.Value, after.Value) && sameJSON(before.Type, after.Type) && before.Sensitive == after.Sensitive {
			c.Action = plan.NoOp
		}
	}
	return c
}

// sameJSON compares two documents, ignoring white space. Values come from one encoder,
// so number formats and key order do not differ.
func sameJSON(a, b json.RawMessage) bool {
	var x, y bytes.Buffer
	if len(a) == 0 || len(b) == 0 {
		return len(a) == len(b)
	}
	if json.Compact(&x, a) != nil || json.Compact(&y, b) != nil {
		return bytes.Equal(a, b)
	}
	return bytes.Equal(x.Bytes(), y.Bytes())
}
