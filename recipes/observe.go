package recipes

import (
	"runtime/debug"
	"sync"
	"time"
)

// eventQueue holds what the Observer is still to receive. Its mutex is the last of all to be taken, so events can be added
// wherever they happen, and in the order in which they happen; callbacks run without it, on a goroutine that holds nothing.
type eventQueue struct {
	mu      sync.Mutex
	pending []func()
	idle    chan struct{} // closed when all have been delivered; nil while none is pending
}

// observe tells the Observer, if there is one, on its own goroutine: a callback that panics, blocks, ends its goroutine or
// calls the Client has no lock in its hands. (Run by the goroutine that locks, one that blocked in Queued kept the place,
// and with it everybody behind.)
func (c *Client) observe(tell func(Observer, Event), e Event) {
	o, q := c.cfg.Observer, &c.events
	if o == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.pending = append(q.pending, func() { tell(o, e) })
	if q.idle == nil {
		q.idle = make(chan struct{})
		go c.callback()
	}
}

// callback tells everything there is to tell, then ends.
func (c *Client) callback() {
	returned := true
	defer func() {
		if returned {
			return
		}
		why := recover() // nil: runtime.Goexit, which a test's FailNow calls
		go c.callback()
		c.log.Error("Config.Observer panicked, or ended its goroutine; the lock is not affected", "panic", why, "stack", string(debug.Stack()))
	}()
	for next := c.events.next(); next != nil; next = c.events.next() {
		returned = false
		next()
		returned = true
	}
}

func (q *eventQueue) next() func() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.pending) == 0 {
		close(q.idle)
		q.idle = nil
		return nil
	}
	next := q.pending[0]
	q.pending = q.pending[1:]
	return next
}

// wait waits until all is delivered, but not for an Observer that takes long.
func (q *eventQueue) wait(most time.Duration) {
	q.mu.Lock()
	idle := q.idle
	q.mu.Unlock()
	if idle == nil {
		return
	}
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-idle:
	case <-timer.C:
	}
}

// tenure is what an Observer sees as one lease: Acquired, and then once Released or Lost. A lease that was entered again
// is part of the tenure that it was entered in; readers that share a contender have one each.
type tenure struct {
	since  time.Time
	wait   time.Duration
	leases int
}

// acquired begins a tenure. One of a holding that has been lost meanwhile ends at once.
func (h *holding) acquired(wait time.Duration) *tenure {
	h.mu.Lock()
	defer h.mu.Unlock()
	g := &tenure{since: time.Now(), wait: wait, leases: 1}
	h.tell(Observer.Acquired, g, nil)
	if h.over != nil {
		h.tell(Observer.Lost, g, h.over)
		return g
	}
	h.tenures = append(h.tenures, g)
	return g
}

// tell tells of one tenure; mu is held.
func (h *holding) tell(what func(Observer, Event), g *tenure, cause error) {
	h.q.c.observe(what, Event{Path: h.q.path, Kind: h.q.kind, Node: h.ks[0].path, Token: uint64(h.czxid),
		Wait: g.wait, Held: time.Since(g.since), Cause: cause})
}
