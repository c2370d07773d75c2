package session

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// logAdapter passes go-zookeeper's log lines to slog, at debug level: it writes one or two a second for as long as
// no server answers, and what matters this package logs itself. One line of a kind passes in ten seconds; the next says how
// many were left out.
type logAdapter struct {
	log *slog.Logger

	mu   sync.Mutex
	last map[string]*logged
}

// logged is a kind of line: when one last passed, and how many have been left out since.
type logged struct {
	at   time.Time
	left int
}

const logEvery = 10 * time.Second

func newLogAdapter(log *slog.Logger) *logAdapter {
	return &logAdapter{log: log, last: map[string]*logged{}}
}

// Printf implements zk.Logger. The format is the kind; go-zookeeper has about twenty.
func (a *logAdapter) Printf(format string, args ...any) {
	// Checked first, so that nothing is formatted or remembered for a log that nobody reads.
	if !a.log.Enabled(context.Background(), slog.LevelDebug) {
		return
	}
	left, ok := a.admit(format)
	if !ok {
		return
	}
	a.log.Debug("zookeeper client: "+fmt.Sprintf(format, args...), "left_out", left)
}

// admit decides whether a line passes. left is the number of lines of its kind left out since the last one.
func (a *logAdapter) admit(kind string) (left int, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now, l := time.Now(), a.last[kind]
	if l != nil && now.Sub(l.at) < logEvery {
		l.left++
		return 0, false
	}
	if l != nil {
		left = l.left
	}
	a.last[kind] = &logged{at: now}
	return left, true
}
