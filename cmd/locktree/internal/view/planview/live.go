package planview

import (
	"fmt"
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/document"
)

// Live is what a stack has in ZooKeeper.
type Live []*plan.Tree

func (trees Live) WriteText(h *view.Human) {
	for _, tree := range trees {
		if len(trees) > 1 {
			h.Out.Printf("# Ensemble %s, below %s\n\n", view.Quote(tree.Ensemble), view.Clean(tree.Root))
		}
		for _, n := range tree.Nodes {
			if n.Payload == nil {
				continue // not this stack's
			}
			t := planText{Stream: h.Out}
			t.Printf("# %s:\n%s {\n", view.Clean(n.Payload.Owner.Addr), header(n.Addr))
			t.block(3, wholeNode("", n, ""), 0)
			t.Printf("}\n\n")
		}
	}
}

// WriteJSON writes the trees in the form of Terraform's show -json of a state.
func (trees Live) WriteJSON(m *view.Machine) {
	m.Document(document.OfTrees(m.Version, outputsJSON(StoredOutputs(trees)), trees...))
}

// Outputs are output values, each shown as name = value.
type Outputs []plan.Output

func (outputs Outputs) WriteText(h *view.Human) {
	for _, o := range outputs {
		h.Out.Printf("%s = %s\n", view.Clean(o.Name), OutputValue(o))
	}
}

// WriteJSON writes the object of Terraform's output -json.
func (outputs Outputs) WriteJSON(m *view.Machine) { m.Document(outputsJSON(outputs)) }

func outputsJSON(outputs []plan.Output) map[string]document.Output {
	out := map[string]document.Output{}
	for _, o := range outputs {
		out[o.Name] = document.OfOutput(&o)
	}
	return out
}

// StoredOutputs are the outputs that the last apply left in the record, by name.
func StoredOutputs(trees []*plan.Tree) (out Outputs) {
	for _, tree := range trees {
		if tree.Index == nil {
			continue
		}
		for name, o := range tree.Index.Outputs {
			out = append(out, plan.Output{Name: name, Type: o.Type, Value: o.Value, Sensitive: o.Sensitive})
		}
	}
	slices.SortFunc(out, func(a, b plan.Output) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// OutputValue writes a value on as many lines as Terraform's output command does.
func OutputValue(o plan.Output) string {
	if text, ok := decoded(&o).(verbatim); ok {
		return string(text)
	}
	typ, err := ctyjson.UnmarshalType(o.Type)
	if err != nil {
		typ, err = ctyjson.ImpliedType(o.Value)
	}
	if err != nil {
		return "(unreadable)"
	}
	v, err := ctyjson.Unmarshal(o.Value, typ)
	if err != nil {
		return "(unreadable)"
	}
	return literal(v, "")
}

// literal writes a value in the configuration's syntax. Lists, sets and maps name their type, because brackets alone
// make a tuple or an object.
func literal(v cty.Value, indent string) string {
	typ := v.Type()
	switch {
	case v.IsNull():
		return "null"
	case typ == cty.String && strings.Contains(v.AsString(), "\n"):
		open := "<<EOT"
		if indent != "" {
			open = "<<-EOT"
		}
		return open + "\n" + indent + strings.ReplaceAll(strings.TrimSuffix(view.CleanLines(v.AsString()), "\n"), "\n", "\n"+indent) + "\n" + indent + "EOT"
	case typ == cty.String:
		return view.Quote(v.AsString())
	case typ == cty.Number:
		return v.AsBigFloat().Text('f', -1)
	case typ == cty.Bool:
		return fmt.Sprint(v.True())
	}
	open, end := "[", "]"
	if typ.IsMapType() || typ.IsObjectType() {
		open, end = "{", "}"
	}
	if typ.IsListType() || typ.IsSetType() || typ.IsMapType() {
		name, _, _ := strings.Cut(typ.FriendlyName(), " ") // "list of string"
		open, end = "to"+name+"("+open, end+")"
	}
	if v.LengthInt() == 0 {
		return open + end
	}
	var b strings.Builder
	b.WriteString(open + "\n")
	for it := v.ElementIterator(); it.Next(); {
		key, element := it.Element()
		text := literal(element, indent+"  ")
		if open[len(open)-1] == '{' {
			text = view.Quote(key.AsString()) + " = " + text
		} else {
			text += ","
		}
		b.WriteString(indent + "  " + text + "\n")
	}
	return b.String() + indent + end
}
