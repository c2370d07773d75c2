// Package cron lets the schedulers of several processes, of github.com/go-co-op/gocron, share their jobs: with [Locker] a job runs in
// one of them at a time, with [Elector] the leader starts them all.
//
// Neither promises one run a tick. A scheduler whose clock is behind takes the lock when a rival has released it, and runs the job a
// second time. And gocron hands a job no lease: a job goes on when its lock, or the leadership, is lost while it runs. A job that must
// stop then, or whose writes a store has to check by their token, calls Do on its lock itself.
package cron

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/go-co-op/gocron/v2"

	"github.com/locktree/locktree/recipes"
)

// ErrNotLeader: this process does not lead now, so its scheduler skips the run.
var ErrNotLeader = errors.New("cron: another process may lead")

// Locker is for gocron.WithDistributedLocker, or WithDistributedJobLocker. A job's lock is the mutex of its name, in the family of
// keyed mutexes; name the jobs, or gocron takes the name of a Go function. While another process has it, the run is skipped.
type Locker struct{ Jobs *recipes.Keyed }

// Lock does not wait. Errors are those of Keyed.TryLock; *recipes.HeldError says which process runs the job.
func (l Locker) Lock(ctx context.Context, job string) (gocron.Lock, error) {
	lease, err := l.Jobs.TryLock(ctx, job)
	if err != nil {
		return nil, err
	}
	return lease, nil
}

// Elector is for gocron.WithDistributedElector. It leads while Run runs.
type Elector struct{ lead atomic.Pointer[recipes.Lease] }

// Run stands for the election, again after each loss, until ctx ends; errors are those of Election.Lead. Shut the scheduler down
// before ctx ends: that waits for its jobs, and Run does not. Nor does it when the leadership is asked back.
func (e *Elector) Run(ctx context.Context, election *recipes.Election) error {
	return election.Lead(ctx, func(ctx context.Context, lead *recipes.Lease) error {
		e.lead.Store(lead)
		<-ctx.Done()
		return nil
	})
}

// IsLeader asks no server. It returns nil if this process leads, and ErrNotLeader, with why it led no longer if it has led.
func (e *Elector) IsLeader(context.Context) error {
	lead := e.lead.Load()
	if lead == nil {
		return ErrNotLeader
	}
	if ctx := lead.Context(); ctx.Err() != nil { // Err reads the clock
		return errors.Join(ErrNotLeader, context.Cause(ctx))
	}
	return nil
}
