package config

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// errorAt makes a diagnostic that says what (summary) and why and what to type
// next (detail).
func errorAt(r hcl.Range, summary, detail string) *hcl.Diagnostic {
	return &hcl.Diagnostic{Severity: hcl.DiagError, Summary: summary, Detail: detail, Subject: &r}
}

func warningAt(r hcl.Range, summary, detail string) *hcl.Diagnostic {
	d := errorAt(r, summary, detail)
	d.Severity = hcl.DiagWarning
	return d
}

// where is how one diagnostic points at another place, FILE:LINE, relative to the
// directory of the configuration.
func (r *report) where(at hcl.Range) string {
	name := r.short[at.Filename]
	if name == "" {
		name = filepath.Base(at.Filename)
	}
	return name + ":" + strconv.Itoa(at.Start.Line)
}

// repeats is how many errors are shown for one place: a wrong expression under
// for_each is wrong for every key, and a few of them explain it.
const repeats = 3

// report collects diagnostics. The zero value is ready.
type report struct {
	diags      hcl.Diagnostics
	seen       map[string]int
	incomplete bool // the module being decoded has blocks of unknown types
	// short are the names of files in modules as seen from the configuration,
	// by the names that diagnostics use. Other files go by their last name.
	short map[string]string
}

func (r *report) add(diags ...*hcl.Diagnostic) {
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
		if r.seen[perPlace]++; r.seen[perPlace] > repeats {
			continue
		}
		r.diags = append(r.diags, d)
	}
}

// quoting are the errors in which hcl quotes a part of a value, by their summary, and what is said in place of
// that. All other values are in errors of functions, for which see guard, and in those of conversions.
var quoting = map[string]string{
	"Duplicate object key": "Two different items produced the same key in this 'for' expression. It is not shown because it is sensitive. " +
		"If duplicates are expected, use the ellipsis (...) after the value expression to enable grouping by key.",
	"Inconsistent conditional result types": "The true and false result expressions must have consistent types. How they differ is not shown because one of them is sensitive.",
	"Invalid function argument":             "The value has the wrong type. How it differs is not shown because it is sensitive.",
}

// quotedKey is how convert.MismatchMessage names a key; names of attributes, which it quotes as well, are in the type.
const quotedKey = `element "`

// discreet is a diagnostic of hcl without what it quotes of a sensitive value: a key, or the name of an attribute
// that was a key. Marks say whether the value is, and never its text: to look for secrets in what is written would
// damage other words, and give them away.
func discreet(d *hcl.Diagnostic) *hcl.Diagnostic {
	text := quoting[d.Summary]
	if text == "" || d.Expression == nil || d.EvalContext == nil ||
		d.Summary == "Invalid function argument" && !strings.Contains(d.Detail, quotedKey) {
		return d
	}
	parts := []hcl.Expression{d.Expression}
	if c, ok := d.Expression.(*hclsyntax.ConditionalExpr); ok {
		parts = []hcl.Expression{c.TrueResult, c.FalseResult} // it has no value itself, that is the error
	}
	if !slices.ContainsFunc(parts, func(e hcl.Expression) bool {
		v, _ := e.Value(d.EvalContext)
		return v.ContainsMarked()
	}) {
		return d
	}
	c := *d
	c.Detail = text
	return &c
}

func (r *report) errorf(at hcl.Range, summary, format string, args ...any) {
	r.add(errorAt(at, summary, fmt.Sprintf(format, args...)))
}

// sentence makes an error's text stand alone.
func sentence(text string) string {
	text = upperFirst(text)
	if strings.HasSuffix(text, "?") || strings.HasSuffix(text, ".") {
		return text
	}
	return text + "."
}

func upperFirst(s string) string { return strings.ToUpper(s[:1]) + s[1:] }
func lowerFirst(s string) string { return strings.ToLower(s[:1]) + s[1:] }

// errors is how many there are.
func (r *report) errors() int {
	n := 0
	for _, d := range r.diags {
		if d.Severity == hcl.DiagError {
			n++
		}
	}
	return n
}

func (r *report) hasErrors() bool { return r.diags.HasErrors() }

// sorted returns what was collected, by file, position and text.
func (r *report) sorted() hcl.Diagnostics {
	slices.SortStableFunc(r.diags, func(a, b *hcl.Diagnostic) int {
		ra, rb := subject(a), subject(b)
		return cmp.Or(
			cmp.Compare(ra.Filename, rb.Filename),
			cmp.Compare(ra.Start.Line, rb.Start.Line),
			cmp.Compare(ra.Start.Column, rb.Start.Column),
			cmp.Compare(a.Severity, b.Severity),
			cmp.Compare(a.Summary, b.Summary),
			cmp.Compare(a.Detail, b.Detail),
		)
	})
	return r.diags
}

func subject(d *hcl.Diagnostic) hcl.Range {
	if d.Subject == nil {
		return hcl.Range{}
	}
	return *d.Subject
}
