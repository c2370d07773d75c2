package planview

import (
	"bytes"
	"encoding/json"

	"github.com/locktree/locktree/cmd/locktree/internal/view"

	"github.com/locktree/locktree/plan"
)

// outputs shows the outputs that change, in Terraform's layout.
func outputChanges(s view.Stream, plans []*plan.Plan) {
	var changes []plan.OutputChange
	width := 0
	for _, p := range plans {
		for _, o := range p.Outputs {
			if o.Action != plan.NoOp {
				changes = append(changes, o)
				width = max(width, len(view.Clean(o.Name)))
			}
		}
	}
	if len(changes) > 0 {
		s.Printf("\nChanges to Outputs:\n")
	}
	for _, o := range changes {
		sign, text := o.Action.Symbol(), ""
		d := valueDiff{s}
		switch before, after := decoded(o.Before), decoded(o.After); o.Action {
		case plan.Create:
			text = d.whole(sign, after, 2)
		case plan.Delete:
			text = d.whole(sign, before, 2) + " -> null"
		default:
			text = d.change(before, after, 2)
		}
		s.Printf("  %s %-*s = %s\n", d.paintSign(sign), width, view.Clean(o.Name), text)
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
