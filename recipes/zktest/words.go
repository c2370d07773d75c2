package zktest

import (
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/locktree/locktree/recipes/zktest/internal/words"
)

// fourLetter is the answer to a four-letter word.
func (s *Server) fourLetter(word string) string {
	allowed := s.opts.words == nil || slices.Contains(s.opts.words, word)
	switch {
	case allowed && word == "crst":
		for c := range s.conns {
			c.packetsIn, c.packetsOut = 0, 0
		}
	case allowed && word == "srst":
		s.packetsIn, s.packetsOut = 0, 0
	}
	return words.Answer(word, allowed, s.status())
}

// status returns the state that the words report, with the leader's watches.
func (s *Server) status() words.Server {
	watches := s.views[0].watches
	out := words.Server{
		Version: s.opts.version, ReadOnly: s.readOnly, Uptime: time.Since(s.born), Tick: s.opts.tick, Address: s.addr, Zxid: s.zxid, Tree: s.tree,
		Received: s.packetsIn, Sent: s.packetsOut, Watches: watches.Data.Len() + watches.Child.Len(),
	}
	for _, c := range s.connections() {
		at := words.Connection{
			Remote: c.remoteAddress(), Session: c.sid.Load(), Queued: c.arrived, Received: c.packetsIn, Sent: c.packetsOut, DataWatches: watches.Data.PathsOf(c),
		}
		if x := c.session; x != nil {
			at.Details = &words.Details{LastOp: c.lastOp, LastXid: c.lastXid, Since: c.since, Timeout: x.timeout}
		}
		out.Connections = append(out.Connections, at)
	}
	for _, x := range s.sessionsByID() {
		out.Sessions = append(out.Sessions, words.Session{ID: x.id, Deadline: x.deadline})
	}
	return out
}

// remoteAddress is the client's address, as Java writes it.
func (c *conn) remoteAddress() string {
	if a, ok := c.raw.RemoteAddr().(*net.TCPAddr); ok {
		return "/" + a.String()
	}
	return fmt.Sprintf("/%s:%d", c.ip, c.id) // a pipe has no port
}
