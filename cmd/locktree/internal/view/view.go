// Package view is where a command speaks. A command hands its result, a message, a diagnostic or its progress to an [Output];
// the output writes text for people ([Human]) or JSON for programs ([NewDocuments], [NewStream]).
//
// It knows neither plans nor locks. Packages planview and lockview render those. Each of their types is a [Result] with a text
// and a JSON form, so neither form can be forgotten. It also holds what all of them share: words, colours, tables, and the
// explanation of errors ([Explain]).
//
// It relies on its caller for the streams, and decides nothing about exit codes. Text that others wrote (a server, a file, another
// program) passes [Clean] before it is printed, so it cannot give orders to a terminal or to a CI runner. Names in JSON and the
// summary lines are an interface: programs search for them.
//
//	out := view.NewHuman(view.Stream{Writer: os.Stdout}, view.Stream{Writer: os.Stderr})
//	out.Show(planview.Plan{Plans: plans})
//	out.Diagnostics(view.Explain(err), nil)
package view

import (
	"fmt"
	"time"

	"github.com/hashicorp/hcl/v2"
)

// Output is where a command speaks.
type Output interface {
	// Diagnostics shows errors and warnings, with their source where files has it.
	Diagnostics(diags hcl.Diagnostics, files map[string]*hcl.File)
	// Message shows a line for people that no program depends on.
	Message(text string)
	// Progress shows the progress of a step, on a terminal or in a stream of messages. The next output removes it, and nil does,
	// too.
	Progress(*Progress)
	// Show shows what the command found or did.
	Show(Result)
}

// Result is what a command shows, with its two renderings.
type Result interface {
	WriteText(*Human)
	WriteJSON(*Machine)
}

// Address in a diagnostic's Extra says which resource it is about.
type Address string

// Validation is the verdict of validate.
type Validation struct {
	Diagnostics hcl.Diagnostics
	Files       map[string]*hcl.File
}

// Version is what `version` shows.
type Version struct {
	Version       string `json:"locktree_version"` // without a leading v
	Platform      string `json:"platform"`         // "linux_amd64"
	Revision      string `json:"revision"`         // of the commit, "" when the build recorded none
	Modified      bool   `json:"modified"`         // built from a changed working copy
	PayloadFormat int    `json:"payload_format"`   // of the data in znodes this program writes and reads
}

func (v Version) WriteText(h *Human) {
	h.Out.Printf("locktree v%s\non %s\n", v.Version, v.Platform)
	if v.Revision != "" {
		changed := ""
		if v.Modified {
			changed = ", changed since"
		}
		h.Out.Printf("built from %s%s\n", v.Revision, changed)
	}
	h.Out.Printf("znode payload format %d\n", v.PayloadFormat)
}

func (v Version) WriteJSON(m *Machine) { m.Document(v) }

func (v Validation) WriteText(h *Human) {
	h.Diagnostics(v.Diagnostics, v.Files)
	if v.Diagnostics.HasErrors() {
		return
	}
	but := ""
	if len(v.Diagnostics) > 0 {
		but = ", but there were some validation warnings as shown above"
	}
	h.Out.Printf("%s The configuration is valid%s.\n", h.Out.Paint(Green)("Success!"), but)
}

// WriteJSON writes Terraform's validate -json.
func (v Validation) WriteJSON(m *Machine) {
	errors := len(v.Diagnostics.Errs())
	m.Document(struct {
		FormatVersion string           `json:"format_version"`
		Valid         bool             `json:"valid"`
		ErrorCount    int              `json:"error_count"`
		WarningCount  int              `json:"warning_count"`
		Diagnostics   []diagnosticJSON `json:"diagnostics"`
	}{"1.0", errors == 0, errors, len(v.Diagnostics) - errors, diagnosticsJSON(v.Diagnostics, v.Files)})
}

// JobEvent is an event of the lock of a command that exec runs.
type JobEvent string

// JobNote, the zero value, is a note that only people read.
const (
	JobNote     JobEvent = ""
	JobGranted  JobEvent = "granted"
	JobSkipped  JobEvent = "skipped"
	JobReleased JobEvent = "released"
)

// Job is a line of exec about its lock. If the command holds several locks, Path has all their paths.
type Job struct {
	Event JobEvent
	Path  string
	Text  string // the text of a note, or why the command was skipped

	Token          uint64        // only if granted
	Session, Asked time.Duration // only if granted: the session timeout, and the one that was asked for
	Held           time.Duration // only if released
}

// line says the event in one line.
func (j Job) line() string {
	switch j.Event {
	case JobGranted:
		asked := ""
		if j.Session != j.Asked {
			asked = fmt.Sprintf(" (asked for %v)", j.Asked)
		}
		return fmt.Sprintf("granted %s: token %d, session timeout %v%s", j.Path, j.Token, j.Session, asked)
	case JobSkipped:
		return "skipped: " + j.Text
	case JobReleased:
		return fmt.Sprintf("released %s after %v", j.Path, j.Held.Round(time.Millisecond))
	default:
		return j.Text
	}
}

func (j Job) WriteText(h *Human) { h.err.Printf("locktree: %s\n", Clean(j.line())) }

// jobJSON is what the messages lock_granted, lock_skipped and lock_released carry.
type jobJSON struct {
	Path    string `json:"path"`
	Token   uint64 `json:"token,omitempty"`
	Session int64  `json:"session_ms,omitempty"`
	Asked   int64  `json:"session_asked_ms,omitempty"`
	Held    *int64 `json:"held_ms,omitempty"`
	Reason  string `json:"reason,omitempty"`
}

func (j Job) WriteJSON(m *Machine) {
	if j.Event == JobNote {
		m.Log(j.line())
		return
	}
	of := &jobJSON{Path: j.Path, Token: j.Token, Session: j.Session.Milliseconds(), Asked: j.Asked.Milliseconds(), Reason: j.Text}
	if j.Event == JobReleased {
		held := j.Held.Milliseconds()
		of.Held = &held
	}
	m.Send("info", "lock_"+string(j.Event), j.line(), Fields{"job": of})
}
