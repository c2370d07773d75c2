package eval

import (
	"fmt"
	"strconv"

	"github.com/zclconf/go-cty/cty"

	"github.com/locktree/locktree/plan"
)

// evaluateCall evaluates the module once, or once for each element of for_each. A module with a wrong argument is evaluated too, so
// that the errors inside it are reported.
func evaluateCall(s scope) {
	d := s.d
	if d.Child == nil {
		return
	}
	addr, elements := s.in.Prefix+d.Addr, []Element{{}}
	if d.ForEach != nil {
		var ok bool
		if elements, ok = elementsOf(s, d.ForEach); !ok {
			s.fail()
			return
		}
	}
	if !countNodes(s, len(elements)) {
		return
	}
	if len(elements) == 0 {
		s.in.All.Barren = append(s.in.All.Barren, plan.Addr(addr))
	}
	byKey := make(map[string]cty.Value, len(elements))
	for _, el := range elements {
		in, at := s, addr
		if d.ForEach != nil {
			at += "[" + strconv.Quote(el.Key) + "]"
			if el.Any {
				at = addr + "[*]"
			}
			in = s.forElement(el, at)
		}
		s.in.All.ModuleAddrs = append(s.in.All.ModuleAddrs, struct{ Instance, Block plan.Addr }{plan.Addr(at), plan.Addr(addr)})
		byKey[el.Key] = evaluateModule(in, at, el)
	}
	switch s.r.Value = byKey[""]; {
	case d.ForEach != nil && len(elements) == 1 && elements[0].Any:
		s.r.Value = cty.DynamicVal
	case d.ForEach != nil:
		s.r.Value = cty.ObjectVal(byKey)
	}
}

// evaluateModule evaluates one instance of a module and returns its outputs.
func evaluateModule(s scope, addr string, el Element) cty.Value {
	child := newEvaluation(s.d.Child, s.in.All, s.in, addr+".")
	child.call, child.At = s.d, el
	child.At.Any = el.Any || s.in.At.Any
	s.in.Calls[s.d] = append(s.in.Calls[s.d], child)
	child.home = s.in.home
	if a := s.d.Block.Arg("ensemble"); a != nil {
		if child.home = ensembleIn(s, a); child.home == nil {
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
			child.inputs[name] = input{failed: true} // checkCall has reported that it is missing
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
