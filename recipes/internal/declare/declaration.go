package declare

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/recipes/internal/session"
	"github.com/locktree/locktree/recipes/internal/znode"
	"github.com/locktree/locktree/recipes/kind"
)

// Declaration is what the node of a lock says about it, kept per client and path. There is no goroutine behind it:
// a fired watch makes the next use read again, and who waits in a queue waits for the watch too.
type Declaration struct {
	Path    string
	payload *kind.Payload                // nil when the node carries none
	why     error                        // why not
	w       *session.Watch               // fires when it must be read again
	dropped chan struct{}                // closed when the client no longer keeps this declaration
	brought *atomic.Pointer[Declaration] // what open made of it for the last handle that brought parameters

	Params     kind.Params
	ACL        []zk.ACL // of contenders
	shared     []zk.ACL // what acl is where nothing is declared
	Wire       string
	MaxWaiters int // max_waiters

	revision
	familiar
}

// revision is the write that made the node's data what they are.
type revision struct {
	Version int32
	Mzxid   int64
	Written time.Time // by the ensemble's clock
}

// familiar is what a declaration has to do with families of locks.
type familiar struct {
	keys    *Declaration      // of a family: what holds for each of its keys
	family  *kind.KeyedParams // of what holds for each key: the family's
	nodeACL []zk.ACL          // of that too: the list of a key's node
	keyless *atomic.Bool      // of a node without a declaration: it was found not to be that of a key
}

// Stale says that the node may have another declaration by now.
func (d *Declaration) Stale() bool {
	select {
	case <-d.w.C():
		return true
	case <-d.dropped:
		return true
	default:
		return false
	}
}

// open checks the declaration against the kind the program expects, and completes it with brought parameters.
func (d *Declaration) open(k *kind.Kind, brought kind.Params) (*Declaration, error) {
	if d.payload == nil {
		// Parameters stand in for a declaration that was never made, not for one that is damaged or too new for us: what
		// that says, others obey.
		if brought == nil || !errors.Is(d.why, kind.ErrForeign) {
			return nil, fmt.Errorf("%w: %s has no declaration that this program can read; declare it and run apply, or pass WithParams: %w",
				ErrNotProvisioned, d.Path, d.why)
		}
		// A copy: the declaration is shared by all callers of this client, and others may bring other parameters. The
		// watch, and what says that it was dropped, stay the shared ones. A handle's parameters are always the same object.
		if own := d.brought.Load(); own != nil && own.Params == brought {
			return own, nil
		}
		own := *d
		own.set(brought, nil)
		d.brought.Store(&own)
		return &own, nil
	}
	if got := d.payload.Params.Kind(); got != k {
		return nil, d.mismatch(k.Name, got.Name)
	}
	if err := d.refuses(); err != nil {
		return nil, err
	}
	return d, nil
}

func (d *Declaration) mismatch(want, got string) error {
	return fmt.Errorf("%w: %s is declared as %s by %s, this program opens it as %s",
		ErrKindMismatch, d.Path, got, kind.Visible(d.payload.Owner.String()), want)
}

// refuses says why nothing new is granted; nil if it is.
func (d *Declaration) refuses() error {
	switch {
	case d.payload.State == kind.StateActive:
		return nil
	case d.payload.State == kind.StateMoved:
		return fmt.Errorf("%w: %s is now %s", ErrMoved, d.Path, kind.Visible(d.payload.MovedTo))
	}
	return fmt.Errorf("%w: %s", ErrDraining, d.Path)
}

// set takes the parameters every kind has out of p.
func (d *Declaration) set(p kind.Params, childACL kind.List) {
	d.Params, d.ACL, d.Wire = p, d.shared, kind.WireCurator
	if childACL != nil {
		d.ACL = znode.ToZK(childACL)
	}
	// By name: the fields are the kind's, of which this needs to know no more.
	for _, f := range p.Fields() {
		switch v := f.Get().(type) {
		case string:
			if f.Name == "wire" && v != "" {
				d.Wire = v
			}
		case int:
			if f.Name == "max_waiters" {
				d.MaxWaiters = v
			}
		}
	}
}

// Changed is closed when the node must be read again.
func (d *Declaration) Changed() <-chan struct{} { return d.w.C() }

// Dropped is closed when the client no longer keeps this declaration.
func (d *Declaration) Dropped() <-chan struct{} { return d.dropped }

// OfKey reports whether it is what holds for each key of a family.
func (d *Declaration) OfKey() bool { return d.family != nil }
