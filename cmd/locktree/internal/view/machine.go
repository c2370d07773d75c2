package view

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
)

// uiVersion is the version of the message stream. A new message or field raises the minor number, an incompatible change the major one.
const uiVersion = "1.6"

// Machine is the output for -json. plan, apply and destroy write one object per line in the format of Terraform's
// machine-readable UI; exec also writes a stream, on standard error. Other commands write one document; status -watch writes one
// for each change.
type Machine struct {
	out     io.Writer
	Version string
	now     func() time.Time

	mu    sync.Mutex // an interrupt writes at any time
	begun bool
}

// documents is the -json of commands with one document. All other output is text for people.
type documents struct {
	Machine
	notices
}

// stream is the -json of commands that report their steps.
type stream struct{ Machine }

// NewDocuments returns the output of commands whose -json is one document on out; diagnostics that are no part of it go to err.
func NewDocuments(out io.Writer, err Stream, version string) Output {
	serialize(&err)
	return &documents{Machine{out: out, Version: version, now: time.Now}, notices{err}}
}

// NewStream returns the output of commands whose -json is a stream of messages. clock tells the time of "@timestamp".
func NewStream(out io.Writer, version string, clock func() time.Time) Output {
	return &stream{Machine{out: out, Version: version, now: clock}}
}

// Show implements [Output].
func (m *Machine) Show(r Result) { r.WriteJSON(m) }

// Message implements [Output].
func (s *stream) Message(text string) { s.Log(text) }

// Diagnostics implements [Output].
func (s *stream) Diagnostics(diags hcl.Diagnostics, files map[string]*hcl.File) {
	s.SendDiagnostics(diags, files)
}

// Progress implements [Output].
func (s *stream) Progress(p *Progress) {
	if p != nil {
		s.Send("info", "progress", p.line(), Fields{"progress": progressJSON{p.Done, p.Elapsed.Milliseconds(), p.remaining().Milliseconds(), p.Total, p.Unit, p.What}})
	}
}

// Document writes the whole answer of a command that has one document.
func (m *Machine) Document(v any) { writeJSON(m.out, "  ", v) }

// Fields are the fields of a message besides its text, by name. They depend on the type of the message.
type Fields map[string]any

// Send writes one message; the first call also writes the version. Equal messages are equal lines.
func (m *Machine) Send(level, kind, text string, fields Fields) {
	m.mu.Lock()
	defer m.mu.Unlock()
	write := func(level, kind, text string, fields Fields) {
		line := map[string]any{"@level": level, "@message": text, "@module": "locktree.ui", "type": kind,
			"@timestamp": m.now().UTC().Format("2006-01-02T15:04:05.000000Z07:00")}
		maps.Copy(line, fields)
		writeJSON(m.out, "", line) // encoding/json sorts the fields
	}
	if !m.begun {
		m.begun = true
		write("info", "version", "locktree "+m.Version, Fields{"locktree": m.Version, "ui": uiVersion})
	}
	write(level, kind, text, fields)
}

// Log writes a line for people.
func (m *Machine) Log(text string) { m.Send("info", "log", text, nil) }

// SendDiagnostics writes a message for each diagnostic.
func (m *Machine) SendDiagnostics(diags hcl.Diagnostics, files map[string]*hcl.File) {
	for i, j := range diagnosticsJSON(diags, files) {
		level := j.Severity
		if diags[i].Severity == hcl.DiagWarning {
			level = "warn"
		}
		m.Send(level, "diagnostic", strings.ToUpper(j.Severity[:1])+j.Severity[1:]+": "+j.Summary, Fields{"diagnostic": j})
	}
}

func writeJSON(w io.Writer, indent string, v any) {
	enc := json.NewEncoder(visibleJSON{w})
	enc.SetEscapeHTML(false)
	enc.SetIndent("", indent)
	_ = enc.Encode(v) // standard output keeps the error of a write, and the command reports it
}

// visibleJSON escapes in JSON what Clean escapes in text. People read JSON on terminals, and encoding/json does not escape
// characters that control those (C1), reverse text or are invisible. The value stays the same.
type visibleJSON struct{ w io.Writer }

// Write is given whole documents by json.Encoder, so no character is in two parts.
func (v visibleJSON) Write(p []byte) (int, error) {
	if _, err := v.w.Write(VisibleJSON(p)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// VisibleJSON is for a document that the commands print themselves.
func VisibleJSON(doc []byte) []byte {
	var out []byte
	done := 0
	for i := 0; i < len(doc); {
		r, size := rune(doc[i]), 1
		if r >= utf8.RuneSelf {
			r, size = utf8.DecodeRune(doc[i:])
		}
		// ASCII except DEL is syntax, or was escaped. Invalid UTF-8 becomes \ufffd, which a reader would make of it anyway.
		if r > '~' && (!unicode.IsPrint(r) || r == utf8.RuneError) {
			out = append(out, doc[done:i]...)
			for _, unit := range utf16.Encode([]rune{r}) {
				out = fmt.Appendf(out, "\\u%04x", unit)
			}
			done = i + size
		}
		i += size
	}
	if done == 0 {
		return doc
	}
	return append(out, doc[done:]...)
}
