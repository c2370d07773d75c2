package apply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes"
)

// LockInfo is who holds an apply lock, in the words of Terraform's "Lock Info".
type LockInfo struct {
	ID        string    // of the apply
	Path      string    // of the lock
	Operation string    // Executor.Operation
	Who       string    // user@host
	Version   string    // of the program
	Created   time.Time // by the clock of the applying machine, UTC
	Info      string    // anything else
}

// String writes the block that Terraform's users know, without a line break at its end.
func (l LockInfo) String() string {
	return fmt.Sprintf("Lock Info:\n  ID:        %s\n  Path:      %s\n  Operation: %s\n  Who:       %s\n  Version:   %s\n  Created:   %s\n  Info:      %s",
		l.ID, l.Path, l.Operation, l.Who, l.Version, l.Created.UTC().Format("2006-01-02 15:04:05 UTC"), l.Info)
}

// unanswered is how long servers that keep a session alive may leave the question for the lock unanswered. The library
// asks again for as long as its caller likes, and nobody sits before a run of CI.
const unanswered = time.Minute

// held is the apply lock of one stack, with the session it belongs to.
type held struct {
	id    string // of the apply it is for
	lease *recipes.Lease
	s     *recipes.Session
	end   func() // ends the context that Lock returned
}

// Lock takes the apply lock of desired's stack for the next Run, so that no other apply
// changes what is read, planned and approved until then. That Run gives it back.
//
// The context it returns is ctx, and is cancelled with the cause when the lock is lost: read
// and ask for the approval under it. It ends with that Run, or with Unlock.
//
// A stack that was never applied has no lock yet, and nothing is made before a plan is
// approved: then Lock returns ctx itself. Run makes the lock, takes it, and returns a
// [*StaleError] when another apply was first.
func (x *Executor) Lock(ctx context.Context, desired *plan.Tree) (context.Context, error) {
	if err := x.mayApply(desired.Intent.Access, desired.Root); err != nil {
		return ctx, err
	}
	s, err := x.Client.Session(ctx)
	if err != nil {
		return ctx, err
	}
	path := plan.LockPath(desired.Root, desired.Stack)
	switch stat, err := s.Exists(ctx, path); {
	case errors.Is(err, zk.ErrNoAuth): // it is there, see reader.unreadable
	case err != nil:
		return ctx, readError(path, err)
	case stat == nil:
		return ctx, nil
	}
	h, err := x.lock(ctx, newID(), path)
	if err != nil {
		return ctx, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(h.lease.Context(), func() { cancel(h.lost()) })
	h.end = func() { stop(); cancel(nil) }
	x.held = h
	return ctx, nil
}

// Unlock gives back what Lock took, where there was no Run.
func (x *Executor) Unlock(ctx context.Context) {
	if h := x.held; h != nil {
		x.held = nil
		h.unlock(ctx)
	}
}

// lost says that the lock is lost, if it is.
func (h *held) lost() error {
	if h.lease.Context().Err() == nil {
		return nil
	}
	return lockError(h.lease.Path(), context.Cause(h.lease.Context()))
}

// unlock gives the lock back, also when ctx has ended. An error here takes
// nothing away from what was applied: the lock goes with its session at the latest.
func (h *held) unlock(ctx context.Context) {
	if h.end != nil {
		h.end()
	}
	ctx, cancel := detached(ctx, h.s)
	defer cancel()
	_ = h.lease.Unlock(ctx)
}

// lock takes the apply lock at path.
func (x *Executor) lock(ctx context.Context, id, path string) (*held, error) {
	s, err := x.Client.Session(ctx)
	if err != nil {
		return nil, err
	}
	lease, err := x.queue(ctx, id, path)
	if err != nil {
		return nil, err
	}
	h := &held{id: id, lease: lease, s: s}
	// A client has one session at a time, and the lease is of one that was there before: when the
	// lease is still good, the session of now is its own.
	// The lease's session: an earlier one may have been lost while we waited. A later
	// one is never used under the lock: access lists are fenced by their session alone.
	if s, err = x.Client.Session(ctx); err == nil {
		err = h.lost()
	}
	if err != nil {
		h.unlock(ctx)
		return nil, err
	}
	h.s = s
	return h, nil
}

// queue waits for the apply lock. What it says about us stands in
// our contender's id, where the next applier reads it.
//
// It is an ephemeral node of an ordinary mutex of ours. A program that dies takes it along, so
// there is no command to force it open; one that is paused past its session finds every
// transaction refused, which checks that node first (recipes.Lease.Multi).
func (x *Executor) queue(ctx context.Context, id, path string) (*recipes.Lease, error) {
	info := LockInfo{ID: id, Path: path, Operation: x.Operation, Who: x.Who, Version: x.Version, Created: time.Now().UTC()}
	text, err := json.Marshal(info)
	if err != nil {
		return nil, err
	}
	m := x.Client.Mutex(info.Path, recipes.WithID(string(text)))
	start := time.Now()
	try, cancel := context.WithTimeout(ctx, unanswered)
	defer cancel()
	lease, err := m.TryLock(try)
	// TryLock first, whether or not we may wait: it says at once whom for.
	held := errors.Is(err, recipes.ErrHeld)
	mute := err != nil && !held && try.Err() != nil // of the question alone: a wait may outlast it
	if held {
		lease, err = x.wait(ctx, m, err)
	}
	var holder *recipes.HeldError
	switch {
	case err == nil:
		x.emit(LockAcquired{Info: info})
		return lease, nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case mute:
		return nil, &NodeError{Path: info.Path, Op: "lock", Err: err, Why: fmt.Sprintf("the servers did not answer within %v (%s)", unanswered, cause(err)),
			Written: nothingWritten, Next: "Look at the servers, then apply again."}
	case errors.As(err, &holder):
		return nil, &LockedError{Info: holderInfo(holder), Path: info.Path, Waited: time.Since(start)}
	default:
		return nil, lockError(info.Path, err)
	}
}

// wait waits as long as it may, and says for whom. What a TryLock found (found) is asked
// who it is in any case: it goes into the error, unless the wait finds another one.
// Asking costs a request more, which TryLock saves for those who do not want to know.
func (x *Executor) wait(ctx context.Context, m *recipes.Mutex, found error) (*recipes.Lease, error) {
	var held *recipes.HeldError
	if errors.As(found, &held) {
		// Best effort: a holder that left meanwhile tells nothing.
		_ = held.Identify(ctx)
	}
	if x.LockTimeout <= 0 {
		return nil, found
	}
	x.emit(LockWaiting{Info: holderInfo(held)})
	ctx, cancel := context.WithTimeout(ctx, x.LockTimeout)
	defer cancel()
	lease, err := m.Lock(ctx)
	// The time may be over before it is known who is ahead.
	var late *recipes.HeldError
	away := errors.Is(err, recipes.ErrUnreachable) || errors.Is(err, recipes.ErrSessionLost)
	if errors.Is(err, context.DeadlineExceeded) && !away && (!errors.As(err, &late) || late.Holder.ID == "") {
		return nil, found
	}
	return lease, err
}

func holderInfo(e *recipes.HeldError) *LockInfo {
	if e == nil {
		return nil
	}
	return parseInfo(e.Holder.ID)
}

// parseInfo reads the id of a contender; nil when no apply of ours wrote it.
func parseInfo(id string) *LockInfo {
	var info LockInfo
	if json.Unmarshal([]byte(id), &info) != nil || info.ID == "" {
		return nil
	}
	for _, s := range []*string{&info.ID, &info.Path, &info.Operation, &info.Who, &info.Version, &info.Info} {
		if quoted := strconv.Quote(*s); strings.ContainsFunc(*s, func(r rune) bool { return !unicode.IsPrint(r) }) {
			*s = quoted[1 : len(quoted)-1] // JSON can spell control characters without containing any
		}
	}
	return &info
}
