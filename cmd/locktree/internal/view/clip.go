package view

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
)

// The most that a diagnostic shows of a line of source, of a line of its text, of a value.
const (
	maxSourceLine = 400
	maxTextLine   = 2000
	maxStatement  = 200
)

// clipped shortens the source of a diagnostic to the part around its subject if the lines are too long to show. A generated
// file may have all of its text on one line.
func clipped(d *hcl.Diagnostic, file *hcl.File) (*hcl.Diagnostic, *hcl.File) {
	if file == nil || d.Subject == nil || d.Subject.Start.Byte > len(file.Bytes) {
		return d, file
	}
	from, to, _ := sourceLines(d, file.Bytes)
	if longestLine(file.Bytes[from:to]) <= maxSourceLine {
		return d, file
	}
	at := d.Subject.Start.Byte
	start, end := lineAround(file.Bytes, at)
	until := min(max(d.Subject.End.Byte, at), end, at+maxSourceLine/2)
	a, b := max(start, at-maxSourceLine/4), min(end, until+maxSourceLine/4)
	for ; a > start && !utf8.RuneStart(file.Bytes[a]); a-- {
	}
	for ; b < end && !utf8.RuneStart(file.Bytes[b]); b++ {
	}
	before, after := strings.Repeat("\n", d.Subject.Start.Line-1), ""
	if a > start {
		before += "…"
	}
	if b < end {
		after = "…"
	}
	moved := at - (len(before) + at - a) // from the new source to the old
	subject := *d.Subject
	subject.Start.Byte, subject.End.Byte = at-moved, until-moved
	subject.End.Line = subject.Start.Line
	c := *d
	c.Subject, c.Context = &subject, nil
	return &c, &hcl.File{Body: file.Body, Bytes: []byte(before + string(file.Bytes[a:b]) + after), Nav: movedNav{file.Nav, moved}}
}

// movedNav is the Nav of a clipped source.
type movedNav struct {
	nav   any
	moved int
}

// ContextString implements the interface by which hcl asks what block a place is in.
func (n movedNav) ContextString(offset int) string {
	if nav, ok := n.nav.(interface{ ContextString(int) string }); ok {
		return nav.ContextString(offset + n.moved)
	}
	return ""
}

// sourceLines is where the lines of a diagnostic begin and end, and the number of the first.
func sourceLines(d *hcl.Diagnostic, src []byte) (from, to, number int) {
	whole := *d.Subject
	if d.Context != nil {
		whole = hcl.RangeOver(whole, *d.Context)
	}
	from, _ = lineAround(src, min(whole.Start.Byte, len(src)))
	_, to = lineAround(src, min(max(whole.End.Byte, from), len(src)))
	return from, to, whole.Start.Line
}

// lineAround is where the line around a place begins and ends.
func lineAround(src []byte, at int) (start, end int) {
	start, end = bytes.LastIndexByte(src[:at], '\n')+1, len(src)
	if i := bytes.IndexByte(src[at:], '\n'); i >= 0 {
		end = at + i
	}
	return start, end
}

func longestLine(src []byte) (n int) {
	for line := range bytes.Lines(src) {
		n = max(n, len(line))
	}
	return n
}

// clipText shortens the lines of a text that are longer than anybody reads.
func clipText(text string) string {
	return eachLine(text, func(l string) string { return shortened(l, maxTextLine) })
}
