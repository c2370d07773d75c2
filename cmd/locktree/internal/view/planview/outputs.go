package planview

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/plan"
)

// outputChanges shows the outputs that change, in Terraform's layout.
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

// valueDiff writes values as JSON has them, line by line, each with the sign of its change. The layout is Terraform's. The methods
// get the column of a value's sign. From that column, the signs of the value's contents are four columns to the right. The closing
// bracket of the value is two columns to the right.
type valueDiff struct{ view.Stream }

func (d valueDiff) paintSign(sign string) string { return d.Paint(symbolColours[sign])(sign) }

// line is one line of the contents of a value whose sign is at the column.
func (d valueDiff) line(column int, sign, text string) string {
	return pad(column+4) + d.paintSign(sign) + " " + text + "\n"
}

func hidden(column, n int, one string) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%s# (%d unchanged %s%s hidden)\n", pad(column+6), n, one, view.PluralWord(n, "", "s"))
}

// whole is a value that is added, removed or kept: all of it has one sign.
func (d valueDiff) whole(sign string, v any, column int) string {
	var b strings.Builder
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			b.WriteString(d.line(column, sign, d.whole(sign, e, column+4)+","))
		}
		return enclosed("[", b.String(), "]", column)
	case map[string]any:
		width := keyWidth(v)
		for _, k := range slices.Sorted(maps.Keys(v)) {
			b.WriteString(d.line(column, sign, fmt.Sprintf("%-*s = %s", width, keyText(k), d.whole(sign, v[k], column+4))))
		}
		return enclosed("{", b.String(), "}", column)
	case string:
		if !strings.Contains(v, "\n") {
			return view.Quote(v)
		}
		for line := range strings.SplitSeq(strings.TrimSuffix(v, "\n"), "\n") {
			b.WriteString(d.line(column, " ", view.Clean(line)))
		}
		return enclosed("<<-EOT", b.String(), "EOT", column)
	case verbatim:
		return string(v)
	case json.Number:
		return v.String()
	default: // null, true, false
		return strings.ReplaceAll(fmt.Sprint(v), "<nil>", "null")
	}
}

func enclosed(open, inside, end string, column int) string {
	if inside == "" {
		return open + end
	}
	return open + "\n" + inside + pad(column+2) + end
}

// change is a value that changes into another one.
func (d valueDiff) change(before, after any, column int) string {
	switch b := before.(type) {
	case []any:
		if a, ok := after.([]any); ok {
			return d.list(b, a, column)
		}
	case map[string]any:
		if a, ok := after.(map[string]any); ok {
			return d.object(b, a, column)
		}
	case string:
		if a, ok := after.(string); ok && strings.Contains(b+a, "\n") {
			return d.text(b, a, column)
		}
	case verbatim:
		if before == after {
			return string(b)
		}
	}
	return d.whole("-", before, column) + " -> " + d.whole("+", after, column)
}

func (d valueDiff) object(before, after map[string]any, column int) string {
	all := maps.Clone(before)
	maps.Copy(all, after)
	var b strings.Builder
	same, width := 0, keyWidth(all)
	for _, k := range slices.Sorted(maps.Keys(all)) {
		old, was := before[k]
		v, is := after[k]
		sign, text := "~", ""
		switch {
		case !was:
			sign, text = "+", d.whole("+", v, column+4)
		case !is:
			sign, text = "-", d.whole("-", old, column+4)
		case reflect.DeepEqual(old, v):
			same++
			continue
		default:
			text = d.change(old, v, column+4)
		}
		b.WriteString(d.line(column, sign, fmt.Sprintf("%-*s = %s", width, keyText(k), text)))
	}
	return enclosed("{", b.String()+hidden(column, same, "attribute"), "}", column)
}

// list shows changes and the elements next to them.
func (d valueDiff) list(before, after []any, column int) string {
	steps := elementSteps(before, after)
	var b strings.Builder
	same := 0
	for i, s := range steps {
		switch {
		case s.before < 0:
			b.WriteString(d.line(column, "+", d.whole("+", after[s.after], column+4)+","))
		case s.after < 0:
			b.WriteString(d.line(column, "-", d.whole("-", before[s.before], column+4)+","))
		case !s.same:
			b.WriteString(d.line(column, "~", d.change(before[s.before], after[s.after], column+4)+","))
		case i > 0 && !steps[i-1].same || i+1 < len(steps) && !steps[i+1].same:
			b.WriteString(hidden(column, same, "element") + d.line(column, " ", d.whole(" ", after[s.after], column+4)+","))
			same = 0
		default:
			same++
		}
	}
	return enclosed("[", b.String()+hidden(column, same, "element"), "]", column)
}

// text is a change of a text with several lines. It shows all lines, as people read texts whole.
func (d valueDiff) text(before, after string, column int) string {
	old, now := strings.Split(strings.TrimSuffix(before, "\n"), "\n"), strings.Split(strings.TrimSuffix(after, "\n"), "\n")
	var b strings.Builder
	for _, s := range editSteps(old, now, func(a, b string) bool { return a == b }, func(_, _ string) bool { return false }) {
		switch {
		case s.same:
			b.WriteString(d.line(column, " ", view.Clean(now[s.after])))
		case s.before >= 0:
			b.WriteString(d.line(column, "-", view.Clean(old[s.before])))
		default:
			b.WriteString(d.line(column, "+", view.Clean(now[s.after])))
		}
	}
	return enclosed("<<-EOT", b.String(), "EOT", column)
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
	return view.Quote(k)
}

// step is an element that stays (the field same), changes, is removed (the field after is -1) or added (the field before is -1).
type step struct {
	before, after int
	same          bool
}

// elementSteps are the steps between two lists. Two equally long lists are compared place by place, unless their longest common
// subsequence leaves fewer changes. If the subsequence is used, a removed and an added object at the same place count as one
// change.
func elementSteps(before, after []any) []step {
	isObject := func(v any) bool { _, ok := v.(map[string]any); return ok }
	steps := editSteps(before, after, reflect.DeepEqual, func(a, b any) bool { return isObject(a) && isObject(b) })
	if len(before) != len(after) {
		return steps
	}
	places := make([]step, len(before))
	for i := range places {
		places[i] = step{i, i, reflect.DeepEqual(before[i], after[i])}
	}
	lines := func(steps []step) int {
		return len(slices.DeleteFunc(slices.Clone(steps), func(s step) bool { return s.same }))
	}
	if lines(places) <= lines(steps) {
		return places
	}
	return steps
}

// editSteps are the steps between two lists, found by their longest common subsequence. If pair allows it, a removed and an
// added element at the same place are one changed element.
func editSteps[T any](before, after []T, equal, pair func(a, b T) bool) (out []step) {
	start, end := 0, 0
	for start < min(len(before), len(after)) && equal(before[start], after[start]) {
		start++
	}
	for end < min(len(before), len(after))-start && equal(before[len(before)-1-end], after[len(after)-1-end]) {
		end++
	}
	i, j := 0, 0
	same := func(n int) {
		for range n {
			out = append(out, step{i, j, true})
			i, j = i+1, j+1
		}
	}
	differ := func(untilI, untilJ int) {
		for ; i < untilI; i++ {
			if j < untilJ && pair(before[i], after[j]) {
				out = append(out, step{i, j, false})
				j++
			} else {
				out = append(out, step{i, -1, false})
			}
		}
		for ; j < untilJ; j++ {
			out = append(out, step{-1, j, false})
		}
	}
	same(start)
	for _, c := range commonPlaces(before[start:len(before)-end], after[start:len(after)-end], equal) {
		differ(start+c[0], start+c[1])
		same(1)
	}
	differ(len(before)-end, len(after)-end)
	same(end)
	return out
}

// maxCommonTable bounds the table of commonPlaces, which is quadratic.
const maxCommonTable = 1 << 20

// commonPlaces are the places in a and b of their longest common subsequence; none if that is too much work.
func commonPlaces[T any](a, b []T, equal func(a, b T) bool) (out [][2]int) {
	if (len(a)+1)*(len(b)+1) > maxCommonTable {
		return nil
	}
	common := make([][]int, len(a)+1) // common[i][j]: length of the longest common subsequence of a[i:] and b[j:]
	for i := range common {
		common[i] = make([]int, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if common[i][j] = max(common[i+1][j], common[i][j+1]); equal(a[i], b[j]) {
				common[i][j] = max(common[i][j], 1+common[i+1][j+1])
			}
		}
	}
	for i, j := 0, 0; i < len(a) && j < len(b); {
		switch {
		case equal(a[i], b[j]) && common[i][j] == 1+common[i+1][j+1]:
			out = append(out, [2]int{i, j})
			i, j = i+1, j+1
		case common[i+1][j] >= common[i][j+1]:
			i++
		default:
			j++
		}
	}
	return out
}
