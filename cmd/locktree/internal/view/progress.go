package view

import (
	"fmt"
	"io"
	"time"
)

// Progress is how far a step is that takes long.
type Progress struct {
	What        string // "Reading the nodes below /locks"
	Unit        string // of Done and Total: "nodes"
	Done, Total int    // Total 0: how much there is to do is not known
	Elapsed     time.Duration
}

// left estimates the time to the end from the part that is done; 0 where that is unknown.
func (p Progress) left() time.Duration {
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
	if left := p.left(); left > 0 {
		text += ", about " + max(left.Round(time.Second), time.Second).String() + " left"
	}
	return text
}

// passing is a line on a terminal that is removed before the next output.
type passing struct {
	on    io.Writer
	shown bool
}

const eraseLine = "\r\x1b[K"

func (l *passing) remove() {
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
