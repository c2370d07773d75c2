package syntax

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/locktree/locktree/plan/explain"
	"github.com/locktree/locktree/recipes/kind"
)

// ErrorAt makes a diagnostic: the summary says what is wrong, the detail says why and what to type next.
func ErrorAt(r hcl.Range, summary, detail string) *hcl.Diagnostic {
	return &hcl.Diagnostic{Severity: hcl.DiagError, Summary: summary, Detail: detail, Subject: &r}
}

// WarningAt is [ErrorAt] for a warning.
func WarningAt(r hcl.Range, summary, detail string) *hcl.Diagnostic {
	d := ErrorAt(r, summary, detail)
	d.Severity = hcl.DiagWarning
	return d
}

// Where returns FILE:LINE, relative to the directory of the configuration. With it, one diagnostic points at another place.
func (r *Report) Where(at hcl.Range) string {
	name, err := filepath.Rel(r.Dir, at.Filename)
	if err != nil {
		name = filepath.Base(at.Filename)
	}
	return kind.Visible(filepath.ToSlash(name)) + ":" + strconv.Itoa(at.Start.Line)
}

// Repeats is how many errors are shown for one place: a wrong expression under
// for_each is wrong for every key, and a few of them explain it.
const Repeats = 3

// Report collects diagnostics. The zero value is ready.
type Report struct {
	Diags      hcl.Diagnostics
	seen       map[string]int
	Incomplete bool   // the module being decoded has blocks of unknown types
	Dir        string // of the configuration
}

// Add collects diagnostics, without those that were said before.
func (r *Report) Add(diags ...*hcl.Diagnostic) {
	if r.seen == nil {
		r.seen = map[string]int{}
	}
	for _, d := range diags {
		at := ""
		if d.Subject != nil {
			at = d.Subject.String()
		}
		whole := fmt.Sprint(at, "\x00", d.Severity, d.Summary, "\x00", d.Detail)
		if r.seen[whole] > 0 {
			continue
		}
		r.seen[whole]++
		perPlace := at + "\x00" + d.Summary
		if r.seen[perPlace]++; r.seen[perPlace] > Repeats {
			continue
		}
		r.Diags = append(r.Diags, d)
	}
}

// Errorf collects an error.
func (r *Report) Errorf(at hcl.Range, summary, format string, args ...any) {
	r.Add(ErrorAt(at, summary, fmt.Sprintf(format, args...)))
}

// UpperFirst begins a text with a capital, LowerFirst with a small letter.
func UpperFirst(s string) string { return strings.ToUpper(s[:1]) + s[1:] }
func LowerFirst(s string) string { return strings.ToLower(s[:1]) + s[1:] }

// Errors returns the number of errors.
func (r *Report) Errors() int {
	n := 0
	for _, d := range r.Diags {
		if d.Severity == hcl.DiagError {
			n++
		}
	}
	return n
}

// Sorted returns what was collected, by file, position and text.
func (r *Report) Sorted() hcl.Diagnostics {
	slices.SortStableFunc(r.Diags, func(a, b *hcl.Diagnostic) int {
		ra, rb := Subject(a), Subject(b)
		return cmp.Or(
			cmp.Compare(ra.Filename, rb.Filename),
			cmp.Compare(ra.Start.Line, rb.Start.Line),
			cmp.Compare(ra.Start.Column, rb.Start.Column),
			cmp.Compare(a.Severity, b.Severity),
			cmp.Compare(a.Summary, b.Summary),
			cmp.Compare(a.Detail, b.Detail),
		)
	})
	return r.Diags
}

// Subject is the place of a diagnostic; zero where it has none.
func Subject(d *hcl.Diagnostic) hcl.Range {
	if d.Subject == nil {
		return hcl.Range{}
	}
	return *d.Subject
}

// OrList writes names as a sentence reads them: a, b or c.
func OrList(names []string) string {
	switch len(names) {
	case 0:
		return "nothing"
	case 1:
		return names[0]
	default:
		return strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1]
	}
}

// Hint is [explain.DidYouMean], or the list of names if that is empty and the list is short.
func Hint(given string, names []string, none string) string {
	if s := explain.DidYouMean(given, names); s != "" {
		return s
	}
	switch {
	case len(names) == 0:
		return " " + none
	case len(names) <= 12:
		return " Expected " + OrList(slices.Sorted(slices.Values(names))) + "."
	default:
		return ""
	}
}

// HintIn is [Hint] for names behind a dot. The list shows them as they are written.
func HintIn(root, given string, names []string, none string) string {
	if s := explain.DidYouMean(given, names); s != "" {
		return s
	}
	full := make([]string, len(names))
	for i, name := range names {
		full[i] = root + "." + name
	}
	return Hint("", full, none)
}

// advice says what to type next, for frequent errors of hcl whose own words do not say it, or lead astray. Several entries may
// have the same title. Advise uses the first one whose part is in the error's detail.
type advice struct {
	title, part, text string // for an error with this summary (title) and this part in its detail: what to type
	instead           bool   // text replaces hcl's own words
}

const (
	orDefault = "Give it a value, or write coalesce(VALUE, DEFAULT) where it may be null."
	orTry     = "Give it a value, or write try(..., DEFAULT) where it may be null."
)

var advices = []advice{
	{title: "Invalid multi-line string", text: `This string has no closing quote on its line. Write the missing ". A string over several lines is written as <<EOT, its lines, and EOT.`, instead: true},
	{title: "Invalid escape sequence", text: `Write \\ for a backslash.`},
	{title: "Unclosed template interpolation sequence", text: `Write the missing "}", or $${ for the characters themselves.`},
	{title: "Missing newline after argument", text: `Put a string, or a number with a unit such as "15s", in double quotes, and begin the next argument on a new line.`},
	{title: "Argument or block definition required", part: "equals sign"},
	{title: "Argument or block definition required", text: `Write NAME = VALUE, or TYPE "NAME" { ... }. A "}" here is one too many, and a comment starts with #.`},
	{title: "Invalid expression", text: `Write a value: a string in double quotes, a number, true, false, null, a list [...], an object { ... } or a reference such as var.NAME.`},
	{title: "Missing item separator", text: `Write the missing comma, or the missing "]" after the last element.`},
	{title: "Missing argument separator", text: `Write the missing comma, or the missing ")" after the last argument.`},
	{title: "Invalid type specification", part: "A type specification is", text: "Write it without quotes, such as type = string."},
	{title: "Invalid operand", part: "number is required", text: `Join two strings with "${a}${b}".`},
	{title: "Operation failed", part: "must not be null", text: orDefault},
	{title: "Invalid template interpolation value", part: "result is null", text: orDefault},
	{title: "Invalid template interpolation value", part: "required, but have", text: `Write join(", ", VALUE) for a list of strings.`},
	{title: "Attempt to get attribute from null value", text: orTry},
	{title: "Attempt to index null value", text: orTry},
	{title: "Iteration over null value", text: "Write VALUE == null ? [] : VALUE where it may be null."},
}

// Advised are diagnostics of hcl with advice.
func Advised(diags hcl.Diagnostics) hcl.Diagnostics {
	for i, d := range diags {
		diags[i] = Advise(d)
	}
	return diags
}

// Advise adds to a diagnostic of hcl what to type next.
func Advise(d *hcl.Diagnostic) *hcl.Diagnostic {
	i := slices.IndexFunc(advices, func(a advice) bool { return a.title == d.Summary && strings.Contains(d.Detail, a.part) })
	out := *d
	switch {
	case i >= 0 && advices[i].instead:
		out.Detail = advices[i].text
	case i >= 0 && advices[i].text != "":
		out.Detail += " " + advices[i].text
	case d.Summary == "Unsupported attribute" || d.Summary == "Invalid index":
		out.Detail += elementAdvice(d)
	}
	return &out
}

// Blocks and arguments of Terraform that this language does not have.
var (
	TerraformArguments = map[string]string{
		"count":      ` There is no count: write for_each = toset(["a", "b"]), with a name for each instance, and use each.key.`,
		"depends_on": " Remove it: references and the surrounding blocks determine the order.",
		"provider":   " Write ensemble = ensemble.NAME on a block at the top of the file.",
		"providers":  " Write ensemble = ensemble.NAME.",
	}
	terraformBlocks = map[string]string{
		"dynamic":   ` There are no dynamic blocks: write for_each on a block that declares something, and name all principals of a grant in to = [for ...].`,
		"resource":  ` Write the type of the lock itself: mutex "NAME" { ... }.`,
		"data":      " Write import { ... } to take over what exists already.",
		"provider":  ` Write ensemble "NAME" { ... } to say how to reach ZooKeeper.`,
		"terraform": " Write locktree { ... } for the settings of the configuration.",
	}
)

// formerArguments are arguments that this language no longer has.
var formerArguments = map[string]string{
	"preference": " Remove it: a lock admits readers and writers in the order in which they came.",
}

// elementAdvice names the existing elements if an expression asks for one that does not exist.
func elementAdvice(d *hcl.Diagnostic) string {
	in, given := askedFor(d)
	if in == cty.NilVal || in.IsMarked() || !in.IsKnown() || in.IsNull() {
		return ""
	}
	switch ty := in.Type(); {
	case ty.IsObjectType() || ty.IsMapType():
		return Hint(given, slices.Collect(maps.Keys(in.AsValueMap())), "It has none.")
	case (ty.IsTupleType() || ty.IsListType()) && d.Summary == "Unsupported attribute":
		return " It is a list: write [0] before the dot for the first element, or [*] for all."
	case (ty.IsTupleType() || ty.IsListType()) && in.LengthInt() > 0:
		return fmt.Sprintf(" Its last element is [%d].", in.LengthInt()-1)
	case ty.IsSetType():
		return " A set has no order: use a for expression, or tolist(...)."
	}
	return ""
}

// askedFor finds the value whose element was looked for, and the name; NilVal if the name is not written out.
func askedFor(d *hcl.Diagnostic) (cty.Value, string) {
	e, ok := d.Expression.(*hclsyntax.ScopeTraversalExpr)
	if !ok || d.EvalContext == nil {
		return cty.NilVal, ""
	}
	for i, s := range e.Traversal {
		if d.Subject != nil && s.SourceRange() == *d.Subject && i > 0 {
			name, _ := StepName(e.Traversal, i)
			v, _ := e.Traversal[:i].TraverseAbs(d.EvalContext)
			return v, name
		}
	}
	return cty.NilVal, ""
}

// Causes leaves out syntax errors that follow from another one. After the first error in a line the parser has lost its way.
// After a missing quote it takes strings for code and code for strings, to the end of the file.
func Causes(diags hcl.Diagnostics) hcl.Diagnostics {
	var out hcl.Diagnostics
	said, open := map[int]bool{}, 0 // open is the first line where quotes mean nothing any more
	if i := slices.IndexFunc(diags, func(d *hcl.Diagnostic) bool { return d.Summary == "Unclosed template interpolation sequence" }); i >= 0 {
		open = Subject(diags[i]).Start.Line
	}
	for _, d := range diags {
		line := Subject(d).Start.Line
		quote := d.Summary == "Invalid multi-line string" || d.Summary == "Unterminated template string" || d.Summary == "Invalid string literal"
		if said[line] || quote && open > 0 && line >= open {
			continue
		}
		if quote && open == 0 {
			open = line
		}
		said[line] = true
		out = append(out, Advise(d))
	}
	return out
}

// StepName returns the name that step i of a traversal selects: .name or ["name"].
func StepName(t hcl.Traversal, i int) (string, bool) {
	if i >= len(t) {
		return "", false
	}
	switch s := t[i].(type) {
	case hcl.TraverseAttr:
		return s.Name, true
	case hcl.TraverseIndex:
		if s.Key.Type() == cty.String && s.Key.IsKnown() && !s.Key.IsNull() {
			return s.Key.AsString(), true
		}
	}
	return "", false
}
