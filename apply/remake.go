package apply

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
)

// Remake creates a lock again whose node another program made ([kind.MadeElsewhere]), in the instant when nobody uses it: one
// transaction deletes the node, which may be a container, and creates it as a node that stays. There is no moment without it: a
// program that queues then is either before the transaction, which ZooKeeper refuses, or after it. declared is the lock in
// desired. If an apply made the node, there is nothing to do.
//
// It waits for so long, without the apply lock, which it takes for that instant only: other applies go on meanwhile. It watches
// the contender that came last, so its requests do not grow with the traffic of the lock. If somebody still uses the lock at the
// end, the error is an [*InUseError]. However it ends, also by ctx, the lock is as it was or as declared.
func (x *Applier) Remake(ctx context.Context, desired *plan.Tree, declared *plan.Node, within time.Duration) error {
	if err := x.mayBegin(ctx, desired); err != nil {
		return err
	}
	deadline := time.Now().Add(within)
	waiting, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	var last *idling
	for {
		s, err := x.client.Session(waiting)
		if err != nil {
			return waitEnded(ctx, declared, err)
		}
		now, err := lookIdle(waiting, s, desired, declared, last)
		if err == nil {
			last = now
		}
		switch {
		case err != nil:
		case now.payload.Made != kind.MadeElsewhere:
			return nil
		case now.last != "":
			err = now.wait(waiting, s)
		default:
			o := x.opts
			o.LockTimeout = time.Until(deadline)
			err = now.remake(ctx, New(x.client, o), desired)
		}
		switch {
		case ctx.Err() == nil && waiting.Err() != nil && last != nil:
			usage, err := readUsage(ctx, s, declared)
			if err != nil {
				return err
			}
			return &InUseError{Addr: declared.Addr, Path: declared.Path, Action: plan.Replace, Usage: usage}
		case err == nil, overtaken(err), unknown(err), errors.Is(err, recipes.ErrSessionLost), errors.Is(err, recipes.ErrLost):
			// Look again: what was seen is not so any more, or the outcome is not known.
		default:
			return waitEnded(ctx, declared, err)
		}
	}
}

// overtaken reports whether somebody came, left, or changed the lock between two requests.
func overtaken(err error) bool {
	return slices.ContainsFunc([]error{zk.ErrNotEmpty, zk.ErrNoNode, zk.ErrBadVersion, zk.ErrNodeExists}, func(e error) bool { return errors.Is(err, e) })
}

// waitEnded is the error of Remake if it did not find out who uses the lock.
func waitEnded(ctx context.Context, n *plan.Node, err error) error {
	var said plan.Explainer
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &said):
		return err
	}
	return readError(n.Path, err)
}

// idling is one look at a lock that is to be created again.
type idling struct {
	node    *plan.Node    // as declared
	payload *kind.Payload // as written
	there   found
	applied string // by which apply the stack was as it was when the lock was last seen there
	version int32
	parts   map[string]int32 // the versions of those that exist
	record  []byte           // what its users wrote, see plan.Part
	last    string           // the contender that came last; "" if there is none
}

// found is what stands at the path of the lock. The servers may be faster than we are: then the container is gone, and
// programs may have made another one.
type found int

const (
	theLock found = iota
	aNodeWithoutData
	nothing
)

// lookIdle looks whether anybody is in a lock. A mutex in which nobody is costs two requests. was is the look before; nil if this
// is the first.
func lookIdle(ctx context.Context, s *recipes.Session, desired *plan.Tree, declared *plan.Node, was *idling) (*idling, error) {
	v := &idling{node: declared, parts: map[string]int32{}}
	var err error
	if v.applied, err = lastApply(ctx, s, desired); err != nil { // before the lock, so that no apply that is not seen there counts
		return nil, err
	}
	data, stat, err := s.Get(ctx, declared.Path)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		v.there, stat = nothing, &zk.Stat{}
	case err != nil:
		return nil, readError(declared.Path, err)
	case len(data) == 0:
		v.there = aNodeWithoutData
	}
	if v.payload, _, _ = decode(data); v.there != theLock && was != nil {
		v.payload, v.applied = was.payload, was.applied
	}
	if v.payload == nil || v.payload.Owner.Stack != desired.Stack {
		return nil, v.lost("while it was waited for, the node was deleted or became somebody else's")
	}
	if v.version = stat.Version; stat.NumChildren == 0 || v.payload.Made != kind.MadeElsewhere {
		return v, nil
	}
	names, _, err := s.Children(ctx, declared.Path)
	if err != nil {
		return nil, readError(declared.Path, err)
	}
	parts := declared.Payload.Children()
	if declared.Kind().Key == nil {
		v.contender(declared.Path, without(names, parts))
	}
	for _, name := range parts {
		at := kind.JoinPath(declared.Path, name)
		names, stat, err := s.Children(ctx, at)
		switch {
		case errors.Is(err, zk.ErrNoNode):
			continue
		case err != nil:
			return nil, readError(at, err)
		}
		if name == declared.Kind().Record {
			if v.record, stat, err = s.Get(ctx, at); err != nil {
				return nil, readError(at, err)
			}
		}
		if v.parts[name] = stat.Version; declared.Kind().Key == nil {
			v.contender(at, names)
		}
	}
	if declared.Kind().Key != nil {
		return v, v.key(ctx, s)
	}
	return v, nil
}

// key notes the last contender of a key in use, if there is one, or what else is in the family.
func (v *idling) key(ctx context.Context, s *recipes.Session) (err error) {
	if v.last, err = keyInUse(ctx, s, v.node, leaveIt); v.last == "" {
		return err
	}
	f := familyOf(v.node)
	for _, at := range f.nodes(v.last) {
		names, err := childrenOf(ctx, s, at)
		if err != nil {
			return err
		}
		v.contender(at, without(names, f.parts))
	}
	return nil
}

// lastApply is the id of the apply that wrote the record; "" if there is none.
func lastApply(ctx context.Context, s *recipes.Session, desired *plan.Tree) (string, error) {
	h, err := readHead(ctx, s, plan.IndexPath(desired.Root, desired.Stack))
	if err != nil || h.index == nil {
		return "", err
	}
	return h.index.Apply, nil
}

// lost is the error for a lock that is not there any more, or may not be wanted any more.
func (v *idling) lost(why string) error {
	return &NodeError{Addr: v.node.Addr, Path: v.node.Path, Op: "create", Why: why, Next: planAgain}
}

// contender notes the last of the children of the lock, or of one of its parts. The lock is in use at least as long as any of
// them is there; the last contender stays the longest, as a rule.
func (v *idling) contender(dir string, names []string) {
	if line, _ := kind.SortContenders(names); len(line) > 0 {
		names = []string{line[len(line)-1].Name}
	}
	if len(names) > 0 {
		v.last = kind.JoinPath(dir, names[0])
	}
}

// wait waits until the contender is gone, or has changed. One that we may not read is waited for at its parent.
func (v *idling) wait(ctx context.Context, s *recipes.Session) error {
	_, _, changed, err := s.GetW(ctx, v.last)
	if errors.Is(err, zk.ErrNoAuth) {
		_, _, changed, err = s.ChildrenW(ctx, kind.ParentPath(v.last))
	}
	if err != nil {
		return readError(v.last, err)
	}
	<-changed
	return context.Cause(ctx)
}

// remake replaces the node. Under the apply lock, no other apply relies on what it deletes.
func (v *idling) remake(ctx context.Context, x *Applier, desired *plan.Tree) error {
	payload := *v.payload
	payload.Made = kind.MadeHere
	data, err := payload.Encode()
	if err != nil {
		return err
	}
	var ops []plan.Op
	for _, name := range v.node.Payload.Children() {
		if version, there := v.parts[name]; there {
			ops = append(ops, plan.Op{Kind: plan.OpDelete, Path: kind.JoinPath(v.node.Path, name), Version: version})
		}
	}
	if v.there != nothing {
		ops = append(ops, plan.Op{Kind: plan.OpDelete, Path: v.node.Path, Version: v.version})
	}
	ops = append(ops, plan.Op{Kind: plan.OpCreate, Path: v.node.Path, Data: data, ACL: v.node.ACL})
	for _, name := range v.node.Payload.Children() {
		op := plan.Op{Kind: plan.OpCreate, Path: kind.JoinPath(v.node.Path, name), ACL: v.node.Kind().PartACL(name, v.node.ACL)}
		if name == v.node.Kind().Record {
			op.Data = v.record
		}
		ops = append(ops, op)
	}
	h, err := x.lock(ctx, newID(), plan.LockPath(desired.Root, desired.Stack))
	if err != nil {
		return err
	}
	defer h.unlock(ctx)
	if v.there != theLock { // unless another apply may have let go of it
		if now, err := lastApply(ctx, h.s, desired); err != nil || now != v.applied {
			return cmp.Or(err, v.lost("another apply finished while the node was gone, so it is not known whether the lock is still declared"))
		}
	}
	l := &locked{job: &job{x: x, p: &plan.Plan{Root: desired.Root}, s: h.s}, lease: h.lease}
	if v.node.Kind().Key != nil {
		if _, err := keyInUse(ctx, h.s, v.node, l.clear); err != nil {
			return err
		}
	}
	one, cancel := context.WithTimeout(context.WithoutCancel(ctx), h.s.Timeout())
	defer cancel()
	results, err := h.lease.Multi(one, requests(ops)...)
	if op, refused := firstRefused(results, ops); refused {
		op.Addr = v.node.Addr
		return l.besides(l.explain(ctx, op, err))
	}
	return err
}
