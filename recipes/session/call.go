package session

// call is a request and its result.
type call struct {
	op      int32
	xid     int32 // set when it is submitted, as are sent, touched and next
	path    string
	arms    *setWatches // what setWatches watches
	ops     int         // of a transaction: the number of its operations
	watch   bool        // a read that sets a watch
	bounded bool        // it is waited for no longer than a session timeout; see link.expire
	prompt  bool        // it is written at once; see link.gather
	slot    bool        // it occupies one of guard.slots
	told    bool        // done is closed, or about to be; guarded by the link's mu

	sent, touched stamp
	next          *call // the one submitted after it

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

// pop removes the first call. An empty queue refers to none: the answer to the last one may be large, and the next far off.
func (q *callQueue) pop() {
	if q.first = q.first.next; q.first == nil {
		q.last = nil
	}
}

func (q *callQueue) takeAll() *call {
	first := q.first
	q.first = nil
	return first
}
