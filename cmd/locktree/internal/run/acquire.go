package run

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/cmd/locktree/internal/exit"
	"github.com/locktree/locktree/cmd/locktree/internal/stack"
	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/inspect"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/kind/slots"
	"github.com/locktree/locktree/recipes/once"
)

// acquire takes each lock by its declared type.
func (x *job) acquire(ctx context.Context, client *recipes.Client, paths []string) (*recipes.Lease, error) {
	if len(paths) > 1 {
		return x.acquireAll(ctx, client, paths)
	}
	path := paths[0]
	in, err := declaration(ctx, client, path)
	if err != nil {
		return nil, err
	}
	if x.opts.Key.Given && in.Kind.Key != nil {
		of := in.Kind.Key(in.Payload.Params).Kind()
		if err := x.fits(of, path); err != nil {
			return nil, err
		}
		return x.lock(ctx, client.Keyed(path).Locker(of, x.opts.Key.Key, x.opts.Mode == "read", x.opts.Permits))
	}
	if x.opts.Key.Given {
		return nil, stack.NotAFamily(path, in)
	}
	if err := x.fits(in.Kind, path); err != nil {
		return nil, err
	}
	if in.Kind == kind.Once {
		return x.takeSlot(ctx, client, path)
	}
	return x.lock(ctx, client.Locker(in.Kind, path, x.opts.Mode == "read", x.opts.Permits))
}

func (x *job) lock(ctx context.Context, lock recipes.Locker) (*recipes.Lease, error) {
	if x.opts.Try {
		return lock.TryLock(ctx)
	}
	return lock.Lock(ctx)
}

func declaration(ctx context.Context, client *recipes.Client, path string) (*inspect.Report, error) {
	in, err := inspect.Lock(ctx, client, path)
	if err == nil && in.Payload == nil {
		err = fmt.Errorf("%w: %s", recipes.ErrNotProvisioned, path)
	}
	return in, err
}

// takeSlot starts the slot.
func (x *job) takeSlot(ctx context.Context, client *recipes.Client, path string) (*recipes.Lease, error) {
	if !x.opts.Once {
		return nil, view.Failf("Slot missing", "%s is declared as once: its command runs once for each slot. Give -once, which runs the newest one.", path)
	}
	job := once.New(client, path)
	start := job.Start
	if x.opts.Try {
		start = job.TryStart
	}
	s, err := start(ctx, "")
	if err != nil {
		return nil, err
	}
	x.slot.start, x.slot.result = s, errors.New("the command was not run")
	return s.Lease, nil
}

// acquireAll takes several locks in one transaction. -mode applies to the locks that have readers.
func (x *job) acquireAll(ctx context.Context, client *recipes.Client, paths []string) (*recipes.Lease, error) {
	members := make([]recipes.Member, len(paths))
	for i, path := range paths {
		in, err := declaration(ctx, client, path)
		if err != nil {
			return nil, err
		}
		if err := x.holdable(in.Kind, path); err != nil {
			return nil, err
		}
		switch {
		case in.Kind == kind.Mutex:
			members[i] = client.Mutex(path)
		case in.Kind == kind.Election:
			members[i] = client.Election(path)
		case in.Kind == kind.RWLock && x.opts.Mode == "read":
			members[i] = client.RWMutex(path).RLocker()
		case in.Kind == kind.RWLock:
			members[i] = client.RWMutex(path)
		default:
			return nil, view.Failf("Not together with others", "%s is a %s: only mutexes, elections and read-write locks can be taken together. Take it alone.", path, in.Kind.Name)
		}
	}
	return x.lock(ctx, client.MultiLock(members...))
}

// holdable refuses nodes that no client can hold, or that -try cannot take.
func (x *job) holdable(k *kind.Kind, path string) error {
	if err := stack.Holdable(k, path); err != nil {
		return err
	}
	if x.opts.Try && k == kind.Election {
		return view.Failf("No try for elections", "%s is an election: a candidate waits until it leads. Use -timeout.", path)
	}
	return nil
}

// fits does the same as holdable. It also refuses a flag that does not apply to the kind: an operator who gives it means another
// lock.
func (x *job) fits(k *kind.Kind, path string) error {
	if err := x.holdable(k, path); err != nil {
		return err
	}
	for flag, says := range map[string]bool{"mode": k.Queues[0].Shared != nil, "permits": k.Permits != nil} {
		if x.opts.Given(flag) && !says {
			return view.Failf("Flag of another kind of lock", "%s is declared as %s, to which -%s does not apply. Leave the flag out, or name another lock.", path, k.Name, flag)
		}
	}
	if x.opts.Once && k != kind.Once {
		return view.Failf("Not a job", "Only what is declared as once has slots, and %s is declared as %s.", path, k.Name)
	}
	return nil
}

// conflictError returns the error of locks that others hold. With -conflict-exit-code it reports them as skipped instead, and the
// exit code says so.
func (x *job) conflictError(paths []string, detail string, args ...any) error {
	if x.opts.Given(ConflictFlag) {
		x.tell(view.Job{Event: view.JobSkipped, Path: together(paths), Text: fmt.Sprintf(detail, args...)})
		return exit.Wrap(x.opts.Conflict, nil) // also for code 0: the command must not run without the lock
	}
	return exit.Wrap(x.opts.Conflict, view.Failf("Lock not acquired", detail, args...))
}

// notAcquired says why there is no lock, with the exit code for that.
func (x *job) notAcquired(ctx context.Context, client *recipes.Client, paths []string, err error) error {
	path, first, was := together(paths), paths[0], "was"
	if len(paths) > 1 {
		was = "were"
	}
	var held *recipes.HeldError
	if said, ok := x.notStarted(err); ok {
		return said
	}
	switch {
	case errors.As(err, &held):
		if ctx.Err() == nil && !(x.opts.Quiet && x.opts.Given(ConflictFlag)) {
			asking, stop := context.WithTimeout(ctx, 2*time.Second)
			_ = held.Identify(asking) // so that the message names the holder
			stop()
		}
		return x.conflictError(paths, "%s", heldText(held))
	case errors.Is(err, recipes.ErrUnreachable): // if the ensemble is unreachable, exec does not end with the code of -conflict-exit-code
		return Own(err)
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		return x.conflictError(paths, "%s %s not acquired within %v, and its holder is not known. \"locktree status %s\" shows it.", path, was, x.opts.Timeout, first)
	case errors.Is(err, recipes.ErrRevoked):
		return x.conflictError(paths, "Another program asked this one to leave the queue of %s. \"locktree status %s\" shows the queue.", path, first)
	case errors.Is(err, recipes.ErrQueueFull):
		return x.conflictError(paths, "The queue of %s is full: max_waiters limits it. Try again later; \"locktree status %s\" shows the queue.", path, first)
	case errors.Is(err, recipes.ErrDraining):
		return x.conflictError(paths, "%s is being drained: an apply will change or delete it once it is free, and until then it grants nothing new. Try again later. If that apply was interrupted, the next one opens the lock again.", path)
	case errors.Is(err, recipes.ErrKeyForeign):
		return Own(view.Failf("Key of another program", "%s. \"locktree doctor\" shows whether there are more.", view.Sentence(err)))
	case errors.Is(err, recipes.ErrKindMismatch): // the type was declared differently when the lock was opened
		return Own(view.Failf("Lock replaced", "%s was replaced by a lock of another kind while this program waited for it. Run exec again to queue again.", path))
	case errors.Is(err, recipes.ErrTooManyPermits): // also if the number was lowered while this program waited
		return Own(view.Failf("Too many permits", "The command was not run: %s. Ask for fewer with -permits, or declare more and apply that.",
			strings.TrimPrefix(view.Sentence(err), "too many permits: ")))
	case errors.Is(err, recipes.ErrLost), errors.Is(err, recipes.ErrSessionLost): // whatever the cause
		return Own(view.Failf("Place in the queue lost", "The command was not run: %s. Run exec again to queue again.", view.Sentence(err)))
	case errors.Is(err, zk.ErrNoNode), errors.Is(err, recipes.ErrNotProvisioned):
		return Own(view.Failf("Not a declared lock", "%s does not exist, or has no declaration. Declare and apply it, or import it. The lock of a key is named by its family and -key. \"locktree status %s\" shows what is there.", path, first))
	}
	return Own(stack.Denied(ctx, client, err))
}

// notStarted says why a slot is not run; ok is false for other errors.
func (x *job) notStarted(err error) (said error, ok bool) {
	var taken *once.SlotError
	switch {
	case errors.As(err, &taken) && x.opts.Given(ConflictFlag):
		x.tell(view.Job{Event: view.JobSkipped, Path: taken.Path, Text: takenText(taken)})
		return exit.Wrap(x.opts.Conflict, nil), true
	case errors.As(err, &taken):
		return exit.Wrap(exit.Slot, view.Failf("Slot not run", "%s", takenText(taken))), true
	case errors.Is(err, once.ErrSlotTooOld):
		return Own(view.Failf("Slot too old", "The command was not run: %s. If only catch_up has passed, declare a longer one, or run the command without locktree.", view.Sentence(err))), true
	case errors.Is(err, once.ErrNoSlot), errors.Is(err, slots.ErrUnknownZone):
		return Own(view.Failf("No such slot", "The command was not run: %s.", view.Sentence(err))), true
	}
	return nil, false
}

// heldText says who holds a lock.
func heldText(e *recipes.HeldError) string {
	text := e.Path + " is held"
	if e.Holder.Path != "" {
		text += " by " + kind.NewSight(e.Holder, time.Now()).Line()
	}
	if text += fmt.Sprintf("; %d ahead.", e.Position); e.Waited > 0 {
		text += fmt.Sprintf(" Waited for %v.", e.Waited.Round(time.Millisecond))
	}
	return text + fmt.Sprintf(" \"locktree status %s\" shows the queue.", e.Path)
}
