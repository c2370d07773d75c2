package once

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/direct"
	"github.com/locktree/locktree/recipes/internal/errs"
)

// tries is a loop of tries.
type tries struct{ wait, longest time.Duration }

// over reports whether err is final; else it has paused. What ends a pause becomes part of err.
func (t *tries) over(ctx context.Context, s *direct.Session, worth func(error) bool, err *error) bool {
	if *err == nil || !worth(*err) {
		return true
	}
	t.wait = max(10*time.Millisecond, min(2*t.wait, cmp.Or(t.longest, time.Second)))
	why := pause(ctx, s, t.wait)
	if why != nil && !errors.Is(*err, why) {
		*err = errs.Errorf("%w: %w", why, *err)
	}
	return why != nil
}

// retry calls try until it succeeds, or fails in a way that is not worth another try, or until ctx or s is over.
func retry(ctx context.Context, s *direct.Session, worth func(error) bool, try func() error) error {
	for t := (tries{}); ; {
		if err := try(); t.over(ctx, s, worth, &err) {
			return err
		}
	}
}

// pause waits a little before another try; its error says why there must be none.
func pause(ctx context.Context, s *direct.Session, d time.Duration) error {
	var over <-chan struct{}
	if s != nil {
		over = s.Done()
	}
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return whyEnded(ctx)
	case <-over:
		return recipes.ErrSessionLost
	}
}

// unanswered: no server has answered an operation, and this side did not refuse to send it.
func unanswered(err error) bool {
	var op *direct.OpError
	switch {
	case !errors.As(err, &op), errors.Is(err, recipes.ErrClosed), errors.Is(err, recipes.ErrSessionLost):
		return false
	case op.Outcome == direct.OutcomeDefinite:
		return errors.Is(err, recipes.ErrThrottled)
	}
	return true
}

// unwritten: what was to be written to the version of a node that was read may not have been. Whoever reads it again sees.
func unwritten(err error) bool { return errors.Is(err, zk.ErrBadVersion) || unanswered(err) }

func isNoNode(err error) bool { return errors.Is(err, zk.ErrNoNode) }

// whyEnded is the cause of ctx's end, which matches ctx.Err too.
func whyEnded(ctx context.Context) error {
	if why := context.Cause(ctx); !errors.Is(why, ctx.Err()) {
		return fmt.Errorf("%w%.0w", why, ctx.Err())
	}
	return context.Cause(ctx)
}

// granted marks what went wrong behind a grant: recipes.Retryable is false for it.
func granted(err error) error { return recipes.AfterGrant(err) }
