package session

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"time"
)

// journal writes the log of a Client. A goroutine of its own writes each line, behind the line before it. So whoever logs may
// hold a lock or be waited for by others, and the handler may be slow or use the Client.
type journal struct {
	to slog.Handler

	mu   sync.Mutex
	last chan struct{} // closed when the last line is written; nil before the first
}

func newJournal(log *slog.Logger) *journal {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &journal{to: log.Handler()}
}

func (j *journal) enabled(level slog.Level) bool { return j.to.Enabled(context.Background(), level) }

// write logs a line.
func (j *journal) write(level slog.Level, text string, args ...any) {
	if !j.enabled(level) {
		return
	}
	var caller [1]uintptr
	runtime.Callers(2, caller[:]) // without this function and Callers
	line := slog.NewRecord(time.Now(), level, text, caller[0])
	line.Add(args...)
	written := make(chan struct{})
	j.mu.Lock()
	before := j.last
	j.last = written
	j.mu.Unlock()
	go func() {
		defer close(written)
		if before != nil {
			<-before
		}
		_ = j.to.Handle(context.Background(), line)
	}()
}

// logGrace is how long Close waits for a handler that has not taken every line yet.
const logGrace = 1500 * time.Millisecond

// wait waits until every line is written, but not for a handler that takes long.
func (j *journal) wait() {
	j.mu.Lock()
	last := j.last
	j.mu.Unlock()
	if last == nil {
		return
	}
	timer := time.NewTimer(logGrace)
	defer timer.Stop()
	select {
	case <-last:
	case <-timer.C:
	}
}

// logAdapter passes go-zookeeper's log lines to the journal, at debug level: it writes one or two a second for as long as
// no server answers, and what matters this package logs itself. One line of a kind passes in ten seconds; the next says how
// many were left out.
type logAdapter struct {
	log *journal

	mu   sync.Mutex
	last map[string]*logged
}

// logged is a kind of line: when one last passed, and how many have been left out since.
type logged struct {
	at   time.Time
	left int
}

const logEvery = 10 * time.Second

func newLogAdapter(log *journal) *logAdapter {
	return &logAdapter{log: log, last: map[string]*logged{}}
}

// Printf implements zk.Logger. The format is the kind; go-zookeeper has about twenty.
func (a *logAdapter) Printf(format string, args ...any) {
	// Checked first, so that nothing is formatted or remembered for a log that nobody reads.
	if !a.log.enabled(slog.LevelDebug) {
		return
	}
	left, ok := a.admit(format)
	if !ok {
		return
	}
	a.log.write(slog.LevelDebug, "zookeeper client: "+fmt.Sprintf(format, args...), "left_out", left)
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
