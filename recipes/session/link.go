package session

import (
	"bufio"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
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

// Write passes on one whole frame, which is how go-zookeeper calls it. It reports success always: most is
// written later. The end of the link reaches go-zookeeper through Read.
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
