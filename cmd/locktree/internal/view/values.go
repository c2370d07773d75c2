package view

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
)

// expressionValues says what the variables of a failing expression held: simple
// values only, and of a sensitive one only that it is.
func expressionValues(d *hcl.Diagnostic) []valueJSON {
	out := []valueJSON{}
	if d.Expression == nil || d.EvalContext == nil {
		return out
	}
	seen := map[string]bool{}
	for _, traversal := range d.Expression.Variables() {
		val, diags := traversal.TraverseAbs(d.EvalContext)
		name := traversalText(traversal)
		statement := valueStatement(val)
		if diags.HasErrors() || statement == "" || seen[name] {
			continue
		}
		seen[name] = true
		out = append(out, valueJSON{name, statement})
	}
	slices.SortFunc(out, func(a, b valueJSON) int { return strings.Compare(a.Traversal, b.Traversal) })
	return out
}

func valueStatement(val cty.Value) string {
	switch {
	case val.ContainsMarked():
		return "has a sensitive value"
	case !val.IsKnown():
		return ""
	case val.IsNull():
		return "is null"
	case val.Type() == cty.String:
		return fmt.Sprintf("is %q", val.AsString())
	case val.Type() == cty.Number:
		return "is " + val.AsBigFloat().Text('g', 10)
	case val.Type() == cty.Bool:
		return fmt.Sprintf("is %t", val.True())
	default:
		return "is " + val.Type().FriendlyName()
	}
}

func traversalText(t hcl.Traversal) (text string) {
	for _, step := range t {
		switch s := step.(type) {
		case hcl.TraverseRoot:
			text += s.Name
		case hcl.TraverseAttr:
			text += "." + s.Name
		case hcl.TraverseIndex:
			text += "[" + strings.TrimPrefix(valueStatement(s.Key), "is ") + "]"
		}
	}
	return text
}
