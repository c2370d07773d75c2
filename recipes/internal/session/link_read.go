package session

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/recipes/internal/jute"
)

// serve pings the server and delivers what it says, until the link ends. Then the session knows that it has none.
func (l *link) serve() {
	l.mu.Lock()
	l.s.running.Add(1)
	l.pinger = time.AfterFunc(l.timeout/3, l.ping)
	l.mu.Unlock()
	defer l.stop(l.pinger)
	l.patience()
	for {
		frame, err := l.await()
		if err == nil {
			err = l.reply(frame[4:])
		}
		if err != nil {
			l.fail(l.farewell(err))
			l.s.lost(l) // whoever found it dead first may not have come to that
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
		// The deadline that has passed may be an older one: setting it anew for each answer would cost more than reading it.
		if err != nil && !(timedOut(err) && l.patience()) {
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
	until := l.answer.after(l.timeout*2/3, l.s.clock.slept(now))
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
func (l *link) reply(body []byte) error {
	b := newCursor(body)
	xid, r := b.Int32(), reply{zxid: b.Int64(), code: b.Int32()}
	switch xid {
	case jute.XidEvent:
		return l.event(b.B)
	case jute.XidPing:
		return l.pong()
	}
	c, err := l.expected(xid)
	if err != nil {
		return err
	}
	if r.code == 0 {
		// A frame that does not contain what was asked for proves nothing.
		if err := r.decode(c.op, c.ops, b.B); err != nil {
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
	if c.op == jute.OpRemoveWatches && r.code == jute.CodeUnimplemented { // by servers before 3.5, which end the connection with it
		l.s.keepsWatches.Store(true)
	}
	if r.zxid > l.s.Zxid() { // of an error too: it is what the server had applied when it answered
		l.s.zxid.Store(r.zxid)
	}
	l.acked(c.sent)
	if r.code == 0 && writeCodes[c.op] {
		l.s.committed(c.sent, c.touched)
	}
	if c.op == jute.OpAuth && r.code != 0 || r.code == jute.CodeSessionExpired || r.code == jute.CodeSASLRequired {
		l.s.refused(r.code) // before the call is completed: its caller must find the session over
	}
	if c.op == jute.OpCloseSession {
		if r.code != 0 && r.code != jute.CodeSessionExpired {
			_, err := answer(r.code)
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
var writeCodes = map[int32]bool{jute.OpCreate: true, jute.OpDelete: true, jute.OpSetData: true, jute.OpSetACL: true, jute.OpMulti: true}

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
	l.s.acked(sent)
}

// event reports the watches that an event uses up as fired. The creation of a node uses up none: we never watch a node that is
// missing.
func (l *link) event(body []byte) error {
	c := newCursor(body)
	t, _, path := zk.EventType(c.Int32()), c.Int32(), c.str()
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
		l.s.fired(k, t)
	}
	return nil
}
