package diff

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/diff/access"
	"github.com/locktree/locktree/plan/record"
)

// pinAll collects every node that the plan relied on. Children of an absent path are
// pinned too: the apply does not ask for them.
//
// Every node of the current tree is pinned, even if the plan leaves it alone or, with targets, did not
// plan it: its state is part of what a person approved. Its children and contenders are not pinned, so
// lock traffic does not make a plan stale. A path is pinned once.
func pinAll(p *plan.Plan, s *access.Sides) {
	p.Pins = make([]plan.Pin, 0, max(len(s.Desired), len(s.Current.Nodes)))
	for _, n := range s.Desired {
		if s.Have[n.Path] == nil && !s.Opts.Destroy {
			p.Pins = append(p.Pins, plan.Pin{Path: n.Path, Addr: n.Addr, Absent: true})
		}
	}
	for _, n := range s.Current.Nodes {
		if n.Live == nil || n.Live.Trouble == plan.TroubleUnreadable && n.Live.Czxid == 0 {
			continue // servers that hide it now will hide it from an apply too
		}
		addr := n.Addr
		if n.Payload != nil {
			addr = n.Owned()
		}
		p.Pins = append(p.Pins, n.Pin(addr))
		for _, part := range n.Live.Parts {
			p.Pins = append(p.Pins, part.Pin(n.Path, addr))
		}
	}
	if f := access.FrameAt(s, record.ScaffoldPath(p.Root)); p.Set != nil && f.Pin.Path != "" {
		p.Pins = append(p.Pins, f.Pin) // the set of the root
	}
	for _, c := range p.Access {
		if c.Pin.Path != p.Index.Path { // which is verified in any case
			p.Pins = append(p.Pins, c.Pin)
		}
	}
	// If a declared node is at the path of a structural child of a semaphore that is deleted, it is not in the
	// current tree, yet its path is not absent: the child's pin is the right one.
	slices.SortFunc(p.Pins, func(a, b plan.Pin) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(b.Czxid, a.Czxid), cmp.Compare(a.Addr, b.Addr))
	})
	p.Pins = slices.CompactFunc(p.Pins, func(a, b plan.Pin) bool { return a.Path == b.Path })
	if s.Current.Index != nil {
		p.Applied = s.Current.Index.Apply
	}
}

// maxOutputs bounds the outputs, which every transaction of an apply writes, in bytes.
const maxOutputs = 256 << 10

// compareOutputs compares the declared output values with the stored ones.
//
// Outputs have no node and cannot be named as targets. So a plan with targets contains only those
// that come from its nodes, as in Terraform (TargetsTransformer, 1.x). A sensitive output is stored
// without its value, so a new value cannot be detected.
func compareOutputs(p *plan.Plan, s *access.Sides, planned map[plan.Addr]bool) {
	before := map[string]*plan.Output{}
	if x := s.Current.Index; x != nil {
		for name, o := range x.Outputs {
			before[name] = &plan.Output{Name: name, Type: o.Type, Value: o.Value, Sensitive: o.Sensitive}
		}
	}
	gone := make(map[string]bool, len(before)) // of those that are stored
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
		access.Tell(p, plan.Error, plan.ProblemOutputs, &plan.Node{}, "Outputs are too large",
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
