package view

import (
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/locktree/locktree/recipes/inspect"
)

// Stream is one of the two human streams and what may be done on it.
type Stream struct {
	io.Writer
	Color    bool // ANSI colours are wanted
	Terminal bool // frames, and lines no wider than Width
	Width    int
	Compact  bool // only the summaries of warnings, if there is no error
}

// serial lets one write through at a time: an interrupt writes at any time.
type serial struct {
	mu *sync.Mutex
	w  io.Writer
}

func (s serial) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.w.Write(p)
}

// serialize gives streams one lock: two of them may be the same file.
func serialize(streams ...*Stream) {
	mu := &sync.Mutex{}
	for _, s := range streams {
		s.Writer = serial{mu, s.Writer}
	}
}

// The colours of the plan's grammar.
const (
	bold   = "1"
	dim    = "2"
	red    = "31"
	green  = "32"
	yellow = "33"
)

func (s Stream) paint(code string) func(string) string {
	if !s.Color || code == "" {
		return func(text string) string { return text }
	}
	return func(text string) string { return "\x1b[" + code + "m" + text + "\x1b[0m" }
}

func (s Stream) printf(format string, args ...any) { fmt.Fprintf(s, format, args...) }

// clean makes one line of text safe to print: what a server or a foreign client wrote
// may contain control characters, which a terminal obeys.
func clean[S ~string](s S) string { return inspect.Visible(string(s)) }

// Clean is clean for what the commands print themselves.
func Clean(s string) string { return clean(s) }

// cleanLines is clean for text that may have several lines.
func cleanLines(s string) string { return eachLine(s, clean) }

func eachLine(s string, change func(string) string) string {
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		lines[i] = change(l)
	}
	return strings.Join(lines, "\n")
}
