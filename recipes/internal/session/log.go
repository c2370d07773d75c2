package session

import (
	"context"
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

// write logs a line.
func (j *journal) write(level slog.Level, text string, args ...any) {
	if !j.to.Enabled(context.Background(), level) {
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
	select {
	case <-last:
	case <-time.After(logGrace):
	}
}
