package zktest

import (
	"slices"
	"sync"
	"time"

	"github.com/locktree/locktree/recipes/zktest/internal/wire"
)

// Request is a request that has just been read off the wire, as a fault's predicate sees it.
type Request struct {
	Session int64    // 0 before the first handshake is answered
	Op      string   // "create", "getChildren2", "ping", ...; "connect" for the handshake
	Path    string   // for a multi, the path of its first operation
	Paths   []string // every path that the request names
	Xid     int32
	// N is the number of this request, from 1, among the requests with this Op that this rule has seen. The condition r.Op == "create" &&
	// r.N == 2 accepts the second create after the injection, of any session.
	N int
}

// Fault is something to do to a request: one of the values declared here, or what
// [Delay], [DelayReader], [DelayReply], [CutAt] and [Fail] return.
type Fault struct {
	kind faultKind
	d    time.Duration
	code wire.Code
	n    int
}

type faultKind int

const (
	faultNone faultKind = iota
	faultDropRequest
	faultDropReply
	faultLoseReply
	faultCutBefore
	faultCutAfter
	faultCutAt
	faultDelay
	faultDelayReply
	faultHold
	faultDelayReader
	faultHoldReader
	faultHoldReply
	faultFail
)

// Faults without a parameter.
var (
	// DropRequest swallows the request: it is neither executed nor answered. The connection goes on, with all other requests.
	DropRequest = Fault{kind: faultDropRequest}
	// DropEvent swallows a watch event, see [Server.InjectEvent].
	DropEvent = Fault{kind: faultDropRequest}
	// DropReply executes the request, swallows the reply and cuts the connection: the client cannot know what happened.
	DropReply = Fault{kind: faultDropReply}
	// LoseReply executes the request and swallows the reply. The connection goes on, with all other requests.
	LoseReply = Fault{kind: faultLoseReply}
	// CutBefore cuts the connection instead of executing the request.
	CutBefore = Fault{kind: faultCutBefore}
	// CutAfter cuts the connection once the reply is sent in full.
	CutAfter = Fault{kind: faultCutAfter}
	// Hold keeps the request in the server's pipeline until [Injection.Release], as a slow disk does. All later requests of its session at
	// this server wait behind it, even those of a new connection. Their arrival keeps the session alive. If the client leaves meanwhile,
	// these requests are still executed at release, unless the session is over by then or attached to another server ([Replica]).
	Hold = Fault{kind: faultHold}
	// HoldReader stops the thread that has read the request, until [Injection.Release]. The request is not in the pipeline yet, and nothing
	// more is read from its connection. If the connection is cut, on either side, the request is executed at release all the same. A new
	// connection of the session overtakes the request. So writes that were sent later can be executed and answered before the held one.
	// ZooKeeper does this when the thread is not given a processor in time. More often, a program sees the same effect when its session
	// leaves a slow server and returns to it.
	HoldReader = Fault{kind: faultHoldReader}
	// HoldReply executes the request and keeps its reply, and everything sent on the connection after it, until [Injection.Release].
	HoldReply = Fault{kind: faultHoldReply}
)

// CutAt executes the request and cuts the connection after n bytes of its reply. The four bytes of the reply's length count too.
func CutAt(n int) Fault { return Fault{kind: faultCutAt, n: n} }

// Delay is [Hold] for d.
func Delay(d time.Duration) Fault { return Fault{kind: faultDelay, d: d} }

// DelayReader is [HoldReader] for d.
func DelayReader(d time.Duration) Fault { return Fault{kind: faultDelayReader, d: d} }

// DelayReply executes the request and sends its reply, and everything on the connection after it, d later.
func DelayReply(d time.Duration) Fault { return Fault{kind: faultDelayReply, d: d} }

// Fail answers the request with code instead of executing it. A handshake ("connect") can be refused in one way only: the client is told
// that its session has expired.
func Fail(code Code) Fault { return Fault{kind: faultFail, code: wire.Code(code)} }

// Injection is one fault in force, from [Server.Inject].
type Injection struct {
	s     *Server
	fault Fault
	hit   chan struct{}
	// The fields below are guarded by rules.mu, or by Server.mu if this is a fault of events.
	match      func(Request) bool
	matchEvent func(Event) bool // set by InjectEvent; otherwise nil
	seen       map[string]int   // how many requests or events the rule has seen, by operation or by type of event
	hits       int

	released bool     // guarded by Server.mu, like the field waiting
	waiting  []func() // functions that resume the held requests
	gate     chan struct{}
}

func newInjection(s *Server, f Fault) *Injection {
	return &Injection{s: s, fault: f, seen: map[string]int{}, hit: make(chan struct{}), gate: make(chan struct{})}
}

// rules are the faults in force. The lock mu serialises the predicates. They run without the server's lock, so that a predicate may inspect
// the server.
type rules struct {
	mu  sync.Mutex
	all []*Injection
}

// Inject puts a fault in force for every request that match accepts, until [Injection.Remove]. If several rules match, the one injected
// first wins. The server calls match once for each request, in each connection's order, and never from two goroutines at a time. The
// function match may inspect the server but must not inject or remove faults. See [Once] and [On].
func (s *Server) Inject(match func(Request) bool, f Fault) *Injection {
	i := newInjection(s, f)
	i.match = match
	s.rules.mu.Lock()
	defer s.rules.mu.Unlock()
	s.rules.all = append(s.rules.all, i)
	return i
}

// Hits returns the number of requests that the fault has struck.
func (i *Injection) Hits() int {
	lock := &i.s.rules.mu
	if i.matchEvent != nil {
		lock = &i.s.mu
	}
	lock.Lock()
	defer lock.Unlock()
	return i.hits
}

// Hit returns a channel that is closed when the fault strikes for the first time. With [Hold] and [HoldReader] the request may still be on
// its way then; the server does not execute it before the release.
func (i *Injection) Hit() <-chan struct{} { return i.hit }

// Remove ends the fault for requests that have not been read yet. Requests that the fault holds stay held until [Injection.Release].
func (i *Injection) Remove() {
	lock, all := &i.s.rules.mu, &i.s.rules.all
	if i.matchEvent != nil {
		lock, all = &i.s.mu, &i.s.eventRules
	}
	lock.Lock()
	defer lock.Unlock()
	*all = slices.DeleteFunc(*all, func(x *Injection) bool { return x == i })
}

// Release lets everything that is held go on, in order, and removes the fault.
func (i *Injection) Release() {
	i.Remove()
	i.s.mu.Lock()
	defer i.s.mu.Unlock()
	if i.released {
		return
	}
	i.released = true
	close(i.gate)
	for c := range i.s.conns {
		c.out.Wake()
	}
	for _, resume := range i.waiting {
		resume()
	}
	i.waiting = nil
}

// On returns a predicate that accepts the given operations, of any session and path.
func On(ops ...string) func(Request) bool {
	return func(r Request) bool { return slices.Contains(ops, r.Op) }
}

// Once returns a predicate that accepts only the first request that match accepts.
func Once(match func(Request) bool) func(Request) bool {
	done := false
	return func(r Request) bool {
		if done || !match(r) {
			return false
		}
		done = true
		return true
	}
}

// apply decides the fault for a request that was just read.
func (r *rules) apply(c *conn, it *inboundFrame) {
	if it.word != "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.all) == 0 {
		return
	}
	q := Request{Session: c.sid.Load(), Op: wire.OpName(it.req.Op), Paths: it.req.Paths(), Xid: it.req.Xid}
	if it.req.Op == wire.OpConnect {
		q.Session = it.req.Connect.Session
	}
	if len(q.Paths) > 0 {
		q.Path = q.Paths[0]
	}
	for _, i := range r.all {
		i.seen[q.Op]++
		q.N = i.seen[q.Op]
		if it.inj != nil || !i.match(q) {
			continue
		}
		it.fault, it.inj = i.fault, i
		it.read = i.fault.kind == faultDelayReader || i.fault.kind == faultHoldReader
		i.strike()
	}
}

// park holds up a request whose fault is of the kind delay or hold, and sets *stalled meanwhile.
func (c *conn) park(it *inboundFrame, delay, hold faultKind, stalled *bool) bool {
	resume := func() {
		*stalled = false
		c.pump()
	}
	switch it.fault.kind {
	case delay:
		c.s.runLater(it.fault.d, resume)
	case hold:
		if it.inj.released {
			return false
		}
		it.inj.waiting = append(it.inj.waiting, resume)
	default:
		return false
	}
	it.fault.kind = faultNone // the fault has struck
	*stalled = true
	return true
}

// finish sends the reply of an executed request, subject to its fault.
func (c *conn) finish(it *inboundFrame, frame []byte, end bool) {
	switch it.fault.kind {
	case faultDropReply:
		frame, end = nil, true
	case faultLoseReply:
		frame = nil
	case faultCutAfter:
		end = true
	case faultCutAt:
		frame, end = frame[:min(it.fault.n, len(frame))], true
	}
	if frame != nil && !c.closed && !c.out.Dead() {
		c.waveReply(it.req.Op)
		var later time.Duration
		var gate chan struct{}
		switch {
		case it.fault.kind == faultDelayReply:
			later = it.fault.d
		case it.fault.kind == faultHoldReply && !it.inj.released:
			gate = it.inj.gate
		}
		c.replyLater(frame, later, gate)
	}
	if end {
		c.close()
	}
}

// Code is an error code of the client protocol, as in ZooKeeper's KeeperException.Code. [Fail] makes the server answer with a code. A code
// without a name here can be given by number, such as Code(-118).
type Code int32

// The codes that tests inject or ask for.
const (
	CodeSystemError   Code = Code(wire.CodeSystemError)
	CodeNoNode        Code = Code(wire.CodeNoNode)
	CodeNoAuth        Code = Code(wire.CodeNoAuth)
	CodeNodeExists    Code = Code(wire.CodeNodeExists)
	CodeQuotaExceeded Code = Code(wire.CodeQuotaExceeded)
	CodeThrottled     Code = Code(wire.CodeThrottled)
)

// String returns ZooKeeper's name for the code, or its number.
func (c Code) String() string { return wire.Code(c).String() }

// Error makes a Code usable as an error: errors.Is(err, zktest.CodeNoNode).
func (c Code) Error() string { return "zookeeper answered " + c.String() }
