package config

import "slices"

// call is a module block: the module it calls, prepared for this block alone, and the
// parts it has in the graph of its own module. There is one for each argument and one
// for each output, as in Terraform, so that two modules may use each other's outputs
// as long as none goes into what it comes from:
//
//	block   for_each and ensemble; holds the values of the outputs so far
//	inputs  the arguments, behind the block
//	outputs each behind what it needs
//	whole   all outputs
//	rest    what no output needs, behind all inputs
//
// A module that is on no circle, which is nearly every one, is evaluated in one piece
// all the same: the rest then stands for all of it, and the outputs wait for that.
// Its instances follow each other, and none has to be remembered. Of one that is
// split, what an output on the circle needs is evaluated before the rest, see
// callrun.go.
type call struct {
	child *module // nil when it could not be read, which has been reported
	args  []*attribute

	block, whole, rest *decl
	given              []*decl          // the inputs the module has variables for
	inputs             map[*decl]*decl  // the same by those variables
	outputs            map[string]*decl // by name
	split              bool
	apart              map[*decl]bool   // the outputs that do not wait for the rest
	needed             map[*decl][]edge // the inputs of such an output, see needs

	run *callRun // in the instance of our own module that is being evaluated
}

// declareParts declares the parts of a module block besides the block itself.
func (m *module) declareParts(c *call) {
	addr := c.block.addr
	part := func(d *decl, attrs ...*attribute) *decl {
		d.call, d.after = c, append(d.after, edge{c.block, "belongs to"})
		return m.declare(d, attrs...)
	}
	// Arguments for no variable have references, too, which are checked.
	var inputs []edge
	for _, a := range c.args {
		d := part(&decl{addr: addr + ".var." + a.name, head: a.nameRange, evaluate: m.evaluateInput, forEach: c.block.forEach}, a)
		if c.child != nil && c.child.named["var"][a.name] != nil {
			d.input = c.child.named["var"][a.name]
			c.given, c.inputs[d.input] = append(c.given, d), d
			inputs = append(inputs, edge{d, "needs"})
		}
	}
	if c.child == nil {
		return
	}
	nothing := func(*decl) {}
	c.rest = part(&decl{addr: addr, head: c.block.head, evaluate: m.evaluateRest, after: inputs})
	var outputs []edge
	for _, o := range c.child.outputs {
		d := part(&decl{addr: addr + "." + o.addr, head: o.head, evaluate: m.evaluatePart, output: o})
		c.outputs[o.block.name()] = d
		outputs = append(outputs, edge{d, "has"})
	}
	c.whole = part(&decl{addr: addr, head: c.block.head, evaluate: nothing, after: outputs})
}

// outputEdges are what an output waits for.
func (c *call) outputEdges(d *decl) []edge {
	if !c.apart[d] {
		return []edge{{c.rest, "needs"}}
	}
	return c.needs(d)
}

// needs are the inputs an output needs. They are found once: fineEdges does not depend on
// what is split, so that the answer stays true when splitCalls has been here. Where the
// steps run out on the way it is too short, but then the block has failed.
func (c *call) needs(d *decl) []edge {
	if found, ok := c.needed[d]; ok {
		return found
	}
	var out []edge
	for _, at := range c.reach(d.output, nil) {
		// A variable that is given nothing has its default, and waits for nobody.
		if in := c.inputs[at]; in != nil {
			out = append(out, edge{in, "refers to"})
		}
	}
	c.needed[d] = out
	return out
}

// reach are the declarations of the module that one of them needs, itself included
// and in no order, without those that are done. In contrast to [decl.edges] it looks
// into every module that is called there, split or not.
func (c *call) reach(from *decl, done map[*decl]bool) []*decl {
	seen := map[*decl]bool{from: true}
	out := []*decl{from}
	for i := 0; i < len(out); i++ {
		edges := c.child.fineEdges(out[i])
		if !c.pay(1 + len(edges)) {
			break
		}
		for _, e := range edges {
			if !seen[e.to] && !done[e.to] {
				seen[e.to] = true
				out = append(out, e.to)
			}
		}
	}
	return out
}

func (m *module) fineEdges(d *decl) []edge {
	switch {
	case d.output != nil:
		return slices.Concat(d.call.needs(d), d.after)
	case m.isVariable(d):
		return m.ruleEdges(d)
	default:
		return d.edges()
	}
}

// ruleEdges are the variables that the validation rules of a variable refer to. Its
// value does not wait for theirs; whether it is good does, and what refers to the
// variable waits for that, as in Terraform (1.11): nothing is made of a refused value.
func (m *module) ruleEdges(d *decl) []edge {
	var out []edge
	for _, b := range d.block.blocks {
		for _, a := range b.all() {
			for _, t := range a.expr.Variables() {
				name, _ := word(t, 1)
				if v := m.named["var"][name]; t.RootName() == "var" && v != nil && v != d {
					out = append(out, edge{v, "is checked with"})
				}
			}
		}
	}
	return out
}

func (m *module) isVariable(d *decl) bool {
	v := m.variables[d.name()]
	return v != nil && v.decl == d
}

// splitCalls splits the modules that are on a circle as a whole, and those they call:
// their outputs on it do not wait for the rest, and then there may be none. It answers
// false when nothing was split.
func splitCalls(components [][]*decl) bool {
	found := false
	for _, component := range components {
		for _, d := range component {
			if len(component) > 1 && d.output != nil {
				d.call.apart[d], found = true, true
				d.call.splitUp()
			}
		}
	}
	return found
}

// splitUp marks a module as one that is evaluated in pieces, and those it calls: a piece of it may need
// an output of theirs and not the rest. Their order in it stays as it was found, which is one of pieces too: what
// an output needs stands in front of it, whether or not the rest does.
func (c *call) splitUp() {
	if c.split {
		return
	}
	c.split = true
	for _, d := range c.child.all {
		if d.call != nil && d.call.block == d && d.call.child != nil {
			d.call.splitUp()
		}
	}
}

// link is one step of a cycle as it is written out.
type link struct {
	why string
	at  *decl
	in  string // prefix of its address
}

// links writes out a step, which may lead through a module: from an output to an
// argument that it needs.
func links(from *decl, step edge, prefix string) []link {
	if from.output == nil || step.to.input == nil {
		return []link{{step.why, step.to, prefix}}
	}
	child := from.call.child
	var out []link
	at := from.output
	for _, e := range way(at, step.to.input, child.fineEdges) {
		if e.to == step.to.input {
			return append(out, link{e.why, step.to, prefix})
		}
		out = append(out, links(at, e, prefix+from.call.block.addr+".")...)
		at = e.to
	}
	return out
}
