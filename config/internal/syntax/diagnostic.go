package syntax

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/locktree/locktree/plan"
)

// ErrorAt makes a diagnostic that says what (summary) and why and what to type
// next (detail).
func ErrorAt(r hcl.Range, summary, detail string) *hcl.Diagnostic {
	return &hcl.Diagnostic{Severity: hcl.DiagError, Summary: summary, Detail: detail, Subject: &r}
}

// WarningAt is [ErrorAt] for a warning.
func WarningAt(r hcl.Range, summary, detail string) *hcl.Diagnostic {
	d := ErrorAt(r, summary, detail)
	d.Severity = hcl.DiagWarning
	return d
}

// Where is how one diagnostic points at another place, FILE:LINE, relative to the
// directory of the configuration.
func (r *Report) Where(at hcl.Range) string {
	name, err := filepath.Rel(r.Dir, at.Filename)
	if err != nil {
		name = filepath.Base(at.Filename)
	}
	return filepath.ToSlash(name) + ":" + strconv.Itoa(at.Start.Line)
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

// Errors is how many there are.
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

// Hint is [plan.DidYouMean], or else the list of what there is, when it is short
// enough to be read.
func Hint(given string, names []string, none string) string {
	if s := plan.DidYouMean(given, names); s != "" {
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
	if s := plan.DidYouMean(given, names); s != "" {
		return s
	}
	full := make([]string, len(names))
	for i, name := range names {
		full[i] = root + "." + name
	}
	return Hint("", full, none)
}
