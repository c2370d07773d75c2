package session

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

// link is one connection. Goroutines write their requests themselves, one for several (submit). Replies are delivered by the
// goroutine that reads, which is go-zookeeper's: to it the link is a net.Conn that yields whole, checked frames and whose Write
// never fails. go-zookeeper itself sends only the connect request, pings and closeSession. Deadlines are set by the link alone.
//
// Read and Write are each called by one goroutine at a time; all else by any.
type link struct {
	net.Conn
	g      *guard
	target target
	r      *bufio.Reader
	used   int       // bytes of r that the present frame occupies
	out    []byte    // what go-zookeeper has not read yet of the frame it is being handed
	by     time.Time // when the connect request must have been answered
	answer stamp     // send time of the newest answered frame; only the reading goroutine uses it
	raw    *rawWriter
	shown  *x509.Certificate // ours, that the server asked for; nil if it did not

	mu      sync.Mutex
	state   linkState
	asked   stamp // before the connect request was written
	timeout time.Duration
	xid     int32
	calls   callQueue             // submitted, not answered, in the order in which servers answer them
	turned  time.Time             // when the first of calls became that, if others were before it
	over    bool                  // the session is over: nothing but closeSession is submitted any more
	pings   []stamp               // written, not answered, oldest first: servers answer them in order
	touches []stamp               // send times of some of the frames written, oldest first; see touch
	armed   map[watchKey]struct{} // the watches set on the server
	outbox  []byte                // frames to be written
	writing bool                  // some goroutine is writing the outbox

	gathering bool      // some goroutine is about to write it; see gather
	hasty     time.Time // nobody gathers before this time
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
	l.raw = newRawWriter(conn)
	return l
}

// SetDeadline does nothing: see link.
func (*link) SetDeadline(time.Time) error { return nil }

// SetReadDeadline does nothing: go-zookeeper would wait up to 6.67 session timeouts for the answer to a connect request,
// and for ever once the answer's length has come.
func (*link) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline does nothing: see link.
func (*link) SetWriteDeadline(time.Time) error { return nil }

// Close is called by go-zookeeper when it is done with the connection.
func (l *link) Close() error {
	l.fail(net.ErrClosed)
	return nil
}

// fail ends the link, once: the first cause counts. The session hears of it only if it was granted on this link. Before that
// a failure means that the server did not answer, which goes into the report, unless we ended the link ourselves.
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
		l.g.hosts.blame(l.target, explainSilence(ownFault(l.shown, cause)))
	}
	for c := left; c != nil; c = c.next { // after lost: a caller that asks again must wait for the next link
		l.g.finish(c, fmt.Errorf("%w before the answer came: %w", zk.ErrConnectionClosed, cause))
	}
}

// hangUp closes the socket. tls.Conn.Close would first send an alert, waiting up to five seconds for a peer that does not
// read, and the goroutine that found the link dead would wait with it.
func (l *link) hangUp() {
	conn := l.Conn
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	_ = conn.Close()
}

// Write takes one whole frame, which is how go-zookeeper calls it. It always reports success, because most frames are written
// later. go-zookeeper learns of the link's end through Read.
func (l *link) Write(frame []byte) (int, error) {
	l.mu.Lock()
	state := l.state
	l.mu.Unlock()
	// While the connect request is unanswered go-zookeeper writes nothing more. What it writes to a dead link it counts as
	// lost when its next read fails.
	switch {
	case state == linkNew:
		l.writeConnect(frame)
	case state != linkGranted:
	case int32(binary.BigEndian.Uint32(frame[4:])) == xidPing:
		l.ping(frame)
	default: // closeSession: it sends nothing else
		l.submit(frame, []*call{{op: opClose, prompt: true, xid: int32(binary.BigEndian.Uint32(frame[4:]))}})
	}
	return len(frame), nil
}

// writeConnect adds the read-only byte (0: we want no read-only server). go-zookeeper leaves it out, as clients before 3.4
// did, and servers then complain in their logs at each connection.
func (l *link) writeConnect(frame []byte) {
	body := append(slices.Clone(frame[4:]), 0)
	binary.BigEndian.PutUint64(body[4:], uint64(l.g.lastZxid()))
	l.mu.Lock()
	l.state, l.asked = linkAsked, l.g.clock.now()
	l.mu.Unlock()
	_ = l.Conn.SetDeadline(l.by)
	if _, err := l.Conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)); err != nil {
		// The reader finds out. If the peer sent garbage before it hung up, that garbage is the better explanation.
		return
	}
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
	// The connect request is the first answered frame.
	l.answer, l.touches, l.timeout = sent, []stamp{sent}, time.Duration(answer.timeout)*time.Millisecond
	l.mu.Unlock()
	if err := l.g.on.granted(answer, sent, l); err != nil {
		return err
	}
	// Safe without a lock: the same loop of go-zookeeper's dials and reads this answer.
	l.g.limit = 0
	l.mu.Lock()
	if l.state != linkAsked { // it failed while it was being granted, so fail did not call lost
		l.mu.Unlock()
		l.g.on.lost(l)
		return net.ErrClosed
	}
	l.state = linkGranted
	l.push()
	l.patience()
	return nil
}

// abandon ends all waiting for answers, because the session is over. The requests stay in the queue: the server may still answer
// them.
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

var errUnanswered = errors.New("it answers pings, and left a request unanswered for a session timeout")

// expire ends the link if the oldest request has been that for a session timeout. An answer out of order ends it at once (see
// expected), but there may be no later request, and contexts need not end. It returns when to ask again, or next if that is
// earlier. The session asks at each of its looks at the clock, of which there is one within any session timeout.
func (l *link) expire(next time.Time) time.Time {
	l.mu.Lock()
	first, due := l.calls.first, l.turned
	if first == nil {
		l.mu.Unlock()
		return next
	}
	if first.sent.at.After(due) {
		due = first.sent.at
	}
	due = due.Add(l.timeout)
	l.mu.Unlock()
	if !due.After(time.Now()) {
		l.fail(errUnanswered)
		return next
	}
	if due.Before(next) {
		return due
	}
	return next
}
