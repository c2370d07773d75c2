package session

import (
	"encoding/binary"
	"runtime"
	"time"

	"github.com/locktree/locktree/recipes/internal/jute"
)

// submit takes requests and their frames, to be written together and in this order; false if the link has ended and none was
// taken. The stamp is taken before the write: a server can only have received the requests later.
func (l *link) submit(frames []byte, calls []*call) bool {
	now := l.s.clock.now()
	l.mu.Lock()
	if l.state == linkDead || l.state != linkOpen && calls[0].op != jute.OpCloseSession {
		l.mu.Unlock()
		return false
	}
	touched, busy := l.touch(now), l.calls.first != nil
	at := len(l.outbox)
	l.outbox = append(l.outbox, frames...)
	for _, c := range calls {
		c.sent = now
		c.touched = touched
		at += l.number(c, l.outbox[at:])
	}
	switch {
	case !busy || l.writing || calls[0].prompt || now.at.Before(l.hasty):
		l.push()
	case l.gathering: // whoever gathers writes this too
		l.mu.Unlock()
	default:
		l.gather(now.at)
		l.push()
	}
	return true
}

// gather lets other goroutines submit their requests first, so that one write takes them all. While requests are under way there
// are such goroutines: servers commit in batches, so answers come in batches, and each answer wakes a goroutine. It saves two
// of three writes of 8 goroutines with a lock each. The caller holds mu.
//
// Where goroutines compute, the scheduler is slow to come back to this one. It then gathers no more for twenty times as long.
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

// number gives a request that is being submitted its xid, and returns the length of its frame. The caller holds mu.
func (l *link) number(c *call, frame []byte) int {
	l.xid++
	c.xid = l.xid
	binary.BigEndian.PutUint32(frame[4:], uint32(c.xid))
	l.calls.push(c)
	return 4 + int(binary.BigEndian.Uint32(frame))
}

// ping sends a ping, every third of the timeout.
func (l *link) ping() {
	now := l.s.clock.now()
	l.mu.Lock()
	if l.state == linkDead {
		l.mu.Unlock()
		l.s.running.Done()
		return
	}
	l.touch(now) // for its clean-up too: an idle link sends nothing but pings
	l.pings = append(l.pings, now)
	e := newEncoder(append(l.outbox, 0, 0, 0, 8))
	e.Int32(jute.XidPing)
	e.Int32(jute.OpPing)
	l.outbox = e.B
	l.pinger.Reset(l.timeout / 3)
	l.push()
}

// push has the outbox written; the caller holds mu, and push unlocks it. What the socket takes without waiting is written
// here. A goroutine writes the rest, because the caller's context may end before the server reads.
func (l *link) push() {
	if l.writing || l.state == linkDead {
		l.mu.Unlock()
		return
	}
	l.writing = true
	l.s.running.Add(1) // until take has nothing more
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

// flush writes out, which the caller took from the outbox, and then the outbox until it is empty.
func (l *link) flush(out []byte) {
	if l.s.client.preempt != nil {
		l.s.client.preempt()
	}
	if out == nil {
		out = l.take(nil)
	}
	for ; out != nil; out = l.take(out) {
		_ = l.conn.SetWriteDeadline(time.Now().Add(l.timeout / 3))
		if _, err := l.conn.Write(out); err != nil && (timedOut(err) || !l.leaving()) {
			l.fail(err)
		}
		_ = l.conn.SetWriteDeadline(time.Time{})
	}
}

// leaving reports whether closeSession is all that counts any more. A ping behind it may meet the end of the connection, which hides
// no answer: whoever reads finds that, or the end.
func (l *link) leaving() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state == linkLeaving
}

// take empties the outbox and returns its content, or nil if there is none, and then writing has ended. written, taken before
// and written by now, becomes the next outbox.
func (l *link) take(written []byte) []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	if cap(written) > 64<<10 { // do not keep the buffer of one large request
		written = nil
	}
	out := l.outbox
	l.outbox = written[:0]
	if len(out) == 0 || l.state == linkDead {
		l.writing = false
		l.s.running.Done()
		return nil
	}
	return out
}

// touch notes that a frame is sent now. It returns the send time of the newest frame of this link that is at least T/8 older,
// or else that of the connect request; see proof for its meaning. Older stamps are dropped. The caller holds mu.
func (l *link) touch(now stamp) (touched stamp) {
	for len(l.touches) > 1 && now.at.Sub(l.touches[1].at) >= l.timeout/8 {
		l.touches = l.touches[1:]
	}
	touched = l.asked
	if len(l.touches) > 0 && now.at.Sub(l.touches[0].at) >= l.timeout/8 {
		touched = l.touches[0]
	}
	// One stamp in T/32 is enough. Those kept are little older than T/8, so there is never more than a handful. Leaving
	// one out makes a proof older than it is, never younger.
	if n := len(l.touches); n == 0 || now.at.Sub(l.touches[n-1].at) >= l.timeout/32 {
		l.touches = append(l.touches, now)
	}
	return touched
}
