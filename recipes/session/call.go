package session

// call is a request and its result.
type call struct {
	op    int32
	path  string
	watch bool        // a read that sets a watch
	arms  *setWatches // what it watches, if it is one
	ops   int         // of a transaction: the number of its operations
	slot  bool        // it occupies one of guard.slots

	// Set when it is submitted.
	xid           int32
	sent, touched stamp
	next          *call // the one submitted after it

	told  bool          // done is closed, or about to be; guarded by the link's mu
	lead  *Pipelined    // of the write in it
	done  chan struct{} // closed when the answer is here or will never come; nil if nobody waits for it
	reply reply
	err   error // why there is no reply
}

// tell closes done.
func (c *call) tell(err error) {
	c.err = err
	if c.lead != nil {
		c.lead.answered(c)
	}
	if c.done != nil {
		close(c.done)
	}
}

// finish closes c.done unless that has happened, and frees c's slot for another request.
func (g *guard) finish(c *call, err error) {
	if !c.told {
		c.tell(err)
	}
	if c.slot {
		<-g.slots
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

func (q *callQueue) pop() { q.first = q.first.next }

func (q *callQueue) takeAll() *call {
	first := q.first
	q.first = nil
	return first
}
