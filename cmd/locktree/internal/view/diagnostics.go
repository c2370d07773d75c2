package view

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
)

// Diagnostics implements [Output]. It prints diagnostics in HCL's form, one after the other. On a terminal each has a frame, which
// shows where it ends among other lines. Elsewhere nothing is wrapped, so that a search in a log finds whole sentences.
func (n notices) Diagnostics(diags hcl.Diagnostics, files map[string]*hcl.File) {
	s := n.err
	for _, d := range fold(diags) {
		var b bytes.Buffer
		width := uint(0)
		if s.Terminal && s.Width > 12 {
			width = uint(s.Width - 3) // less the frame
		}
		shown, source := presentable(d, files)
		_ = hcl.NewDiagnosticTextWriter(&b, source, width, s.Color).WriteDiagnostic(shown) // a buffer takes all of it
		text := strings.TrimRight(b.String(), "\n")
		if s.Terminal { // the bar at the left that people know from Terraform
			paint := s.Paint(Red)
			if d.Severity == hcl.DiagWarning {
				paint = s.Paint(Yellow)
			}
			text = paint("╷") + "\n" + eachLine(text, func(line string) string { return strings.TrimRight(paint("│")+" "+line, " ") }) + "\n" + paint("╵")
		}
		_, _ = io.WriteString(s, "\n"+text+"\n")
	}
}

// shownAlike is how many diagnostics with the same words people see.
const shownAlike = 3

// fold keeps the first few of those diagnostics that differ only in their place, and says how many more there are.
func fold(diags hcl.Diagnostics) hcl.Diagnostics {
	type words struct {
		severity        hcl.DiagnosticSeverity
		summary, detail string
	}
	alike := map[words]hcl.Diagnostics{}
	var out hcl.Diagnostics
	for _, d := range diags {
		key := words{d.Severity, d.Summary, d.Detail}
		if alike[key] = append(alike[key], d); len(alike[key]) <= shownAlike {
			out = append(out, d)
		}
	}
	for i, d := range out {
		all := alike[words{d.Severity, d.Summary, d.Detail}]
		if len(all) <= shownAlike || d != all[shownAlike-1] {
			continue
		}
		more := *d
		more.Detail += fmt.Sprintf("\n\n%d more like this", len(all)-shownAlike)
		if next := all[shownAlike].Subject; next != nil {
			more.Detail += fmt.Sprintf(", the next on %s line %d", next.Filename, next.Start.Line)
		}
		more.Detail += "."
		out[i] = &more
	}
	return out
}

// presentable escapes control characters in texts that may come from a server: a node name must not be able to write to a
// reader's terminal. If the place is no file, such as -var, it names the place, because there is no source to show.
func presentable(d *hcl.Diagnostic, files map[string]*hcl.File) (*hcl.Diagnostic, map[string]*hcl.File) {
	c := *d
	c.Summary = Shorten(Clean(d.Summary), maxStatement)
	c.Detail = eachLine(CleanLines(d.Detail), func(l string) string { return Shorten(l, maxTextLine) })
	file := sourceOf(d, files)
	if c.Subject != nil && file == nil {
		switch name := Clean(c.Subject.Filename); {
		case files[c.Subject.Filename] != nil:
			c.Detail = fmt.Sprintf("In %s, line %d, column %d: %s", name, c.Subject.Start.Line, c.Subject.Start.Column, c.Detail)
		case name != ".":
			c.Detail = "In " + name + ": " + c.Detail
		}
		c.Subject, c.Context = nil, nil
	}
	values, long := "", false
	for _, v := range expressionValues(d) {
		values += Clean(v.Traversal+" "+Shorten(v.Statement, maxStatement)) + ".\n"
		long = long || len(v.Statement) > maxStatement
	}
	if long { // hcl would show the whole value
		c.Expression, c.Detail = nil, values+"\n"+c.Detail
	}
	if c.Subject == nil {
		return &c, nil
	}
	at := *c.Subject
	if at.Filename = Clean(at.Filename); c.Context != nil {
		around := *c.Context
		around.Filename, c.Context = at.Filename, &around
	}
	c.Subject = &at
	return &c, map[string]*hcl.File{at.Filename: {Body: file.Body, Bytes: replaceInvisible(file.Bytes), Nav: file.Nav}}
}

// sourceOf is the file that a diagnostic points at. It is nil if there is none, or if its lines are too long to show, as in
// generated files.
func sourceOf(d *hcl.Diagnostic, files map[string]*hcl.File) *hcl.File {
	if d.Subject == nil || files[d.Subject.Filename] == nil || d.Subject.Start.Byte > len(files[d.Subject.Filename].Bytes) {
		return nil
	}
	file := files[d.Subject.Filename]
	from, to, _ := sourceLines(d, file.Bytes)
	for line := range bytes.Lines(file.Bytes[from:to]) {
		if len(line) > maxSourceLine {
			return nil
		}
	}
	return file
}

// replaceInvisible replaces the invisible characters of a source: a configuration that is sent for review must not write to a
// terminal either. It replaces byte by byte, because positions must stay valid.
func replaceInvisible(src []byte) []byte {
	var b bytes.Buffer
	for i := 0; i < len(src); {
		r, size := utf8.DecodeRune(src[i:])
		switch {
		case unicode.IsPrint(r) && (r != utf8.RuneError || size > 1), r == '\n', r == '\t', bytes.HasPrefix(src[i:], []byte("\r\n")):
			b.Write(src[i : i+size])
		default:
			b.WriteString(strings.Repeat("?", size))
		}
		i += size
	}
	return b.Bytes()
}

// diagnosticJSON is one diagnostic in the schema of Terraform's validate -json.
type diagnosticJSON struct {
	Severity string       `json:"severity"`
	Summary  string       `json:"summary"`
	Detail   string       `json:"detail"`
	Address  string       `json:"address,omitempty"`
	Range    *rangeJSON   `json:"range,omitempty"`
	Snippet  *snippetJSON `json:"snippet,omitempty"`
}

type rangeJSON struct {
	Filename string  `json:"filename"`
	Start    posJSON `json:"start"`
	End      posJSON `json:"end"`
}

type posJSON struct {
	Line   int `json:"line"`
	Column int `json:"column"`
	Byte   int `json:"byte"`
}

type snippetJSON struct {
	Context              *string     `json:"context"`
	Code                 string      `json:"code"`
	StartLine            int         `json:"start_line"`
	HighlightStartOffset int         `json:"highlight_start_offset"`
	HighlightEndOffset   int         `json:"highlight_end_offset"`
	Values               []valueJSON `json:"values"`
}

type valueJSON struct {
	Traversal string `json:"traversal"`
	Statement string `json:"statement"`
}

func diagnosticsJSON(diags hcl.Diagnostics, files map[string]*hcl.File) []diagnosticJSON {
	out := make([]diagnosticJSON, 0, len(diags))
	for _, d := range diags {
		j := diagnosticJSON{Severity: "error", Summary: d.Summary, Detail: d.Detail}
		if d.Severity == hcl.DiagWarning {
			j.Severity = "warning"
		}
		if address, ok := d.Extra.(Address); ok {
			j.Address = string(address)
		}
		if d.Subject != nil {
			j.Range = &rangeJSON{d.Subject.Filename, posJSON(d.Subject.Start), posJSON(d.Subject.End)}
			j.Snippet = snippet(d, sourceOf(d, files))
		}
		out = append(out, j)
	}
	return out
}

// snippet is the source that a diagnostic points at: the lines of its context, with the place of its subject in them;
// nil without the source.
func snippet(d *hcl.Diagnostic, file *hcl.File) *snippetJSON {
	if file == nil {
		return nil
	}
	from, to, number := sourceLines(d, file.Bytes)
	code := strings.TrimRight(string(file.Bytes[from:to]), "\n")
	s := &snippetJSON{
		Code:                 code,
		StartLine:            number,
		HighlightStartOffset: min(max(d.Subject.Start.Byte-from, 0), len(code)),
		HighlightEndOffset:   min(max(d.Subject.End.Byte-from, 0), len(code)),
		Values:               expressionValues(d),
	}
	for i := range s.Values {
		s.Values[i].Statement = Shorten(s.Values[i].Statement, maxStatement)
	}
	if nav, ok := file.Nav.(interface{ ContextString(int) string }); ok {
		if text := nav.ContextString(d.Subject.Start.Byte); text != "" {
			s.Context = &text
		}
	}
	return s
}

// Limits of a diagnostic: the longest line of its source, and how much it shows of a line of its text and of a value.
const (
	maxSourceLine = 400
	maxTextLine   = 2000
	maxStatement  = 200
)

// sourceLines is where the lines of a diagnostic begin and end, and the number of the first.
func sourceLines(d *hcl.Diagnostic, src []byte) (from, to, number int) {
	whole := *d.Subject
	if d.Context != nil {
		whole = hcl.RangeOver(whole, *d.Context)
	}
	from = bytes.LastIndexByte(src[:min(whole.Start.Byte, len(src))], '\n') + 1
	to = len(src)
	if at := min(max(whole.End.Byte, from), len(src)); bytes.IndexByte(src[at:], '\n') >= 0 {
		to = at + bytes.IndexByte(src[at:], '\n')
	}
	return from, to, whole.Start.Line
}

// expressionValues says which values the variables of a failing expression had. It shows only simple values; of a sensitive value
// it says only that it is sensitive.
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
