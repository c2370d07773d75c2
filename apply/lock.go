package apply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

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

// String writes the block Terraform prints below its heading "Lock Info:", one
// field a line, indented by two.
func (l LockInfo) String() string {
	return fmt.Sprintf("  ID:        %s\n  Path:      %s\n  Operation: %s\n  Who:       %s\n  Version:   %s\n  Created:   %s\n  Info:      %s\n",
		l.ID, l.Path, l.Operation, l.Who, l.Version, l.Created.UTC().Format("2006-01-02 15:04:05.999999999 -0700 MST"), l.Info)
}

// unanswered is how long servers that keep a session alive may leave the question for the lock unanswered. The library
// asks again for as long as its caller likes, and nobody sits before a run of CI.
const unanswered = time.Minute

// lock takes the apply lock of the plan's stack. What it says about us stands in
// our contender's id, where the next applier reads it.
//
// It is an ephemeral node of an ordinary mutex of ours. A program that dies takes it along, so
// there is no command to force it open; one that is paused past its session finds every
// transaction refused, which checks that node first (recipes.Lease.Multi).
func (r *run) lock(ctx context.Context) (*recipes.Lease, error) {
	info := LockInfo{
		ID: r.id, Path: plan.LockPath(r.p.Root, r.p.Stack), Operation: r.x.Operation, Who: r.x.Who,
		Version: r.x.Version, Created: time.Now().UTC(),
	}
	text, err := json.Marshal(info)
	if err != nil {
		return nil, err
	}
	m := r.x.Client.Mutex(info.Path, recipes.WithID(string(text)))
	start := time.Now()
	try, cancel := context.WithTimeout(ctx, unanswered)
	defer cancel()
	lease, err := m.TryLock(try)
	// TryLock first, whether or not we may wait: it says at once whom for.
	held := errors.Is(err, recipes.ErrHeld)
	mute := err != nil && !held && try.Err() != nil // of the question alone: a wait may outlast it
	if held {
		lease, err = r.wait(ctx, m, err)
	}
	var holder *recipes.HeldError
	switch {
	case err == nil:
		r.emit(LockAcquired{Info: info})
		return lease, nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case mute:
		return nil, &NodeError{Path: info.Path, Op: "lock", Err: err, Why: fmt.Sprintf("the servers did not answer within %v (%s)", unanswered, cause(err)),
			Next: unwritten + "look at the servers, then apply again"}
	case errors.As(err, &holder):
		return nil, &LockedError{Info: holderInfo(holder), Path: info.Path, Waited: time.Since(start)}
	default:
		return nil, lockError(info.Path, err)
	}
}

// wait waits as long as it may, and says for whom. What a TryLock found (found) is asked
// who it is in any case: it goes into the error, unless the wait finds another one.
// Asking costs a request more, which TryLock saves for those who do not want to know.
func (r *run) wait(ctx context.Context, m *recipes.Mutex, found error) (*recipes.Lease, error) {
	var held *recipes.HeldError
	if errors.As(found, &held) {
		// Best effort: a holder that left meanwhile tells nothing.
		_ = held.Identify(ctx)
	}
	if r.x.LockTimeout <= 0 {
		return nil, found
	}
	r.emit(LockWaiting{Info: holderInfo(held)})
	ctx, cancel := context.WithTimeout(ctx, r.x.LockTimeout)
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
	return &info
}
