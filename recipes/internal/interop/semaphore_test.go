//go:build linux

package interop_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
)

// permits is the size of the semaphores here.
const permits = 2

// semaphores is the matrix of the semaphore. Its queue cannot be watched from outside as the others can: who is at
// its front waits for any change of the leases, and the server does not list watches on children. So the programs say
// themselves that they wait: the Java thread stands in Curator's wait loop, the Go library told its Observer.
func (l *realLab) semaphores(t *testing.T) {
	for i, a := range semaphoreParties(1) {
		for _, b := range semaphoreParties(1) {
			for j, w := range semaphoreParties(1) {
				t.Run(fmt.Sprintf("holders=%s+%s,waiter=%s", a.name, b.name, w.name), func(t *testing.T) { l.oneOfTwo(t, a, b, w) })
				t.Run(fmt.Sprintf("holder=%s,next=%s,wantsBoth=%s", a.name, b.name, w.name), func(t *testing.T) {
					l.bothOfTwo(t, semaphoreParties(1)[i], b, semaphoreParties(permits)[j])
				})
			}
		}
	}
	t.Run("Curator takes one by one", l.oneByOne)
}

// semaphoreParties take n permits with each acquisition.
func semaphoreParties(n int) []party {
	return []party{
		ours("go", kind.WireCurator, goSemaphore(n)),
		foreign("curator", java, "semaphore", fmt.Sprint(permits), fmt.Sprint(n)),
	}
}

func semaphoreOf(permits int) kind.Params {
	return &kind.SemaphoreParams{Permits: permits}
}

// oneOfTwo: two hold a permit each at the same time, a third waits until one of them leaves, while the other stays.
func (l *realLab) oneOfTwo(t *testing.T, first, second, third party) {
	ctx := within(t, patience)
	path := l.provision(t, semaphoreOf(permits))
	leases := path + "/leases"
	a, b, w := first.enter(t, l, path), second.enter(t, l, path), third.enter(t, l, path)

	require.NoError(t, a.acquire(ctx))
	require.NoError(t, b.acquire(ctx), "the second permit is free")
	held := l.contenders(t, leases)
	require.Len(t, held, permits)
	require.True(t, isHeld(w.try(ctx)), "a try for a third permit of two")

	granted := l.request(ctx, w)
	l.stillWaits(t, ctx, w, granted)
	require.Subset(t, l.contenders(t, leases), held)
	require.NoError(t, a.release(ctx))
	require.NoError(t, <-granted, "after one permit came back")
	require.Contains(t, l.contenders(t, leases), held[1], "the other holder holds on")

	require.True(t, isHeld(a.try(ctx)), "both permits are taken again")
	require.NoError(t, b.release(ctx))
	require.NoError(t, w.release(ctx))
	l.awaitContenders(t, leases, 0)
	l.awaitContenders(t, path+"/locks", 0)
}

// bothOfTwo: while one permit is taken, one who wants both waits, and has both once it is back; then nobody gets one.
func (l *realLab) bothOfTwo(t *testing.T, first, next, both party) {
	ctx := within(t, patience)
	path := l.provision(t, semaphoreOf(permits))
	leases := path + "/leases"
	a, n, w := first.enter(t, l, path), next.enter(t, l, path), both.enter(t, l, path)

	require.NoError(t, a.acquire(ctx))
	granted := l.request(ctx, w)
	l.stillWaits(t, ctx, w, granted)
	require.NoError(t, a.release(ctx))
	require.NoError(t, <-granted)
	require.Len(t, l.contenders(t, leases), permits)

	last := l.request(ctx, n)
	l.stillWaits(t, ctx, n, last)
	require.NoError(t, w.release(ctx))
	require.NoError(t, <-last)
	require.Len(t, l.awaitContenders(t, leases, 1), 1)
	require.NoError(t, n.release(ctx))
	l.awaitContenders(t, leases, 0)
	l.awaitContenders(t, path+"/locks", 0)
}

// request lets a program acquire and returns where the outcome arrives.
func (l *realLab) request(ctx context.Context, e *entry) <-chan error {
	granted := make(chan error, 1)
	go func() { granted <- e.acquire(ctx) }()
	return granted
}

// stillWaits returns once the program has decided to wait, having had nothing else to say until then.
func (l *realLab) stillWaits(t *testing.T, ctx context.Context, e *entry, granted <-chan error) {
	t.Helper()
	require.NoError(t, e.waits(ctx))
	stillWaits(t, ctx, e, granted)
}

// stillWaits fails if the program has been granted, or has failed.
func stillWaits(t *testing.T, ctx context.Context, e *entry, granted <-chan error) {
	t.Helper()
	require.NoError(t, e.answers(ctx)) // whatever it said before this answer has been read
	select {
	case err := <-granted:
		t.Fatalf("it returned (error: %v) while others hold", err)
	default:
	}
}

// oneByOne pins down what cannot be cured from our side: Curator takes several permits one after the other and queues
// again for each, so two who want both can wait for each other with one of them served by half. The Go program's
// deadline is what ends it.
func (l *realLab) oneByOne(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	path := l.provision(t, semaphoreOf(permits))
	both := semaphoreParties(permits)
	holder, c, g := both[0].enter(t, l, path), both[1].enter(t, l, path), both[0].enter(t, l, path)
	require.NoError(t, holder.acquire(ctx))
	second := l.request(ctx, c)
	require.NoError(t, c.waits(ctx))
	third := l.request(ctx, g)
	place := l.awaitContenders(t, path+"/locks", 2)[1]
	require.NoError(t, holder.release(ctx))

	l.awaitWatch(t, c.session, path+"/locks/"+place) // having its first permit, it stands behind us for its second
	require.Len(t, l.contenders(t, path+"/leases"), 1)
	l.stillWaits(t, ctx, g, third)
	g.cancel()
	require.ErrorIs(t, <-third, recipes.ErrHeld)
	require.NoError(t, <-second)
	require.Len(t, l.contenders(t, path+"/leases"), permits)
	require.NoError(t, c.release(ctx))
	l.awaitContenders(t, path+"/leases", 0)
	l.awaitContenders(t, path+"/locks", 0)
}
