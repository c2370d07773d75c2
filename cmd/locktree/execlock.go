package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/cmd/locktree/internal/child"
	"github.com/locktree/locktree/cmd/locktree/internal/exit"
	"github.com/locktree/locktree/cmd/locktree/internal/stack"
	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/direct"
	"github.com/locktree/locktree/recipes/inspect"
	"github.com/locktree/locktree/recipes/kind"
)

// listen interrupts this program at a signal that ends programs, until over is closed: while the command runs, signals
// go to the command.
func (x *execution) listen(signals <-chan os.Signal, over <-chan struct{}) (ended <-chan struct{}) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case s := <-signals:
				if child.Ends(s) {
					x.interrupt(interrupted{s})
				}
			case <-over:
				return
			}
		}
	}()
	return done
}

// acquire takes the locks, as what they are declared.
func (x *execution) acquire(ctx context.Context, client *recipes.Client, paths []string) (*recipes.Lease, error) {
	if len(paths) > 1 {
		return x.acquireAll(ctx, client, paths)
	}
	path := paths[0]
	in, err := declaration(ctx, client, path)
	if err != nil {
		return nil, err
	}
	want := recipes.Want{Shared: x.mode == "read", Permits: x.permits, Try: x.try}
	if x.key.Given && in.Kind.Key != nil {
		of := in.Kind.Key(in.Payload.Params).Kind()
		if err := x.fits(of, path); err != nil {
			return nil, err
		}
		return client.Keyed(path).Take(ctx, of, x.key.Key.Key, want)
	}
	if x.key.Given {
		return nil, stack.NotAFamily(path, in)
	}
	if err := x.fits(in.Kind, path); err != nil {
		return nil, err
	}
	if in.Kind == kind.Once {
		return x.takeSlot(ctx, client, path)
	}
	return client.Take(ctx, in.Kind, path, want)
}

func declaration(ctx context.Context, client *recipes.Client, path string) (*inspect.Report, error) {
	in, err := inspect.Lock(ctx, client, path)
	if err == nil && in.Payload == nil {
		err = fmt.Errorf("%w: %s", recipes.ErrNotProvisioned, path)
	}
	return in, err
}

// acquireAll takes several locks in one transaction. -mode is for those of them that have readers.
func (x *execution) acquireAll(ctx context.Context, client *recipes.Client, paths []string) (*recipes.Lease, error) {
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
		case in.Kind == kind.RWLock && x.mode == "read":
			members[i] = client.RWMutex(path).Reader()
		case in.Kind == kind.RWLock:
			members[i] = client.RWMutex(path)
		default:
			return nil, view.Failf("Not together with others", "%s is a %s: only mutexes, elections and read-write locks can be taken together. Take it alone.", path, in.Kind.Name)
		}
	}
	if x.try {
		return client.MultiLock(members...).TryLock(ctx)
	}
	return client.MultiLock(members...).Lock(ctx)
}

// holdable refuses what nobody can hold, or not without waiting for it.
func (x *execution) holdable(k *kind.Kind, path string) error {
	if err := stack.Holdable(k, path); err != nil {
		return err
	}
	if x.try && k == kind.Election {
		return view.Failf("No try for elections", "%s is an election: a candidate waits until it leads. Use -timeout.", path)
	}
	return nil
}

// fits is holdable, and refuses a flag that does not apply to the kind: whoever gives it means another lock.
func (x *execution) fits(k *kind.Kind, path string) error {
	if err := x.holdable(k, path); err != nil {
		return err
	}
	for flag, says := range map[string]bool{"mode": k.Queues[0].Shared != nil, "permits": k.Permits != nil} {
		if x.given[flag] && !says {
			return view.Failf("Flag of another kind of lock", "%s is declared as %s, to which -%s does not apply. Leave the flag out, or name another lock.", path, k.Name, flag)
		}
	}
	if x.slot.once && k != kind.Once {
		return view.Failf("Not a job", "Only what is declared as once has slots, and %s is declared as %s.", path, k.Name)
	}
	return nil
}

// notHad is for a lock that others hold. For whoever gives a code for that it is no error.
func (x *execution) notHad(paths []string, detail string, args ...any) error {
	if x.given[conflictFlag] {
		x.tell(view.Job{Event: view.JobSkipped, Path: together(paths), Text: fmt.Sprintf(detail, args...)})
		return exit.Wrap(x.conflict, nil) // also 0: there is no lock
	}
	return exit.Wrap(x.conflict, view.Failf("Lock not acquired", detail, args...))
}

// notAcquired says why there is no lock, with the exit code for that.
func (x *execution) notAcquired(ctx context.Context, client *recipes.Client, paths []string, err error) error {
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
		if ctx.Err() == nil && !(x.quiet && x.given[conflictFlag]) {
			asking, stop := context.WithTimeout(ctx, 2*time.Second)
			_ = held.Identify(asking) // only to say more
			stop()
		}
		return x.notHad(paths, "%s", heldText(held))
	case errors.Is(err, recipes.ErrUnreachable): // not even with the code for a lock that others hold
		return own(err)
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		return x.notHad(paths, "%s %s not acquired within %v, and its holder is not known. \"locktree status %s\" shows it.", path, was, x.timeout, first)
	case errors.Is(err, recipes.ErrRevoked):
		return x.notHad(paths, "Somebody asked this program to leave the queue of %s. \"locktree status %s\" shows the queue.", path, first)
	case errors.Is(err, recipes.ErrQueueFull):
		return x.notHad(paths, "The queue of %s is full: max_waiters limits it. Try again later; \"locktree status %s\" shows the queue.", path, first)
	case errors.Is(err, recipes.ErrDraining):
		return x.notHad(paths, "%s is being drained: an apply will change or delete it once nobody holds it, and admits nobody new. Try again later. If that apply was interrupted, the next one opens the lock again.", path)
	case errors.Is(err, recipes.ErrKeyForeign):
		return own(view.Failf("Key of another program", "%s. \"locktree doctor\" shows whether there are more.", view.Sentence(err)))
	case errors.Is(err, recipes.ErrKindMismatch): // it was opened as what it was declared then
		return own(view.Failf("Lock replaced", "%s was replaced by a lock of another kind while this program waited for it. Run exec again to queue again.", path))
	case errors.Is(err, recipes.ErrTooManyPermits): // also if the number was lowered while this program waited
		return own(view.Failf("Too many permits", "The command was not run: %s. Ask for fewer with -permits, or declare more and apply that.",
			strings.TrimPrefix(view.Sentence(err), "too many permits: ")))
	case errors.Is(err, recipes.ErrLost), errors.Is(err, recipes.ErrSessionLost): // whatever took it away
		return own(view.Failf("Place in the queue lost", "The command was not run: %s. Run exec again to queue again.", view.Sentence(err)))
	case errors.Is(err, zk.ErrNoNode), errors.Is(err, recipes.ErrNotProvisioned):
		return own(view.Failf("Not a declared lock", "%s does not exist, or has no declaration. Declare and apply it, or import it. The lock of a key is named by its family and -key. \"locktree status %s\" shows what is there.", path, first))
	}
	return own(stack.Denied(ctx, client, err))
}

func heldText(e *recipes.HeldError) string {
	text := e.Path + " is held"
	if e.Holder.Path != "" {
		text += " by " + e.Sight().Line()
	}
	if text += fmt.Sprintf("; %d ahead.", e.Position); e.Waited > 0 {
		text += fmt.Sprintf(" Waited for %v.", e.Waited.Round(time.Millisecond))
	}
	return text + fmt.Sprintf(" \"locktree status %s\" shows the queue.", e.Path)
}

// Observe is for Config.Observer.
func (x *execution) Observe(e recipes.Event) {
	switch {
	case e.Type == recipes.EventLost:
		x.lose()
	case e.Type == recipes.EventQueued:
		x.tell(view.Job{Text: "waiting for " + e.Path})
	}
}

// supervise waits for the command, and ends it when it must not continue; stopped says why.
//
// It sends SIGTERM a third of a session timeout after the last committed write of the
// session, and SIGKILL when the lease ends, at half of it. No server has expired the session
// by then; see Lease.Context. A lost connection alone is no reason: usually it is restored
// within that time.
func (x *execution) supervise(ctx context.Context, p *child.Process, lease *recipes.Lease, session *direct.Session, signals <-chan os.Signal) (stopped string) {
	lost, ended, cancelled := x.lost, lease.Context().Done(), ctx.Done()
	untilDoubt := func() time.Duration { return time.Until(lease.Deadline()) - session.Timeout()/6 }
	doubt := time.NewTimer(untilDoubt())
	defer doubt.Stop()
	stop := func(why string) {
		select {
		case <-p.Done():
			return // it was faster
		default:
		}
		x.say("%s: telling the command to end", why)
		stopped = why
		p.Stop()
	}
	for {
		select {
		case <-p.Done():
			if stopped != "" || isLost(lease) {
				p.Kill() // what it left behind
			}
			x.slot.ended(p, stopped)
			return stopped
		case s := <-signals:
			p.Signal(s)
		case <-cancelled:
			cancelled = nil
			stop("cancelled")
		case <-doubt.C:
			if d := untilDoubt(); d > 0 { // something has been committed meanwhile
				doubt.Reset(d)
				continue
			}
			stop("the connection to ZooKeeper is in doubt")
		case <-ended:
			ended = nil
			if isLost(lease) {
				p.Kill()
			} else {
				stop("another program asks for " + lease.Path() + " back")
			}
		case <-lost: // also after it was asked back
			lost = nil
			p.Kill()
		}
	}
}

// isLost reports whether the lease was lost, and not only asked back.
func isLost(lease *recipes.Lease) bool {
	return errors.Is(context.Cause(lease.Context()), recipes.ErrLost)
}

// finish releases the lock. The exit code is the command's own only if it ended by itself with the lock held: after a signal
// of ours, even 0 does not mean that its work is done.
func (x *execution) finish(p *child.Process, lease *recipes.Lease, granted time.Time, stopped string) error {
	err := x.release(lease, granted)
	select {
	case <-x.lost:
		err = errors.Join(err, recipes.ErrLost)
	default:
	}
	if isLost(lease) || errors.Is(err, recipes.ErrLost) {
		cause := err
		if isLost(lease) {
			cause = context.Cause(lease.Context())
		}
		return exit.Wrap(exit.Lost, view.Failf("Lock lost", "%s was lost while the command ran, so the command was ended: %s. Its last work may overlap with that of another holder. \"locktree status %s\" shows who holds the lock now.",
			lease.Path(), view.Sentence(cause), x.pathsOf(lease)[0]))
	}
	if stopped != "" {
		return exit.Wrap(exit.Lost, view.Failf("Command was ended", "The command was told to end before it was done (%s), and exited with %d. %s was held until then. Run exec again to repeat the work.",
			stopped, p.Code(), lease.Path()))
	}
	return exit.With(p.Code())
}

// ready returns the lease's token and session, or why the command cannot start: the lease was
// lost, or it cannot be kept. A node that we may create but not read proves nothing.
func (x *execution) ready(client *recipes.Client, lease *recipes.Lease) (uint64, *direct.Session, error) {
	token := lease.Token()
	proof := lease.Verify(lease.Context())
	s, err := client.Session(lease.Context()) // the lease's; another one only if that is lost
	switch {
	case err != nil, isLost(lease):
		return 0, nil, exit.Wrap(exit.Lost, view.Failf("Lock lost", "%s was lost before the command was started: %s. It was not run.",
			lease.Path(), view.Sentence(context.Cause(lease.Context()))))
	case token == 0, errors.Is(proof, zk.ErrNoAuth):
		x.release(lease, time.Time{})
		return 0, nil, own(stack.DeniedAt(context.WithoutCancel(lease.Context()), client, errors.Join(zk.ErrNoAuth, view.Failf("Lock cannot be kept",
			"The command was not run, and %s was released: the access list lets this program queue for it, but not read its own contender, which proves that the lock is held. Grant \"lock\" to it in the lock's acl, and apply.", lease.Path())), lease.Path()))
	}
	return token, s, nil
}

// linger keeps the locks of a command that has ended until a time, and reports whether they are still held. Where they are not, the
// command's work is done all the same: it was done while they were.
func (x *execution) linger(ctx context.Context, lease *recipes.Lease, until time.Time, signals <-chan os.Signal) (held bool) {
	left := func() time.Duration { return time.Until(until).Round(time.Millisecond) }
	if left() <= 0 {
		return true
	}
	x.tell(view.Job{Text: fmt.Sprintf("the command has ended: keeping %s for another %v", lease.Path(), left())})
	over := time.NewTimer(time.Until(until))
	defer over.Stop()
	for {
		select {
		case <-over.C:
			return true
		case <-lease.Context().Done():
			if isLost(lease) {
				x.say("%s was lost %v before -at-least was over: another machine may run the command again", lease.Path(), left())
				return false
			}
			x.say("another program asks for %s back: it gets it %v before -at-least is over", lease.Path(), left())
			return true
		case s := <-signals:
			if child.Ends(s) {
				x.say("%s: releasing %s %v before -at-least is over", s, lease.Path(), left())
				return true
			}
		case <-ctx.Done():
			return true
		}
	}
}

// release releases the lock, and waits for that no longer than the lease lasts: a command in
// a pipeline should not hang because the network does. granted is zero where that was not told.
func (x *execution) release(lease *recipes.Lease, granted time.Time) error {
	ctx, cancel := context.WithDeadline(context.Background(), lease.Deadline())
	defer cancel()
	err := x.unlock(ctx, lease)
	switch {
	case errors.Is(err, recipes.ErrLost):
		return err
	case err != nil:
		why := "ZooKeeper has not confirmed it in time"
		if failed, ok := asType[*direct.OpError](err); ok {
			why = view.Sentence(failed)
		}
		x.say("%s could not be released yet (%s): it becomes free when the session ends", lease.Path(), why)
	case !granted.IsZero():
		x.tell(view.Job{Event: view.JobReleased, Path: lease.Path(), Held: time.Since(granted)})
	}
	return nil
}

// between separates the paths of several locks, as a lease has them.
const between = " + "

func together(paths []string) string { return strings.Join(paths, between) }

// pathsOf are the paths of the locks that were taken. That of one may contain what separates several: a key may be any text.
func (x *execution) pathsOf(lease *recipes.Lease) []string {
	if x.locks == 1 {
		return []string{lease.Path()}
	}
	return strings.Split(lease.Path(), between)
}
