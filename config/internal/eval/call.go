package eval

import (
	"fmt"
	"strconv"

	"github.com/zclconf/go-cty/cty"

	"github.com/locktree/locktree/plan"
)

// evaluateCall evaluates the module once, or once for each element of for_each. A module with a wrong argument is evaluated
// too, so that its own errors are reported.
func (s scope) evaluateCall() {
	d := s.d
	if d.Child == nil {
		return
	}
	addr, elements := s.Prefix+d.Addr, []Element{{}}
	if d.ForEach != nil {
		var ok bool
		if elements, ok = s.forEach(d.ForEach); !ok {
			s.fail()
			return
		}
	}
	if !s.count(len(elements)) {
		return
	}
	if len(elements) == 0 {
		s.Barren = append(s.Barren, plan.Addr(addr))
	}
	byKey := make(map[string]cty.Value, len(elements))
	for _, el := range elements {
		in, at := s, addr
		if d.ForEach != nil {
			at += "[" + strconv.Quote(el.Key) + "]"
			if el.Any {
				at = addr + "[*]"
			}
			in = s.each(el, at)
		}
		s.ModuleAddrs = append(s.ModuleAddrs, struct{ Instance, Block plan.Addr }{plan.Addr(at), plan.Addr(addr)})
		byKey[el.Key] = in.evaluateModule(at, el)
	}
	switch s.r.Value = byKey[""]; {
	case d.ForEach != nil && len(elements) == 1 && elements[0].Any:
		s.r.Value = cty.DynamicVal
	case d.ForEach != nil:
		s.r.Value = cty.ObjectVal(byKey)
	}
}

// evaluateModule evaluates one instance of a module and returns its outputs.
func (s scope) evaluateModule(addr string, el Element) cty.Value {
	child := newEvaluation(s.d.Child, s.loading, s.Evaluation, addr+".")
	child.call, child.At = s.d, el
	child.At.Any = el.Any || s.At.Any
	s.Calls[s.d] = append(s.Calls[s.d], child)
	child.home = s.home
	if a := s.d.Block.Arg("ensemble"); a != nil {
		if child.home = s.ensemble(a); child.home == nil {
			return cty.DynamicVal
		}
	}
	for _, name := range child.Declared.Names["var"] {
		a := s.d.Block.Arg(name)
		switch {
		case a != nil:
			value, ok := s.value(a)
			r := a.Expr.Range()
			child.inputs[name] = input{value: value, failed: !ok, rng: &r, from: fmt.Sprintf("the argument %s of %s", name, addr)}
		case child.Declared.Named["var"][name].Block.Arg("default") == nil:
			child.inputs[name] = input{failed: true} // checkCall has said that it is missing
		}
	}
	child.run()
	outputs := make(map[string]cty.Value, len(child.Declared.Outputs))
	for _, o := range child.Declared.Outputs {
		outputs[o.Block.Name()] = child.Of(o).Value
		if child.Of(o).Failed {
			s.fail()
		}
	}
	return cty.ObjectVal(outputs)
}

// each is the scope of one element of for_each.
func (s scope) each(el Element, addr string) scope {
	key := cty.StringVal(el.Key)
	if el.Any {
		key = cty.UnknownVal(cty.String).RefineNotNull()
	}
	s = s.element("each", key, el.value)
	s.which = addr
	return s
}

// element is the scope in which a name has the attributes key and value.
func (s scope) element(name string, key, value cty.Value) scope {
	s.ctx = s.ctx.NewChild()
	s.ctx.Variables = map[string]cty.Value{name: cty.ObjectVal(map[string]cty.Value{"key": key, "value": value})}
	return s
}
