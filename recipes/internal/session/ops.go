package session

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/recipes/internal/errs"
	"github.com/locktree/locktree/recipes/internal/paths"
	"github.com/locktree/locktree/recipes/internal/session/wire"
)

var reads = map[int32]string{wire.OpGetData: "get", wire.OpGetACL: "getACL", wire.OpExists: "exists", wire.OpGetChildren2: "children"}

func read(code int32, path string) *op {
	return &op{name: reads[code], code: code, path: path, pure: true}
}

func write(path string, data []byte, version int32) *op {
	return &op{name: "set", code: wire.OpSetData, path: path, request: &zk.SetDataRequest{Path: path, Data: data, Version: version}}
}

func remove(path string, version int32) *op {
	return &op{name: "delete", code: wire.OpDelete, path: path, request: &zk.DeleteRequest{Path: path, Version: version}}
}

// The operations are those of direct.Session, which says more of them.

// Get returns a node's data and stat.
func (s *Session) Get(ctx context.Context, path string) ([]byte, *zk.Stat, error) {
	r, err := s.run(ctx, read(wire.OpGetData, path))
	return r.Data, r.Stat, err
}

// Exists returns a node's stat, nil when there is no such node.
func (s *Session) Exists(ctx context.Context, path string) (*zk.Stat, error) {
	return existing(s.run(ctx, read(wire.OpExists, path)))
}

func existing(r *wire.Reply, err error) (*zk.Stat, error) {
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	}
	return r.Stat, err
}

// Children returns the names of a node's children, and its stat.
func (s *Session) Children(ctx context.Context, path string) ([]string, *zk.Stat, error) {
	r, err := s.run(ctx, read(wire.OpGetChildren2, path))
	return r.Names, r.Stat, err
}

// GetACL returns a node's ACL, and its stat.
func (s *Session) GetACL(ctx context.Context, path string) ([]zk.ACL, *zk.Stat, error) {
	r, err := s.run(ctx, read(wire.OpGetACL, path))
	return r.ACL, r.Stat, err
}

// SetACL replaces a node's ACL. version must equal Stat.Aversion; -1 matches any.
func (s *Session) SetACL(ctx context.Context, path string, acl []zk.ACL, version int32) (*zk.Stat, error) {
	r, err := s.run(ctx, &op{name: "setACL", code: wire.OpSetACL, path: path, request: &setACL{acl, version}})
	return r.Stat, err
}

// Create creates a node and returns its path. Containers are refused: they have another opcode, and a create with their flag
// makes a persistent node. Besides, a lock's parent must not be reaped between two holders.
func (s *Session) Create(ctx context.Context, path string, data []byte, flags int32, acl []zk.ACL) (string, error) {
	r, err := s.run(ctx, &op{name: "create", code: wire.OpCreate, path: path,
		request: &zk.CreateRequest{Path: path, Data: data, Acl: acl, Flags: flags}})
	return r.Path, err
}

// Set replaces a node's data. version must equal Stat.Version; -1 matches any.
func (s *Session) Set(ctx context.Context, path string, data []byte, version int32) (*zk.Stat, error) {
	r, err := s.run(ctx, write(path, data, version))
	return r.Stat, err
}

// Delete deletes a node without children. version must equal Stat.Version; -1 matches any.
func (s *Session) Delete(ctx context.Context, path string, version int32) error {
	_, err := s.run(ctx, remove(path, version))
	return err
}

// Multi applies all operations or none.
func (s *Session) Multi(ctx context.Context, ops ...any) ([]zk.MultiResponse, error) {
	r, err := s.run(ctx, &op{name: "multi", code: wire.OpMulti, ops: ops})
	return r.Results, err
}

// Sync makes the server that the session is connected to catch up with its leader, for reads that follow.
func (s *Session) Sync(ctx context.Context, path string) error {
	_, err := s.run(ctx, &op{name: "sync", code: wire.OpSync, path: path, pure: true})
	return err
}

// op returns the operation that presents the identity. The operation is repeated if its answer was lost, as a read is.
func (a Auth) op() *op {
	return &op{name: "auth", code: wire.OpAuth, path: a.Scheme, request: a, pure: true}
}

// unsentError is the error of an operation that is not sent, because it is invalid or the session is read-only.
func (s *Session) unsentError(o *op, err error, hint string) *OpError {
	return &OpError{Op: o.name, Path: o.path, Outcome: OutcomeNotSent, Err: err, Hint: hint}
}

// encode checks an operation and appends its frame to b. The xid is filled in by submit.
func (s *Session) encode(b []byte, o *op) ([]byte, error) {
	// A confirm goes through the quorum as a write does, but changes nothing.
	if s.client.cfg.ReadOnly && !o.pure && o.name != "confirm" {
		return nil, s.unsentError(o, ErrReadOnly, "")
	}
	if err := s.check(o); err != nil {
		return nil, err
	}
	start, e := len(b), wire.Encoder{B: append(b, 0, 0, 0, 0, 0, 0, 0, 0)} // length, xid
	e.Int32(o.code)
	if e.Node(o.request) == 0 {
		appendOther(&e, o)
	}
	// A server accepts a frame of exactly this size and drops the connection at one byte more.
	n := len(e.B) - start - 4
	if n > wire.MaxRequest {
		return nil, s.unsentError(o, fmt.Errorf("%w: a request of %d bytes; servers read up to %d", ErrTooLarge, n, wire.MaxRequest), "")
	}
	binary.BigEndian.PutUint32(e.B[start:], uint32(n))
	return e.B, nil
}

// appendOther appends an operation that is no part of a transaction, or a transaction.
func appendOther(e *wire.Encoder, o *op) {
	switch r := o.request.(type) {
	case nil:
		if o.code == wire.OpMulti {
			e.Multi(o.ops)
			break
		}
		e.Str(o.path)
		if o.code == wire.OpExists || o.code == wire.OpGetData || o.code == wire.OpGetChildren2 {
			e.Bool(o.watch)
		}
	case Auth:
		e.Int32(0)
		e.Str(r.Scheme)
		e.Buffer([]byte(r.Credentials))
	case *setACL:
		e.Str(o.path)
		e.ACLs(r.acl)
		e.Int32(r.version)
	case *watchKey:
		e.Str(r.path)
		kind := int32(2) // Watcher.WatcherType
		if r.child {
			kind = 1
		}
		e.Int32(kind)
	case *setWatches:
		e.Int64(r.since)
		watchPaths(e, r.keys[:r.data])
		watchPaths(e, nil) // the nodes whose creation is watched: none
		watchPaths(e, r.keys[r.data:])
	}
}

func watchPaths(e *wire.Encoder, keys []watchKey) {
	e.Int32(int32(len(keys)))
	for _, k := range keys {
		e.Str(k.path)
	}
}

// setACL is what SetACL sends besides the path.
type setACL struct {
	acl     []zk.ACL
	version int32
}

// setWatches is what SetWatches sends.
type setWatches struct {
	since int64
	keys  []watchKey // the watches on data, then those on lists of children
	data  int        // how many of keys are on data
}

// check refuses what servers would refuse with a worse explanation, or answer by dropping the connection. A transaction is
// named after its first operation.
func (s *Session) check(o *op) error {
	if o.code != wire.OpMulti {
		return s.checkNode(o)
	}
	if len(o.ops) == 0 {
		return s.unsentError(o, errors.New("recipes: a transaction needs at least one operation"), "")
	}
	for i, each := range o.ops {
		what, path := partOf(each)
		if i == 0 {
			o.path = path
		}
		part := &op{name: o.name, path: path, request: each}
		if what == "" {
			return s.unsentError(part, fmt.Errorf("recipes: a transaction has no operation of type %T; use *zk.CreateRequest, SetDataRequest, DeleteRequest or CheckVersionRequest", each), "")
		}
		if err := s.checkNode(part); err != nil {
			return err
		}
	}
	return nil
}

// checkNode refuses a path, flags or an access list that no server accepts.
func (s *Session) checkNode(o *op) error {
	sequential, toNobody := false, false
	switch r := o.request.(type) {
	case Auth:
		return nil
	case *zk.CreateRequest:
		if r.Flags < 0 || r.Flags > zk.FlagEphemeralSequential {
			return s.unsentError(o, fmt.Errorf("%w: %d", zk.ErrInvalidFlags, r.Flags), "use 0, ephemeral, sequence, or both")
		}
		sequential, toNobody = r.Flags&zk.FlagSequence != 0, len(r.Acl) == 0
	case *Container:
		toNobody = len(r.ACL) == 0
	case *setACL:
		toNobody = len(r.acl) == 0
	case *setWatches:
		for _, k := range r.keys[1:] {
			if paths.Bad(k.path, false) != "" {
				o.path = k.path // refused below
			}
		}
	}
	if why := paths.Bad(o.path, sequential); why != "" {
		return s.unsentError(o, fmt.Errorf("%w: %s", zk.ErrInvalidPath, why), "")
	}
	if toNobody { // PrepRequestProcessor.fixupACL
		return s.unsentError(o, fmt.Errorf("%w: it is empty", zk.ErrInvalidACL), "grant at least one permission to somebody")
	}
	return nil
}

// partOf returns the name and the node of an operation of a transaction, "" for other types.
func partOf(op any) (what, path string) {
	switch r := op.(type) {
	case *zk.CreateRequest:
		return "create", r.Path
	case *Container:
		return "create", r.Path
	case *zk.SetDataRequest:
		return "set", r.Path
	case *zk.DeleteRequest:
		return "delete", r.Path
	case *zk.CheckVersionRequest:
		return "check", r.Path
	}
	return "", ""
}

// op describes an operation: what is sent, and what its errors need.
type op struct {
	name    string
	code    int32
	path    string
	request any   // what is encoded; nil for reads: they send path, and also watch if they can set a watch
	ops     []any // the operations of a transaction
	pure    bool  // it changes nothing, so it is repeated when its answer was lost
	watch   bool
	prompt  bool   // see call
	lane    lane   // laneAny: ask chooses the lane by the operation
	need    string // the permission that a transaction's failed operation needs
}

// maxRetries bounds how often a read is repeated, in case it is the answer that breaks the connection.
const maxRetries = 3

var errNotSent = errors.New("not sent")

// run performs an operation: it waits for a connection, sends the request, and waits for the answer, the end of ctx or the end
// of the session. When a server refuses the operation, run returns its reply together with the error.
func (s *Session) run(ctx context.Context, o *op) (*wire.Reply, error) { return s.await(ctx, o, nil) }

// await does what run does. If the first call of the operation is already under way, c is that call, otherwise nil.
func (s *Session) await(ctx context.Context, o *op, c *call) (*wire.Reply, error) {
	for try := 0; ; c = nil {
		if c == nil {
			var err error
			if c, err = s.send(ctx, o); err != nil {
				return new(wire.Reply), err
			}
		}
		select {
		case <-c.done:
		case <-ctx.Done():
			return new(wire.Reply), s.newOpError(o, OutcomeUnknown, causeOf(ctx))
		}
		failed := s.outcome(o, c)
		if failed == nil {
			return &c.reply, nil
		}
		// Repeat only if the answer was lost: a definite answer is final.
		if try++; s.Err() != nil || !o.pure || failed.Outcome != OutcomeUnknown || try > maxRetries || ctx.Err() != nil {
			if c.err != nil {
				return new(wire.Reply), failed
			}
			return &c.reply, failed
		}
	}
}

// send submits an operation.
func (s *Session) send(ctx context.Context, o *op) (*call, error) {
	room := rooms.Get().(*frameRoom)
	defer rooms.Put(room)
	frame, err := s.encode(room[:0], o)
	if err != nil {
		return nil, err
	}
	c := o.ask(&call{done: make(chan struct{})})
	return c, s.submit(ctx, o, frame, []*call{c}, true)
}

// frameRoom has space for the frames of most requests, until submit has copied them.
type frameRoom [512]byte

var rooms = sync.Pool{New: func() any { return new(frameRoom) }}

// ask makes c a request of the operation, to be sent once.
func (o *op) ask(c *call) *call {
	c.op, c.ops, c.prompt = o.code, len(o.ops), o.prompt
	switch c.lane = o.lane; {
	case c.lane != laneAny:
	case o.code == wire.OpGetChildren2:
		c.lane = laneList
	case o.code == wire.OpDelete, slices.ContainsFunc(o.ops, func(part any) bool { _, deletes := part.(*zk.DeleteRequest); return deletes }):
		c.lane = laneRelease
	}
	return c
}

// submit hands calls to a connection, and waits for a connection if patient is true. The calls go out together, in this order and on
// one connection, or not at all: submit fails only if nothing was sent.
func (s *Session) submit(ctx context.Context, o *op, frames []byte, calls []*call, patient bool) error {
	in := laneAny
	for _, c := range calls {
		in = max(in, c.lane)
	}
	calls[0].lane = in
	slots := s.slots[in]
	for {
		l, err := s.awaitLink(ctx, patient)
		if err != nil {
			return s.opError(o, OutcomeNotSent, err)
		}
		select {
		case slots <- struct{}{}:
		default:
			if err := s.awaitSlot(ctx, slots); err != nil {
				return s.opError(o, OutcomeNotSent, err)
			}
		}
		calls[0].slot = true
		if l.submit(frames, calls) {
			return nil
		}
		<-slots
		s.noteDisconnect(l) // the goroutine that found the link dead has not called noteDisconnect yet
	}
}

// awaitSlot waits until one of the operations under way is answered.
func (s *Session) awaitSlot(ctx context.Context, slots chan<- struct{}) error {
	select {
	case slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: %d operations are under way: %w", errNotSent, cap(slots), causeOf(ctx))
	case <-s.done:
		return s.Err()
	}
}

// awaitLink returns the connection. A patient caller waits for one, until ctx ends. Giving up here leaves no doubt about the outcome:
// nothing was sent.
func (s *Session) awaitLink(ctx context.Context, patient bool) (*link, error) {
	for {
		s.mu.Lock()
		l, linked, err := s.link, s.linked, s.err
		s.mu.Unlock()
		ended := patient && ctx.Err() != nil
		switch {
		case ended && l == nil && err == nil:
			return nil, s.disconnectedError(ctx)
		case ended:
			return nil, causeOf(ctx)
		case err != nil: // before the link is used, because a lost session may still have its link
			return nil, s.whyLost()
		case l != nil:
			return l, nil
		case !patient:
			return nil, fmt.Errorf("%w: there is no connection", errNotSent)
		}
		select {
		case <-linked:
		case <-s.done:
		case <-ctx.Done():
			return nil, s.disconnectedError(ctx)
		}
	}
}

// whyLost returns why the session is lost, once every holder has been told.
func (s *Session) whyLost() error {
	<-s.done
	return s.Err()
}

// disconnectedError is the error of a caller whose ctx ended while there was no connection.
func (s *Session) disconnectedError(ctx context.Context) error {
	return fmt.Errorf("%w while disconnected (%s)", causeOf(ctx), s.hosts.Report())
}

// causeOf is ctx.Err(), together with context.Cause if that says more.
func causeOf(ctx context.Context) error {
	err, why := ctx.Err(), context.Cause(ctx)
	if why == nil || errors.Is(err, why) {
		return err
	}
	return errs.Errorf("%w: %w", err, why)
}

// outcome is the error of an operation that was sent and has ended; nil if it succeeded.
func (s *Session) outcome(o *op, c *call) *OpError {
	switch {
	case c.err != nil:
		return s.newOpError(o, OutcomeUnknown, c.err)
	case c.reply.Code == 0:
		return nil
	}
	if len(o.ops) > 0 && len(c.reply.Results) > 0 {
		what, path := partOf(o.ops[c.reply.Failed])
		o = &op{name: o.name, path: path, need: neededRight(what, path)}
	}
	outcome, err := wire.Answer(c.reply.Code)
	return s.newOpError(o, outcome, err)
}

// Confirm proves the session now, by a committed write: a transaction that only checks that paths exist (any version). ZooKeeper
// takes it through the quorum like every multi, but it changes nothing, wakes no watcher and needs only READ. The paths are the
// caller's own nodes: zk.ErrNoNode means that a node is gone, ErrCannotHeartbeat that a node's ACL hides it from us. After success,
// Deadline is at least T/2 after the moment Confirm was called (see Deadline for the exceptions).
func (s *Session) Confirm(ctx context.Context, paths ...string) error {
	return s.confirm(ctx, laneAny, paths...)
}

func (s *Session) confirm(ctx context.Context, in lane, paths ...string) error {
	checks := make([]any, len(paths))
	for i, path := range paths {
		checks[i] = &zk.CheckVersionRequest{Path: path, Version: -1}
	}
	_, err := s.run(ctx, &op{name: "confirm", code: wire.OpMulti, ops: checks, prompt: true, lane: in})
	var failed *OpError
	if errors.As(err, &failed) && errors.Is(err, zk.ErrNoAuth) {
		failed.Err = errs.Errorf("%w: %w", ErrCannotHeartbeat, failed.Err)
	}
	return err
}
