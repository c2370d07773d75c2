package once

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/internal/errs"
	"github.com/locktree/locktree/recipes/internal/retry"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/kind/slots"
)

// Run runs fn for each slot of the schedule, until ctx ends. It starts a slot within a second of its instant, or up to catch_up
// later if no client has started it. The oldest slot is first. fn's context and lease are those of Do. Run records fn's result,
// logs an error to Config.Logger, and goes on. Run does not try a slot again once an error of its own fn is recorded. With
// success = "end", other clients try that slot again. If the lease was lost before the result was recorded, Run may try the slot
// again itself.
//
// Run goes on after a lost session, while servers cannot be reached, and while an apply drains the job. It returns ctx's error,
// or an error that does not pass by waiting. These are recipes.ErrNotProvisioned, ErrKindMismatch, ErrNoSlot (the job has no
// schedule), and others for which recipes.Retryable is false.
func (o *Once) Run(ctx context.Context, fn func(ctx context.Context, slot time.Time, l *recipes.Lease) error) error {
	settled := time.Time{} // this client has finished with all slots up to this instant
	now := &clock{now: o.c.Now}
	for try := (retry.Tries{Longest: 5 * time.Second}); ; {
		settledTo, err := o.turn(ctx, settled, now, fn)
		if settledTo.After(settled) {
			settled, try = settledTo, retry.Tries{Longest: 5 * time.Second}
		}
		if ctx.Err() != nil {
			return retry.WhyEnded(ctx)
		}
		if err != nil && try.Over(ctx, nil, goesOnAfter, &err) {
			return err
		}
	}
}

// goesOnAfter reports whether Run goes on after err. Run may go on even if the lock was granted, because the record says whether
// the slot was started.
func goesOnAfter(err error) bool {
	for _, reason := range []error{recipes.ErrLost, recipes.ErrSessionLost, recipes.ErrReleasePending, recipes.ErrDraining} {
		if errors.Is(err, reason) {
			return !errors.Is(err, recipes.ErrClosed)
		}
	}
	return recipes.Retryable(err) || isUnanswered(err)
}

// turn starts the oldest slot that is due, or waits for the next one.
func (o *Once) turn(ctx context.Context, settled time.Time, now *clock, fn func(context.Context, time.Time, *recipes.Lease) error) (time.Time, error) {
	d, err := o.readDeclaration(ctx)
	if err != nil {
		return settled, err
	}
	p := d.Params.(*kind.OnceParams)
	if p.Schedule == "" {
		return settled, fmt.Errorf("%w: %s has no schedule, so there is nothing to wait for: call Do with a slot", ErrNoSlot, o.path)
	}
	record, stat, err := o.record(ctx)
	if isNoNode(err) { // the job may have been replaced since its declaration was read
		again, why := o.c.Lacks(ctx, d, o.opts...)
		if again || why != nil {
			return settled, why
		}
		err = noRecord(recordOf(o.path), err)
	}
	if err != nil {
		return settled, err
	}
	at, _ := now.read()
	rules, err := p.Rules()
	if err != nil {
		return settled, errs.Errorf("recipes: once %s: %w", o.path, err)
	}
	look := record.Look(rules, countsFrom(record, d, stat), at, 0)
	for _, at := range look.Due {
		if at.After(settled) {
			if o.standBy(ctx, p, stat.Version) {
				return settled, nil
			}
			return o.attempt(ctx, at, settled, now, fn)
		}
	}
	return settled, o.await(ctx, d, now, rules.Schedule.Next(at))
}

// stagger returns a random delay, so that not all clients act at the same moment. The first client has written the record before
// most others look.
func stagger(p *kind.OnceParams) time.Duration { return rand.N(min(time.Second, p.Late()/8) + 1) }

// If the queue has a holder and a waiter, standBy waits for a change of the record. So not all clients queue for each slot. It
// reports true if the record has changed, or may have changed: then the caller looks at everything again. If the record stays the
// same for a while, the two contenders may be there for another slot, and the caller must queue.
func (o *Once) standBy(ctx context.Context, p *kind.OnceParams, seen int32) bool {
	s, err := o.c.Session(ctx)
	if err != nil {
		return false
	}
	children, _, err := s.Children(ctx, kind.Once.Queues[0].Dir(o.path))
	if line, _ := kind.SortContenders(children); err != nil || len(line) < 2 {
		return false
	}
	waiting, stop := context.WithTimeout(ctx, min(recheck, p.Late()/8))
	defer stop()
	_, stat, changed, err := s.GetW(waiting, recordOf(o.path)) // the channel is also closed at the end of its context
	if err != nil {
		return false
	}
	if stat.Version == seen {
		<-changed
	}
	return waiting.Err() == nil && retry.Pause(ctx, nil, stagger(p)) == nil
}

// attempt starts a slot that is due, and runs fn. It returns the slot's instant if this client has finished with the slot, for
// example because a result or another client's decision is recorded. Otherwise it returns the parameter settled.
func (o *Once) attempt(ctx context.Context, at, settled time.Time, now *clock, fn func(context.Context, time.Time, *recipes.Lease) error) (time.Time, error) {
	now.read()
	s, wait, err := o.startNow(ctx, slots.At(at), at, now, true, false)
	switch {
	case errors.Is(err, ErrSlotTaken), errors.Is(err, ErrSlotTooOld), errors.Is(err, ErrNoSlot): // ErrNoSlot: the schedule may have changed
		return at, nil
	case err != nil:
		return settled, err
	case s == nil:
		return settled, retry.Pause(ctx, nil, wait)
	}
	unrecorded, err := s.do(ctx, func(ctx context.Context, l *recipes.Lease) error { return fn(ctx, at, l) })
	if err != nil {
		o.c.Logger().Warn("a run has failed", "once", o.path, "slot", s.Slot, "error", err)
	}
	if unrecorded != nil && goesOnAfter(unrecorded) {
		return settled, unrecorded
	}
	return at, nil
}

// await waits until the slot at the time instant is due by the clock, and then for the delay stagger. It returns earlier when the
// caller must look at everything again.
func (o *Once) await(ctx context.Context, d *recipes.Declaration, by *clock, instant time.Time) error {
	left := recheck
	if now, _ := by.read(); !instant.IsZero() {
		left = min(instant.Sub(now), recheck)
	}
	select {
	case <-time.After(left):
	case <-d.Changed:
		return nil
	case <-ctx.Done():
		return retry.WhyEnded(ctx)
	}
	if now, _ := by.read(); instant.IsZero() || instant.After(now) {
		return nil
	}
	return retry.Pause(ctx, nil, stagger(d.Params.(*kind.OnceParams)))
}
