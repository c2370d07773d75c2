//go:build linux

package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

type game struct {
	pot      int64 // cents
	workers  int
	faults   int64
	ttl      time.Duration
	unlocked bool

	payments, retries, stood atomic.Int64
}

type result struct{ paid, left, payments, retries, faults int64 }

// opener makes what a worker sits at.
type opener func(ctx context.Context) (seat, error)

// seat is one worker's way to the lock and to the money. Nothing in it defends the money but the lock: what is written is
// what the worker has computed.
type seat interface {
	layOut(ctx context.Context, pot int64, workers int) error
	lock(ctx context.Context) error
	unlock(ctx context.Context) error
	read(ctx context.Context, worker int) (pot, wallet int64, err error)
	write(ctx context.Context, worker int, pot, wallet int64) error
	cut(ctx context.Context) error // the connection on which the lock hangs, where there is one
	close()
}

func (g *game) play(ctx context.Context, open opener) (res result, err error) {
	first, err := open(ctx)
	if err != nil {
		return res, err
	}
	defer first.close()
	if err := first.layOut(ctx, g.pot, g.workers); err != nil {
		return res, err
	}
	errs := make([]error, g.workers)
	var all sync.WaitGroup
	for i := range g.workers {
		all.Go(func() { errs[i] = g.work(ctx, open, i) })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return res, err
	}
	for i := range g.workers {
		pot, wallet, err := first.read(ctx, i)
		if err != nil {
			return res, err
		}
		res.left, res.paid = pot, res.paid+wallet
	}
	res.payments, res.retries, res.faults = g.payments.Load(), g.retries.Load(), g.stood.Load()
	return res, nil
}

// work draws until the pot is empty. What fails ends the attempt and the connection, not the worker.
func (g *game) work(ctx context.Context, open opener, worker int) error {
	rng := rand.New(rand.NewPCG(1, uint64(worker)))
	for {
		s, err := open(ctx)
		for empty := false; err == nil; {
			if empty, err = g.draw(ctx, s, worker, rng); empty {
				s.close()
				return nil
			}
		}
		if s != nil {
			s.close()
		}
		if ctx.Err() != nil {
			return errors.Join(ctx.Err(), err)
		}
		g.retries.Add(1)
		time.Sleep(time.Duration(1+rng.IntN(20)) * time.Millisecond)
	}
}

func (g *game) draw(ctx context.Context, s seat, worker int, rng *rand.Rand) (empty bool, err error) {
	if !g.unlocked {
		if err := s.lock(ctx); err != nil {
			return false, err
		}
		// A lock that is not ours any more cannot be released; who has it is not disturbed by the attempt.
		defer func() { _ = s.unlock(ctx) }()
	}
	pot, wallet, err := s.read(ctx, worker)
	if err != nil || pot <= 0 {
		return err == nil, err
	}
	amount := min(pot, 1+rng.Int64N(max(1, g.pot/100)))
	if err := g.stand(ctx, s, rng); err != nil {
		return false, err
	}
	if err := s.write(ctx, worker, pot-amount, wallet+amount); err != nil {
		return false, err
	}
	g.payments.Add(1)
	return false, nil
}

// stand is a garbage collection, a machine that is suspended or a network that is cut: some workers stand still until another
// has drawn, or for ten times as long as a lock may outlive its holder, because where all wait for them nobody will.
func (g *game) stand(ctx context.Context, s seat, rng *rand.Rand) error {
	stood := g.stood.Load()
	if stood >= g.faults || rng.IntN(4) > 0 || !g.stood.CompareAndSwap(stood, stood+1) {
		return nil
	}
	if err := s.cut(ctx); err != nil {
		return err
	}
	seen := g.payments.Load()
	for end := time.Now().Add(10 * g.ttl); g.payments.Load() == seen && time.Now().Before(end); {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
	return nil
}
