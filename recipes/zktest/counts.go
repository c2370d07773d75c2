package zktest

import (
	"maps"
	"time"

	"github.com/locktree/locktree/recipes/zktest/internal/wire"
)

// Counts is the clients' traffic; see [Server.Counts].
type Counts struct {
	// Total is the number of requests that arrived, without pings and handshakes. A multi is one request.
	Total int
	// ByOp splits Total by operation: "create", "getChildren2", "multi", ...
	ByOp map[string]int
	// Pings and Connections are counted separately. Connections counts the established connections, whether or not a handshake followed. It
	// is 0 for a single session.
	Pings       int
	Connections int
	// RoundTrips is how often a client had to wait. Requests that the client sends before the reply to the first of them count as one round
	// trip. The number is exact with [WithLatency]. Without it a reply can overtake a pipelined request, and the number is an upper bound.
	// Pings and handshakes are not counted.
	RoundTrips int
	// WatchEvents is the number of watch events sent.
	WatchEvents int
	// BytesIn and BytesOut include whole frames of all kinds.
	BytesIn, BytesOut int64
}

func newCounts() Counts { return Counts{ByOp: map[string]int{}} }

func (c Counts) clone() Counts {
	c.ByOp = maps.Clone(c.ByOp)
	return c
}

// Counts returns what was counted since the start or the last [Server.ResetCounts].
func (s *Server) Counts() Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts.clone()
}

// SessionCounts is Counts for one session; all zero when there is no such session.
func (s *Server) SessionCounts(session int64) Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	if x := s.sessions[session]; x != nil {
		return x.counts.clone()
	}
	return newCounts()
}

// ResetCounts starts counting from zero, for the server and for every session.
func (s *Server) ResetCounts() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts = newCounts()
	for _, x := range s.sessions {
		x.counts = newCounts()
	}
}

// tally applies f to the server's counts and to those of c's session.
func (c *conn) tally(f func(*Counts)) {
	f(&c.s.counts)
	if c.session != nil {
		f(&c.session.counts)
	}
}

func (c *conn) countRequest(op int32) {
	c.tally(func(n *Counts) {
		switch op {
		case wire.OpPing:
			n.Pings++
		case wire.OpConnect:
		default:
			n.Total++
			n.ByOp[wire.OpName(op)]++
		}
	})
}

// waveRequest is called when a request leaves its client. It begins a round trip, unless the first reply of the present round trip is still
// to come.
func (c *conn) waveRequest(op int32) {
	if op == wire.OpPing || op == wire.OpConnect {
		return
	}
	if c.inWave && (c.waveBy.IsZero() || time.Now().Before(c.waveBy)) {
		return
	}
	c.inWave, c.waveBy = true, time.Time{}
	c.tally(func(n *Counts) { n.RoundTrips++ })
}

// waveReply is called when a reply leaves the server.
func (c *conn) waveReply(op int32) {
	if op != wire.OpPing && op != wire.OpConnect && c.waveBy.IsZero() {
		c.waveBy = time.Now().Add(c.s.opts.latency)
	}
}
