package view

import (
	"fmt"
	"time"
)

// JobEvent is what happens to the lock of a command that exec runs.
type JobEvent string

// JobNote, the zero value, is what only a person reads.
const (
	JobNote     JobEvent = ""
	JobGranted  JobEvent = "granted"
	JobSkipped  JobEvent = "skipped"
	JobReleased JobEvent = "released"
)

// Job is a line of exec about its lock. Path has all of several locks.
type Job struct {
	Event JobEvent
	Path  string
	Text  string // of a note; why the command was skipped

	Token          uint64        // granted
	Session, Asked time.Duration // granted: the session timeout, and the one that was asked for
	Held           time.Duration // released
}

// line says it in one line.
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
