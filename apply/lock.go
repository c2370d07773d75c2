package apply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/locktree/locktree/apply/event"
	"github.com/locktree/locktree/apply/failure"
	"github.com/locktree/locktree/recipes"
)

// unanswered is how long servers that keep a session alive may leave the request for the lock unanswered. The library
// would repeat it for as long as its caller waits, and nobody watches a run of CI.
const unanswered = time.Minute

// held is the apply lock of one stack, with the session it belongs to.
type held struct {
	id    string // of the apply for which it was taken
	lease *recipes.Lease
	s     *recipes.Session
	end   func() // ends the context of the Run
}

// lost returns an error if the lock is lost.
func (h *held) lost() error {
	if h.lease.Context().Err() == nil {
		return nil
	}
	return failure.Lock(h.lease.Path(), context.Cause(h.lease.Context()))
}

// unlock releases the lock, even if ctx has ended. An error here does not affect what was
// applied: the lock ends with its session at the latest.
func (h *held) unlock(ctx context.Context) {
	if h.end != nil {
		h.end()
	}
	ctx, cancel := detached(ctx, h.s)
	defer cancel()
	_ = h.lease.Unlock(ctx)
}

// lock takes the apply lock at path.
func (x *Applier) lock(ctx context.Context, id, path string) (*held, error) {
	s, err := x.client.Session(ctx)
	if err != nil {
		return nil, err
	}
	lease, err := x.queue(ctx, id, path)
	if err != nil {
		return nil, err
	}
	h := &held{id: id, lease: lease, s: s}
	// Use the lease's session: an earlier one may have been lost while we waited. A client has one
	// session at a time, so if the lease is still valid, the present session is the lease's. A later
	// one is never used under the lock, because only the session fences access lists.
	if s, err = x.client.Session(ctx); err == nil {
		err = h.lost()
	}
	if err != nil {
		h.unlock(ctx)
		return nil, err
	}
	h.s = s
	return h, nil
}

// queue waits for the apply lock. Our contender's id describes this apply; the next applier
// reads it there.
//
// The contender is an ephemeral node of an ordinary mutex. If the program dies it disappears, so there
// is no command to force the lock open. If the program is paused past its session, all its transactions are
// refused, because each checks that node first (recipes.Lease.Multi).
func (x *Applier) queue(ctx context.Context, id, path string) (*recipes.Lease, error) {
	info := failure.LockInfo{ID: id, Path: path, Operation: x.opts.Operation, Who: x.opts.Who, Version: x.opts.Version, Created: time.Now().UTC()}
	text, err := json.Marshal(info)
	if err != nil {
		return nil, err
	}
	m := x.client.Mutex(info.Path, recipes.WithID(string(text)))
	start := time.Now()
	try, cancel := context.WithTimeout(ctx, unanswered)
	defer cancel()
	lease, err := m.TryLock(try)
	for errors.Is(err, recipes.ErrUnreachable) && recipes.Retryable(err) && rest(try) { // a server restarts, perhaps
		lease, err = m.TryLock(try)
	}
	// TryLock first, even if we may wait: it says at once for whom.
	held := errors.Is(err, recipes.ErrHeld)
	mute := err != nil && !held && try.Err() != nil // of the question alone: a wait may outlast it
	if held {
		lease, err = x.wait(ctx, m, err)
	}
	var holder *recipes.HeldError
	switch {
	case err == nil:
		x.emit(event.LockAcquired{Info: info})
		return lease, nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case mute:
		return nil, &failure.NodeError{Path: info.Path, Op: "lock", Err: err, Why: fmt.Sprintf("the servers did not answer within %v (%s)", unanswered, failure.Cause(err)),
			Written: failure.NothingWritten, Next: "Look at the servers, then apply again."}
	case errors.As(err, &holder) && !errors.Is(err, recipes.ErrUnreachable):
		return nil, &failure.LockedError{Info: holderInfo(holder), Path: info.Path, Waited: time.Since(start)}
	default:
		return nil, failure.Lock(info.Path, err)
	}
}

// rest pauses before another try, and reports whether ctx goes on.
func rest(ctx context.Context) bool {
	select {
	case <-ctx.Done():
	case <-time.After(time.Second):
	}
	return ctx.Err() == nil
}

// wait waits as long as it may, and reports for whom. It always identifies the holder that TryLock
// found (found), which goes into the error unless the wait finds another one. That takes one more
// request, which TryLock saves for callers who do not need it.
func (x *Applier) wait(ctx context.Context, m *recipes.Mutex, found error) (*recipes.Lease, error) {
	var held *recipes.HeldError
	if errors.As(found, &held) {
		// Best effort: a holder that has left meanwhile cannot be identified.
		_ = held.Identify(ctx)
	}
	if x.opts.LockTimeout <= 0 {
		return nil, found
	}
	x.emit(event.LockWaiting{Info: holderInfo(held)})
	ctx, cancel := context.WithTimeout(ctx, x.opts.LockTimeout)
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
	return failure.ParseInfo(e.Holder.ID)
}
