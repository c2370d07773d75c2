package apply_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/apply/event"
	"github.com/locktree/locktree/apply/failure"
	"github.com/locktree/locktree/apply/internal/lock"
	"github.com/locktree/locktree/apply/internal/refusal"
	"github.com/locktree/locktree/apply/read"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/diff"
	"github.com/locktree/locktree/plan/record"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
)

// Two applies run at once. The second is told who holds the lock, or waits for it and then finds its plan stale. The two are never mixed.
func TestSecondApplierIsToldWhoIsAtIt(t *testing.T) { secondApplier(t, inMemory(t)) }

func secondApplier(t *testing.T, s *site) {
	a, b := s.provisioner(), s.provisioner()
	s.apply(a, s.shop())
	first, second := s.plan(a, s.shop(set("description", "a"))), s.plan(b, s.shop(set("description", "b")))
	x := executor(a, on(func(event.Verified) {
		_, err := executor(b).Run(t.Context(), second)
		locked := errorAs[*failure.LockedError](t, err)
		require.Equal(t, "me@here", locked.Info.Who)
		require.Equal(t, "apply", locked.Info.Operation)
		require.Equal(t, "test", locked.Info.Version)
		require.Equal(t, record.LockPath(s.root, stack), locked.Info.Path)
		require.Contains(t, locked.Info.String(), "  Who:       me@here\n")
		require.ErrorContains(t, err, "me@here")
	}))
	s.succeeds(x, first)
	_, err := executor(b).Run(t.Context(), second)
	errorAs[*failure.StaleError](t, err)
}

// Two applies share one Client. The second was told that it had locked itself out.
func TestSecondApplierOverOneClientIsToldWhoIsAtIt(t *testing.T) {
	for _, timeout := range []time.Duration{0, 5 * time.Millisecond} {
		s, c := shopped(t)
		first, second := s.plan(c, s.shop(set("description", "a"))), s.plan(c, s.shop(set("description", "b")))
		x, y := executor(c), executor(c)
		x.Author.Who, y.Author.Who, y.LockTimeout = "winner@here", "loser@here", timeout
		x.Events = on(func(event.Verified) {
			_, err := y.Run(t.Context(), second)
			locked := errorAs[*failure.LockedError](t, err)
			require.NotNil(t, locked.Info)
			require.Equal(t, "winner@here", locked.Info.Who)
		})
		s.succeeds(x, first)
	}
}

func TestLockInfoOfSomebodyElseIsEscaped(t *testing.T) {
	info := refusal.ParseInfo(`{"ID":"7f3a","Who":"me\u001b[31m@\u202ehere","Operation":"a\nb"}`)
	require.NotNil(t, info)
	require.Equal(t, `me\x1b[31m@\u202ehere`, info.Who)
	require.Equal(t, `a\nb`, info.Operation)
}

func TestManyAppliersAtOnceAreSerialisedOrRefused(t *testing.T) { manyAppliers(t, inMemory(t), 40) }

func manyAppliers(t *testing.T, s *site, rounds int) {
	clients := []*recipes.Client{s.provisioner(), s.provisioner()}
	s.apply(clients[0], s.shop())
	applied, refused := 0, 0
	for round := range rounds {
		trees := []*plan.Tree{
			s.shop(set("description", fmt.Sprintf("a%d", round))),
			s.shop(set("description", fmt.Sprintf("b%d", round)), set("max_waiters", 7)),
		}
		var wg, met sync.WaitGroup
		if round%2 == 0 { // here both read before one applies; in the other rounds they meet by chance
			met.Add(2)
		}
		errs := make([]error, 2)
		for i, c := range clients {
			session := s.session(c)
			wg.Go(func() {
				live, err := read.Tree(t.Context(), session, trees[i])
				if round%2 == 0 {
					met.Done()
					met.Wait()
				}
				if err == nil {
					x := executor(c)
					x.LockTimeout = patience
					_, err = x.Run(t.Context(), diff.Compare(live, trees[i], plan.Options{Identities: identities(c)}))
				}
				errs[i] = err
			})
		}
		wg.Wait()
		for _, err := range errs {
			var stale *failure.StaleError
			var moved *failure.MovedError
			switch {
			case err == nil:
				applied++
			case errors.As(err, &stale), errors.As(err, &moved):
				refused++
			default:
				require.NoError(t, err)
			}
		}
		// One of the two declarations is applied as a whole, and the record agrees with it.
		a, b := s.plan(clients[0], trees[0]), s.plan(clients[0], trees[1])
		require.NotEqual(t, a.HasChanges(), b.HasChanges())
		for _, p := range []*plan.Plan{a, b} {
			for i := range p.Changes {
				require.False(t, p.Changes[i].Drift, "the record is not of the same apply as the nodes")
			}
		}
	}
	t.Logf("%d applied, %d refused", applied, refused)
	require.GreaterOrEqual(t, applied, rounds, "one of the two gets through")
	require.Equal(t, 2*rounds, applied+refused)
	require.GreaterOrEqual(t, refused, (rounds+1)/2, "of two that read the same, one comes too late")
}

func TestLockTimeoutIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, a := shopped(t)
		b := s.provisioner()
		held := s.takes(a.Mutex(record.LockPath(s.root, stack), recipes.WithID("somebody")).Lock)
		x := executor(b)
		x.LockTimeout = 7 * time.Second
		start := time.Now()
		_, err := x.Run(t.Context(), s.plan(b, s.tree()))
		locked := errorAs[*failure.LockedError](t, err)
		require.Nil(t, locked.Info, "what the holder wrote is no lock info")
		require.InDelta(t, 7, time.Since(start).Seconds(), 0.5)
		require.ErrorContains(t, err, "within 7s")

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		x.LockTimeout = time.Hour
		_, err = x.Run(ctx, s.plan(b, s.tree()))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NoError(t, held.Unlock(t.Context()))
	})
}

// The lock timeout ends before our place in the queue is known, but the apply has already asked who holds the lock. The error said "See
// that the servers run", and not that the stack is locked.
func TestLockTimeoutThatIsOverBeforeTheQueueSaysWhoIsAtIt(t *testing.T) {
	for timeout := time.Duration(1); timeout < 64*time.Millisecond; timeout += 3 * time.Millisecond {
		synctest.Test(t, func(t *testing.T) {
			s := inMemory(t, zktest.WithLatency(5*time.Millisecond))
			a, b := s.provisioner(), s.provisioner()
			s.apply(a, s.shop())
			held := s.takes(a.Mutex(record.LockPath(s.root, stack), recipes.WithID(`{"ID":"7f3a","Who":"me@here"}`)).Lock)
			x := executor(b)
			x.LockTimeout = timeout
			_, err := x.Run(t.Context(), s.plan(b, s.tree()))
			locked := errorAs[*failure.LockedError](t, err, timeout)
			require.Equal(t, "me@here", locked.Info.Who, timeout)
			require.NoError(t, held.Unlock(t.Context()))
		})
	}
}

// Servers kept the session alive, but cut every connection that read the lock's declaration. The apply never ended.
func TestServersThatNeverAnswerForTheLockEndTheApply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := inMemory(t)
		a := s.provisioner()
		s.apply(a, s.shop())
		p := s.plan(a, s.shop(set("description", "b")))
		b := s.provisioner()
		s.server.Inject(func(r zktest.Request) bool { return r.Op == "getData" && r.Path == record.LockPath(s.root, stack) }, zktest.CutBefore)
		before := s.server.Dump()
		start := time.Now()
		_, err := executor(b).Run(t.Context(), p)
		errorAs[*failure.NodeError](t, err)
		require.ErrorContains(t, err, "did not answer within 1m0s")
		require.ErrorContains(t, err, "Nothing was written")
		require.Less(t, time.Since(start), 2*time.Minute)
		require.Equal(t, before, s.server.Dump())
	})
}

// The applier commits nothing even if no other apply ran, because it cannot know whether another program got the lost lock.
func TestApplierThatLostItsLockCommitsNothing(t *testing.T) {
	s, c := shopped(t)
	p := s.plan(c, s.shop(set("description", "x")))
	x := executor(c, on(func(event.Verified) {
		n, _ := s.server.Get(record.LockPath(s.root, stack))
		require.NoError(t, s.server.Delete(kind.JoinPath(n.Path, n.Children[0])))
	}))
	s.unchanged(c, func() {
		_, err := x.Run(t.Context(), p)
		require.ErrorIs(t, err, recipes.ErrLost)
		require.ErrorContains(t, err, "another apply may have begun")
	})
}

func TestDeadAppliersLockGoesByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, a := shopped(t)
		b := s.provisioner()
		s.takes(a.Mutex(record.LockPath(s.root, stack)).Lock)
		s.server.Partition(s.session(a).ID(), zktest.Both)
		x := executor(b)
		x.LockTimeout = time.Minute
		start := time.Now()
		s.succeeds(x, s.plan(b, s.tree()))
		require.Less(t, time.Since(start), 16*time.Second, "the session timeout and two ticks")
		s.server.Heal(0)
	})
}

func TestAnApplyOutlivesTheRestartOfItsServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := shopped(t)
		asks := s.server.Inject(zktest.Once(func(r zktest.Request) bool {
			return r.Op == "create" && strings.HasPrefix(r.Path, record.LockPath(s.root, stack))
		}), zktest.CutBefore)
		go func() {
			<-asks.Hit()
			s.server.RefuseDials(true)
			time.Sleep(s.session(c).Timeout() / 2) // longer than a TryLock waits
			s.server.RefuseDials(false)
		}()
		s.apply(c, s.tree())
		require.Equal(t, 1, asks.Hits())
	})
}

// A wait may take longer than lock.Unanswered, the limit for the first request. The error then said that the servers did not answer,
// whatever had ended the wait.
func TestSessionLostWhileWaitingIsNotTakenForServersThatDoNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, a := shopped(t)
		b := s.provisioner()
		s.takes(a.Mutex(record.LockPath(s.root, stack), recipes.WithID("somebody")).Lock)
		x := executor(b)
		x.LockTimeout = time.Hour
		p := s.plan(b, s.tree())
		go func() {
			time.Sleep(2 * lock.Unanswered)
			s.server.Expire(s.session(b).ID())
		}()
		_, err := x.Run(t.Context(), p)
		require.ErrorIs(t, err, recipes.ErrSessionLost)
		require.NotContains(t, err.Error(), "did not answer")
		require.Contains(t, err.Error(), "Nothing was written. Apply again")
	})
}

// An apply planned before it took the lock. If it waited for another apply, its own plan was stale, and the user had not asked for that
// plan.
func TestPlanMadeUnderTheLockIsNotStale(t *testing.T) { planUnderLock(t, inMemory(t)) }

func planUnderLock(t *testing.T, s *site) {
	a, b := s.provisioner(), s.provisioner()
	s.apply(a, s.shop())
	first := executor(a)
	_, err := first.Lock(t.Context(), s.shop())
	require.NoError(t, err)
	waiting, done := make(chan *failure.LockInfo, 1), make(chan error, 1)
	second := executor(b)
	second.LockTimeout = patience
	second.Events = on(func(w event.LockWaiting) { waiting <- w.Info })
	s.session(b)
	go func() {
		_, err := second.Lock(t.Context(), s.shop(set("description", "b")))
		if err == nil {
			_, err = second.run.Apply(t.Context(), second.run.Plan(plan.Options{}))
			second.Unlock()
		}
		done <- err
	}()
	require.Equal(t, "me@here", (<-waiting).Who)
	result := s.succeeds(first, s.plan(a, s.shop(set("description", "a"))))
	require.NotEmpty(t, result.ApplyID)
	require.NoError(t, <-done)
	require.False(t, s.plan(a, s.shop(set("description", "b"))).HasChanges())
	require.NoError(t, read.Free(t.Context(), s.session(a), record.LockPath(s.root, stack)), "both gave the lock back")
}

// A stack that was never applied has no lock. The lock is created only after a person has approved a plan.
func TestLockBeforeTheFirstApplyWritesNothing(t *testing.T) {
	s, c := provisioned(t)
	x := executor(c)
	s.wroteNothing(c, func() {
		ctx, err := x.Lock(t.Context(), s.shop())
		require.NoError(t, err)
		require.Equal(t, t.Context(), ctx)
		x.Unlock()
	})
	p := s.plan(c, s.shop(set("description", "late")))
	s.apply(s.provisioner(), s.shop())
	_, err := x.Run(t.Context(), p)
	stale := errorAs[*failure.StaleError](t, err)
	require.False(t, stale.Locked, "another apply was first: plan again")
	require.NotContains(t, err.Error(), "Saved plan", "nobody had saved one")
	require.ErrorContains(t, err, "Another apply was first")
}

func TestLockLostBeforeTheApprovalEndsTheApply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, a := shopped(t)
		b := s.provisioner()
		x := executor(a)
		ctx, err := x.Lock(t.Context(), s.shop())
		require.NoError(t, err)
		p := s.plan(a, s.shop(set("description", "a")))
		s.server.Expire(s.session(a).ID())
		<-ctx.Done()
		require.ErrorContains(t, context.Cause(ctx), "another apply may have begun")
		s.unchanged(b, func() {
			for _, run := range []func() error{
				func() error { return x.applier().Check(t.Context(), p) },
				func() error { _, err := x.Run(t.Context(), p); return err },
			} {
				err := run()
				require.ErrorIs(t, err, recipes.ErrSessionLost)
				require.ErrorContains(t, err, "Nothing was written. Apply again")
			}
		})
		s.succeeds(x, s.plan(a, s.shop(set("description", "a"))))
	})
}

// Under the lock, no other apply can have changed anything. A change by hand must not be taken for one.
func TestHandEditUnderTheLockIsNotTakenForAnotherApply(t *testing.T) {
	s, c := shopped(t)
	x := executor(c)
	_, err := x.Lock(t.Context(), s.shop())
	require.NoError(t, err)
	p := s.plan(c, s.shop(set("description", "a")))
	require.NoError(t, x.applier().Check(t.Context(), p), "the lock is our own")
	_, err = s.session(c).Set(t.Context(), s.root+"/pay/ledger", []byte("x"), -1)
	require.NoError(t, err)
	s.unchanged(c, func() {
		_, err := x.Run(t.Context(), p)
		stale := errorAs[*failure.StaleError](t, err)
		require.True(t, stale.Locked)
	})
	require.NoError(t, read.Free(t.Context(), s.session(c), record.LockPath(s.root, stack)))
}

func TestUnlockGivesBackWhatLockTook(t *testing.T) {
	s, c := shopped(t)
	x := executor(c)
	ctx, err := x.Lock(t.Context(), s.shop())
	require.NoError(t, err)
	require.Error(t, read.Free(t.Context(), s.session(c), record.LockPath(s.root, stack)))
	x.Unlock()
	require.Error(t, ctx.Err())
	x.Unlock()
	require.NoError(t, read.Free(t.Context(), s.session(c), record.LockPath(s.root, stack)))

	_, err = x.Lock(t.Context(), s.shop())
	require.NoError(t, err)
	result := s.succeeds(x, s.plan(c, s.shop()))
	require.Empty(t, result.ApplyID)
	require.NoError(t, read.Free(t.Context(), s.session(c), record.LockPath(s.root, stack)))
}
