package zktest

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/locktree/locktree/recipes/zktest/internal/store"
	"github.com/locktree/locktree/recipes/zktest/internal/watch"
)

// testingTB is what [Start] needs of a test; *testing.T, *testing.B and rapid's T have it.
type testingTB interface {
	Helper()
	Cleanup(func())
	Fatalf(format string, args ...any)
	Logf(format string, args ...any)
}

// Server is one in-memory ZooKeeper server. Its methods are safe for use by many goroutines. A server created inside a testing/synctest
// bubble lives in the bubble's fake time.
type Server struct {
	opts   options
	born   time.Time
	secret [32]byte

	mu          sync.Mutex // guards the fields below, up to the field reaper; never held across I/O or a sleep
	tree        *store.Tree
	zxid        int64
	views       []*view // the first is the server's own
	eventRules  []*Injection
	sessions    map[int64]*session
	nextSession int64
	conns       map[*conn]struct{}
	nextConn    int64
	listeners   []net.Listener
	addr        string
	closed      bool
	frozen      bool
	refusing    bool
	readOnly    bool
	partitions  map[int64]Direction
	counts      Counts
	packetsIn   int
	packetsOut  int
	reaper      *time.Timer

	rules rules
	wg    sync.WaitGroup
}

// Start makes a server that closes itself when the test tb ends, like a server of net/http/httptest.
func Start(tb testingTB, opts ...Option) *Server {
	tb.Helper()
	s := New(opts...)
	tb.Cleanup(s.Close)
	return s
}

// New makes a server. The caller closes it. The server listens nowhere until it is asked to: see [Server.Addr], [Server.Listen] and
// [Server.Dialer].
func New(opts ...Option) *Server {
	s := &Server{
		opts: defaults(), born: time.Now(),
		sessions: map[int64]*session{}, conns: map[*conn]struct{}{}, partitions: map[int64]Direction{}, counts: newCounts(),
	}
	s.views = []*view{{s: s, watches: watch.NewSet(byID)}}
	for _, o := range opts {
		o(&s.opts)
	}
	s.opts.tick, s.opts.reapInterval = max(s.opts.tick, time.Millisecond), max(s.opts.reapInterval, time.Millisecond)
	s.tree = store.New(s.opts.rules())
	rand.Read(s.secret[:])
	// ZooKeeper's own recipe for ids: the clock in the middle, the server's number on top, and one more for every session.
	s.nextSession = int64(uint64(s.born.UnixMilli())<<24>>8) | 1<<56
	return s
}

// Close ends every connection and session and waits for the server's goroutines. Clients see their connection end, not their session.
// Calling Close again does nothing.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	for _, l := range s.listeners {
		l.Close()
	}
	for c := range s.conns {
		c.out.Kill()
	}
	for _, x := range s.sessions {
		x.timer.Stop()
	}
	if s.reaper != nil {
		s.reaper.Stop()
	}
	s.mu.Unlock()
	s.wg.Wait()
}

// errRefused is the cause of a refused dial, wrapped as net wraps its own.
var errRefused = errors.New("connection refused by zktest")

// password is the session's secret. It cannot be guessed, and is derived from the id so that it need not be stored.
func (s *Server) password(id int64) []byte {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(id))
	sum := sha256.Sum256(append(s.secret[:], b[:]...))
	return sum[:16]
}

// runLater calls f later, with the server locked.
func (s *Server) runLater(d time.Duration, f func()) *time.Timer {
	return time.AfterFunc(d, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		f()
	})
}

func nowMillis() int64 { return time.Now().UnixMilli() }

func (s *Server) sessionsByID() []*session {
	return slices.SortedFunc(maps.Values(s.sessions), func(a, b *session) int { return cmp.Compare(a.id, b.id) })
}

func (s *Server) connections() []*conn {
	return slices.SortedFunc(maps.Keys(s.conns), byID)
}

// byID orders connections by their age.
func byID(a, b *conn) int { return cmp.Compare(a.id, b.id) }
