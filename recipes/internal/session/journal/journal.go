// Package journal writes log lines in the background, in order: the code that logs may hold a lock, and the handler may be slow.
//
//	log := journal.New(logger)
//	log.Write(slog.LevelInfo, "session lost", "session", id)
package journal

import (
	"context"
	"log/slog"
	"runtime"
	"sync"
	"time"
)

// Journal writes the log of a Client. Each line has a goroutine, which writes it when the line before is written. So the code
// that logs may hold a lock, and the handler may be slow or use the Client.
type Journal struct {
	to slog.Handler

	mu   sync.Mutex
	last chan struct{} // closed when the last line is written; nil before the first
}

// New returns a journal for a logger; with nil the journal writes nothing.
func New(log *slog.Logger) *Journal {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Journal{to: log.Handler()}
}

// Write logs a line.
func (j *Journal) Write(level slog.Level, text string, args ...any) {
	if !j.to.Enabled(context.Background(), level) {
		return
	}
	var caller [1]uintptr
	runtime.Callers(2, caller[:]) // skip this function and Callers
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

// Wait waits until every line is written, for logGrace at most.
func (j *Journal) Wait() {
	j.mu.Lock()
	last := j.last
	j.mu.Unlock()
	if last == nil {
		return
	}
	select {
	case <-last:
	case <-time.After(logGrace):
	}
}
