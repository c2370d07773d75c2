package view

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/locktree/locktree/recipes/kind"
)

// notices are messages and diagnostics, on standard error.
type notices struct{ err Stream }

// Message implements [Output].
func (n notices) Message(text string) { n.err.Printf("%s\n", CleanLines(text)) }

// Human shows everything as text.
type Human struct {
	notices
	Out Stream // standard output: results
}

// NewHuman returns the output for people.
func NewHuman(out, err Stream) *Human {
	serialize(&out, &err)
	return &Human{notices: notices{err}, Out: out}
}

// Show implements [Output].
func (h *Human) Show(r Result) { r.WriteText(h) }

// Stream is one of the two streams for people, and what may be done on it.
type Stream struct {
	io.Writer
	Color    bool // ANSI colours are wanted
	Terminal bool // frames, and lines no wider than Width
	Width    int
}

// serial lets one write through at a time, because an interrupt may write at any time.
type serial struct {
	mu   *sync.Mutex
	w    io.Writer
	line *passingLine
	text *lines
}

func (s serial) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.line.remove()
	if _, err := s.w.Write(s.text.disarm(p)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// lines disarms the commands of CI runners in a text: "::" at the beginning of a line, "##[", "##vso[" and "##teamcity["
// anywhere.
type lines struct{ begun bool }

func (l *lines) disarm(p []byte) []byte {
	var out []byte
	done := 0
	put := func(i int) { // puts a backslash before p[i]
		out = append(append(out, p[done:i]...), '\\')
		done = i
	}
	for i, c := range p {
		switch {
		case c == '\n' || c == '\r':
			l.begun = false
		case !l.begun && !unicode.IsSpace(rune(c)):
			if l.begun = true; bytes.HasPrefix(p[i:], []byte("::")) {
				put(i)
			}
		}
		if rest, ok := bytes.CutPrefix(p[i:], []byte("##")); ok && slices.ContainsFunc(ciCommands, func(c string) bool { return bytes.HasPrefix(rest, []byte(c)) }) {
			put(i + 1)
		}
	}
	return append(out, p[done:]...)
}

var ciCommands = []string{"[", "vso[", "teamcity["}

// serialize gives streams one lock, because two of them may be the same file.
func serialize(streams ...*Stream) {
	mu, line := &sync.Mutex{}, &passingLine{}
	for _, s := range streams {
		s.Writer = serial{mu, s.Writer, line, &lines{}}
	}
}

// The colours of the plan's grammar.
const (
	Bold   = "1"
	Dim    = "2"
	Red    = "31"
	Green  = "32"
	Yellow = "33"
)

// Paint returns a function that gives a text a colour, or bold: see [Bold].
func (s Stream) Paint(code string) func(string) string {
	if !s.Color || code == "" {
		return func(text string) string { return text }
	}
	return func(text string) string { return "\x1b[" + code + "m" + text + "\x1b[0m" }
}

// Printf writes to the stream.
func (s Stream) Printf(format string, args ...any) { fmt.Fprintf(s, format, args...) }

// Progress is the progress of a long step.
type Progress struct {
	What        string // "Reading the nodes below /locks"
	Unit        string // the unit of Done and Total: "nodes"
	Done, Total int    // Total 0: how much there is to do is not known
	Elapsed     time.Duration
}

// remaining estimates the time to the end from the part that is done; 0 if that is unknown.
func (p Progress) remaining() time.Duration {
	if p.Done <= 0 || p.Done >= p.Total {
		return 0
	}
	return time.Duration(float64(p.Elapsed) / float64(p.Done) * float64(p.Total-p.Done))
}

func (p Progress) line() string {
	if p.Total == 0 {
		return fmt.Sprintf("%s: %s", p.What, Elapsed(p.Elapsed))
	}
	text := fmt.Sprintf("%s: %d of %d %s", p.What, p.Done, p.Total, p.Unit)
	if left := p.remaining(); left > 0 {
		text += ", about " + max(left.Round(time.Second), time.Second).String() + " left"
	}
	return text
}

// passingLine is a line on a terminal that is removed before the next output.
type passingLine struct {
	on    io.Writer
	shown bool
}

const eraseLine = "\r\x1b[K"

func (l *passingLine) remove() {
	if l.shown {
		l.shown = false
		_, _ = io.WriteString(l.on, eraseLine)
	}
}

// Progress implements [Output].
func (n notices) Progress(p *Progress) {
	to, ok := n.err.Writer.(serial)
	if !ok || !n.err.Terminal {
		return
	}
	to.mu.Lock()
	defer to.mu.Unlock()
	to.line.remove()
	if p == nil {
		return
	}
	text := []rune(Clean(p.line()))
	if len(text) >= n.err.Width { // a line that wraps could not be removed
		text = text[:max(n.err.Width-1, 0)]
	}
	to.line.on, to.line.shown = to.w, true
	_, _ = io.WriteString(to.w, n.err.Paint(Dim)(string(text)))
}

// progressJSON is what the message progress carries. Times are in milliseconds.
type progressJSON struct {
	Done    int    `json:"done"`
	Elapsed int64  `json:"elapsed_ms"`
	Left    int64  `json:"left_ms,omitempty"`
	Total   int    `json:"total,omitempty"`
	Unit    string `json:"unit,omitempty"`
	What    string `json:"what"`
}

// Clean makes one line of text safe to print: what a server or a foreign client wrote
// may contain control characters, which a terminal obeys.
func Clean[S ~string](s S) string { return kind.Visible(string(s)) }

// CleanLines is Clean for text that may have several lines.
func CleanLines(s string) string { return eachLine(s, Clean) }

func eachLine(s string, change func(string) string) string {
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		lines[i] = change(l)
	}
	return strings.Join(lines, "\n")
}

// Line is a line that a command prints by itself.
func Line(text string) string { return string((&lines{}).disarm([]byte(Clean(text)))) }

// Cell is Clean for a column of a table, and shortens the text, which may come from another program.
func Cell[S ~string](s S) string { return Shorten(Clean(s), maxName) }

const maxName = 80

// Shorten leaves out the middle of a name longer than room. It keeps more of the end, which says more of a path or a process.
func Shorten(name string, room int) string {
	r := []rune(name)
	if len(r) <= room {
		return name
	}
	head := (room - 1) / 3
	return string(r[:head]) + "…" + string(r[len(r)-(room-1-head):])
}

// Quote returns a text in quotation marks. It escapes special characters as Go does.
func Quote(s string) string { return strconv.Quote(s) }

// PluralWord chooses the form of a word after a number.
func PluralWord(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// Plural counts: "1 block", "3 blocks".
func Plural(n int, what string) string {
	return fmt.Sprintf("%d %s%s", n, what, PluralWord(n, "", "s"))
}

// FirstFew names the first three, and counts the rest.
func FirstFew(names []string) string {
	const few = 3
	if len(names) <= few {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:few], ", "), len(names)-few)
}

// Elapsed is in whole seconds, as in Terraform.
func Elapsed(d time.Duration) string { return d.Truncate(time.Second).String() }

// NotRecorded begins a line about a change that is not in the history.
const NotRecorded = "This is in no history: "

// Table calls the function write, and aligns the lines that it writes
// by their tabs.
func Table(write func(io.Writer)) string {
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	write(w)
	_ = w.Flush()
	return out.String()
}
