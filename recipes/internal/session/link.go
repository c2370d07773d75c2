package session

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/recipes/internal/errs"
	"github.com/locktree/locktree/recipes/internal/session/clock"
	"github.com/locktree/locktree/recipes/internal/session/servers"
	"github.com/locktree/locktree/recipes/internal/session/wire"
)

// link is one connection that carries the session. On plain TCP, the goroutine that makes a request usually writes it too (push), sometimes
// with requests of others (gather). The reading goroutine (serve) delivers replies; only this goroutine uses the fields r, used and answer.
type link struct {
	s       *Session
	conn    net.Conn
	raw     *rawWriter
	target  servers.Server
	shown   shownCertificates // the certificates that the server has seen from us
	asked   clock.Stamp       // the moment before the connect request was written
	timeout time.Duration
	r       *bufio.Reader
	used    int         // bytes of r that the present frame occupies
	answer  clock.Stamp // send time of the newest answered frame

	mu      sync.Mutex
	state   linkState
	xid     int32
	calls   callQueue // submitted, not answered, in order: servers answer a session in that order
	turned  time.Time // when the request at the head of calls got there, if others were ahead of it
	pinger  *time.Timer
	goodbye *time.Timer   // bounds the wait for the answer to closeSession, or to all requests of a link that retires
	pings   []clock.Stamp // written, not answered, oldest first: servers answer them in order
	touches []clock.Stamp // send times of some of the frames written, oldest first; see touch
	outbox  []byte        // frames to be written
	writing bool          // a goroutine is writing the outbox

	gathering bool      // a goroutine is about to write the outbox; see gather
	hasty     time.Time // no goroutine gathers before this time
}

// linkState says what a link still takes. Only link.move changes it, by the table linkMoves.
type linkState int

const (
	linkOpen     linkState = iota // the session is on it
	linkRetiring                  // the session goes to another server: the link takes no further requests
	linkLeaving                   // the session is over: the link takes only closeSession
	linkDead
)

// linkMoves has the legal moves.
var linkMoves = map[linkState][]linkState{
	linkOpen:     {linkRetiring, linkLeaving, linkDead},
	linkRetiring: {linkDead},
	linkLeaving:  {linkDead},
}

// move changes the state, if the table of moves allows that, and reports whether it does; the caller holds mu.
func (l *link) move(to linkState) bool {
	ok := slices.Contains(linkMoves[l.state], to)
	if ok {
		l.state = to
	}
	return ok
}

// errOver ends a link or an attempt because the session is over: no server is to blame.
var errOver = errors.New("the session is over")

// fail ends the link, once: the first cause counts.
func (l *link) fail(cause error) {
	l.mu.Lock()
	if !l.move(linkDead) {
		l.mu.Unlock()
		return
	}
	left := l.calls.first
	l.calls.first = nil
	l.stop(l.goodbye) // the timer refers to the link, and so to the session
	l.mu.Unlock()
	if !errors.Is(cause, errOver) { // noted before serve can end, because Close reports the cause
		why := "it stopped answering"
		if !wire.TimedOut(cause) {
			why = "the connection ended: " + explain(cause) // no matter which side ended it
		}
		l.s.hosts.Blame(l.target, why)
	}
	hangUp(l.conn)
	l.s.noteDisconnect(l)
	for c := left; c != nil; c = c.next { // after noteDisconnect: a caller that asks again must wait for the next link
		l.s.finish(c, errs.Errorf("%w before the answer came: %w", zk.ErrConnectionClosed, cause))
	}
}

var errRetired = errors.New("the server is not in the list any more")

// retire ends the link because its server has left the list of servers. It first waits for the answers to requests under way, whose
// outcomes would otherwise be unknown. It waits for a twelfth of the timeout at most, and at most a second. New requests wait for the next
// link, as whenever a link ends.
func (l *link) retire() {
	l.mu.Lock()
	if !l.move(linkRetiring) {
		l.mu.Unlock()
		return
	}
	idle := l.calls.first == nil
	if !idle {
		l.s.running.Add(1)
		l.goodbye = time.AfterFunc(min(l.timeout/12, settlingTime), func() {
			defer l.s.running.Done()
			l.fail(errRetired)
		})
	}
	l.mu.Unlock()
	l.s.noteDisconnect(l)
	if idle {
		l.fail(errRetired)
	}
}

// leave ends every wait for an answer, because the session is over. The requests stay in the queue: the server may still answer them. With
// patience it also tells the server, which then deletes the session's nodes at once. It keeps the link until the server confirms or
// patience has passed. A link that lived on would send pings, and so keep all locks held.
func (l *link) leave(err error, patience time.Duration) {
	l.mu.Lock()
	l.move(linkLeaving) // no move if it retires or is dead
	var left []*call
	for c := l.calls.first; c != nil; c = c.next {
		if !c.told {
			c.told = true
			left = append(left, c)
		}
	}
	l.mu.Unlock()
	for _, c := range left {
		c.tell(err)
	}
	if patience == 0 {
		l.fail(errOver)
		return
	}
	if !l.submit(wire.Closing(nil, 0), []*call{{op: wire.OpCloseSession, prompt: true}}) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state != linkDead {
		l.s.running.Add(1)
		l.goodbye = time.AfterFunc(patience, func() {
			defer l.s.running.Done()
			l.fail(fmt.Errorf("it did not confirm the end of the session within %v", patience))
		})
	}
}

// stop stops a timer. Session.running counts a timer while it is set or its function runs.
func (l *link) stop(t *time.Timer) {
	if t != nil && t.Stop() {
		l.s.running.Done()
	}
}

var errUnanswered = errors.New("it answers pings, and left a request unanswered for a session timeout")

// expire ends the link if one request has been the oldest for a whole session timeout. An answer out of order ends it earlier (see
// awaitedCall). expire serves callers whose context never ends, for the case that no later request is answered. expire returns the time of
// its next call, or the parameter deadline if that is earlier. watchClock calls it after each look, at least once per session timeout.
func (l *link) expire(deadline time.Time) time.Time {
	l.mu.Lock()
	first, due := l.calls.first, l.turned
	if first == nil {
		l.mu.Unlock()
		return deadline
	}
	if first.sent.At.After(due) {
		due = first.sent.At
	}
	due = due.Add(l.timeout)
	l.mu.Unlock()
	if !due.After(time.Now()) {
		l.fail(errUnanswered)
		return deadline
	}
	if due.Before(deadline) {
		return due
	}
	return deadline
}

// serve pings the server and delivers what it says, until the link ends. Then it notes that the session is disconnected.
func (l *link) serve() {
	l.mu.Lock()
	l.s.running.Add(1)
	l.pinger = time.AfterFunc(clock.Ping.Of(l.timeout), l.ping)
	l.mu.Unlock()
	defer l.stop(l.pinger)
	l.setPatience()
	for {
		frame, err := l.await()
		if err == nil {
			err = l.reply(frame[4:])
		}
		if err != nil {
			l.fail(err)
			l.s.noteDisconnect(l) // another goroutine may have found the link dead, and not called noteDisconnect yet
			return
		}
	}
}

// await reads the next frame, which is valid until await is called again.
func (l *link) await() ([]byte, error) {
	_, _ = l.r.Discard(l.used)
	l.used = 0
	for l.r.Buffered() == 0 {
		_, err := l.r.Peek(1)
		// The deadline that has passed may be out of date: to set it for each answer would cost more than to read the answer.
		if err != nil && !(wire.TimedOut(err) && l.setPatience()) {
			return nil, err
		}
	}
	head, _ := l.r.Peek(min(4, l.r.Buffered()))
	if len(head) == 4 && int64(l.r.Buffered()) >= 4+int64(binary.BigEndian.Uint32(head)) {
		return l.readFrame()
	}
	// A frame that has begun must arrive soon: a peer that stalls in the middle of one is as dead as a silent one.
	_ = l.conn.SetReadDeadline(time.Now().Add(l.timeout / 3))
	frame, err := l.readFrame()
	l.setPatience()
	return frame, err
}

// setPatience sets the deadline for the next frame: 2T/3 after the send time of the newest answered frame. Frames that answer nothing
// (events) do not extend it, so a connection that only works towards us is given up in time. It reports whether the deadline lies ahead.
func (l *link) setPatience() bool {
	now := time.Now()
	until := l.answer.After(clock.Silent.Of(l.timeout), l.s.clock.Slept(now))
	_ = l.conn.SetReadDeadline(until)
	return now.Before(until)
}

// readFrame reads length and body. Memory for a large body grows as it arrives, whatever its length claims.
func (l *link) readFrame() ([]byte, error) {
	head, err := l.r.Peek(4)
	if err != nil {
		return nil, err
	}
	n := int(int32(binary.BigEndian.Uint32(head)))
	limit := l.s.client.cfg.MaxReply
	if n < wire.ReplyHeader || n > limit {
		return nil, wire.ExplainLength([4]byte(head), limit)
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

// reply handles a frame: it first takes from the frame what the session's clock needs, and then completes the call that waits for it. So
// when a create returns, the proof of its commit is in place for the Hold that follows.
func (l *link) reply(body []byte) error {
	b := wire.Decoder{B: body}
	xid, r := b.Int32(), wire.Reply{Zxid: b.Int64(), Code: b.Int32()}
	switch xid {
	case wire.XidEvent:
		return l.event(b.B)
	case wire.XidPing:
		return l.pong()
	}
	c, err := l.awaitedCall(xid)
	if err != nil {
		return err
	}
	if r.Code == 0 {
		// A frame that does not contain what was asked for proves nothing.
		if err := r.Decode(c.op, c.ops, b.B); err != nil {
			return err
		}
	}
	l.mu.Lock()
	if l.state == linkDead { // fail has completed the call
		l.mu.Unlock()
		return net.ErrClosed
	}
	if l.calls.pop(); l.calls.first != nil {
		l.turned = time.Now()
	}
	retired := l.state == linkRetiring && l.calls.first == nil
	l.mu.Unlock()
	// Servers before 3.5 answer with this code, and then end the connection.
	if c.op == wire.OpRemoveWatches && r.Code == wire.CodeUnimplemented {
		l.s.keepsWatches.Store(true)
	}
	// The reply may be an error: its zxid is what the server had applied when it answered.
	if r.Zxid > l.s.Zxid() {
		l.s.zxid.Store(r.Zxid)
	}
	l.noteAnswer(c.sent)
	if r.Code == 0 && writeCodes[c.op] {
		l.s.noteCommit(c.sent, c.touched)
	}
	if c.op == wire.OpAuth && r.Code != 0 || r.Code == wire.CodeSessionExpired || r.Code == wire.CodeSASLRequired {
		l.s.endRefused(r.Code) // before the call is completed: its caller must find the session over
	}
	if c.op == wire.OpCloseSession {
		if r.Code != 0 && r.Code != wire.CodeSessionExpired {
			_, err := wire.Answer(r.Code)
			return fmt.Errorf("it refused to end the session: %w", err)
		}
		close(l.s.ended)
		return errOver
	}
	c.reply = r
	l.s.finish(c, nil)
	if retired {
		return errRetired
	}
	return nil
}

// writeCodes are the operations whose success is a commit.
var writeCodes = map[int32]bool{wire.OpCreate: true, wire.OpDelete: true, wire.OpSetData: true, wire.OpSetACL: true, wire.OpMulti: true}

// awaitedCall returns the request that a reply is for. A server answers a session strictly in order, so a reply to a later request means
// that an earlier one will never be answered. Then the link is ended, so that the caller of the earlier request learns that now: the
// caller's context may never end.
func (l *link) awaitedCall(xid int32) (*call, error) {
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

// pong handles the answer to the oldest ping. All pings have the same xid, so only their order tells them apart.
func (l *link) pong() error {
	l.mu.Lock()
	if len(l.pings) == 0 {
		l.mu.Unlock()
		return fmt.Errorf("%w: an answer to a ping that was not sent", ErrProtocol)
	}
	sent := l.pings[0]
	l.pings = l.pings[1:]
	l.mu.Unlock()
	l.noteAnswer(sent)
	return nil
}

// noteAnswer notes an answer. Answers come in the order of the requests, except to pings, so only a newer stamp counts.
func (l *link) noteAnswer(sent clock.Stamp) {
	if sent.At.After(l.answer.At) {
		l.answer = sent
	}
	l.s.noteAnswer(sent)
}

// event fires the watches that a server's event has ended. The creation of a node ends no watch: we never watch a node that is missing.
func (l *link) event(body []byte) error {
	c := wire.Decoder{B: body}
	t, _, path := zk.EventType(c.Int32()), c.Int32(), c.Str()
	if c.Bad {
		return fmt.Errorf("%w: malformed watch event of %d bytes", ErrProtocol, len(body))
	}
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
		l.s.fireAt(k, t)
	}
	return nil
}

// submit takes requests and their frames, to be written together and in this order. It returns false, and takes none, if the link takes no
// further requests. The stamp is taken before the write: a server can only have received the requests later.
func (l *link) submit(frames []byte, calls []*call) bool {
	now := l.s.clock.Now()
	l.mu.Lock()
	if l.state == linkDead || l.state != linkOpen && calls[0].op != wire.OpCloseSession {
		l.mu.Unlock()
		return false
	}
	touched, busy := l.touch(now), l.calls.first != nil
	at := len(l.outbox)
	l.outbox = append(l.outbox, frames...)
	for _, c := range calls {
		c.sent = now
		c.touched = touched
		l.xid++
		c.xid = l.xid
		frame := l.outbox[at:]
		binary.BigEndian.PutUint32(frame[4:], uint32(c.xid))
		at += 4 + int(binary.BigEndian.Uint32(frame))
		l.calls.push(c)
	}
	switch {
	case !busy || l.writing || calls[0].prompt || now.At.Before(l.hasty):
		l.push()
	case l.gathering: // the goroutine that gathers writes this too
		l.mu.Unlock()
	default:
		l.gather(now.At)
		l.push()
	}
	return true
}

// gather lets other goroutines submit their requests first, so that one write takes them all. While requests are under way there
// are such goroutines: servers commit in batches, so answers come in batches, and each answer wakes a goroutine. With 8
// goroutines that take a lock each, this saves two of three writes. The caller holds mu.
//
// While other goroutines compute, the scheduler is slow to come back to this one. If that took more than 5 ms, no goroutine gathers for
// twenty times that time.
func (l *link) gather(now time.Time) {
	l.gathering = true
	l.mu.Unlock()
	runtime.Gosched()
	l.mu.Lock()
	l.gathering = false
	if took := time.Since(now); took > 5*time.Millisecond {
		l.hasty = now.Add(20 * took)
	}
}

// ping sends a ping, every third of the timeout.
func (l *link) ping() {
	now := l.s.clock.Now()
	l.mu.Lock()
	if l.state == linkDead {
		l.mu.Unlock()
		l.s.running.Done()
		return
	}
	// touch also drops old stamps: an idle link sends nothing but pings.
	l.touch(now)
	l.pings = append(l.pings, now)
	e := wire.Encoder{B: append(l.outbox, 0, 0, 0, 8)}
	e.Int32(wire.XidPing)
	e.Int32(wire.OpPing)
	l.outbox = e.B
	l.pinger.Reset(clock.Ping.Of(l.timeout))
	l.push()
}

// push starts to write the outbox; the caller holds mu, and push unlocks it. It writes as much as the socket takes without
// waiting. A goroutine writes the rest, because the caller's context may end before the server reads.
func (l *link) push() {
	if l.writing || l.state == linkDead {
		l.mu.Unlock()
		return
	}
	l.writing = true
	l.s.running.Add(1) // until take finds the outbox empty
	l.mu.Unlock()
	if l.s.client.preempt != nil || l.raw == nil {
		go l.flush(nil)
		return
	}
	for out := l.take(nil); len(out) > 0; out = l.take(out) {
		if n := l.raw.now(out); n < len(out) {
			go l.flush(out[n:])
			return
		}
	}
}

// flush writes frames that the caller took from the outbox. Then it writes the outbox until that is empty.
func (l *link) flush(frames []byte) {
	if l.s.client.preempt != nil {
		l.s.client.preempt()
	}
	if frames == nil {
		frames = l.take(nil)
	}
	for ; frames != nil; frames = l.take(frames) {
		_ = l.conn.SetWriteDeadline(time.Now().Add(l.timeout / 3))
		if _, err := l.conn.Write(frames); err != nil && (wire.TimedOut(err) || !l.isLeaving()) {
			l.fail(err)
		}
		_ = l.conn.SetWriteDeadline(time.Time{})
	}
}

// isLeaving reports whether only closeSession still counts. A ping after closeSession may fail because the connection has ended. The
// answer to closeSession is not lost by that: the reading goroutine finds the answer, or the end.
func (l *link) isLeaving() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state == linkLeaving
}

// take empties the outbox and returns its content. If the outbox is empty, take returns nil and notes that the writing has ended. The
// parameter spent is what an earlier call returned and the caller has written; its memory becomes the next outbox.
func (l *link) take(spent []byte) []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	if cap(spent) > 64<<10 { // do not keep the buffer of one large request
		spent = nil
	}
	out := l.outbox
	l.outbox = spent[:0]
	if len(out) == 0 || l.state == linkDead {
		l.writing = false
		l.s.running.Done()
		return nil
	}
	return out
}

// touch notes that a frame is sent now. For proof.touched it returns the send time of the newest frame of this link that was sent at least
// T/8 ago. If there is no such frame, touch returns the send time of the connect request. The leader itself creates or revalidates a
// session, so the leader heard of this session after that request was sent. Older stamps are dropped. The caller holds mu.
func (l *link) touch(now clock.Stamp) (touched clock.Stamp) {
	for len(l.touches) > 1 && now.At.Sub(l.touches[1].At) >= clock.Report.Of(l.timeout) {
		l.touches = l.touches[1:]
	}
	touched = l.asked
	if len(l.touches) > 0 && now.At.Sub(l.touches[0].At) >= clock.Report.Of(l.timeout) {
		touched = l.touches[0]
	}
	// One stamp in T/32 is enough. The stamps that are kept are hardly older than T/8, so there is never more than a handful. A missing
	// stamp makes a proof seem older than it is, never younger.
	if n := len(l.touches); n == 0 || now.At.Sub(l.touches[n-1].At) >= clock.Spacing.Of(l.timeout) {
		l.touches = append(l.touches, now)
	}
	return touched
}
