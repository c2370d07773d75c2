package recipes_test

import (
	"context"
	"sync"
	"time"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/internal/harness"
)

// leader asks who leads, and enters the answer: while somebody leads it must be nobody else.
func (w *simWorld) leader(ctx context.Context, worker int, place *simClient) {
	if w.plan.recipe != "election" {
		return
	}
	called := w.now()
	c, _, err := place.client().Election("/l").Leader(ctx)
	if err == nil {
		w.see(worker, c, called)
	}
}

// see enters that somebody was told who leads. A follower may lag, and what it says with it: that is not entered.
func (w *simWorld) see(worker int, c recipes.Contender, called int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stats.seen++
	if w.follower != nil {
		return
	}
	w.enter(event{op: opSee, client: worker, token: c.Token, call: called, ret: w.stamp()},
		&simPart{lock: "/l", nodes: []string{c.Path}})
}

// observe follows who leads until ctx ends, through one client after another when its place is given a new one.
func (w *simWorld) observe(ctx context.Context, place *simClient) {
	for ctx.Err() == nil {
		called := w.now()
		for c, err := range place.client().Election("/l").Observe(ctx) {
			if err != nil {
				continue // the loop goes on if it can
			}
			w.see(len(w.plan.scripts), c, called)
			w.mu.Lock()
			w.observed = c.Path
			called = w.stamp()
			w.mu.Unlock()
		}
		_ = harness.Pause(ctx, time.Second)
	}
}

// observing starts that and returns how to end it: then the last state must have been seen, which is that nobody leads.
func (w *simWorld) observing() (end func()) {
	if w.plan.recipe != "election" {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var watching sync.WaitGroup
	watching.Go(func() { w.observe(ctx, w.clients[0]) })
	return func() {
		w.mu.Lock()
		if w.observed != "" {
			w.blame("nobody leads any more, and the last observation was %s", w.observed)
		}
		w.mu.Unlock()
		cancel()
		watching.Wait()
	}
}

// lead lets a worker lead by Lead, which stands again after a loss. Between two terms, and after the last one unless
// Lead says that all went well, the leadership may or may not have been given up.
func (w *simWorld) lead(ctx context.Context, worker int, place *simClient, st simStep, called int64) {
	var last *simGrant
	var ended int64
	over := func(err error) {
		if last != nil {
			w.released(worker, last, err, ended)
		}
	}
	terms := 0
	err := place.client().Election("/l").Lead(ctx, func(ctx context.Context, l *recipes.Lease) error {
		over(recipes.ErrReleasePending)
		last = w.granted(worker, st, l, called)
		terms++
		step := st
		step.extra = "verify"
		w.use(worker, step, place, last)
		called = w.now()
		ended = called
		return nil
	})
	if err == nil {
		over(nil)
		return
	}
	over(recipes.ErrReleasePending)
	if terms == 0 {
		w.told(st, err)
	}
}
