package serve

import (
	"fmt"
	"net/http"
	"time"
)

// stream is one reader of /events. It is told the newest version only: who is slow misses what was in between, and nobody
// waits for him.
type stream struct {
	news chan int
	end  chan struct{}
}

func (s *stream) tell(version int) {
	select {
	case <-s.news: // not read yet, and old by now
	default:
	}
	s.news <- version // there is room: the board's lock is held by who tells
}

const (
	pingEvery = 15 * time.Second // a comment, so that proxies and dead clients are noticed
	writeFor  = 10 * time.Second // a write that takes longer ends the stream
)

// events tells when there is something new, as server-sent events: "look" with the version. What is new the page asks for
// itself.
func (b *Board) events(w http.ResponseWriter, r *http.Request) {
	s := &stream{news: make(chan int, 1), end: make(chan struct{})}
	b.mu.Lock()
	full := b.closed || len(b.streams) >= b.opts.Streams
	if !full {
		b.streams[s] = struct{}{}
		s.tell(b.version)
	}
	b.mu.Unlock()
	if full {
		w.Header().Set("Retry-After", "30")
		plain(w, http.StatusServiceUnavailable, "too many streams; the page works without one\n")
		return
	}
	defer func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.streams, s)
	}()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	out := http.NewResponseController(w)
	send := func(text string) bool {
		if out.SetWriteDeadline(time.Now().Add(writeFor)) != nil { // the server's own deadline is for pages
			return false
		}
		_, err := fmt.Fprint(w, text)
		return err == nil && out.Flush() == nil
	}
	if r.Method == http.MethodHead || !send("retry: 5000\n\n") {
		return
	}
	ping := time.NewTicker(pingEvery)
	defer ping.Stop()
	for {
		text := ": still here\n\n"
		select {
		case version := <-s.news:
			text = fmt.Sprintf("event: look\ndata: %d\n\n", version)
		case <-ping.C:
		case <-s.end:
			return
		case <-r.Context().Done():
			return
		}
		if !send(text) {
			return
		}
	}
}
