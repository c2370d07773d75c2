package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/locktree/locktree/cmd/locktree/internal/child"
	"github.com/locktree/locktree/cmd/locktree/internal/exit"
	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/direct"
)

// listen interrupts this program at a signal that ends programs. It stops when the channel over is closed: while the command runs,
// signals go to the command.
func (x *job) listen(signals <-chan os.Signal, over <-chan struct{}) (ended <-chan struct{}) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case s := <-signals:
				if child.Ends(s) {
					x.host.Interrupt(exit.With(128 + child.Number(s)))
				}
			case <-over:
				return
			}
		}
	}()
	return done
}

// observe is the observer of the client, see recipes.Config.
func (x *job) observe(e recipes.Event) {
	switch {
	case e.Type == recipes.EventLost:
		x.lose()
	case e.Type == recipes.EventQueued:
		x.tell(view.Job{Text: "waiting for " + e.Path})
	}
}

// supervise waits for the command, and ends it when it must not continue; the result stopped is the reason.
//
// If the session commits no write for a third of its timeout, supervise sends SIGTERM. After
// half of the timeout the lease is lost, and supervise sends SIGKILL. No server has expired
// the session by then; see Lease.Context. A lost connection alone is no reason: usually it is
// restored within a third of the timeout. If another program asks for the lock back, the
// command gets SIGTERM, and SIGKILL only if the lock is then lost.
func (x *job) supervise(ctx context.Context, p *child.Process, lease *recipes.Lease, session *direct.Session, signals <-chan os.Signal) (stopped string) {
	lost, ended, cancelled := x.lost, lease.Context().Done(), ctx.Done()
	untilDoubt := func() time.Duration { return time.Until(lease.Deadline()) - session.Timeout()/6 }
	doubt := time.NewTimer(untilDoubt())
	defer doubt.Stop()
	stop := func(why string) {
		select {
		case <-p.Done():
			return // the command ended first
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
				p.Kill() // end the processes that the command left
			}
			x.slot.noteEnd(p, stopped)
			return stopped
		case s := <-signals:
			p.Signal(s)
		case <-cancelled:
			cancelled = nil
			stop("cancelled")
		case <-doubt.C:
			if d := untilDoubt(); d > 0 { // the session has committed something meanwhile
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
		case <-lost: // also after a request to give the lock back
			lost = nil
			p.Kill()
		}
	}
}

// isLost reports whether the lease was lost, and not only asked back.
func isLost(lease *recipes.Lease) bool {
	return errors.Is(context.Cause(lease.Context()), recipes.ErrLost)
}

// finish releases the lock. The exit code is the command's own only if it ended by itself with the lock held. After a signal of
// ours, even 0 does not mean that its work is done.
func (x *job) finish(p *child.Process, lease *recipes.Lease, granted time.Time, stopped string) error {
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
		return exit.Wrap(exit.Lost, view.Failf("Lock lost", "%s was lost before it was released: %s. If the command still ran then, locktree ended it. The command's last work may overlap with that of another holder. \"locktree status %s\" shows who holds the lock now.",
			lease.Path(), view.Sentence(cause), x.pathsOf(lease)[0]))
	}
	if stopped != "" {
		return exit.Wrap(exit.Lost, view.Failf("Command was ended", "The command was told to end before it was done (%s), and exited with %d. %s was held until then. Run exec again to repeat the work.",
			stopped, p.Code(), lease.Path()))
	}
	return exit.With(p.Code())
}

// linger keeps the locks of a command that has ended until a given time, and reports whether they are still held. If they are
// not, the command's work is still valid: it was done before the loss.
func (x *job) linger(ctx context.Context, lease *recipes.Lease, until time.Time, signals <-chan os.Signal) (held bool) {
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
			x.say("another program asks for %s back: releasing it %v before -at-least is over", lease.Path(), left())
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

// release releases the lock, and waits no longer than the lease lasts: a command in a pipeline should not hang because the network
// hangs. The parameter granted is zero if the grant was not shown.
func (x *job) release(lease *recipes.Lease, granted time.Time) error {
	ctx, cancel := context.WithDeadline(context.Background(), lease.Deadline())
	defer cancel()
	err := x.unlock(ctx, lease)
	switch {
	case errors.Is(err, recipes.ErrLost):
		return err
	case err != nil:
		why := "ZooKeeper has not confirmed it in time"
		if failed := (*direct.OpError)(nil); errors.As(err, &failed) {
			why = view.Sentence(failed)
		}
		x.say("%s could not be released yet (%s): it becomes free when the session ends", lease.Path(), why)
	case !granted.IsZero():
		x.tell(view.Job{Event: view.JobReleased, Path: lease.Path(), Held: time.Since(granted)})
	}
	return nil
}

// unlock releases the lock. For a slot it also records the result.
func (x *job) unlock(ctx context.Context, lease *recipes.Lease) error {
	if x.slot.start == nil {
		return lease.Unlock(ctx)
	}
	err := x.slot.start.End(ctx, x.slot.result)
	if err == nil || errors.Is(err, recipes.ErrLost) || errors.Is(err, recipes.ErrReleasePending) {
		return err
	}
	x.say("the result of %s could not be recorded: %s", x.slot.start.Slot, view.Sentence(err))
	return nil
}
