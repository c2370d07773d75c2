package session

import (
	"encoding/binary"
	"time"
)

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
		c.frame = nil // an answer may be long in coming
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
	if cap(written) > 64<<10 { // what a large request needed is not kept
		written = nil
	}
	out := l.outbox
	l.outbox = written[:0]
	if len(out) == 0 || l.state == linkDead {
		l.writing = false
		return nil
	}
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
