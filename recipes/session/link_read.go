package session

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"
)

// Read hands out the frames that go-zookeeper waits for, and handles all others itself. Each frame is read completely and
// checked before its first byte is passed on.
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

// nextFrame returns the next frame for go-zookeeper.
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

// await reads the next frame, which is valid until await is called again.
func (l *link) await() ([]byte, error) {
	_, _ = l.r.Discard(l.used)
	l.used = 0
	for l.r.Buffered() == 0 {
		_, err := l.r.Peek(1)
		// The deadline that has passed may be an older one: setting it anew for each answer would cost more than reading it.
		if err != nil && !(timedOut(err) && l.patience()) {
			return nil, err
		}
	}
	head, _ := l.r.Peek(min(4, l.r.Buffered()))
	if len(head) == 4 && int64(l.r.Buffered()) >= 4+int64(binary.BigEndian.Uint32(head)) {
		return l.readFrame(l.g.reply)
	}
	// A frame that has begun must arrive soon: a peer that stalls in the middle of one is as dead as a silent one.
	_ = l.Conn.SetReadDeadline(time.Now().Add(l.timeout / 3))
	frame, err := l.readFrame(l.g.reply)
	l.patience()
	return frame, err
}

// timedOut reports whether err means that a deadline has passed. A Config.Dialer's connections may have their own error for it.
func timedOut(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

// patience sets the deadline for the next frame: 2T/3 after the send time of the newest answered one. Frames that answer
// nothing (events) do not extend it, so a connection that only works towards us is given up in time. It reports whether the
// deadline lies ahead.
func (l *link) patience() bool {
	now := time.Now()
	until := l.answer.after(l.timeout*2/3, l.g.clock.slept(now))
	_ = l.Conn.SetReadDeadline(until)
	return now.Before(until)
}

// readFrame reads length and body. Memory for a large body grows as it arrives, whatever its length claims.
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

// reply handles a frame: it first takes from it what the session's clock needs, and then completes the call that waits for it.
// So when a create returns, the proof of its commit is in place for the Hold that follows.
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
		// A frame that does not contain what was asked for proves nothing.
		if err := r.decode(c.op, c.ops, b.b); err != nil {
			return false, err
		}
	}
	l.mu.Lock()
	if l.state == linkDead { // fail has completed the call
		l.mu.Unlock()
		return false, net.ErrClosed
	}
	if l.calls.pop(); l.calls.first != nil {
		l.turned = time.Now()
	}
	if c.arms != nil && r.code != 0 {
		for _, k := range c.arms.keys {
			delete(l.armed, k)
		}
	}
	if c.watch && r.code == 0 {
		l.armed[watchKey{c.path, c.op == opGetChildren2}] = struct{}{}
	}
	l.mu.Unlock()
	if c.disarms != nil && r.code == codeUnimplemented { // by servers before 3.5, which end the connection with it
		l.g.keepsWatches.Store(true)
	}
	l.g.saw(r.zxid)
	l.acked(c.sent)
	if r.code == 0 && writeCodes[c.op] {
		l.g.on.committed(c.sent, c.touched)
	}
	if c.op == opSetAuth && r.code != 0 || r.code == codeSessionExpired || r.code == codeSASLRequired {
		l.g.on.refused(r.code) // before the call is completed: its caller must find the session over
	}
	if closing = c.op == opClose; closing {
		l.g.on.closed()
	}
	c.reply = r
	l.g.finish(c, nil)
	return closing, nil
}

// writeCodes are the operations whose success is a commit.
var writeCodes = map[int32]bool{opCreate: true, opDelete: true, opSetData: true, opSetACL: true, opMulti: true}

// expected returns the request that a reply is for. A server answers a session strictly in order, so a reply to a later
// request means that an earlier one will never be answered. Then the link is ended, so that the caller of the earlier one
// learns it now, and not when its context ends, which may be never.
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
	l.acked(sent)
	return nil
}

// acked notes an answer. Answers come in the order of the requests, except to pings, so only a newer stamp counts.
func (l *link) acked(sent stamp) {
	if sent.at.After(l.answer.at) {
		l.answer = sent
	}
	l.g.on.acked(sent)
}

// event removes the watches that an event uses up from armed, as the server has done on its side, and reports them as fired.
// The creation of a node uses up none: we never watch a node that is missing.
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
