package recipes

import (
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/locktree/locktree/recipes/kind"
)

// Option changes one handle of a recipe.
type Option func(*options)

type options struct {
	params      kind.Params
	create      bool
	reentrant   bool
	maxHandoffs int
	retention   time.Duration
	id          string
}

// WithParams brings parameters for a node that carries no declaration. A declaration found at the node wins: it is
// what every other program obeys. The node must exist unless [WithCreate] is given too. What is not set has its default; only
// the permits of a semaphore must be set.
//
// Programs must bring the same. Of a semaphore that is checked: who would hold permits beside somebody who brought
// another number gets ErrNotProvisioned (Curator's holders do not say their number). To change it while the semaphore is
// in use, declare it.
func WithParams(p kind.Params) Option { return func(o *options) { o.params = p } }

// WithCreate creates the node, its parents and the children its kind needs when they are missing: persistent nodes
// open to everybody, without a declaration. It needs [WithParams], and is for trees nobody provisions. Nothing is
// created for parameters that are of another kind or not valid.
func WithCreate() Option { return func(o *options) { o.create = true } }

// WithReentrancy lets this handle lock again with a context derived from the Context of a lease of the same lock (which
// the function of Do gets too), whichever handle gave that lease. Without it that is ErrWouldDeadlock: a context is
// shared by goroutines, and those that a holder starts with its own would all be inside at once. With it they are, so ask
// for it only where calls nest.
//
// What comes back shares the outer lease: its token, its node and its end; the last Unlock of all gives the lock back. A
// writer that locks for reading goes on writing. A reader that locks for writing gets ErrUpgradeConflict (which is
// ErrWouldDeadlock too), with and without this option. Of a semaphore, up to as many permits as the outer lease has are
// shared; more are ErrWouldDeadlock. A member of a MultiLock is entered through its own handle. A MultiLock itself never
// is: one that wants a lock its caller holds is ErrWouldDeadlock.
func WithReentrancy() Option { return func(o *options) { o.reentrant = true } }

// WithLocalHandoff lets up to max goroutines of this client in a row take a lock over from each other without any
// request. The price: other processes wait that much longer, and those holders share one token and what the node says of
// them, so a store that must tell them apart cannot. A revocation request, a drained lock or a [Lease.Multi] of unknown
// outcome ends the row, and so does a goroutine of another ID (see [WithID]): the node must name who holds.
func WithLocalHandoff(max int) Option { return func(o *options) { o.maxHandoffs = max } }

// WithRetention keeps a mutex for up to d after the last goroutine of this client has given it back, so that the client's
// next Lock, by a handle that has this option too, costs no request and waits for nothing. Goroutines that wait for it in this
// client take it over in the same way, without end and without [WithLocalHandoff], while nobody else queues.
//
// A kept place is a held lock to everybody else: TryLock of another client is refused, though the next one may find the place
// given up; "locktree status" shows for how long it may be kept; destroy finds it in use. But it is given up at once, before d, when it is not in use and
//   - anybody else queues, of whatever library: that wait grows by one event to this client and by the delete it sends;
//   - the declaration changes: the lock is drained, moved, or has other parameters;
//   - somebody asks for it back ([Client.Revoke]), or a caller of this client wants it by a handle without this option, with
//     another ID, or as a member of a MultiLock;
//   - the connection is lost, even if the session lives on.
//
// While it is in use nothing of this ends it, but the Unlock that follows gives it back. With the session it is lost; the next
// Lock queues anew.
//
// The price: one token, and one node, for the whole retention. A store that refuses smaller tokens refuses all who held the lock
// before the retention and after it was given up; it cannot tell apart the goroutines that held it in between, one after
// the other. A write of one of them that is late is not refused. Give d as short as calls follow each other, and leave this out
// where each grant must have a token of its own. The events of each lease have a Call of their own.
//
// Not guaranteed: that the next Lock finds the place kept. One that had to wait for another client is not. No more are kept where the places of a session take half of what
// they may (see [ErrSessionFull]). What a kept place costs is two requests for each retention, heartbeats
// while it lasts, and the wait of others should this process be stopped: until its session expires, as with any lock.
//
// Only a mutex is kept, and no other kind takes this option. Readers share a place already, and a kept writer would stand in the
// way of the readers of its own client. Who waits for permits waits for a number of them, and a kept one is one less. Who is elected
// leads, and a place kept without a leader is none.
func WithRetention(d time.Duration) Option { return func(o *options) { o.retention = d } }

// WithID replaces Config.ID in what this handle writes into its contenders: who holds the lock, or waits for it. Readers
// of one client that share a place are shown as the one that made it; a goroutine that inherits the place of another one
// that has given up is shown as that one until it holds, except before a semaphore.
func WithID(id string) Option { return func(o *options) { o.id = id } }

// collect applies the options of a handle on a lock of kind k.
func collect(opts []Option, k *kind.Kind) (o options, wrong error) {
	for _, opt := range opts {
		if opt == nil {
			return o, errors.New("an option is nil; leave it out")
		}
		opt(&o)
	}
	switch {
	case o.retention < 0:
		return o, fmt.Errorf("WithRetention(%v): the time must not be negative", o.retention)
	case o.retention > 0 && k != kind.Mutex:
		return o, errors.New("WithRetention is for a mutex: leave it out")
	}
	if o.params != nil {
		o.params, wrong = complete(o.params, k)
	}
	return o, wrong
}

// complete is a copy of what a program brings, which nobody changes any more.
func complete(p kind.Params, k *kind.Kind) (kind.Params, error) {
	if isNil(p) {
		return nil, errors.New("the parameters are nil")
	}
	if p.Kind() != k {
		return nil, fmt.Errorf("%w: parameters of a %s were brought", ErrKindMismatch, p.Kind())
	}
	full := k.New()
	fields, errs := full.Fields(), []error(nil)
	for i, f := range p.Fields() {
		errs = append(errs, fields[i].Set(f.Get()))
	}
	return full, errors.Join(errs...)
}

// isNil reports whether v is nil, or a nil pointer.
func isNil(v any) bool {
	r := reflect.ValueOf(v)
	return v == nil || r.Kind() == reflect.Pointer && r.IsNil()
}

// missing names the option that would have made a node that does not exist.
func (o options) missing() string {
	switch {
	case o.create && o.params == nil:
		return ", or say with WithParams what WithCreate is to make"
	case o.params != nil && !o.create:
		return ", or let WithCreate make it with those parameters"
	}
	return ""
}
