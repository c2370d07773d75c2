// Package retry repeats a request while another try is worth it, with growing pauses, until its context or its session ends:
//
//	err := retry.Do(ctx, session, znode.Unanswered, func() error { return session.Confirm(ctx, paths...) })
//
// It sends nothing itself, and does not judge errors: its callers say which are worth another try.
package retry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/locktree/locktree/recipes/internal/errs"
)

// Session is the session that tries are made in; nil where the next session will do.
type Session interface {
	Done() <-chan struct{}
	Err() error
}

// Do calls try until it succeeds, until its error is not worth another try, or until ctx or s ends. Pauses grow from 10 ms to a second.
func Do(ctx context.Context, s Session, worth func(error) bool, try func() error) error {
	for t := (Tries{}); ; {
		if err := try(); t.Over(ctx, s, worth, &err) {
			return err
		}
	}
}

// Patiently is Do for work that may take long and that few wait for: pauses grow to 5 s.
func Patiently(ctx context.Context, s Session, worth func(error) bool, try func() error) error {
	for t := (Tries{Longest: 5 * time.Second}); ; {
		if err := try(); t.Over(ctx, s, worth, &err) {
			return err
		}
	}
}

// Tries is Do as a loop. A waiter uses it: its stack is as deep as its calls.
type Tries struct{ wait, Longest time.Duration }

// Over reports whether err is final, and pauses if it is not. The reason that ends a pause becomes part of err.
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
	case ctx.Err() == nil: // not %w: err may match DidNothing, and then the loop in the next session would go on
		*err = errs.Errorf("%w: %v", why, *err)
	case !errors.Is(*err, why):
		*err = errs.Errorf("%w: %w", WhyEnded(ctx), *err)
	}
	return true
}

// Pause waits before another try; its error says why there must be none. A session that is over ends it at once, which bounds every
// loop that pauses.
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

// WhyEnded is the cause of ctx's end. It matches ctx.Err too: callers ask for either.
func WhyEnded(ctx context.Context) error {
	why, err := context.Cause(ctx), ctx.Err()
	if errors.Is(why, err) {
		return why
	}
	return fmt.Errorf("%w%.0w", why, err) // .0: the text is the cause's alone
}
