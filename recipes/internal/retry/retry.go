// Package retry repeats a request while another try is worth it, with growing pauses, until its context or its session ends:
//
//	err := retry.Do(ctx, session, znode.Unanswered, func() error { return session.Confirm(ctx, paths...) })
//
// The package sends nothing itself, and does not judge errors: its callers say after which errors another try is worth it.
package retry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/locktree/locktree/recipes/internal/errs"
)

// Session is the session of the tries. It is nil if a try may use the next session.
type Session interface {
	Done() <-chan struct{}
	Err() error
}

// Do calls attempt until it succeeds, until its error is not worth another attempt, or until ctx or s ends. Pauses grow from 10
// ms to a second.
func Do(ctx context.Context, s Session, worth func(error) bool, attempt func() error) error {
	for t := (Tries{}); ; {
		if err := attempt(); t.Over(ctx, s, worth, &err) {
			return err
		}
	}
}

// Patiently is Do for work that may take long: pauses grow to 5 s.
func Patiently(ctx context.Context, s Session, worth func(error) bool, attempt func() error) error {
	for t := (Tries{Longest: 5 * time.Second}); ; {
		if err := attempt(); t.Over(ctx, s, worth, &err) {
			return err
		}
	}
}

// Tries is Do as a loop, without a function to call. A waiter uses it, so that the stack of its goroutine stays small.
type Tries struct{ wait, Longest time.Duration }

// Over reports whether err is final, and pauses if it is not. If the context or the session ends the pause, err gets the reason
// too.
func (t *Tries) Over(ctx context.Context, s Session, worth func(error) bool, err *error) bool {
	if *err == nil || !worth(*err) {
		return true
	}
	t.wait = max(10*time.Millisecond, min(2*t.wait, cmp.Or(t.Longest, time.Second)))
	switch why := Pause(ctx, s, t.wait); {
	case why == nil:
		return false
	case ctx.Err() == nil && errors.Is(*err, why):
		*err = why
	case ctx.Err() == nil: // not %w: if the result matched DidNothing, a caller would try again in the next session
		*err = errs.Errorf("%w: %v", why, *err)
	case !errors.Is(*err, why):
		*err = errs.Errorf("%w: %w", WhyEnded(ctx), *err)
	}
	return true
}

// Pause waits before another try. Its error says why there must be no other try: ctx or the session has ended. So every loop with
// a Pause ends then.
func Pause(ctx context.Context, s Session, d time.Duration) error {
	var over <-chan struct{}
	if s != nil {
		over = s.Done()
	}
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-over:
		return s.Err()
	}
}

// WhyEnded returns the cause of ctx's end. The error also matches ctx.Err, because callers compare it with either.
func WhyEnded(ctx context.Context) error {
	why, err := context.Cause(ctx), ctx.Err()
	if errors.Is(why, err) {
		return why
	}
	return fmt.Errorf("%w%.0w", why, err) // .0 keeps the text of err out
}
