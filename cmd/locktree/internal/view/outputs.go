package view

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/locktree/locktree/plan"
)

// outputs shows the outputs that change, in Terraform's layout.
func (t planText) outputs(plans []*plan.Plan) {
	var changes []plan.OutputChange
	width := 0
	for _, p := range plans {
		for _, o := range p.Outputs {
			if o.Action != plan.NoOp {
				changes = append(changes, o)
				width = max(width, len(clean(o.Name)))
			}
		}
	}
	if len(changes) > 0 {
		t.printf("\nChanges to Outputs:\n")
	}
	for _, o := range changes {
		sign, text := o.Action.Symbol(), ""
		d := valueDiff{t.Stream}
		switch before, after := decoded(o.Before), decoded(o.After); o.Action {
		case plan.Create:
			text = d.whole(sign, after, 2)
		case plan.Delete:
			text = d.whole(sign, before, 2) + " -> null"
		default:
			text = d.change(before, after, 2)
		}
		t.printf("  %s %-*s = %s\n", d.paintSign(sign), width, clean(o.Name), text)
	}
}

// sensitiveValue is shown in place of a sensitive value.
const sensitiveValue = "(sensitive value)"

// verbatim is text in place of a value.
type verbatim string

// decoded is the value of an output as JSON has it, with numbers as they are written. Sensitive values are not stored.
func decoded(o *plan.Output) (v any) {
	if o == nil {
		return nil
	}
	if o.Sensitive {
		return verbatim(sensitiveValue)
	}
	dec := json.NewDecoder(bytes.NewReader(o.Value))
	dec.UseNumber()
	if dec.Decode(&v) != nil {
		return verbatim("(unreadable)")
	}
	return v
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
		return heredoc(v.AsString(), indent)
	case typ == cty.String:
		return quote(v.AsString())
	case typ == cty.Number:
		return v.AsBigFloat().Text('f', -1)
	case typ == cty.Bool:
		return fmt.Sprint(v.True())
	}
	open, end := "[", "]"
	if typ.IsMapType() || typ.IsObjectType() {
		open, end = "{", "}"
	}
	switch {
	case typ.IsListType():
		open, end = "tolist("+open, end+")"
	case typ.IsSetType():
		open, end = "toset("+open, end+")"
	case typ.IsMapType():
		open, end = "tomap("+open, end+")"
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
			text = quote(key.AsString()) + " = " + text
		} else {
			text += ","
		}
		b.WriteString(indent + "  " + text + "\n")
	}
	return b.String() + indent + end
}

func heredoc(text, indent string) string {
	open := "<<EOT"
	if indent != "" {
		open = "<<-EOT"
	}
	return open + "\n" + indent + strings.ReplaceAll(strings.TrimSuffix(CleanLines(text), "\n"), "\n", "\n"+indent) + "\n" + indent + "EOT"
}

// StoredOutputs are the outputs the last apply left in the record, by name.
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
