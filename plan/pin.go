package plan

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/locktree/locktree/plan/record"
)

// pins collects every node that the plan relied on. Children of an absent path are
// pinned too: the apply does not ask for them.
//
// Every node of the current tree is pinned, even if the plan leaves it alone or, with targets, did not
// plan it: its state is part of what a person approved. Its children and contenders are not pinned, so
// lock traffic does not make a plan stale. A path is pinned once.
func (d *selection) pins() {
	d.p.Pins = make([]Pin, 0, max(len(d.desired), len(d.current.Nodes)))
	for _, n := range d.desired {
		if d.have[n.Path] == nil && !d.opts.Destroy {
			d.p.Pins = append(d.p.Pins, Pin{Path: n.Path, Addr: n.Addr, Absent: true})
		}
	}
	for _, n := range d.current.Nodes {
		if n.Live == nil || n.Live.Trouble == TroubleUnreadable && n.Live.Czxid == 0 {
			continue // servers that hide it now will hide it from an apply too
		}
		addr := n.Addr
		if n.Payload != nil {
			addr = n.owned()
		}
		d.p.Pins = append(d.p.Pins, n.pin(addr))
		for _, part := range n.Live.Parts {
			d.p.Pins = append(d.p.Pins, part.pin(n.Path, addr))
		}
	}
	if f := d.framed(record.ScaffoldPath(d.p.Root)); d.p.Set != nil && f.Pin.Path != "" {
		d.p.Pins = append(d.p.Pins, f.Pin) // the set of the root
	}
	for _, c := range d.p.Access {
		if c.Pin.Path != d.p.Index.Path { // which is verified in any case
			d.p.Pins = append(d.p.Pins, c.Pin)
		}
	}
	// If a declared node is at the path of a structural child of a semaphore that is deleted, it is not in the
	// current tree, yet its path is not absent: the child's pin is the right one.
	slices.SortFunc(d.p.Pins, func(a, b Pin) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(b.Czxid, a.Czxid), cmp.Compare(a.Addr, b.Addr))
	})
	d.p.Pins = slices.CompactFunc(d.p.Pins, func(a, b Pin) bool { return a.Path == b.Path })
	if d.current.Index != nil {
		d.p.Applied = d.current.Index.Apply
	}
}

// Pin returns the pin of a path, nil when the plan did not rely on it.
func (p *Plan) Pin(path string) *Pin {
	i, ok := slices.BinarySearchFunc(p.Pins, path, func(pin Pin, path string) int { return cmp.Compare(pin.Path, path) })
	if !ok {
		return nil
	}
	return &p.Pins[i]
}

// maxOutputs bounds the outputs, which every transaction of an apply writes, in bytes.
const maxOutputs = 256 << 10

// outputs compares the declared output values with the stored ones.
//
// Outputs have no node and cannot be named as targets. So a plan with targets contains only those
// that come from its nodes, as in Terraform (TargetsTransformer, 1.x). A sensitive output is stored
// without its value, so a new value cannot be detected.
func (d *selection) outputs() {
	before := map[string]*Output{}
	if x := d.current.Index; x != nil {
		for name, o := range x.Outputs {
			before[name] = &Output{Name: name, Type: o.Type, Value: o.Value, Sensitive: o.Sensitive}
		}
	}
	gone := make(map[string]bool, len(before)) // of those that are stored
	for name := range before {
		gone[name] = !d.p.Targeted
	}
	for _, o := range d.intent.Outputs {
		switch {
		case !d.asksFor(o):
			gone[o.Name] = false
		case d.opts.Destroy:
			gone[o.Name] = true
		default:
			if o.Sensitive {
				o.Value = nil
			}
			d.p.Outputs = append(d.p.Outputs, outputChange(before[o.Name], &o))
			delete(before, o.Name)
		}
	}
	for name, o := range before {
		c := OutputChange{Name: name, Action: Delete, Before: o}
		if !gone[name] {
			c.Action, c.After = NoOp, o
		}
		d.p.Outputs = append(d.p.Outputs, c)
	}
	slices.SortFunc(d.p.Outputs, func(a, b OutputChange) int { return cmp.Compare(a.Name, b.Name) })
	size := 0
	for _, o := range d.p.Outputs {
		if o.After != nil {
			size += len(o.Name) + len(o.After.Type) + len(o.After.Value)
		}
	}
	if size > maxOutputs {
		d.problem(Error, ProblemOutputs, &Node{}, "Outputs are too large",
			fmt.Sprintf("The outputs have %d bytes, and the limit is %d: every apply writes them. Remove or shorten outputs that have long values.", size, maxOutputs))
	}
}

func outputChange(before, after *Output) OutputChange {
	c := OutputChange{Name: after.Name, Before: before, After: after, Action: Create}
	if before != nil {
		c.Action = Update
		if sameJSON(before.Value, after.Value) && sameJSON(before.Type, after.Type) && before.Sensitive == after.Sensitive {
			c.Action = NoOp
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

// dropsIndex reports whether no record is left: everything is destroyed, nothing had to
// stay, and there is no output to keep. The record may also have been lost already.
func (p *Plan) dropsIndex() bool {
	return p.Destroy && len(p.prior.Untracked) == 0 && !slices.ContainsFunc(p.Changes, func(c Change) bool { return c.stays() }) &&
		!slices.ContainsFunc(p.Outputs, func(o OutputChange) bool { return o.After != nil })
}
