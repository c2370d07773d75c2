package session

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

// link is one connection, as go-zookeeper sees it: a net.Conn that delivers only whole, checked frames and whose
// Write never fails. Its deadlines are its own: those go-zookeeper sets are ignored.
//
// Read and Write are each called by one goroutine at a time; fail and Close by any.
type link struct {
	net.Conn
	g      *guard
	target target
	r      *bufio.Reader
	out    []byte    // what remains of the frame being handed out
	then   func()    // to do when go-zookeeper comes back for the next one, having delivered that frame
	by     time.Time // when the connect request must have been answered

	mu      sync.Mutex
	state   linkState
	asked   stamp             // before the connect request was written
	answer  stamp             // send time of the newest answered frame
	pending map[int32]pending // written, not answered
	order   []int32           // of them, as written: how servers answer
	pings   []stamp           // written, not answered, oldest first: servers answer them in order
	touches []stamp           // of frames written, thinned out, oldest first
	held    [][]byte          // frames waiting for the watches to be set again
	unset   int               // watches that remain to be set again; held is empty when 0
	since   stamp             // when waiting for the watches began
	from    int64             // zxid since which changes are news to watches set again
}

type linkState int

const (
	linkNew     linkState = iota // nothing written
	linkAsked                    // connect request written
	linkGranted                  // the session is on this link
	linkDead
)

// pending is what is remembered of a request until its reply.
type pending struct {
	request
	sent    stamp
	touched stamp
}

func newLink(g *guard, conn net.Conn, t target, by time.Time) *link {
	return &link{Conn: conn, g: g, target: t, r: bufio.NewReader(conn), by: by, pending: map[int32]pending{}}
}

// SetDeadline does nothing: see link.
func (*link) SetDeadline(time.Time) error { return nil }

// SetReadDeadline does nothing: go-zookeeper waits up to 6.67 session timeouts for the answer to a connect request,
// and for ever once its length has come.
func (*link) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline does nothing: see link.
func (*link) SetWriteDeadline(time.Time) error { return nil }

// Close is called by go-zookeeper when it is through with the connection.
func (l *link) Close() error {
	l.fail(net.ErrClosed)
	return nil
}

// fail ends the link, once: the first cause counts. The session is told only of a link it was granted on. One that
// failed earlier is a server that did not answer, for the report; unless it was us who gave it up.
func (l *link) fail(cause error) {
	l.mu.Lock()
	was := l.state
	l.state = linkDead
	l.mu.Unlock()
	if was == linkDead {
		return
	}
	l.hangUp()
	if was == linkGranted {
		l.g.hosts.blame(l.target, explainLoss(cause))
		l.g.on.lost(l, cause)
	} else if !errors.Is(cause, errOver) {
		l.g.hosts.blame(l.target, explainSilence(cause))
	}
}

// hangUp closes the socket. tls.Conn.Close would first say goodbye, waiting up to five seconds for a peer that does not
// read, while whoever found the link dead waits with it.
func (l *link) hangUp() {
	conn := l.Conn
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	_ = conn.Close()
}

// Write passes on one whole frame, which is how go-zookeeper calls it. It reports success always. An error would wedge
// go-zookeeper's loop when it re-sends authentication (go-zookeeper/zk#163), and would reach callers raw; instead the
// link fails, and the reader tells go-zookeeper.
func (l *link) Write(frame []byte) (int, error) {
	l.mu.Lock()
	state := l.state
	l.mu.Unlock()
	// While the connect request is unanswered go-zookeeper writes nothing more, and what it writes into a dead link it
	// takes for lost when its next read fails.
	switch state {
	case linkNew:
		l.writeConnect(frame)
	case linkGranted:
		l.writeRequest(frame)
	}
	return len(frame), nil
}

// writeConnect adds the read-only byte (0: we want no read-only server) that go-zookeeper, like clients before 3.4,
// leaves out, about which servers complain in their logs at each connection.
func (l *link) writeConnect(frame []byte) {
	body := append(slices.Clone(frame[4:]), 0)
	binary.BigEndian.PutUint64(body[4:], uint64(l.g.lastZxid()))
	l.mu.Lock()
	l.state, l.asked = linkAsked, l.g.clock.now()
	l.mu.Unlock()
	_ = l.Conn.SetDeadline(l.by)
	if _, err := l.Conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)); err != nil {
		// A peer that answers garbage and hangs up is explained by its garbage: the reader has it.
		return
	}
}

// writeRequest writes a frame, or keeps it while watches remain to be set again after a reconnect. Were an ordinary
// request to overtake them, its reply could show a change before the event of that change, and would move the zxid up to
// which we have seen everything past changes we have not: should this link die before the watches are set, their events
// would be lost. Auth, setWatches itself and pings pass; closeSession ends the waiting.
func (l *link) writeRequest(frame []byte) {
	r := parseRequest(frame[4:])
	l.mu.Lock()
	switch {
	case r.op == opSetWatches:
		from := l.from
		if l.unset == 0 { // nobody waits for it: go-zookeeper found a watch of this very link
			from = l.g.lastZxid()
		}
		frame = slices.Clone(frame)
		binary.BigEndian.PutUint64(frame[12:], uint64(from))
		l.unset = max(0, l.unset-r.watches)
	case l.unset > 0 && (r.op == opClose || r.op == opPing && l.g.clock.after(l.since, l.g.timeout()/3).Before(time.Now())):
		l.unset = 0 // go-zookeeper had fewer to set than we counted: better late than never
	case l.unset > 0 && r.op != opSetAuth && r.op != opPing:
		l.held = append(l.held, slices.Clone(frame))
		l.mu.Unlock()
		return
	}
	// The frames that were kept go out in the order they came: behind the setWatches that frees them, before any other.
	var due [][]byte
	if l.unset == 0 {
		due, l.held = l.held, nil
	}
	l.mu.Unlock()
	if r.op == opSetWatches {
		l.send(frame, r)
	}
	for _, f := range due {
		l.send(f, parseRequest(f[4:]))
	}
	if r.op != opSetWatches {
		l.send(frame, r)
	}
}

// send stamps and writes a frame. The stamp is taken before: a server can only have received it later.
func (l *link) send(frame []byte, r request) {
	t := l.g.timeout()
	now := l.g.clock.now()
	l.mu.Lock()
	touched := l.touchedBefore(now, t) // for pings too: it drops what is old, and an idle link sends nothing else
	if r.xid == xidPing {
		l.pings = append(l.pings, now)
	} else {
		l.pending[r.xid] = pending{r, now, touched}
		if r.op != opSetAuth { // Answered as it is read, ahead of what is being worked on
			l.order = append(l.order, r.xid)
		}
	}
	// One in T/32 is enough: what is looked for is T/8 old at least, so at most a handful of them is ever kept. Leaving
	// one out makes a proof older than it is, never younger.
	if n := len(l.touches); n == 0 || now.at.Sub(l.touches[n-1].at) >= t/32 {
		l.touches = append(l.touches, now)
	}
	l.mu.Unlock()
	// Before the write, so that it is known before any reply.
	l.g.writing(r, l)
	_ = l.Conn.SetWriteDeadline(time.Now().Add(t / 3))
	if _, err := l.Conn.Write(frame); err != nil {
		l.fail(err)
	}
}

// touchedBefore returns the send time of the newest frame of this link that is at least T/8 older than now, or of the
// connect request; the caller holds mu. See proof for its meaning. It drops what is older than that.
func (l *link) touchedBefore(now stamp, t time.Duration) stamp {
	for len(l.touches) > 1 && now.at.Sub(l.touches[1].at) >= t/8 {
		l.touches = l.touches[1:]
	}
	if len(l.touches) == 0 || now.at.Sub(l.touches[0].at) < t/8 {
		return l.asked
	}
	return l.touches[0]
}

// Read hands out frames: each is read from the network as a whole and checked before its first byte is passed on.
func (l *link) Read(p []byte) (int, error) {
	if len(l.out) == 0 {
		if then := l.then; then != nil {
			l.then = nil
			then()
		}
		frame, err := l.nextFrame()
		if err != nil {
			l.fail(err)
			return 0, err
		}
		l.out = frame
	}
	n := copy(p, l.out)
	l.out = l.out[n:]
	return n, nil
}

func (l *link) nextFrame() ([]byte, error) {
	l.mu.Lock()
	state := l.state
	l.mu.Unlock()
	switch state {
	case linkAsked: // under the deadline that writeConnect set
		frame, err := l.readFrame(maxConnectReply)
		if err != nil {
			return nil, err
		}
		return frame, l.admit(frame[4:])
	case linkGranted:
		l.patience()
		if _, err := l.r.Peek(1); err != nil {
			return nil, err
		}
		// Once a frame has begun it must arrive: a peer that stalls within one is as dead as a silent one.
		_ = l.Conn.SetReadDeadline(time.Now().Add(l.g.timeout() / 3))
		frame, err := l.readFrame(maxReply)
		if err != nil {
			return nil, err
		}
		return frame, l.check(frame[4:])
	default:
		return nil, net.ErrClosed
	}
}

// patience sets how long the next frame may take: until 2T/3 after the send time of the newest answered one. Frames
// that answer nothing (events) extend nothing, so a connection that only works towards us is given up in time.
func (l *link) patience() {
	l.mu.Lock()
	newest := l.answer
	l.mu.Unlock()
	_ = l.Conn.SetReadDeadline(l.g.clock.after(newest, l.g.timeout()*2/3))
}

// readFrame reads length and body. The body's memory grows with what arrives, not with what the length claims.
func (l *link) readFrame(limit int) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(l.r, head[:]); err != nil {
		return nil, err
	}
	n := int64(int32(binary.BigEndian.Uint32(head[:])))
	if n < replyHeader || n > int64(limit) {
		return nil, explainLength(head, limit)
	}
	var b bytes.Buffer
	b.Write(head[:])
	if got, err := io.CopyN(&b, l.r, n); err != nil {
		return nil, fmt.Errorf("after %d of a frame's %d bytes: %w", got, n, err)
	}
	return b.Bytes(), nil
}

// admit reads the answer to the connect request and asks the session whether to go on.
func (l *link) admit(body []byte) error {
	answer, err := parseGrant(body)
	if err != nil {
		return err
	}
	_ = l.Conn.SetDeadline(time.Time{})
	l.mu.Lock()
	sent := l.asked
	// The connect request is the first frame that was answered. What is armed at this moment is what go-zookeeper has to
	// set again: watches come and go with the frames it reads, and it has read none of this link's.
	l.answer, l.touches = sent, []stamp{sent}
	l.unset, l.since, l.from = l.g.armedCount(), l.g.clock.now(), l.g.lastZxid()
	l.mu.Unlock()
	if err := l.g.on.granted(answer, sent, l); err != nil {
		return err
	}
	// Safe without a lock: it is go-zookeeper's loop that dials and that reads this answer.
	l.g.limit = 0
	l.mu.Lock()
	alive := l.state == linkAsked
	if alive {
		l.state = linkGranted
	}
	l.mu.Unlock()
	if !alive { // failed while it was being granted: fail told nobody
		l.g.on.lost(l, net.ErrClosed)
		return net.ErrClosed
	}
	return nil
}

// check examines a frame and draws from it what the session's clock needs. All of that is done before go-zookeeper sees
// the frame. So the caller of a create finds the proof of its commit in place when it goes on to hold, and a watch is in
// armed before anybody can have read what it watches.
func (l *link) check(body []byte) error {
	c := cursor{b: body}
	xid, zxid, code := c.int32(), c.int64(), c.int32()
	switch {
	case xid == xidEvent:
		kind, path, err := checkEvent(c.b)
		if err == nil {
			l.g.event(kind, path)
		}
		return err
	case xid == xidPing:
		return l.pong()
	}
	p, err := l.settle(xid)
	if err != nil {
		return err
	}
	l.g.saw(zxid)
	clear(body[4:12]) // see guard.zxid
	return l.conclude(p, code, c.b)
}

// settle takes the request that a reply is for off the books. A server answers a session strictly in order, so a reply
// to a later request says that an earlier one's will not come: whoever waits for that learns it from the link's end,
// not at the end of a context that may have none.
func (l *link) settle(xid int32) (pending, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p, ok := l.pending[xid]
	if !ok {
		return p, fmt.Errorf("%w: a reply to a request that was not sent (xid %d)", ErrProtocol, xid)
	}
	if p.op != opSetAuth {
		if first := l.order[0]; first != xid {
			return p, fmt.Errorf("%w: xid %d was answered before xid %d, which was sent before it", ErrProtocol, xid, first)
		}
		l.order = l.order[1:]
	}
	delete(l.pending, xid)
	return p, nil
}

// pong is the answer to the oldest ping. All pings have the same xid, so their order is what tells them apart.
func (l *link) pong() error {
	l.mu.Lock()
	if len(l.pings) == 0 {
		l.mu.Unlock()
		return fmt.Errorf("%w: an answer to a ping that was not sent", ErrProtocol)
	}
	sent := l.pings[0]
	l.pings = l.pings[1:]
	l.mu.Unlock()
	l.acked(sent)
	return nil
}

// acked notes an answer. Answers come in the order of the requests, pings aside: only a newer stamp counts.
func (l *link) acked(sent stamp) {
	l.mu.Lock()
	if sent.at.After(l.answer.at) {
		l.answer = sent
	}
	l.mu.Unlock()
	l.g.on.acked(sent)
}

// conclude acts on the reply to p.
func (l *link) conclude(p pending, code int32, body []byte) error {
	failed := code != 0
	if !failed {
		rolledBack, err := checkReply(p.request, body)
		if err != nil {
			return err
		}
		failed = rolledBack
	}
	// Only now: a frame that does not hold what was asked for proves nothing.
	l.acked(p.sent)
	switch p.op {
	case opCreate, opDelete, opSetData, opSetACL, opMulti:
		if !failed {
			l.g.on.committed(p.sent, p.touched)
		}
	case opGetData, opGetChildren2:
		if p.watch && !failed {
			l.g.arm(watchKey{p.path, p.op == opGetChildren2})
		}
	case opSetWatches:
		// Refused, they are on no server now. Whoever waits for one must look, and sets it again by that.
		if failed {
			for _, k := range l.g.disarmAll() {
				l.g.on.fired(k, zk.EventSession)
			}
		}
	case opClose:
		l.g.on.closed()
	}
	if p.op == opSetAuth && failed || code == codeSessionExpired || code == codeSASLRequired {
		// Later, so that the caller of the operation gets the server's answer and not just the session's end.
		l.then = func() { l.g.on.refused(code) }
	}
	return nil
}
