package zktest

import (
	"crypto/tls"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"github.com/locktree/locktree/recipes/zktest/internal/digestmd5"
	"github.com/locktree/locktree/recipes/zktest/internal/outbox"
	"github.com/locktree/locktree/recipes/zktest/internal/store"
	"github.com/locktree/locktree/recipes/zktest/internal/wire"
)

// conn is one connection: a reader and a writer goroutine with a queue each. So an unbuffered pipe, a stalled client or a partition never
// makes the server wait. All fields below nc are guarded by Server.mu.
type conn struct {
	s  *Server
	v  *view // the view of the server that the client is connected to
	nc net.Conn
	// raw is the connection below TLS; without TLS it is nc. The server closes raw, because closing a TLS connection writes, and nothing
	// here may wait.
	raw net.Conn
	ip  string

	sid atomic.Int64 // the session's id, for the predicates of faults
	id  int64

	session   *session
	behind    *conn // the session's previous connection to this server, see mustWait
	follower  *conn // the connection that waits behind this one
	claims    int64 // the session id that the handshake asks for
	ids       []store.Identity
	login     digestmd5.Login
	oldClient bool
	ending    bool // the session is closed, but the reply is not sent yet
	swallowed bool // a request was left unanswered, see Replica.CutOff
	// closed is true once the server has ended the connection, or has noticed that the client has ended it. In a partition the socket can
	// be gone (out.Dead) before the server notices.
	closed bool

	in      []inboundFrame // frames that were read, but are not executed yet
	arrived int            // how many of the frames in c.in have reached the server
	inSize  int
	stalled bool // a fault holds the first frame in c.in
	reading bool // a fault stops the reader goroutine at the first request that has not arrived
	cutIn   bool // partitioned: nothing arrives
	room    chan struct{}

	out *outbox.Box // the frames to be sent

	since                 time.Time
	packetsIn, packetsOut int // this and the next fields are for the four-letter words
	lastXid, lastOp       int32

	waveBy time.Time // when the first reply of the current round trip is back
	inWave bool
}

// inboundFrame is a frame, or the end of the stream, on its way in.
type inboundFrame struct {
	req   wire.Request
	raw   int // bytes on the wire
	due   time.Time
	fault Fault
	inj   *Injection
	eof   bool
	word  string // a four-letter word instead of a frame
	read  bool   // the server's reader had the frame already: the frame arrives even if the connection ends
}

// While a queue is longer than softQueue, the server reads no further requests. It cuts a client that lets events pile up to maxQueue.
const (
	softQueue = 8 << 20
	maxQueue  = 64 << 20
)

// newConn adopts a connection; Server.mu is held. A connection without a TCP address is a pipe, and counts as one from the same machine.
func newConn(s *Server, v *view, nc net.Conn) *conn {
	ip := "127.0.0.1"
	if a, ok := nc.RemoteAddr().(*net.TCPAddr); ok {
		ip = a.IP.String()
	}
	s.nextConn++
	c := &conn{
		s: s, v: v, nc: nc, raw: nc, ip: ip, id: s.nextConn, since: time.Now(), ids: []store.Identity{{Scheme: "ip", ID: ip}},
		room: make(chan struct{}, 1),
	}
	if s.opts.tls != nil {
		c.nc = tls.Server(nc, s.opts.tls)
	}
	c.out = outbox.New(&s.mu, c.nc, nc, c.noteSent, c.forgetIfNoticed)
	c.partition()
	return c
}

// signal wakes the goroutine that waits on ch now, or that waits on it next. ch has capacity one, so that signal itself never waits.
func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// close ends the connection on the server's side: earlier frames still leave, and in a partition the client does not notice.
func (c *conn) close() {
	if c.closed {
		return
	}
	c.detach()
	c.out.End(time.Now().Add(c.s.opts.latency))
	signal(c.room)
}

// detach makes the server forget the connection; its session lives on.
func (c *conn) detach() {
	c.closed = true
	c.v.watches.Forget(c)
	if c.session != nil && c.session.conn == c {
		c.session.conn = nil
	}
}

// reply queues a frame for the client.
func (c *conn) reply(frame []byte) { c.replyLater(frame, 0, nil) }

// replyLater delays the frame, and the frames after it, by d and until gate is closed.
func (c *conn) replyLater(frame []byte, d time.Duration, gate <-chan struct{}) {
	if c.closed || c.out.Dead() {
		return
	}
	c.out.Send(frame, time.Now().Add(c.s.opts.latency+d), gate)
	c.packetsOut++
	c.s.packetsOut++
	if c.out.Size() > maxQueue { // only events can make the queue this long: the reader stops at softQueue, which bounds the replies
		c.out.Kill()
	}
}

// noteSent is called when the writer has taken that number of bytes.
func (c *conn) noteSent(bytes int) {
	c.tally(func(n *Counts) { n.BytesOut += int64(bytes) })
	signal(c.room)
}

// forgetIfNoticed is called when the socket is gone. It forgets the connection if the server has noticed the end. If not, noteGone forgets
// the connection when the reader's eof arrives.
func (c *conn) forgetIfNoticed() {
	if c.closed {
		delete(c.s.conns, c)
	}
}

// deliver queues what was read off the wire. It returns false when the connection is gone.
func (c *conn) deliver(it inboundFrame) bool {
	s := c.s
	s.mu.Lock()
	defer s.mu.Unlock()
	it.due = time.Now().Add(s.opts.latency)
	c.tally(func(n *Counts) { n.BytesIn += int64(it.raw) })
	if !it.eof {
		c.waveRequest(it.req.Op)
	}
	if it.req.Op == wire.OpConnect {
		c.claims = it.req.Connect.Session
		c.partition()
	}
	c.in = append(c.in, it)
	c.inSize += it.raw
	// Timers may fire in any order; pump takes what is due from the front.
	if s.opts.latency > 0 {
		s.runLater(s.opts.latency, c.pump)
	} else {
		c.pump()
	}
	return !c.out.Dead()
}

// pump lets everything that is due arrive, which touches the session. Then it executes the requests in order, until the queue is empty or a
// fault holds a request. These are two steps because a held request must not keep later pings from touching the session.
func (c *conn) pump() {
	if c.behind != nil {
		c.behind.pump() // the older connection may no longer be in Server.conns
	}
	for c.arrived < len(c.in) && !c.reading && !c.cutIn && !c.s.frozen && !c.s.closed {
		it := &c.in[c.arrived]
		if time.Until(it.due) > 0 {
			break
		}
		if c.closed && !it.eof && !it.read {
			c.inSize -= it.raw // the server's end is closed, so nothing arrives
			c.in = slices.Delete(c.in, c.arrived, c.arrived+1)
			continue
		}
		if it.read = c.park(it, faultDelayReader, faultHoldReader, &c.reading); it.read {
			break
		}
		c.arrived++
		c.arrive(it)
	}
	for c.arrived > 0 && !c.stalled && !c.mustWait() && !c.s.frozen && !c.s.closed {
		if c.park(&c.in[0], faultDelay, faultHold, &c.stalled) {
			return
		}
		it := c.in[0]
		c.in[0] = inboundFrame{}
		c.in = c.in[1:]
		c.arrived--
		c.inSize -= it.raw
		c.run(&it)
	}
	signal(c.room)
	if f := c.follower; f != nil && !c.isBusy() {
		c.follower, f.behind = nil, nil
		f.pump()
	}
}

// follow makes the connection wait behind the previous connection of its session to this server, if that one is busy.
func (c *conn) follow(older *conn) {
	if older != nil && older.isBusy() {
		c.behind, older.follower = older, c
	}
}

// isBusy reports whether requests of this connection, or of one before it, are in the server's pipeline.
func (c *conn) isBusy() bool { return c.arrived > 0 || c.behind != nil }

// mustWait reports whether the next request has to wait for the requests of an older connection: a server's pipeline is one queue and
// outlives connections. Credentials do not go through the pipeline (ZooKeeperServer.processPacket).
func (c *conn) mustWait() bool {
	return c.behind != nil && c.in[0].req.Op != wire.OpAuth && c.in[0].req.Op != wire.OpSASL
}

// arrive is called when a frame reaches the server: it counts the frame, and touches the session.
func (c *conn) arrive(it *inboundFrame) {
	if it.eof {
		return
	}
	c.packetsIn++
	c.s.packetsIn++
	if it.word != "" {
		return
	}
	c.lastXid, c.lastOp = it.req.Xid, it.req.Op
	c.countRequest(it.req.Op)
	// A request touches the session before it is executed (ZooKeeperServer.submitRequestNow); credentials never touch it.
	if x := c.session; x != nil && c.s.sessions[x.id] == x && it.req.Op != wire.OpAuth && it.req.Op != wire.OpSASL && !c.v.cutOff {
		c.s.touch(x)
	}
}

// waitRoom holds the reader back while too much is queued in either direction.
func (c *conn) waitRoom() bool {
	for {
		c.s.mu.Lock()
		full, dead := c.inSize > softQueue || c.out.Size() > softQueue, c.out.Dead()
		c.s.mu.Unlock()
		if !full || dead {
			return !dead
		}
		select {
		case <-c.room:
		case <-c.out.Died():
		}
	}
}

// Direction is the direction whose traffic a partition holds back.
type Direction int

// The directions of a partition.
const (
	ToServer Direction = 1 << iota
	ToClient
	Both = ToServer | ToClient
)

// partition works out which directions of a connection are cut.
func (c *conn) partition() {
	id := c.claims
	if c.session != nil {
		id = c.session.id
	}
	dir := c.s.partitions[0]
	if id != 0 {
		dir |= c.s.partitions[id]
	}
	c.cutIn = dir&ToServer != 0
	c.out.Cut(dir&ToClient != 0)
}
