package config

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/zclconf/go-cty/cty"
)

// callRun is how far the instances of a called module are: all equally far.
type callRun struct {
	ensemble  *Ensemble
	instances []*moduleInstance
	done      map[*decl]bool // what is evaluated, of a module that is split
	finished  bool
}

// moduleInstance is one instance of a called module.
type moduleInstance struct {
	element // of for_each
	addr    string
	outputs cty.Value // so far
	// inputs and states are kept between the pieces of a module that is split.
	inputs map[string]input
	states []state
}

// state is what an instance of a module knows about a declaration.
type state struct {
	value     cty.Value
	failed    bool
	instances map[*instance][]*instance
	run       *callRun
}

// stateEffort is what it costs to keep a state or an input. It bounds their memory.
const stateEffort = 100

// evaluateCall evaluates the block itself: which instances there are.
func (m *module) evaluateCall(d *decl) {
	if d.failed {
		return
	}
	s := m.scope(d)
	run := &callRun{ensemble: m.callEnsemble(d, s)}
	addr := m.prefix + d.addr
	if d.forEach == nil {
		run.instances = []*moduleInstance{{addr: addr, outputs: cty.EmptyObjectVal}}
	} else {
		elements, ok := m.forEach(d.forEach, s)
		if !ok {
			d.failed = true
			return
		}
		for _, el := range elements {
			run.instances = append(run.instances, &moduleInstance{element: el, addr: addr + "[" + strconv.Quote(el.key) + "]", outputs: cty.EmptyObjectVal})
		}
	}
	if m.expanded += len(run.instances); m.expanded > maxNodes {
		m.errorf(d.head, "Too many nodes", "The configuration declares more than %d nodes and modules. Split it into several stacks.", maxNodes)
		d.failed = true
		return
	}
	for _, i := range run.instances {
		m.moduleAddrs = append(m.moduleAddrs, struct{ instance, block string }{i.addr, addr})
	}
	d.call.run = run
	d.call.publish()
}

// each is the scope of one element of for_each.
func (s scope) each(el element, addr string) scope {
	s.ctx = s.ctx.NewChild()
	s.ctx.Variables = map[string]cty.Value{"each": eachValue(el)}
	s.where = addr
	return s
}

func eachValue(el element) cty.Value {
	return cty.ObjectVal(map[string]cty.Value{"key": cty.StringVal(el.key), "value": el.value})
}

// evaluateInput gives an argument to each instance of a module that is split.
func (m *module) evaluateInput(d *decl) {
	c := d.call
	// Of a module in one piece, evaluatePiece gives them instance by instance, and none is kept. There is no
	// run when the block itself failed, or waits in a cycle.
	if c.run == nil || d.input == nil || !c.split {
		return
	}
	if !c.pay(stateEffort * len(c.run.instances)) {
		c.run = nil
		return
	}
	for _, i := range c.run.instances {
		m.give(i, d)
	}
}

// give evaluates an argument for one instance.
func (m *module) give(i *moduleInstance, d *decl) {
	s, a := m.scope(d), d.attrs[0]
	if d.forEach != nil {
		s = s.each(i.element, i.addr)
	}
	v, ok := s.value(a)
	r := a.expr.Range()
	if i.inputs == nil {
		i.inputs = map[string]input{}
	}
	i.inputs[a.name] = input{value: v, failed: !ok, rng: &r, from: fmt.Sprintf("the argument %s of %s", a.name, i.addr)}
}

// evaluatePart evaluates what an output of a module needs and is not done.
func (m *module) evaluatePart(d *decl) {
	c := d.call
	if c.run == nil || c.run.finished { // finished: this output waited for the rest, which was all
		return
	}
	// In the order of the module itself, which holds for a part of it as well: a part that is closed under
	// what it waits for has nothing missing in front of any of its members.
	piece := c.reach(d.output, c.run.done)
	slices.SortFunc(piece, func(a, b *decl) int { return cmp.Compare(a.rank, b.rank) })
	m.evaluatePiece(c, piece)
}

// evaluateRest evaluates what is left of a module, which is all of one that is not
// split.
func (m *module) evaluateRest(d *decl) {
	c := d.call
	if c.run == nil {
		return
	}
	c.run.finished = true
	piece := c.child.steps
	if c.split {
		piece = slices.DeleteFunc(slices.Clone(piece), func(d *decl) bool { return c.run.done[d] })
	}
	m.evaluatePiece(c, piece)
}

// evaluatePiece evaluates declarations of a module, in their order, in each of its
// instances.
func (m *module) evaluatePiece(c *call, piece []*decl) {
	run, child := c.run, c.child
	for _, i := range run.instances {
		if !child.enter(c, i) {
			return
		}
		if !c.split {
			for _, in := range c.given {
				m.give(i, in)
			}
		}
		child.inputs = i.inputs
		child.evaluate(piece)
		c.publishOutputs(i, piece)
		if run.finished {
			child.finishInstance()
			child.current, i.states, i.inputs = nil, nil, nil
		}
	}
	for _, in := range c.given {
		in.scope = nil // give built it for all instances, and no evaluation of in comes to drop it
	}
	if c.split && !run.finished {
		c.pay(len(c.outputs) * len(run.instances))
		if run.done == nil {
			run.done = map[*decl]bool{}
		}
		for _, d := range piece {
			run.done[d] = true
		}
	}
	c.publish()
}

// publishOutputs adds the outputs among what was evaluated.
func (c *call) publishOutputs(i *moduleInstance, piece []*decl) {
	outputs := i.outputs.AsValueMap()
	if outputs == nil {
		outputs = make(map[string]cty.Value, len(c.outputs))
	}
	for _, d := range piece {
		if o := c.outputs[d.name()]; o != nil && o.output == d {
			outputs[d.name()] = d.value
			c.block.failed = c.block.failed || d.failed
		}
	}
	i.outputs = cty.ObjectVal(outputs)
}

// publish makes the outputs so far what the block is worth. Who reads it too early would see
// an object without the output; nobody does, since a reference to an output waits for the
// part that evaluates it, see [resolver.wait].
func (c *call) publish() {
	byKey := map[string]cty.Value{}
	for _, i := range c.run.instances {
		byKey[i.key] = i.outputs
	}
	c.block.value = cty.ObjectVal(byKey)
	if c.block.forEach == nil {
		c.block.value = byKey[""]
	}
}

// enter makes an instance the one under evaluation.
func (m *module) enter(c *call, i *moduleInstance) bool {
	if m.current == i {
		return true
	}
	if m.current != nil {
		cost := len(m.all)
		if m.current.states == nil {
			cost *= stateEffort // the first time, memory is kept for it
		}
		if !c.pay(cost) {
			return false
		}
		m.current.states = m.save()
	}
	m.current, m.prefix, m.ensemble = i, i.addr+".", c.run.ensemble
	if !m.ran {
		m.remember() // before the first evaluation, which adds marks of its own instance to those of the static pass
	}
	m.restore(i.states)
	m.ran = true
	return true
}

// pay is nothing any more.
func (c *call) pay(int) bool { return true }

// save and restore keep what an instance knows while another one is evaluated. What
// the static pass found wrong is wrong in every instance.
func (m *module) save() []state {
	out := make([]state, len(m.all))
	for i, d := range m.all {
		out[i] = state{value: d.value, failed: d.failed}
		if d.node != nil {
			out[i].instances = d.node.instances
		}
		if d.call != nil && d.call.block == d {
			out[i].run = d.call.run
		}
	}
	return out
}

// restore brings an instance back, or begins a new one without states.
func (m *module) restore(states []state) {
	for i, d := range m.all {
		s := state{value: cty.DynamicVal, failed: d.doomed, instances: map[*instance][]*instance{}}
		if states != nil {
			s = states[i]
		}
		d.value, d.failed, d.scope = s.value, s.failed, nil
		for _, a := range d.attrs {
			a.bad = a.doomed
		}
		if d.node != nil {
			d.node.instances = s.instances
		}
		if d.call != nil && d.call.block == d {
			d.call.run = s.run
		}
	}
	for _, v := range m.variables {
		v.rejected = false
	}
}
