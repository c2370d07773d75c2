package session

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"
)

// listener is the session, as the guard sees it. Its methods are called by the goroutine that finds out, and must not block.
type listener interface {
	granted(g grant, sent stamp, l *link) error // a server answered the connect request; an error refuses it
	lost(l *link)                               // a link that was granted is gone
	acked(sent stamp)                           // a frame sent then was answered
	committed(sent, touched stamp)              // a write sent then was committed; see proof
	fired(k watchKey, t zk.EventType)           // a watch fired
	refused(code int32)                         // the servers rejected the session or an identity for good
	closed()                                    // the server confirmed closeSession
}

// guard makes the connections of one session, one after another as go-zookeeper asks for them; none once the session is over.
type guard struct {
	on      listener
	hosts   *hosts
	dialer  func(ctx context.Context, network, address string) (net.Conn, error)
	tls     *tlsSource
	clock   clock
	timeout func() time.Duration // the session's timeout: as negotiated, until then as asked for
	reply   int                  // Config.MaxReply
	limit   time.Duration        // bounds an attempt until there is a session; only go-zookeeper's loop touches it

	live   context.Context    // of the session's connections: zk's dialer has no context of its own
	refuse context.CancelFunc // ends all connecting, for good; the present link lives on

	slots   [lanes]chan struct{} // one for each request, with the listings behind it, that no server has answered yet
	preempt func()               // see Client

	keepsWatches atomic.Bool // a server does not know removeWatches

	mu   sync.Mutex
	link *link
	zxid int64 // the newest we have seen, for connect requests: a server behind it refuses us
}

var errOver = errors.New("the session is over")

// dial is go-zookeeper's dialer. The timeout it asks for (always a second) is replaced by our own budget.
func (g *guard) dial(network, _ string, _ time.Duration) (net.Conn, error) {
	t, pass, first := g.hosts.current()
	// After a failure the next server is tried at once; a pause comes only when all have failed.
	if first && pass > 0 && !g.pause(pass) {
		return nil, errOver
	}
	if g.live.Err() != nil {
		return nil, errOver
	}
	ctx, cancel := context.WithTimeout(g.live, g.budget(pass))
	defer cancel()
	g.hosts.trying(t, "still connecting")
	conn, shown, err := g.open(ctx, network, t)
	if err != nil {
		g.hosts.blame(t, explain(err))
		return nil, err
	}
	g.hosts.trying(t, "it accepted the connection, but has not answered the connect request yet")
	deadline, _ := ctx.Deadline()
	l := newLink(g, conn, t, deadline)
	l.shown = shown
	g.mu.Lock()
	g.link = l
	g.mu.Unlock()
	if g.live.Err() != nil { // refused while dialling: kill may have missed the link
		l.fail(errOver)
		return nil, errOver
	}
	return l, nil
}

// pause waits between two passes over the servers, with a jitter that grows from pass to pass, so that the clients of a
// restarted ensemble do not come back in step. Before there is a session it adds up to T/6 to the second that go-zookeeper has
// slept. Later it is the only pause, and grows to the longest that the session can spare. It returns false when the session
// ends meanwhile.
func (g *guard) pause(pass int) bool {
	var d time.Duration
	if most, _ := g.hosts.hurry(); most > 0 {
		most = min(g.timeout()/32<<min(pass-1, 6), most)
		d = most/2 + rand.N(most/2+1)
	} else {
		d = rand.N(min(250*time.Millisecond<<min(pass, 6), g.timeout()/6) + 1)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-g.live.Done():
		return false
	}
}

// budget bounds one attempt: dialling, TLS and the answer to the connect request. A silent server is noticed 2T/3 after its
// last answer, so all servers together get the remaining T/3: one that accepts and says nothing must not cost the session.
// After a failed pass the budget doubles, for slow networks, but not while something is held: no lease could be kept there.
// With many servers each still gets half a second, or T/6 of a short session.
func (g *guard) budget(pass int) time.Duration {
	if _, held := g.hosts.hurry(); held {
		pass = 0
	}
	t, n := g.timeout(), time.Duration(g.hosts.size())
	each := max(t/3/n, min(t/6, 500*time.Millisecond))
	each = min(each<<min(pass, 3), 2*t/3, 10*time.Second)
	if g.limit > 0 {
		each = min(each, g.limit)
	}
	return each
}

// dialGrace is how long the end of a session waits for a Dialer to obey its context.
const dialGrace = time.Second

// call runs the Dialer within ctx. Config.Dialer may not obey ctx: then its goroutine is left behind, and closes the
// connection if one comes after all. When the session is over call waits a little first, so that a Dialer that is only slow
// leaves nothing behind after Close.
func (g *guard) call(ctx context.Context, network, addr string) (net.Conn, error) {
	type result struct {
		conn net.Conn
		err  error
	}
	dialled, ended := make(chan result), make(chan struct{})
	go func() {
		defer close(ended)
		conn, err := g.dialer(ctx, network, addr)
		select {
		case dialled <- result{conn, err}:
		case <-ctx.Done(): // nobody takes it any more
			if err == nil {
				_ = conn.Close()
			}
		}
	}()
	select {
	case r := <-dialled:
		return r.conn, r.err
	case <-ctx.Done():
	}
	if g.live.Err() != nil {
		grace := time.NewTimer(dialGrace)
		defer grace.Stop()
		select {
		case <-ended:
		case <-grace.C:
		}
	}
	return nil, context.Cause(ctx)
}

// explain turns an attempt's error into a text that a person can act on.
func explain(err error) string {
	var record tls.RecordHeaderError
	var op *net.OpError
	var dns *net.DNSError
	var expired *expiredError
	switch {
	case errors.As(err, &expired):
		return expired.Error()
	case errors.As(err, &record):
		return "it does not speak TLS: use its TLS port (secureClientPort), or connect without TLS"
	case errors.As(err, &dns):
		return dns.Error()
	case timedOut(err):
		return "no connection in the time allowed for one attempt"
	case errors.As(err, &op) && op.Err != nil:
		return op.Err.Error()
	}
	return err.Error()
}

// explainSilence is explain for a connection that was accepted and ended before a session was granted.
func explainSilence(err error) string {
	var expired *expiredError
	switch {
	case errors.As(err, &expired):
		return expired.Error()
	case timedOut(err):
		return "it accepted the connection, but did not answer the connect request in the time allowed (a hung server, or an ensemble that commits nothing? a TLS port?)"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.ErrClosedPipe):
		return "it closed the connection instead of answering the connect request (a TLS port? a server without a quorum?)"
	}
	return explain(err)
}

// explainLoss is explain for a connection that carried the session.
func explainLoss(err error) string {
	if timedOut(err) {
		return "it stopped answering"
	}
	return "the connection was lost: " + explain(err)
}

// kill ends the present link. go-zookeeper then dials the next server, unless refuse was called.
func (g *guard) kill(cause error) {
	g.mu.Lock()
	l := g.link
	g.mu.Unlock()
	if l != nil {
		l.fail(cause)
	}
}

// saw notes a reply's zxid. An error reply's counts as well: it is what the server had applied when it answered.
func (g *guard) saw(zxid int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.zxid = max(g.zxid, zxid)
}

func (g *guard) lastZxid() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.zxid
}
