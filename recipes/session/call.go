package session

// call is a request, and what becomes of it.
type call struct {
	op    int32
	path  string
	watch bool   // a read that arms a watch
	ops   int    // of a transaction: its operations
	frame []byte // with room for its length and number
	slot  bool   // it has one of guard.slots

	// Set when it is submitted.
	xid           int32
	sent, touched stamp
	next          *call // that was submitted behind it

	told   bool          // done is closed, or is about to be; the link's mu guards it
	before func()        // called before done is closed
	done   chan struct{} // closed when it was answered or will never be
	reply  reply
	err    error // why there is no reply
}

// tell closes done.
func (c *call) tell(err error) {
	c.err = err
	if c.before != nil {
		c.before()
	}
	close(c.done)
}

// finish tells whoever waits for c, unless that was done, and makes room for another request.
func (g *guard) finish(c *call, err error) {
	if !c.told {
		c.tell(err)
	}
	if c.slot {
		<-g.slots
	}
}

// callQueue has calls in the order in which they were submitted.
type callQueue struct{ first, last *call }

func (q *callQueue) push(c *call) {
	if q.first == nil {
		q.first = c
	} else {
		q.last.next = c
	}
	q.last = c
}

func (q *callQueue) pop() { q.first = q.first.next }

func (q *callQueue) takeAll() *call {
	first := q.first
	q.first = nil
	return first
}
