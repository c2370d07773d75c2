package recipes_test

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/kind"
)

// simDeclaration is what a lock's node says. Draining and resizing take it back after a while.
type simDeclaration struct {
	recipe  simRecipe
	params  kind.Params
	shut    int   // how many keep it drained
	permits []int // limits in force, one entry for each who set one
	lowered int   // the limit for good
}

// declareLock declares a lock for the first time.
func (w *simWorld) declareLock(of simMember) {
	common := kind.Common{MaxWaiters: w.plan.waiters}
	d := &simDeclaration{recipe: of.recipe, lowered: simPermits}
	switch of.recipe {
	case "rwlock":
		d.params = &kind.RWLockParams{Common: common}
	case "semaphore":
		d.params = &kind.SemaphoreParams{Common: common, Permits: simPermits}
	case "election":
		d.params = &kind.ElectionParams{Common: common}
	default:
		d.params = &kind.MutexParams{Common: common}
	}
	w.declared[of.path] = d
	w.declareAt(of.path, d.params)
}

// publish writes what is declared now, and enters what that means; mu is held, so that the order of the entries is
// that of the writes.
func (w *simWorld) publish(lock string, op operation, n int) {
	d := w.declared[lock]
	called := w.stamp()
	w.declareAt(lock, d.params, func(p *kind.Payload) {
		if d.shut > 0 {
			p.State = kind.StateDraining
		}
	})
	w.enter(event{op: op, call: called, ret: w.stamp()}, &simPart{lock: lock, n: n})
}

// shut drains a lock for a while. Its waiters are sent away, its holders stay.
func (w *simWorld) shut(f simFault) {
	lock := w.locks[f.n%len(w.locks)].path
	d := w.declared[lock]
	w.mu.Lock()
	d.shut++
	w.publish(lock, opShut, 0)
	w.mu.Unlock()
	time.Sleep(f.lasts)
	w.mu.Lock()
	defer w.mu.Unlock()
	op := opShut
	if d.shut--; d.shut == 0 {
		op = opOpen
	}
	w.publish(lock, op, 0)
}

// resize gives a semaphore fewer permits, for a while or for good: those held stay.
func (w *simWorld) resize(f simFault) {
	for lock, d := range w.declared {
		p, ok := d.params.(*kind.SemaphoreParams)
		if !ok {
			continue // there is one at most
		}
		limit := func(change func()) {
			w.mu.Lock()
			defer w.mu.Unlock()
			change()
			next := *p
			next.Permits = d.lowered
			if len(d.permits) > 0 {
				next.Permits = min(d.lowered, d.permits[0])
			}
			d.params = &next
			w.publish(lock, opLimit, next.Permits)
		}
		if f.what == "lower" {
			limit(func() { d.lowered = min(d.lowered, 1+f.n%simPermits) })
			continue
		}
		limit(func() { d.permits = append(d.permits, 1+f.n%simPermits) })
		time.Sleep(f.lasts)
		limit(func() { d.permits = d.permits[1:] })
	}
}

// inUse requires that every lock is declared again as it was at first, but for limits that were lowered for good.
func (w *simWorld) inUse() {
	for lock, d := range w.declared {
		require.Zero(w.T, d.shut, lock)
		require.Empty(w.T, d.permits, lock)
	}
}
