package view

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2/hclsyntax"
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
		d := valueText{t.Stream}
		switch before, after := decoded(o.Before), decoded(o.After); o.Action {
		case plan.Create:
			text = d.whole(sign, after, 2)
		case plan.Delete:
			text = d.whole(sign, before, 2) + " -> null"
		default:
			if text = d.whole("+", after, 2); !o.Before.Sensitive || !o.After.Sensitive {
				text = d.whole("-", before, 2) + " -> " + text
			}
		}
		t.printf("  %s %-*s = %s\n", d.paintSign(sign), width, clean(o.Name), text)
	}
}

// verbatim is text in place of a value.
type verbatim string

// decoded is the value of an output as JSON has it, with numbers as they are written. Sensitive values are not stored.
func decoded(o *plan.Output) (v any) {
	if o == nil {
		return nil
	}
	if o.Sensitive {
		return verbatim("(sensitive value)")
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
	return open + "\n" + indent + strings.ReplaceAll(strings.TrimSuffix(cleanLines(text), "\n"), "\n", "\n"+indent) + "\n" + indent + "EOT"
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

// valueText writes values as JSON has them, line by line, each with the sign of its change. The layout is Terraform's:
// the sign is at column in, the inside of a value four columns to the right, its end two.
type valueText struct{ Stream }

func (d valueText) paintSign(sign string) string { return d.paint(symbolColours[sign])(sign) }

func pad(n int) string { return strings.Repeat(" ", n) }

// line is one line inside of a value at column in.
func (d valueText) line(in int, sign, text string) string {
	return pad(in+4) + d.paintSign(sign) + " " + text + "\n"
}

// whole is a value that is added, removed or kept: all of it has one sign.
func (d valueText) whole(sign string, v any, in int) string {
	var b strings.Builder
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			b.WriteString(d.line(in, sign, d.whole(sign, e, in+4)+","))
		}
		return enclosed("[", b.String(), "]", in)
	case map[string]any:
		width := keyWidth(v)
		for _, k := range sortedKeys(v) {
			b.WriteString(d.line(in, sign, fmt.Sprintf("%-*s = %s", width, keyText(k), d.whole(sign, v[k], in+4))))
		}
		return enclosed("{", b.String(), "}", in)
	case string:
		if !strings.Contains(v, "\n") {
			return quote(v)
		}
		for line := range strings.SplitSeq(strings.TrimSuffix(v, "\n"), "\n") {
			b.WriteString(d.line(in, " ", clean(line)))
		}
		return enclosed("<<-EOT", b.String(), "EOT", in)
	case verbatim:
		return string(v)
	case json.Number:
		return v.String()
	default: // null, true, false
		return strings.ReplaceAll(fmt.Sprint(v), "<nil>", "null")
	}
}

func enclosed(open, inside, end string, in int) string {
	if inside == "" {
		return open + end
	}
	return open + "\n" + inside + pad(in+2) + end
}

func keyWidth(m map[string]any) (n int) {
	for k := range m {
		n = max(n, len([]rune(keyText(k))))
	}
	return n
}

func keyText(k string) string {
	if hclsyntax.ValidIdentifier(k) {
		return k
	}
	return quote(k)
}
