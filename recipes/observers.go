package recipes

import (
	"errors"
	"fmt"
	"log/slog"
)

// LogEvents makes a Config.Observer that logs what a person wants to know, one line each: at LevelError a lease that was lost; at
// LevelWarn a session in doubt or lost, and a call that failed because of more than its caller's patience; at LevelInfo the end of
// such a doubt; at LevelDebug all grants, waits, refusals and releases. Heartbeats are not logged. Config.Logger says which servers
// cannot be reached, and why: the same logger serves for both.
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

// levelOf is how an event is logged; without a text it is not.
func levelOf(e Event) (level slog.Level, text string) {
	switch e.Type {
	case EventLost:
		return slog.LevelError, "lock lost"
	case EventSessionLost:
		if errors.Is(e.Cause, ErrClosed) {
			return slog.LevelDebug, "session closed"
		}
		return slog.LevelWarn, "session lost"
	case EventSessionSuspected:
		return slog.LevelWarn, "session in doubt: the connection ended, or ZooKeeper does not answer"
	case EventSessionCleared:
		return slog.LevelInfo, "session not in doubt any more: ZooKeeper answers"
	case EventRefused:
		switch e.Result {
		case resultUnreachable, resultQuota, resultError:
			return slog.LevelWarn, "lock not granted"
		}
		return slog.LevelDebug, "lock not granted"
	case EventQueued:
		return slog.LevelDebug, "waiting for a lock"
	case EventAcquired:
		return slog.LevelDebug, "lock granted"
	case EventReleased:
		return slog.LevelDebug, "lock released"
	}
	return 0, ""
}
