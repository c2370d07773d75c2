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
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/go-zookeeper/zk"
)

// link is one connection. Requests are written to it by those who make them (submit), and their replies told to them by the
// goroutine that reads: go-zookeeper's, to which the link is a net.Conn that delivers whole, checked frames and whose Write
// never fails. What go-zookeeper asks for is the session, pings, and closeSession. Its deadlines are the link's own.
//
// Read and Write are each called by one goroutine at a time; all else by any.
type link struct {
	net.Conn
	g      *guard
	target target
	r      *bufio.Reader
	used   int       // bytes of r that the present frame takes
	out    []byte    // what remains of the frame that go-zookeeper is being handed
	by     time.Time // when the connect request must have been answered
	answer stamp     // send time of the newest answered frame; of the reading goroutine
	raw    syscall.RawConn

	mu      sync.Mutex
	state   linkState
	asked   stamp // before the connect request was written
	timeout time.Duration
	xid     int32
	calls   callQueue             // submitted, not answered, in the order in which servers answer them
	over    bool                  // nothing more is submitted: the session is over
	pings   []stamp               // written, not answered, oldest first: servers answer them in order
	touches []stamp               // of frames written, thinned out, oldest first
	armed   map[watchKey]struct{} // what the server watches
	outbox  []byte                // frames to be written
	spare   []byte                // the outbox before, for reuse
	writing bool                  // somebody is writing what the outbox has
}

type linkState int

const (
	linkNew     linkState = iota // nothing written
	linkAsked                    // connect request written
	linkGranted                  // the session is on this link
	linkDead
)

func newLink(g *guard, conn net.Conn, t target, by time.Time) *link {
	l := &link{Conn: conn, g: g, target: t, r: bufio.NewReaderSize(conn, 16<<10), by: by, armed: map[watchKey]struct{}{}}
	l.raw = rawConn(conn)
	return l
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
	left := l.calls.takeAll()
	l.mu.Unlock()
	if was == linkDead {
		return
	}
	l.hangUp()
	if was == linkGranted {
		l.g.hosts.blame(l.target, explainLoss(cause))
		l.g.on.lost(l)
	} else if !errors.Is(cause, errOver) {
		l.g.hosts.blame(l.target, explainSilence(cause))
	}
	for c := left; c != nil; c = c.next { // behind lost: whoever asks again waits for the next link
		l.g.finish(c, fmt.Errorf("%w before the answer came: %w", zk.ErrConnectionClosed, cause))
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

// Write passes on one whole frame, which is how go-zookeeper calls it. It reports success always: an error would reach
// go-zookeeper's callers raw. The link fails, and the reader tells go-zookeeper.
func (l *link) Write(frame []byte) (int, error) {
	l.mu.Lock()
	state := l.state
	l.mu.Unlock()
	// While the connect request is unanswered go-zookeeper writes nothing more, and what it writes into a dead link it
	// takes for lost when its next read fails.
	switch {
	case state == linkNew:
		l.writeConnect(frame)
	case state != linkGranted:
	case int32(binary.BigEndian.Uint32(frame[4:])) == xidPing:
		l.ping(frame)
	default: // closeSession, the only thing it has to say
		l.submit(&call{op: opClose, xid: int32(binary.BigEndian.Uint32(frame[4:])), frame: slices.Clone(frame), done: make(chan struct{})})
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

// submit takes requests, to be written together and in this order. false: the link has ended, and nothing was taken. The
// stamp is taken before the write: a server can only have received it later.
func (l *link) submit(calls ...*call) bool {
	now := l.g.clock.now()
	l.mu.Lock()
	if l.state == linkDead || l.over && calls[0].op != opClose {
		l.mu.Unlock()
		return false
	}
	touched := l.touch(now)
	for _, c := range calls {
		if c.op != opClose { // which has go-zookeeper's
			l.xid++
			c.xid = l.xid
		}
		c.sent, c.touched = now, touched
		binary.BigEndian.PutUint32(c.frame, uint32(len(c.frame)-4))
		binary.BigEndian.PutUint32(c.frame[4:], uint32(c.xid))
		l.calls.push(c)
		l.outbox = append(l.outbox, c.frame...)
	}
	l.push()
	l.g.submitted(calls)
	return true
}

// ping passes on a ping.
func (l *link) ping(frame []byte) {
	now := l.g.clock.now()
	l.mu.Lock()
	l.touch(now) // it drops what is old, and an idle link sends nothing else
	l.pings = append(l.pings, now)
	l.outbox = append(l.outbox, frame...)
	l.push()
}

// push has the outbox written, and lets go of mu, which the caller holds. What the socket takes at once is written at once;
// for the rest there is a goroutine, because a caller's context may end before a server reads.
func (l *link) push() {
	if l.writing || l.state != linkGranted {
		l.mu.Unlock()
		return
	}
	l.writing = true
	l.mu.Unlock()
	if l.g.preempt != nil || l.raw == nil {
		go l.flush(nil)
		return
	}
	for out := l.take(nil); len(out) > 0; out = l.take(out) {
		if n := writeNow(l.raw, out); n < len(out) {
			go l.flush(out[n:])
			return
		}
	}
}

// flush writes out, which was taken, and then the outbox until it is empty.
func (l *link) flush(out []byte) {
	if l.g.preempt != nil {
		l.g.preempt()
	}
	if out == nil {
		out = l.take(nil)
	}
	for ; out != nil; out = l.take(out) {
		_ = l.Conn.SetWriteDeadline(time.Now().Add(l.g.timeout() / 3))
		if _, err := l.Conn.Write(out); err != nil {
			l.fail(err)
		}
		_ = l.Conn.SetWriteDeadline(time.Time{})
	}
}

// take returns what the outbox has, nil when that is nothing: nobody is writing then. written is what was taken before.
func (l *link) take(written []byte) []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	if cap(written) <= 64<<10 { // what a large request needed is not kept
		l.spare = written[:0]
	}
	out := l.outbox
	if len(out) == 0 || l.state == linkDead {
		l.writing = false
		return nil
	}
	l.outbox, l.spare = l.spare, nil
	return out
}

// touch returns the send time of the newest frame of this link that is at least T/8 older than now, or of the connect
// request, and notes that one is sent now; the caller holds mu. See proof for its meaning. It drops what is older than that.
func (l *link) touch(now stamp) (touched stamp) {
	for len(l.touches) > 1 && now.at.Sub(l.touches[1].at) >= l.timeout/8 {
		l.touches = l.touches[1:]
	}
	touched = l.asked
	if len(l.touches) > 0 && now.at.Sub(l.touches[0].at) >= l.timeout/8 {
		touched = l.touches[0]
	}
	// One in T/32 is enough: what is looked for is T/8 old at least, so at most a handful of them is ever kept. Leaving
	// one out makes a proof older than it is, never younger.
	if n := len(l.touches); n == 0 || now.at.Sub(l.touches[n-1].at) >= l.timeout/32 {
		l.touches = append(l.touches, now)
	}
	return touched
}

// Read hands out the frames that go-zookeeper waits for, and works on all others meanwhile. Each is read from the network
// as a whole and checked before its first byte is passed on.
func (l *link) Read(p []byte) (int, error) {
	if len(l.out) == 0 {
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

// nextFrame returns the next frame that is go-zookeeper's.
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
		return slices.Clone(frame), l.admit(frame[4:])
	case linkGranted:
		for {
			frame, err := l.await()
			if err != nil {
				return nil, err
			}
			closing, err := l.reply(frame[4:])
			if err != nil || closing {
				return slices.Clone(frame), err
			}
		}
	default:
		return nil, net.ErrClosed
	}
}

// await reads the next frame, which stays as it is until it is called again.
func (l *link) await() ([]byte, error) {
	_, _ = l.r.Discard(l.used)
	l.used = 0
	for l.r.Buffered() == 0 {
		_, err := l.r.Peek(1)
		// The deadline that has passed may be that of an older answer: to set one for each would cost more than to read it.
		if err != nil && !(errors.Is(err, os.ErrDeadlineExceeded) && l.patience()) {
			return nil, err
		}
	}
	head, _ := l.r.Peek(min(4, l.r.Buffered()))
	if len(head) == 4 && int64(l.r.Buffered()) >= 4+int64(binary.BigEndian.Uint32(head)) {
		return l.readFrame(maxReply)
	}
	// Once a frame has begun it must arrive: a peer that stalls within one is as dead as a silent one.
	_ = l.Conn.SetReadDeadline(time.Now().Add(l.timeout / 3))
	frame, err := l.readFrame(maxReply)
	l.patience()
	return frame, err
}

// patience sets how long the next frame may take: until 2T/3 after the send time of the newest answered one. Frames
// that answer nothing (events) extend nothing, so a connection that only works towards us is given up in time. It reports
// whether that is still to come.
func (l *link) patience() bool {
	until := l.answer.after(l.timeout*2/3, l.g.clock.slept())
	_ = l.Conn.SetReadDeadline(until)
	return time.Now().Before(until)
}

// readFrame reads length and body. The body's memory grows with what arrives, not with what the length claims.
func (l *link) readFrame(limit int) ([]byte, error) {
	head, err := l.r.Peek(4)
	if err != nil {
		return nil, err
	}
	n := int(int32(binary.BigEndian.Uint32(head)))
	if n < replyHeader || n > limit {
		return nil, explainLength([4]byte(head), limit)
	}
	var frame []byte
	if n+4 <= l.r.Size() {
		frame, err = l.r.Peek(n + 4)
		l.used = len(frame)
	} else {
		var large bytes.Buffer
		_, err = io.CopyN(&large, l.r, int64(n+4))
		frame = large.Bytes()
	}
	if err != nil {
		return nil, fmt.Errorf("after %d of a frame's %d bytes: %w", len(frame)-4, n, err)
	}
	return frame, nil
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
	// The connect request is the first frame that was answered.
	l.answer, l.touches, l.timeout = sent, []stamp{sent}, time.Duration(answer.timeout)*time.Millisecond
	l.mu.Unlock()
	if err := l.g.on.granted(answer, sent, l); err != nil {
		return err
	}
	// Safe without a lock: it is go-zookeeper's loop that dials and that reads this answer.
	l.g.limit = 0
	l.mu.Lock()
	if l.state != linkAsked { // failed while it was being granted: fail told nobody
		l.mu.Unlock()
		l.g.on.lost(l)
		return net.ErrClosed
	}
	l.state = linkGranted
	l.push()
	l.patience()
	return nil
}

// reply works on a frame: it tells whoever waits for it, and before that draws from it what the session's clock needs. So the
// caller of a create finds the proof of its commit in place when it goes on to hold.
func (l *link) reply(body []byte) (closing bool, err error) {
	b := cursor{b: body}
	xid, r := b.int32(), reply{zxid: b.int64(), code: b.int32()}
	switch xid {
	case xidEvent:
		return false, l.event(b.b)
	case xidPing:
		return false, l.pong()
	}
	c, err := l.expected(xid)
	if err != nil {
		return false, err
	}
	if r.code == 0 {
		// A frame that does not hold what was asked for proves nothing.
		if err := r.decode(c.op, c.ops, b.b); err != nil {
			return false, err
		}
	}
	l.mu.Lock()
	if l.state == linkDead { // and fail has told the caller
		l.mu.Unlock()
		return false, net.ErrClosed
	}
	l.calls.pop()
	if c.watch && r.code == 0 {
		l.armed[watchKey{c.path, c.op == opGetChildren2}] = struct{}{}
	}
	l.mu.Unlock()
	l.g.saw(r.zxid)
	l.acked(c.sent)
	if r.code == 0 && writeCodes[c.op] {
		l.g.on.committed(c.sent, c.touched)
	}
	if c.op == opSetAuth && r.code != 0 || r.code == codeSessionExpired || r.code == codeSASLRequired {
		l.g.on.refused(r.code) // before the caller is told, who must find the session over, as it is
	}
	if closing = c.op == opClose; closing {
		l.g.on.closed()
	}
	c.reply = r
	l.g.finish(c, nil)
	return closing, nil
}

// writeCodes are the operations that a commit answers.
var writeCodes = map[int32]bool{opCreate: true, opDelete: true, opSetData: true, opSetACL: true, opMulti: true}

// expected returns the request that a reply is for. A server answers a session strictly in order, so a reply to a later
// request says that an earlier one's will not come: whoever waits for that learns it from the link's end, not at the end of a
// context that may have none.
func (l *link) expected(xid int32) (*call, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	first := l.calls.first
	switch {
	case l.state == linkDead:
		return nil, net.ErrClosed
	case first != nil && first.xid == xid:
		return first, nil
	case first == nil || xid < first.xid || xid > l.xid:
		return nil, fmt.Errorf("%w: a reply to a request that was not sent (xid %d)", ErrProtocol, xid)
	}
	return nil, fmt.Errorf("%w: xid %d was answered before xid %d, which was sent before it", ErrProtocol, xid, first.xid)
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
	if sent.at.After(l.answer.at) {
		l.answer = sent
	}
	l.g.on.acked(sent)
}

// event takes the watches that an event uses up out of armed, as the server has with its own, and tells. A created node uses
// up none of ours: nothing here watches a node that is missing.
func (l *link) event(body []byte) error {
	kind, path, err := checkEvent(body)
	if err != nil {
		return err
	}
	t := zk.EventType(kind)
	var keys []watchKey
	switch t {
	case zk.EventNodeDataChanged:
		keys = []watchKey{{path, false}}
	case zk.EventNodeChildrenChanged:
		keys = []watchKey{{path, true}}
	case zk.EventNodeDeleted:
		keys = []watchKey{{path, false}, {path, true}}
	}
	for _, k := range keys {
		l.mu.Lock()
		delete(l.armed, k)
		l.mu.Unlock()
		l.g.on.fired(k, t)
	}
	return nil
}

// abandon tells whoever waits for an answer that the session is over. Their requests stay in the queue: the server may answer.
func (l *link) abandon(err error) {
	l.mu.Lock()
	l.over = true
	var left []*call
	for c := l.calls.first; c != nil; c = c.next {
		if !c.told && c.op != opClose {
			c.told = true
			left = append(left, c)
		}
	}
	l.mu.Unlock()
	for _, c := range left {
		c.tell(err)
	}
}
