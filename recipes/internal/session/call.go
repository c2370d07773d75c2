package session

// call is a request and its result.
type call struct {
	op     int32
	xid    int32 // set when it is submitted, as are sent, touched and next
	ops    int   // of a transaction: the number of its operations
	prompt bool  // it is written at once; see link.gather
	lane   lane  // in which it waits for a slot
	slot   bool  // it occupies one of its lane
	told   bool  // done is closed, or about to be; guarded by the link's mu

	sent, touched stamp
	next          *call // the one submitted after it

	done  chan struct{} // closed when the answer is here or will never come; nil if nobody waits for it
	reply reply
	err   error // why there is no reply
}

// tell closes done.
func (c *call) tell(err error) {
	c.err = err
	if c.done != nil {
		close(c.done)
	}
}

// finish closes c.done unless that has happened, and frees c's slot for another request.
func (s *Session) finish(c *call, err error) {
	if !c.told {
		c.tell(err)
	}
	if c.slot {
		<-s.slots[c.lane]
	}
}

// callQueue holds calls in the order in which they were submitted.
type callQueue struct{ first, last *call }

func (q *callQueue) push(c *call) {
	if q.first == nil {
		q.first = c
	} else {
		q.last.next = c
	}
	q.last = c
}

// pop removes the first call. An empty queue refers to none: the answer to the last one may be large, and the next far off. Nor
// does a call that is removed refer to the next: whoever keeps a Reply would keep all that came behind it.
func (q *callQueue) pop() {
	c := q.first
	if q.first, c.next = c.next, nil; q.first == nil {
		q.last = nil
	}
}

func (q *callQueue) takeAll() *call {
	first := q.first
	q.first = nil
	return first
}

// lane is a sort of requests that wait for slots of their own. Servers answer a session in order, and a connection carries the
// answers in order, so what is sent ahead of a heartbeat delays it. A crowd of goroutines that read must cost no lease, and must
// not keep what this client gives back from others.
type lane int

const (
	laneAny     lane = iota
	laneList         // and what goes with a listing: an answer can be megabytes
	laneRelease      // deletes, also in a transaction
	laneBeat         // heartbeats
	lanes
)

// inFlight bounds the requests of each lane, with the listings behind them, that wait for an answer, including those abandoned
// by their callers: with a server that answers only pings they would otherwise accumulate without bound.
var inFlight = [lanes]int{laneAny: 1024, laneList: 128, laneRelease: 256, laneBeat: 8}

// newSlots makes the slots of all lanes.
func newSlots() (slots [lanes]chan struct{}) {
	for i, n := range inFlight {
		slots[i] = make(chan struct{}, n)
	}
	return slots
}

// laneOf is the lane of requests that are sent together.
func laneOf(calls []*call) lane {
	in := laneAny
	for _, c := range calls {
		in = max(in, c.lane)
	}
	return in
}
