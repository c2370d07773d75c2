package recipes_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/direct"
	"github.com/locktree/locktree/recipes/kind"
)

// whatNext says what a program does about the error of a Lock, a Try or a Do: docs/safety.md has the table of all errors. The order counts.
// Errors that came after the grant are first, because the work may have been done. An outage comes before ErrHeld, because a wait that
// ended in an outage matches both.
func whatNext(err error) string {
	var held *recipes.HeldError
	var op *direct.OpError
	switch {
	case err == nil:
		return "done"
	case errors.Is(err, recipes.ErrReleasePending):
		return "go on: the work is done, and the client goes on deleting its node"
	case recipes.Retryable(err): // nothing was taken: ErrUnreachable, ErrSessionLost, ErrLost, ErrRevoked, ErrThrottled of a call that waited
		return "try again after a pause"
	case errors.Is(err, recipes.ErrLost):
		return "look what the work has written: another holder may have been at it"
	case errors.Is(err, recipes.ErrRevoked):
		return "go on: somebody asked for the lock, and has it now"
	case errors.Is(err, recipes.ErrUnreachable):
		return "give up: ZooKeeper could not be reached in the time that this call had"
	case errors.As(err, &held) && held.Cause == nil: // ErrHeld, of a Try
		return "leave it to " + held.Holder.ID
	case errors.As(err, &held):
		return fmt.Sprintf("give up: still %d ahead", held.Position)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return "give up: the caller has"
	case errors.Is(err, recipes.ErrQueueFull), errors.Is(err, recipes.ErrQuotaExceeded), errors.Is(err, recipes.ErrTooLarge):
		return "answer 503: a limit is reached"
	case errors.Is(err, recipes.ErrDraining):
		return "give up: an apply takes the lock away"
	case errors.Is(err, recipes.ErrNotProvisioned), errors.Is(err, recipes.ErrKindMismatch), errors.Is(err, recipes.ErrTooManyPermits),
		errors.Is(err, recipes.ErrKeyTooLong), errors.Is(err, recipes.ErrKeyForeign):
		return "page whoever declares the locks: this program and the declaration differ"
	case errors.Is(err, recipes.ErrAuth), errors.Is(err, zk.ErrNoAuth):
		return "page whoever gives this program its credentials"
	case errors.Is(err, recipes.ErrWouldDeadlock), errors.Is(err, recipes.ErrLockOrder), errors.Is(err, recipes.ErrReadOnly), errors.Is(err, recipes.ErrClosed):
		return "fix this program"
	case errors.As(err, &op) && op.Outcome == direct.OutcomeUnknown:
		return "read: " + op.Op + " may have happened"
	}
	return "give up: a server failed, or what was done under the lock did" // ErrServer, and the function's own errors
}

// A program decides what to do about an error in one switch, with errors.Is and errors.As.
func Example_errors() {
	c, closeAll := provisioned("/locks/ledger", kind.Mutex.New())
	defer closeAll()
	ctx := context.Background()
	m := c.Mutex("/locks/ledger")

	err := m.Do(ctx, func(inner context.Context, _ *recipes.Lease) error {
		_, err := m.TryLock(ctx)
		fmt.Println(whatNext(err))
		brief, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_, err = m.Lock(brief)
		fmt.Println(whatNext(err))
		_, err = m.Lock(inner)
		fmt.Println(whatNext(err))
		return nil
	})
	fmt.Println(whatNext(err))
	_, err = c.Mutex("/locks/legder").Lock(ctx)
	fmt.Println(whatNext(err))
	// Output:
	// leave it to worker-1
	// give up: still 1 ahead
	// fix this program
	// done
	// page whoever declares the locks: this program and the declaration differ
}

// A worker that is stopped by SIGTERM gives its lock back before it ends, so the next worker need not wait for a session timeout. Close
// ends the session, and so gives back all other locks. A program that is killed does neither. The orchestrator's grace period must be
// longer than the work takes to notice, plus the time that WithMaxRelease allows.
func Example_shutdown() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	c, closeAll := provisioned("/locks/ledger", kind.Mutex.New()) // recipes.Dial
	defer closeAll()                                              // c.Close

	m := c.Mutex("/locks/ledger", recipes.WithMaxRelease(5*time.Second))
	err := m.Do(ctx, func(ctx context.Context, _ *recipes.Lease) error {
		terminate() // as Kubernetes and systemd do
		<-ctx.Done()
		stop() // a second signal ends the program at once
		fmt.Println("stopping")
		return nil
	})
	fmt.Println("given back:", err)
	l, err := m.TryLock(context.Background())
	fmt.Println("free:", err, l.Unlock(context.Background()))
	// Output:
	// stopping
	// given back: <nil>
	// free: <nil> <nil>
}

// terminate sends SIGTERM to this process.
func terminate() {
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Signal(syscall.SIGTERM)
	}
	if err != nil {
		log.Fatal(err)
	}
}
