package session

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/recipes/internal/jute"
)

// link is one connection on which the session was granted. Goroutines write their requests themselves, one for several (submit).
// Replies are delivered by the goroutine that reads (serve), which alone uses r, used and answer.
type link struct {
	s       *Session
	conn    net.Conn
	raw     *rawWriter
	target  Server
	shown   shown // to it
	asked   stamp // before the connect request was written
	timeout time.Duration
	r       *bufio.Reader
	used    int   // bytes of r that the present frame occupies
	answer  stamp // send time of the newest answered frame

	mu      sync.Mutex
	state   linkState
	xid     int32
	calls   callQueue // submitted, not answered, in the order in which servers answer them
	turned  time.Time // when the first of calls became that, if others were before it
	pinger  *time.Timer
	goodbye *time.Timer // bounds the wait for the answer to closeSession, or to all requests of a link that retires
	pings   []stamp     // written, not answered, oldest first: servers answer them in order
	touches []stamp     // send times of some of the frames written, oldest first; see touch
	outbox  []byte      // frames to be written
	writing bool        // some goroutine is writing the outbox

	gathering bool      // some goroutine is about to write it; see gather
	hasty     time.Time // nobody gathers before this time
}

type linkState int

const (
	linkOpen     linkState = iota // the session is on it
	linkRetiring                  // the session goes to another server: nothing is submitted any more
	linkLeaving                   // the session is over: nothing but closeSession is submitted any more
	linkDead
)

func newLink(s *Session, conn net.Conn, t Server, asked stamp, timeout time.Duration) *link {
	return &link{
		s: s, conn: conn, raw: newRawWriter(conn), target: t, asked: asked, timeout: timeout,
		r:      bufio.NewReaderSize(conn, 16<<10),
		answer: asked, touches: []stamp{asked}, // the connect request is the first answered frame
	}
}

// errOver ends what belongs to a session that is over, for which no server is to blame.
var errOver = errors.New("the session is over")

// fail ends the link, once: the first cause counts.
func (l *link) fail(cause error) {
	l.mu.Lock()
	was := l.state
	l.state = linkDead
	left := l.calls.takeAll()
	l.stop(l.goodbye) // it refers to the link, and so to the session
	l.mu.Unlock()
	if was == linkDead {
		return
	}
	if !errors.Is(cause, errOver) { // before serve can end: Close reports it
		l.s.hosts.blame(l.target, explainLoss(cause))
	}
	hangUp(l.conn)
	l.s.lost(l)
	for c := left; c != nil; c = c.next { // after lost: a caller that asks again must wait for the next link
		l.s.finish(c, fmt.Errorf("%w before the answer came: %w", zk.ErrConnectionClosed, cause))
	}
}

var errRetired = errors.New("the server is not in the list any more")

// retire ends the link because its server is not in the list of servers any more. Requests under way are answered first, as their
// outcomes would be unknown otherwise; that may take a twelfth of the timeout, and no longer than settled. Others wait for the next
// link from now on, as at any end of one.
func (l *link) retire() {
	l.mu.Lock()
	if l.state != linkOpen {
		l.mu.Unlock()
		return
	}
	l.state = linkRetiring
	idle := l.calls.first == nil
	if !idle {
		l.s.running.Add(1)
		l.goodbye = time.AfterFunc(min(l.timeout/12, settled), func() {
			defer l.s.running.Done()
			l.fail(errRetired)
		})
	}
	l.mu.Unlock()
	l.s.lost(l)
	if idle {
		l.fail(errRetired)
	}
}

// leave ends all waiting for answers, because the session is over. The requests stay in the queue: the server may still answer
// them. If there is any patience it also tells the server, which then ends what the session held at once, and keeps the link until
// that is confirmed or the time is over. A link that lived on would be pinged, and so keep all locks held.
func (l *link) leave(err error, patience time.Duration) {
	l.mu.Lock()
	if l.state == linkOpen {
		l.state = linkLeaving
	}
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
	if !l.submit(closing(nil, 0), []*call{{op: jute.OpCloseSession, prompt: true}}) {
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

// stop stops a timer, which is in running as long as it is set or its call runs.
func (l *link) stop(t *time.Timer) {
	if t != nil && t.Stop() {
		l.s.running.Done()
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
