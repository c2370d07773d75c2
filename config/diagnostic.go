package config

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
	name, err := filepath.Rel(r.dir, at.Filename)
	if err != nil {
		name = filepath.Base(at.Filename)
	}
	return filepath.ToSlash(name) + ":" + strconv.Itoa(at.Start.Line)
}

// repeats is how many errors are shown for one place: a wrong expression under
// for_each is wrong for every key, and a few of them explain it.
const repeats = 3

// report collects diagnostics. The zero value is ready.
type report struct {
	diags      hcl.Diagnostics
	seen       map[string]int
	incomplete bool   // the module being decoded has blocks of unknown types
	dir        string // of the configuration
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

func (r *report) errorf(at hcl.Range, summary, format string, args ...any) {
	r.add(errorAt(at, summary, fmt.Sprintf(format, args...)))
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

// orList writes names as a sentence reads them: a, b or c.
func orList(names []string) string {
	switch len(names) {
	case 0:
		return "nothing"
	case 1:
		return names[0]
	default:
		return strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1]
	}
}

// hint is [plan.DidYouMean], or else the list of what there is, when it is short
// enough to be read.
func hint(given string, names []string, none string) string {
	if s := plan.DidYouMean(given, names); s != "" {
		return s
	}
	switch {
	case len(names) == 0:
		return " " + none
	case len(names) <= 12:
		return " Expected " + orList(slices.Sorted(slices.Values(names))) + "."
	default:
		return ""
	}
}

// hintIn is hint for names behind a dot. The list shows them as they are written.
func hintIn(root, given string, names []string, none string) string {
	if s := plan.DidYouMean(given, names); s != "" {
		return s
	}
	full := make([]string, len(names))
	for i, name := range names {
		full[i] = root + "." + name
	}
	return hint("", full, none)
}
