package view

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/hashicorp/hcl/v2"

	"github.com/locktree/locktree/apply/event"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes/kind"
)

// notices are messages and diagnostics, on standard error.
type notices struct{ err Stream }

// Message implements [Output].
func (n notices) Message(text string) { n.err.printf("%s\n", CleanLines(text)) }

// Diagnostics implements [Output].
func (n notices) Diagnostics(diags hcl.Diagnostics, files map[string]*hcl.File) {
	writeDiagnostics(n.err, diags, files)
}

// Human shows everything as text.
type Human struct {
	notices
	out Stream
}

// NewHuman returns the output for people.
func NewHuman(out, err Stream) *Human {
	serialize(&out, &err)
	return &Human{notices: notices{err}, out: out}
}

// Show implements [Output].
func (h *Human) Show(r Result) { r.text(h) }

func (v Version) text(h *Human) {
	h.out.printf("locktree v%s\non %s\n", v.Version, v.Platform)
	if v.Revision != "" {
		changed := ""
		if v.Modified {
			changed = ", changed since"
		}
		h.out.printf("built from %s%s\n", v.Revision, changed)
	}
	h.out.printf("znode payload format %d\n", v.PayloadFormat)
}

func (v Validation) text(h *Human) {
	h.Diagnostics(v.Diagnostics, v.Files)
	if v.Diagnostics.HasErrors() {
		return
	}
	but := ""
	if len(v.Diagnostics) > 0 {
		but = ", but there were some validation warnings as shown above"
	}
	h.out.printf("%s The configuration is valid%s.\n", h.out.paint(green)("Success!"), but)
}

// progress says what an action does, and that it is done.
var progress = map[plan.Action][2]string{
	plan.Create:  {"Creating...", "Creation complete"},
	plan.Update:  {"Modifying...", "Modifications complete"},
	plan.Delete:  {"Destroying...", "Destruction complete"},
	plan.Replace: {"Replacing...", "Replacement complete"},
	plan.Forget:  {"Forgetting...", "Forgotten"},
	plan.NoOp:    {"Moving...", "Move complete"},
}

func (e Event) text(h *Human) {
	say := func(addr plan.Addr, text string) {
		h.out.printf("%s\n", h.out.paint(bold)(fmt.Sprintf("%s: %s", clean(addr), text)))
	}
	switch e := e.Event.(type) {
	case event.LockWaiting:
		h.Message("Acquiring the apply lock. This may take a few moments...")
		if e.Info != nil {
			h.Message(e.Info.String())
		}
	case event.Scaffolded:
		h.Message("Created " + clean(strings.Join(e.Paths, ", ")))
	case event.Draining:
		say(e.Addr, fmt.Sprintf("Draining: it admits nobody new (%s)", clean(e.Usage.String())))
	case event.Left:
		h.Message(leftText(e))
	case event.Breaking:
		say(e.Addr, fmt.Sprintf("Breaking: its holders lose it (%s)", clean(e.Usage.String())))
	case event.Started:
		say(e.Addr, progress[e.Action][0])
	case event.Applied:
		say(e.Addr, fmt.Sprintf("%s after %s [path=%s]", progress[e.Action][1], elapsed(e.Elapsed), clean(e.Path)))
	case event.Committed:
		if e.Batches > 1 {
			h.Message(fmt.Sprintf("Transaction %d of %d is committed (%d operations).", e.Batch, e.Batches, e.Ops))
		}
		if e.Resolved {
			h.Message("The connection was lost during the transaction. Reading back showed that it was committed.")
		}
	case event.Recorded:
		if e.Entry == nil {
			h.Message(notRecorded + clean(e.Path) + " is not there, or we may not write it.")
		}
	case event.ACLPhase:
		h.Message(fmt.Sprintf("Setting %d access %s on existing nodes...", e.Total, plural(e.Total, "list", "lists")))
	case event.ACLApplied:
		say(e.Addr, fmt.Sprintf("Access list set [path=%s]", clean(e.Path)))
	}
}

// notRecorded is said where something was done of which the history does not tell.
const notRecorded = "This is in no history: "

// maxStill is how many of the changes under way are named: those of one
// transaction end together, so a few lines say as much as a thousand.
const maxStill = 5

func (s Still) text(h *Human) {
	for _, o := range s.Open[:min(len(s.Open), maxStill)] {
		h.out.printf("%s\n", h.out.paint(bold)(stillText(o, s.Now)))
	}
	if more := len(s.Open) - maxStill; more > 0 {
		h.out.printf("%d more %s under way\n", more, plural(more, "change is", "changes are"))
	}
}

func stillText(o Ongoing, now time.Time) string {
	doing := strings.ToLower(progress[o.Action][0])
	if o.Drains {
		doing = "draining..."
	}
	return fmt.Sprintf("%s: Still %s [%s elapsed]", clean(o.Addr), doing, elapsed(now.Sub(o.Since)))
}

// elapsed is in whole seconds, as in Terraform.
func elapsed(d time.Duration) string { return d.Truncate(time.Second).String() }

func (a Applied) text(h *Human) {
	h.out.printf("\n%s\n", h.out.paint(bold+";"+green)(a.line()))
	if len(a.Outputs) > 0 {
		h.out.printf("\nOutputs:\n\n")
		a.Outputs.text(h)
	}
}

func (outputs Outputs) text(h *Human) {
	for _, o := range outputs {
		h.out.printf("%s = %s\n", clean(o.Name), OutputValue(o))
	}
}

func (trees Live) text(h *Human) {
	for _, tree := range trees {
		if len(trees) > 1 {
			h.out.printf("# Ensemble %s, below %s\n\n", quote(tree.Ensemble), clean(tree.Root))
		}
		for _, n := range tree.Nodes {
			if n.Payload == nil {
				continue // not this stack's
			}
			t := planText{Stream: h.out}
			t.printf("# %s:\n%s {\n", clean(n.Payload.Owner.Addr), header(n.Addr))
			t.block(3, whole("", n, ""), 0)
			t.printf("}\n\n")
		}
	}
}

// Stream is one of the two human streams and what may be done on it.
type Stream struct {
	io.Writer
	Color    bool // ANSI colours are wanted
	Terminal bool // frames, and lines no wider than Width
	Width    int
}

// serial lets one write through at a time: an interrupt writes at any time.
type serial struct {
	mu   *sync.Mutex
	w    io.Writer
	line *passing
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

// lines takes from a text what CI runners obey: "::" at the beginning of a line, "##[", "##vso[" and "##teamcity[" anywhere.
type lines struct{ begun bool }

func (l *lines) disarm(p []byte) []byte {
	var out []byte
	done := 0
	put := func(i int) { // a backslash
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

// serialize gives streams one lock: two of them may be the same file.
func serialize(streams ...*Stream) {
	mu, line := &sync.Mutex{}, &passing{}
	for _, s := range streams {
		s.Writer = serial{mu, s.Writer, line, &lines{}}
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
func clean[S ~string](s S) string { return kind.Visible(string(s)) }

// name is clean for a column of a table: no text of others makes it wider than this.
func name[S ~string](s S) string { return shortened(clean(s), maxName) }

const maxName = 80

// Line is a line that a command prints by itself.
func Line(text string) string { return string((&lines{}).disarm([]byte(clean(text)))) }

// CleanLines is clean for text that may have several lines.
func CleanLines(s string) string { return eachLine(s, clean) }

func eachLine(s string, change func(string) string) string {
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		lines[i] = change(l)
	}
	return strings.Join(lines, "\n")
}
