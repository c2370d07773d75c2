// Package leader runs the callbacks of k8s.io/client-go/tools/leaderelection under an election of locktree, so that a program written
// for a LeaderElector keeps them:
//
//	err := leader.Run(ctx, locks.At(client, locks.Root).Scheduler(), leader.Callbacks(config.Callbacks))
//
// It is no resourcelock for a LeaderElector. That judges a rival by the times in its record and by its own clock, renews when it
// thinks fit, and so may call two processes leaders at once; under it, the promise of an election would be lost.
//
// client-go is not imported, because it is more than 40 modules and minutes of compiling: Callbacks has the fields of its
// LeaderCallbacks, so that Go converts one to the other, and refuses to compile should they ever differ.
package leader

import (
	"context"
	"errors"
	"sync"

	"github.com/locktree/locktree/recipes"
)

// Callbacks are client-go's LeaderCallbacks.
type Callbacks struct {
	// OnStartedLeading runs while this process leads; its context ends when that is lost or asked back, or ctx ends. That it returns
	// gives nothing up.
	OnStartedLeading func(context.Context)
	// OnStoppedLeading is called once in each Run, also if this process never led. When the leadership is lost it is called at once,
	// beside OnStartedLeading, because most programs exit there; otherwise when OnStartedLeading has returned and the
	// leadership is given up.
	OnStoppedLeading func()
	// OnNewLeader, if set, gets the ID of each new leader's client ([recipes.Config]), this one's too. Changes that come faster than it
	// returns are combined.
	OnNewLeader func(identity string)
}

// Run stands for the election, leads once, and returns when OnStartedLeading has returned and the leadership has ended: like a
// LeaderElector, it does not stand again. The error says why it ended: ctx's, ErrLost, ErrRevoked, or that of Election.Lead.
//
// Unlike a LeaderElector, it does not let the next one lead while OnStartedLeading still runs, unless the leadership is lost. When
// that is so, see Lease.Context for what is promised.
func Run(ctx context.Context, election *recipes.Election, call Callbacks) error {
	stopped := sync.OnceFunc(call.OnStoppedLeading)
	defer stopped()
	once, end := context.WithCancelCause(ctx)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer end(nil)
	if call.OnNewLeader != nil {
		watching.Go(func() { observe(once, election, call.OnNewLeader) })
	}
	return election.Lead(once, func(ctx context.Context, lead *recipes.Lease) error {
		defer context.AfterFunc(lead.Context(), func() {
			if errors.Is(context.Cause(lead.Context()), recipes.ErrLost) {
				stopped()
			}
		})()
		call.OnStartedLeading(ctx)
		<-ctx.Done()
		end(context.Cause(ctx)) // or Lead would stand again
		return nil
	})
}

func observe(ctx context.Context, election *recipes.Election, tell func(string)) {
	last := ""
	for leader, err := range election.Observe(ctx) {
		if err == nil && leader.ID != "" && leader.ID != last {
			last = leader.ID
			tell(last)
		}
	}
}
