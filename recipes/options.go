package recipes

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/recipes/kind"
)

// Option changes one handle of a recipe.
type Option func(*options)

type options struct {
	params     kind.Params
	create     bool
	createACL  []zk.ACL // the access list of the nodes that WithCreate makes
	reentrant  bool
	id         string
	maxWait    time.Duration
	maxRelease time.Duration
}

// WithParams gives parameters for a node without a declaration. A declaration at the node takes precedence, because
// every other program obeys it. The node must exist unless [WithCreate] is given too. A parameter that is not set has
// its default value; only the permits of a semaphore must be set.
//
// All programs must give the same parameters, and nothing checks that they do. Programs that give a semaphore different numbers
// of permits each obey their own number. So the largest number decides how many permits can be held, and programs with a smaller
// number do not expect so many holders. Only a declaration gives all programs one number, and can be changed while the semaphore
// is in use.
func WithParams(p kind.Params) Option { return func(o *options) { o.params = p } }

// WithCreate creates the node, its parents and the children that its kind needs if they are missing: persistent nodes without a
// declaration. It needs [WithParams], and is for trees without declarations. It creates nothing if the parameters are of another
// kind or invalid.
//
// The nodes get the access list acl. Programs that contend need READ, CREATE and DELETE on the lock's node. The access list of
// the programs' own nodes is made from the list of the lock's node. Without acl the nodes are open to all clients: each may take
// the lock, end it for its holder, and delete the node. A node that exists keeps its list.
//
// The nodes stay when they are no longer used: one for each path, three for a semaphore, and the parents. A program that locks
// one path for each customer leaves one node for each customer: use [Client.Keyed] for that. "locktree status PATH" and "locktree
// doctor" count the nodes that were left.
func WithCreate(acl ...zk.ACL) Option {
	if len(acl) == 0 {
		acl = zk.WorldACL(zk.PermAll)
	}
	acl = slices.Clone(acl)
	return func(o *options) { o.create, o.createACL = true, acl }
}

// WithReentrancy lets this handle lock again with a context derived from a lease of the same lock, such as the context that Do
// passes on. The lease may come from another handle. Without this option such a call fails with ErrWouldDeadlock, because
// goroutines share contexts. With this option all goroutines that a holder starts with its context can be inside at once, so use
// it only where calls nest.
//
// The new lease shares the token, the node and the end of the outer one; the last Unlock releases the lock. A writer that locks
// for reading stays a writer. A reader that locks for writing gets ErrWouldDeadlock, with and without this option. For a
// semaphore the new lease shares permits of the outer one. A call that asks for more permits gets ErrWouldDeadlock. A member of a
// MultiLock is entered through its own handle. A MultiLock itself is never entered again: a call whose caller already holds one
// of the members gets ErrWouldDeadlock.
func WithReentrancy() Option { return func(o *options) { o.reentrant = true } }

// WithID replaces Config.ID in the nodes of this handle: it names the holder or waiter. A goroutine can take over the place in
// the queue of another goroutine that gave up. It then appears under the other's ID until it holds the lock. At a semaphore no
// goroutine takes over a place.
func WithID(id string) Option { return func(o *options) { o.id = id } }

// WithMaxWait bounds the wait of each Lock, RLock, Acquire, Campaign, Do and Lead through this handle. It does not bound the work
// of Do and Lead: their ctx bounds wait and work together. A wait that takes longer ends as if its context's deadline had passed.
// A MultiLock obeys the shortest bound of its members.
func WithMaxWait(d time.Duration) Option { return func(o *options) { o.maxWait = d } }

// WithMaxRelease bounds how long Do and Lead wait, after their function has returned, until ZooKeeper confirms that the lock is
// given back. When the time is up they return ErrReleasePending, and the release goes on in the background. Without this option
// Do and Lead wait up to a session timeout. After their ctx has ended they wait for a sixth of the session timeout at most. A
// MultiLock obeys the shortest bound of its members.
func WithMaxRelease(d time.Duration) Option { return func(o *options) { o.maxRelease = d } }

// collect applies the options of a handle on a lock of kind k.
func collect(opts []Option, k *kind.Kind) (o options, wrong error) {
	for _, opt := range opts {
		if opt == nil {
			return o, errors.New("an option is nil; leave it out")
		}
		opt(&o)
	}
	switch {
	case o.maxWait < 0:
		return o, fmt.Errorf("WithMaxWait(%v): the time must not be negative", o.maxWait)
	case o.maxRelease < 0:
		return o, fmt.Errorf("WithMaxRelease(%v): the time must not be negative", o.maxRelease)
	}
	if o.params != nil {
		o.params, wrong = complete(o.params, k)
	}
	return o, wrong
}

// complete returns a copy of the parameters that a program gives.
func complete(p kind.Params, k *kind.Kind) (kind.Params, error) {
	if isNil(p) {
		return nil, errors.New("the parameters are nil")
	}
	if p.Kind() != k {
		return nil, fmt.Errorf("%w: WithParams got %s parameters", ErrKindMismatch, p.Kind())
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
