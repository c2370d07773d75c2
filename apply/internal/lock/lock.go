// Package lock takes the apply lock of a stack, and writes under it.
//
//	held, err := lock.Take(ctx, client, lock.Request{LockInfo: failure.LockInfo{ID: id, Path: path}})
//	defer held.Unlock(ctx)
//	err = held.Write(ctx, path, data, version)
//
// A [Held] is the lock with its session: only that session fences access lists, which no transaction can set. Its methods write
// single nodes, settle the outcome of a write after a lost reply, and turn a refusal into an error.
//
// The package relies on recipes for the lock and its fencing, on read for what is there and on failure for the errors. It knows no
// phase of an apply: what to write, and when, is for those above it to decide.
package lock

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/apply/event"
	"github.com/locktree/locktree/apply/failure"
	"github.com/locktree/locktree/apply/internal/refusal"
	"github.com/locktree/locktree/apply/internal/wire"
	"github.com/locktree/locktree/apply/read"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/tx"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/direct"
	"github.com/locktree/locktree/recipes/kind"
)

// Unanswered limits the wait for the answer to the first request for the lock. Servers may keep a session alive and yet not answer
// it. The library would repeat the request as long as its caller waits; a CI run would hang unnoticed.
const Unanswered = time.Minute

// Held is the apply lock of one stack, with the session it belongs to.
type Held struct {
	ID      string // of its apply
	Client  *recipes.Client
	Lease   *recipes.Lease
	Session *direct.Session
	Emit    func(event.Event)
	End     func() // is called before the lock is released; may be nil
}

// Lost returns an error if the lock is lost.
func (h *Held) Lost() error {
	if h.Lease.Context().Err() == nil {
		return nil
	}
	return refusal.Lock(h.Lease.Path(), context.Cause(h.Lease.Context()))
}

// Unlock releases the lock, even if ctx has ended. An error here does not affect what was
// applied: the lock ends with its session at the latest.
func (h *Held) Unlock(ctx context.Context) {
	if h.End != nil {
		h.End()
	}
	ctx, cancel := Detached(ctx, h.Session)
	defer cancel()
	_ = h.Lease.Unlock(ctx)
}

// Request describes the apply that takes the lock.
type Request struct {
	failure.LockInfo               // without Created
	Wait             time.Duration // how long to wait for the lock; 0 does not wait
	Emit             func(event.Event)
}

// Take takes the apply lock at r.Path.
func Take(ctx context.Context, c *recipes.Client, r Request) (*Held, error) {
	s, err := c.Session(ctx)
	if err != nil {
		return nil, err
	}
	lease, err := r.queue(ctx, c)
	if err != nil {
		return nil, err
	}
	h := &Held{Emit: r.Emit, ID: r.ID, Client: c, Lease: lease, Session: s}
	// Use the lease's session: an earlier one may have been lost while we waited. A client has one
	// session at a time, so if the lease is still valid, the present session is the lease's. A later
	// one is never used under the lock, because only the session fences access lists.
	if s, err = c.Session(ctx); err == nil {
		err = h.Lost()
	}
	if err != nil {
		h.Unlock(ctx)
		return nil, err
	}
	h.Session = s
	return h, nil
}

// queue waits for the apply lock. Our contender's id describes this apply; the next applier
// reads it there.
//
// The contender is an ephemeral node of an ordinary mutex. If the program dies it disappears, so there
// is no command to force the lock open. If the program is paused past its session, all its transactions are
// refused, because each checks that node first (recipes.Lease.Multi).
func (r Request) queue(ctx context.Context, c *recipes.Client) (*recipes.Lease, error) {
	info := r.LockInfo
	info.Created = time.Now().UTC()
	text, err := json.Marshal(info)
	if err != nil {
		return nil, err
	}
	m := c.Mutex(info.Path, recipes.WithID(string(text)))
	start := time.Now()
	try, cancel := context.WithTimeout(ctx, Unanswered)
	defer cancel()
	lease, err := m.TryLock(try)
	for errors.Is(err, recipes.ErrUnreachable) && recipes.Retryable(err) && pause(try) { // perhaps a server restarts
		lease, err = m.TryLock(try)
	}
	// Call TryLock first, even if we may wait: it names the holder at once.
	held := errors.Is(err, recipes.ErrHeld)
	mute := err != nil && !held && try.Err() != nil // the timeout is of this first request; the wait for a holder may take longer
	if held {
		lease, err = r.wait(ctx, m, err)
	}
	var holder *recipes.HeldError
	switch {
	case err == nil:
		r.Emit(event.LockAcquired{Info: info})
		return lease, nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case mute:
		return nil, &failure.NodeError{Path: info.Path, Op: "lock", Err: err, Why: fmt.Sprintf("the servers did not answer within %v (%s)", Unanswered, failure.Cause(err)),
			Written: failure.NothingWritten, Next: "Look at the servers, then apply again."}
	case errors.As(err, &holder) && !errors.Is(err, recipes.ErrUnreachable):
		return nil, &failure.LockedError{Info: holderInfo(holder), Path: info.Path, Waited: time.Since(start)}
	default:
		return nil, refusal.Lock(info.Path, err)
	}
}

// pause waits before another try, and reports whether ctx goes on.
func pause(ctx context.Context) bool {
	select {
	case <-ctx.Done():
	case <-time.After(time.Second):
	}
	return ctx.Err() == nil
}

// wait waits as long as it may, and reports the holder. First it identifies the holder that TryLock found. This takes one more
// request. TryLock does not send that request, because not every caller needs the holder. The error names this holder, or a later
// one that the wait has found.
func (r Request) wait(ctx context.Context, m *recipes.Mutex, found error) (*recipes.Lease, error) {
	var held *recipes.HeldError
	if errors.As(found, &held) {
		// Best effort: a holder that has left meanwhile cannot be identified.
		_ = held.Identify(ctx)
	}
	if r.Wait <= 0 {
		return nil, found
	}
	r.Emit(event.LockWaiting{Info: holderInfo(held)})
	ctx, cancel := context.WithTimeout(ctx, r.Wait)
	defer cancel()
	lease, err := m.Lock(ctx)
	// The time may be up before it is known who is ahead.
	var late *recipes.HeldError
	away := errors.Is(err, recipes.ErrUnreachable) || errors.Is(err, recipes.ErrSessionLost)
	if errors.Is(err, context.DeadlineExceeded) && !away && (!errors.As(err, &late) || late.Holder.ID == "") {
		return nil, found
	}
	return lease, err
}

func holderInfo(e *recipes.HeldError) *failure.LockInfo {
	if e == nil {
		return nil
	}
	return refusal.ParseInfo(e.Holder.ID)
}

// Detached is a context for work that must be finished once the transaction is sent: long enough for the session to come back or
// for the servers to expire it.
func Detached(ctx context.Context, s *direct.Session) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), 3*s.Timeout()+10*time.Second)
}

// Tries is how often a write is sent at most. The same limit holds for a transaction; it is sent again only if no copy was
// committed.
const Tries = 3

// Write sets the data of one node under the lock. The operations in the parameter beside are part of the same transaction. A copy
// sent again after a lost reply has the same version, so at most one is applied. A refusal may then be the echo of our own
// success.
//
// Version and data tell whether our write was applied. Two writers of the same data at the same version
// cannot be distinguished, and need not be: under the lock, the other one wrote what we wanted.
func (h *Held) Write(ctx context.Context, path string, data []byte, version int32, beside ...any) (err error) {
	lost := false
	for range Tries {
		one, cancel := context.WithTimeout(ctx, h.Session.Timeout())
		_, err = h.Lease.Multi(one, append(beside, &zk.SetDataRequest{Path: path, Data: data, Version: version})...)
		cancel()
		if err == nil || !refusal.Unknown(err) && !lost {
			return err
		}
		got, stat, readErr := h.Session.Get(ctx, path)
		if readErr == nil && stat.Version == version+1 && bytes.Equal(got, data) {
			return nil
		}
		if !refusal.Unknown(err) {
			return err
		}
		lost = true
	}
	return err
}

// SetACL sets one list. If the reply is lost, or the version has changed, it reads the list to see whether it is as it should be.
// A repeated request is guarded by the same version. It returns the new version of the access list; if it did not set the list,
// the version in step.
func (h *Held) SetACL(ctx context.Context, step plan.ACLStep) (aversion int32, err error) {
	for range Tries {
		var stat *zk.Stat
		if stat, err = h.Session.SetACL(ctx, step.Path, wire.ToZK(step.ACL), step.Aversion); err == nil {
			return stat.Aversion, nil
		}
		if !refusal.Unknown(err) && !errors.Is(err, zk.ErrBadVersion) {
			break
		}
		got, stat, readErr := h.Session.GetACL(ctx, step.Path)
		if readErr == nil && wire.FromZK(got).Equal(step.ACL) {
			return stat.Aversion, nil
		}
		if errors.Is(readErr, recipes.ErrSessionLost) { // this says more than the lost reply
			err = readErr
		}
		// The list is not set, and its version has changed or is unknown. Do not overwrite a list that was set by hand.
		if readErr != nil || !refusal.Unknown(err) {
			break
		}
	}
	if errors.Is(err, recipes.ErrSessionLost) {
		return step.Aversion, h.LostSince(err)
	}
	return step.Aversion, refusal.ACL(step, err)
}

// LostSince is the error of a lock that was lost after the last transaction. It has no next step, because ACLPhaseError has one.
func (h *Held) LostSince(err error) error {
	e := refusal.Lock(h.Lease.Path(), err)
	e.Written, e.Next = "", ""
	return e
}

// Explain turns the answer to one operation of the transaction into an error. The error
// names the change, and says what the answer means and what to do.
//
// If the answer means that the plan no longer fits, the error is a [*failure.ConflictError] or an [*failure.InUseError], and a
// new plan helps. All other errors are about rights, servers, or a root of another stack; a new plan does not help there.
func (h *Held) Explain(ctx context.Context, p *plan.Plan, op tx.Op, err error) error {
	conflict := func(why string) error {
		return &failure.ConflictError{Addr: op.Addr, Path: op.Path, Op: op.Kind, Why: why, Err: err}
	}
	switch {
	case errors.Is(err, zk.ErrNotEmpty):
		return h.occupiedError(ctx, p, op, err)
	case errors.Is(err, zk.ErrBadVersion):
		if op.Path == kind.ParentPath(p.Index.Path) { // the operation of commit.Sender.first
			if _, other := read.Alone(ctx, h.Session, p.Root, p.Stack); other != nil {
				return other
			}
		}
		return conflict("its data was changed")
	case errors.Is(err, zk.ErrNodeExists):
		return conflict("another program created it")
	case errors.Is(err, zk.ErrNoNode) && op.Kind == tx.OpCreate:
		return conflict("its parent was deleted")
	case errors.Is(err, zk.ErrNoNode):
		return conflict("it was deleted")
	}
	return refusal.Denied(h.Client, op, err)
}

// occupiedError is the error when a node to be deleted has children. The child of a lock is a contender that came after we had
// looked.
func (h *Held) occupiedError(ctx context.Context, p *plan.Plan, op tx.Op, err error) error {
	for c := range p.Each() {
		if !About(c, op.Addr, op.Path) || c.Before == nil || c.Before.Kind().Container {
			continue
		}
		usage, _ := read.Usage(ctx, h.Session, c.Before) // without it the error only lacks the names
		return failure.InUseBy(usage, c)
	}
	return &failure.ConflictError{Addr: op.Addr, Path: op.Path, Op: op.Kind, Why: "something was created in it", Err: err}
}

// About reports whether a path belongs to this change: its node or one of the parts. The address is not enough: if the path of a
// lock changes, the nodes at both paths have it.
func About(c *plan.Change, addr plan.Addr, path string) bool {
	parent := kind.ParentPath(path)
	return c.Addr == addr && (path == c.Path || parent == c.Path)
}

// Refusal is the error of a transaction that was certainly not committed.
func (h *Held) Refusal(ctx context.Context, p *plan.Plan, ops []tx.Op, results []zk.MultiResponse, err error) error {
	if op, refused := refusal.FirstRefused(results, ops); refused {
		// err is used, not the result: go-zookeeper has no text for some codes in results
		return h.Explain(ctx, p, op, err)
	}
	if errors.Is(err, recipes.ErrLost) || errors.Is(err, recipes.ErrSessionLost) {
		return refusal.Lock(h.Lease.Path(), err)
	}
	return refusal.Commit(p.Root, err)
}
