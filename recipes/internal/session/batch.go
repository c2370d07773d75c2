package session

import (
	"context"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/recipes/internal/session/clock"
	"github.com/locktree/locktree/recipes/internal/session/wire"
)

// Batch is a list of requests that are sent together: in the order they were added, in one write, on one connection. ZooKeeper
// serves a session in order, so a listing shows a state that includes the writes ahead of it. A Batch repeats nothing: the second
// answer might come over another connection, so the caller decides whether to ask again.
//
// One goroutine fills a Batch and sends it once. Any goroutine may use its Replies.
type Batch struct {
	s       *Session
	replies []*Reply
	err     error // why it was not sent

	// Room for two requests: most batches are a write and a listing.
	first [2]*Reply
	room  [2]Reply
}

// Batch returns an empty Batch.
func (s *Session) Batch() *Batch {
	b := &Batch{s: s}
	b.replies = b.first[:0]
	return b
}

// Reply is the future answer to one request of a Batch. Its accessors are valid once Wait has returned nil.
type Reply struct {
	b *Batch
	o op
	call
}

func (b *Batch) add(o *op) *Reply {
	r := new(Reply)
	if n := len(b.replies); n < len(b.room) {
		r = &b.room[n]
	}
	r.b, r.o = b, *o
	b.replies = append(b.replies, r)
	return r
}

// Create adds Session.Create.
func (b *Batch) Create(r *zk.CreateRequest) *Reply {
	return b.add(&op{name: "create", code: wire.OpCreate, path: r.Path, request: r})
}

// Multi adds Session.Multi.
func (b *Batch) Multi(ops ...any) *Reply {
	return b.add(&op{name: "multi", code: wire.OpMulti, ops: ops})
}

// Set adds Session.Set.
func (b *Batch) Set(path string, data []byte, version int32) *Reply {
	return b.add(write(path, data, version))
}

// Delete adds the deletion of nodes without children, whatever their versions. Several are deleted in one transaction: all or
// none. While 256 deletes are under way Send waits.
func (b *Batch) Delete(paths ...string) *Reply {
	if len(paths) == 1 {
		return b.add(remove(paths[0], -1))
	}
	ops := make([]any, len(paths))
	for i, path := range paths {
		ops[i] = &zk.DeleteRequest{Path: path, Version: -1}
	}
	return b.Multi(ops...)
}

// List adds Session.Children.
func (b *Batch) List(path string) *Reply { return b.add(read(wire.OpGetChildren2, path)) }

// Exists adds Session.Exists.
func (b *Batch) Exists(path string) *Reply { return b.add(read(wire.OpExists, path)) }

// GetACL adds Session.GetACL.
func (b *Batch) GetACL(path string) *Reply { return b.add(read(wire.OpGetACL, path)) }

// Send waits for a connection and hands it the requests. An error has OutcomeNotSent: no server sees any of them.
func (b *Batch) Send(ctx context.Context) error { return b.send(ctx, true) }

// Offer is Send without waiting for a connection. If ctx has ended it still sends, but it does not wait for a free slot.
func (b *Batch) Offer(ctx context.Context) error { return b.send(ctx, false) }

func (b *Batch) send(ctx context.Context, patient bool) error {
	if len(b.replies) == 0 {
		return nil
	}
	room := rooms.Get().(*frameRoom)
	defer rooms.Put(room)
	var several [2]*call
	frames, calls := room[:0], several[:0]
	for _, r := range b.replies {
		if frames, b.err = b.s.encode(frames, &r.o); b.err != nil {
			return b.err
		}
		r.done = make(chan struct{})
		calls = append(calls, r.o.ask(&r.call))
	}
	b.err = b.s.submit(ctx, &b.replies[0].o, frames, calls, patient)
	return b.err
}

// Do sends the requests and waits for their answers. It returns the first error.
func (b *Batch) Do(ctx context.Context) error {
	err := b.Send(ctx)
	for _, r := range b.replies {
		if err == nil {
			err = r.Wait(ctx)
		}
	}
	return err
}

// Wait waits until the request has been answered, or until it is certain that no answer will come. Its error is an *OpError. If
// Send failed, it is the error of Send. If ctx ends first the outcome is unknown until Answered.
func (r *Reply) Wait(ctx context.Context) error {
	if r.b.err != nil {
		return r.b.err
	}
	if !r.Answered() {
		select {
		case <-r.done:
		case <-ctx.Done():
			return r.b.s.newOpError(&r.o, OutcomeUnknown, causeOf(ctx))
		}
	}
	if failed := r.b.s.outcome(&r.o, &r.call); failed != nil {
		return failed
	}
	return nil
}

// Answered reports whether nothing more will become known of the request.
func (r *Reply) Answered() bool {
	select {
	case <-r.done:
		return true
	default:
		return r.b.err != nil
	}
}

// Zxid returns the zxid of a write, which is the czxid of every node that it created.
func (r *Reply) Zxid() int64 { return r.reply.Zxid }

// Names returns the children that a listing found.
func (r *Reply) Names() []string { return r.reply.Names }

// Stat returns the stat that a read found.
func (r *Reply) Stat() *zk.Stat { return r.reply.Stat }

// ACL returns the access list that a GetACL found.
func (r *Reply) ACL() []zk.ACL { return r.reply.ACL }

// Created returns the paths of the nodes that a create or a transaction created, with "" for each other operation.
func (r *Reply) Created() []string {
	if r.op != wire.OpMulti {
		return []string{r.reply.Path}
	}
	paths := make([]string, len(r.reply.Results))
	for i, result := range r.reply.Results {
		paths[i] = result.String
	}
	return paths
}

// call is a request and its result.
type call struct {
	op     int32
	xid    int32 // submit sets xid, sent, touched and next
	ops    int   // of a transaction: the number of its operations
	prompt bool  // it is written at once; see link.gather
	lane   lane  // it waits for a slot of this lane
	slot   bool  // it occupies a slot of its lane
	told   bool  // done is closed, or about to be; guarded by the link's mu

	sent, touched clock.Stamp
	next          *call // the call submitted after this one

	done  chan struct{} // closed when the answer is here or will never come; nil if no caller waits for it
	reply wire.Reply
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

// callQueue holds calls in the order of their submission.
type callQueue struct{ first, last *call }

func (q *callQueue) push(c *call) {
	if q.first == nil {
		q.first = c
	} else {
		q.last.next = c
	}
	q.last = c
}

// pop removes the first call. An empty queue keeps no pointer to the call: its answer may be large, and the next call may come
// much later. A removed call has no pointer to the next call, because a caller that keeps one Reply would keep all later Replies
// in memory.
func (q *callQueue) pop() {
	c := q.first
	if q.first, c.next = c.next, nil; q.first == nil {
		q.last = nil
	}
}

// lane is a class of requests with its own slots. A server answers a session in order, so a request that is sent before a
// heartbeat delays it. Many reading goroutines must not cost a lease, and must not delay a release that other clients wait for.
type lane int

const (
	laneAny     lane = iota
	laneList         // listings, and requests sent with one: the answer can be megabytes
	laneRelease      // deletes, also in a transaction
	laneBeat         // heartbeats
	lanes
)

// inFlight bounds the unanswered requests of each lane, including those whose callers have given up. Requests that are sent together
// count as one. Without the bound, requests would accumulate at a server that answers only pings.
var inFlight = [lanes]int{laneAny: 1024, laneList: 128, laneRelease: 256, laneBeat: 8}
