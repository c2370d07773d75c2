package apply_test

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/apply/event"
	"github.com/locktree/locktree/apply/failure"
	"github.com/locktree/locktree/apply/read"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/diff"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
	"github.com/locktree/locktree/recipes/zktest/effort"
)

// Two appliers at once, 80 times in fake time, their requests delayed in a
// different way each time: one of them after the other, or one refused. What is
// there in the end is one of the two declarations, whole, with its record.
func TestTwoAppliersAtOnceNeverMix(t *testing.T) {
	effort.Proof(t, effort.Raced)
	sum := map[string]int{}
	for seed := range 80 {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				for _, how := range duel(t, seed) {
					sum[how]++
				}
			})
		})
	}
	t.Logf("%v", sum)
	for _, how := range []string{"applied", "stale", "locked"} {
		require.Positive(t, sum[how], "%s never happened: %v", how, sum)
	}
	require.GreaterOrEqual(t, sum["applied"], 80, "one of the two gets through")
}

// chance is a number below n that depends on the seed and on what it is for.
func chance(n int, seed int, what ...any) int {
	sum := sha256.Sum256([]byte(fmt.Sprint(seed, what)))
	return int(binary.BigEndian.Uint32(sum[:])) % n
}

func duel(t *testing.T, seed int) (outcomes []string) {
	s := inMemory(t, zktest.WithLatency(time.Duration(chance(3, seed, "latency"))*time.Millisecond))
	clients := []*recipes.Client{s.provisioner(), s.provisioner()}
	s.apply(clients[0], s.shop())
	trees := []*plan.Tree{rich(s), s.tree(append(s.shopNodes(set("description", "b")), declare("/pay/b", kind.Semaphore))...)}
	if seed%20 == 0 { // more than one transaction each
		trees[0] = s.tree(append(bulk(44, 280, "a"), s.shopNodes()...)...)
		trees[1] = s.tree(append(bulk(44, 280, "b"), s.shopNodes()...)...)
	}
	for _, d := range []time.Duration{2 * time.Millisecond, 35 * time.Millisecond, 600 * time.Millisecond} {
		s.server.Inject(func(r zktest.Request) bool { return chance(12, seed, d, r.Session, r.Xid) == 0 }, zktest.Delay(d))
	}
	outcomes, results := make([]string, 2), make([]*event.Result, 2)
	var wg sync.WaitGroup
	for i, c := range clients {
		wg.Go(func() {
			time.Sleep(time.Duration(chance(80, seed, "start", i)) * time.Millisecond) // fake
			x := executor(c)
			x.LockTimeout = time.Duration(chance(2, seed, "wait", i)) * 30 * time.Second
			live, err := read.Tree(t.Context(), s.session(c), trees[i])
			if err == nil {
				results[i], err = x.Run(t.Context(), diff.Compare(live, trees[i], plan.Options{Identities: identities(c), AllowMassDestroy: true}))
			}
			outcomes[i] = outcomeOf(err)
		})
	}
	wg.Wait()
	a, b := s.plan(clients[0], trees[0]), s.plan(clients[0], trees[1])
	require.NotEqual(t, a.HasChanges(), b.HasChanges(), "%v: one whole declaration is there:\n%s%s", outcomes, a, b)
	require.Empty(t, a.Drifted, "the record is not of the same apply as the nodes")
	require.Empty(t, a.Resumes)
	winner := 0
	if a.HasChanges() {
		winner = 1
	}
	require.Equal(t, "applied", outcomes[winner])
	x := s.index(clients[0])
	require.Equal(t, results[winner].ApplyID[:12], x.Apply[:12], "the last to commit is whose tree it is")
	return outcomes
}

func outcomeOf(err error) string {
	var stale *failure.StaleError
	var locked *failure.LockedError
	var moved *failure.MovedError
	switch {
	case err == nil:
		return "applied"
	case errors.As(err, &stale):
		return "stale"
	case errors.As(err, &locked):
		return "locked"
	case errors.As(err, &moved):
		return "moved"
	}
	return err.Error()
}

// An applier is paused past its session, before, at and after each of its writes,
// batches and access lists included; another one finishes meanwhile. Then it goes
// on, and writes nothing any more, whether or not it has heard of what happened.
func TestPausedApplierWritesNothingAfterAnother(t *testing.T) {
	effort.Proof(t)
	i, stride := 0, effort.Of(1, 9)
	for name, c := range map[string]struct {
		fault     zktest.Fault
		oblivious bool // it hears of nothing until it goes on
	}{
		"before":                    {zktest.Hold, false},
		"after":                     {zktest.HoldReply, false},
		"before, and hears no word": {zktest.Hold, true},
		"after, and hears no word":  {zktest.HoldReply, true},
	} {
		points := 0
		i++
		for k := 1 + i%stride; ; k += stride {
			struck := false
			t.Run(fmt.Sprintf("%s write %d", name, k), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { struck = pausedAt(t, k, c.fault, c.oblivious) })
			})
			if !struck {
				break
			}
			points++
		}
		require.GreaterOrEqual(t, points*stride+stride-1, 8, "lock, two transactions, access lists, journal, unlock")
	}
}

func pausedAt(t *testing.T, k int, fault zktest.Fault, oblivious bool) bool {
	s := inMemory(t)
	a, b := s.provisioner(), s.provisioner()
	s.apply(b, s.shop())
	closing := append(bulk(44, 280, "x"), s.shopNodes()...)
	for _, n := range closing[len(closing)-6:] {
		adminOnly(n)
	}
	p := s.plan(a, s.tree(closing...))
	require.Greater(t, len(p.Batches), 1)
	other := s.shop(set("description", "other"))
	id := s.session(a).ID()
	n := 0
	in := s.server.Inject(func(r zktest.Request) bool {
		if r.Session == id && writes(r.Op) {
			n++
			return n == k
		}
		return false
	}, fault)
	done := make(chan struct{})
	var after map[string]string
	stop := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-in.Hit():
		case <-stop:
			return
		}
		synctest.Wait()
		if oblivious {
			s.server.Partition(id, zktest.Both)
		}
		s.server.Expire(id)
		s.apply(b, other)
		after = s.dump(b)
		s.server.Heal(0)
		in.Release()
	}()
	_, err := executor(a).Run(t.Context(), p)
	close(stop)
	<-done
	if in.Hits() == 0 {
		require.NoError(t, err)
		return false
	}
	require.Equal(t, after, s.dump(b), "it wrote after another had finished: %v", err)
	again := s.plan(b, other)
	require.False(t, again.HasChanges(), "%s", again)
	require.Empty(t, again.Drifted)
	return true
}
