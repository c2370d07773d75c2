package recipes

import (
	"errors"
	"fmt"
	"log/slog"
)

// LogEvents makes a Config.Observer that logs events for people, one line each. LevelError is for a lease that was lost.
// LevelWarn is for a session in doubt or lost, and for a call that did not fail because of its caller's own bound. LevelInfo is
// for the end of such a doubt, LevelDebug for all grants, waits, refusals and releases. Heartbeats are not logged. Config.Logger
// says which servers cannot be reached, and why: the same logger serves for both.
func LogEvents(log *slog.Logger) func(Event) {
	return func(e Event) {
		level, text := levelOf(e)
		if text == "" || !log.Enabled(e.Context, level) {
			return
		}
		args := []any{}
		add := func(set bool, key string, value any) {
			if set {
				args = append(args, key, value)
			}
		}
		add(e.Path != "", "lock", e.Path)
		add(e.Token != 0, "token", e.Token)
		add(e.Session != 0, "session", fmt.Sprintf("%#x", uint64(e.Session)))
		add(e.Type == EventRefused, "result", e.Result)
		add(e.Type == EventAcquired || e.Type == EventRefused, "wait", e.Wait)
		add(e.Type == EventReleased || e.Type == EventLost, "held", e.Held)
		add(e.Cause != nil, "cause", e.Cause)
		log.Log(e.Context, level, text, args...)
	}
}

// logged are the events that LogEvents logs.
var logged = map[EventType]struct {
	level slog.Level
	text  string
}{
	EventLost:             {slog.LevelError, "lock lost"},
	EventSessionLost:      {slog.LevelWarn, "session lost"},
	EventSessionSuspected: {slog.LevelWarn, "session in doubt: the connection ended, or ZooKeeper does not answer"},
	EventSessionCleared:   {slog.LevelInfo, "session not in doubt any more: ZooKeeper answers"},
	EventRefused:          {slog.LevelDebug, "lock not granted"},
	EventQueued:           {slog.LevelDebug, "waiting for a lock"},
	EventAcquired:         {slog.LevelDebug, "lock granted"},
	EventReleased:         {slog.LevelDebug, "lock released"},
}

// levelOf is how an event is logged; without a text it is not.
func levelOf(e Event) (slog.Level, string) {
	how := logged[e.Type]
	switch {
	case e.Type == EventSessionLost && errors.Is(e.Cause, ErrClosed):
		return slog.LevelDebug, "session closed"
	case e.Result == resultUnreachable, e.Result == resultQuota, e.Result == resultError:
		how.level = slog.LevelWarn
	}
	return how.level, how.text
}
