package main

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/cmd/locktree/internal/child"
	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/recipes"
)

// supervise waits for the command, and ends it when it must not continue; stopped says why.
//
// It sends SIGTERM a third of a session timeout after the last committed write of the
// session, and SIGKILL when the lease ends, at half of it. No server has expired the session
// by then; see Lease.Context. A lost connection alone is no reason: usually it is restored
// within that time.
func (x *execution) supervise(ctx context.Context, p *child.Process, lease *recipes.Lease, session *recipes.Session, signals <-chan os.Signal) (stopped string) {
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
func (x *execution) finish(p *child.Process, lease *recipes.Lease, stopped string) error {
	err := x.release(lease)
	select {
	case <-x.lost:
		err = errors.Join(err, recipes.ErrLost)
	default:
	}
	if isLost(lease) || errors.Is(err, recipes.ErrLost) {
		return &codeError{exitLost, view.Failf("Lock lost", "%s was lost while the command ran, so the command was ended: %s. Its last work may overlap with that of another holder. \"locktree status %s\" shows who holds the lock now.",
			lease.Path(), view.Sentence(why(lease, err)), lease.Path())}
	}
	if stopped != "" {
		return &codeError{exitLost, view.Failf("Command was ended", "The command was told to end before it was done (%s), and exited with %d. %s was held until then. Run exec again to repeat the work.",
			stopped, p.Code(), lease.Path())}
	}
	return exitWith(p.Code())
}

// ready returns the lease's token and session, or why the command cannot start: the lease was
// lost, or it cannot be kept. A node that we may create but not read proves nothing.
func (x *execution) ready(client *recipes.Client, lease *recipes.Lease) (uint64, *recipes.Session, error) {
	token := lease.Token()
	proof := lease.Verify(lease.Context())
	session, err := client.Session(lease.Context()) // the lease's; another one only if that is lost
	switch {
	case err != nil, isLost(lease):
		return 0, nil, &codeError{exitLost, view.Failf("Lock lost", "%s was lost before the command was started: %s. It was not run.",
			lease.Path(), view.Sentence(context.Cause(lease.Context())))}
	case token == 0, errors.Is(proof, recipes.ErrCannotHeartbeat):
		x.release(lease)
		return 0, nil, own(deniedAt(context.WithoutCancel(lease.Context()), client, errors.Join(zk.ErrNoAuth, view.Failf("Lock cannot be kept",
			"The command was not run, and %s was released: the access list lets this program queue for it, but not read its own contender, which proves that the lock is held. Grant \"lock\" to it in the lock's acl, and apply.", lease.Path())), lease.Path()))
	}
	return token, session, nil
}

func why(lease *recipes.Lease, err error) error {
	if cause := context.Cause(lease.Context()); errors.Is(cause, recipes.ErrLost) {
		return cause
	}
	return err
}

// release releases the lock, and waits for that no longer than the lease lasts: a command in
// a pipeline should not hang because the network does.
func (x *execution) release(lease *recipes.Lease) error {
	ctx, cancel := context.WithDeadline(context.Background(), lease.Deadline())
	defer cancel()
	err := lease.Unlock(ctx)
	switch {
	case errors.Is(err, recipes.ErrLost):
		return err
	case err != nil:
		x.say("%s could not be released yet (%v): it becomes free when the session ends", lease.Path(), err)
	}
	return nil
}
