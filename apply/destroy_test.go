package apply_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/apply/event"
	"github.com/locktree/locktree/apply/failure"
	"github.com/locktree/locktree/apply/internal/prepare"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/problem"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
)

func TestDestroyRemovesTheTreeAndItsIndex(t *testing.T) { destroyAll(t, inMemory(t)) }

func destroyAll(t *testing.T, s *site) {
	c := s.provisioner()
	s.apply(c, s.shop())
	require.NoError(t, s.destroy(c, s.shop()))
	var left []string
	for path := range s.dump(c) {
		left = append(left, path)
	}
	require.ElementsMatch(t, prepare.ScaffoldPaths(s.root, stack)[len(prepare.ScaffoldPaths(s.root, stack))-7:], left,
		"the root and the tool's own nodes stay")
	require.False(t, s.plan(c, s.tree()).HasChanges())
	s.apply(c, s.shop())
}

func TestEveryKindIsRefusedWhileInUse(t *testing.T) {
	for name, take := range map[string]func(context.Context, *recipes.Client) (func(), error){
		"/pay/ledger": func(ctx context.Context, c *recipes.Client) (func(), error) {
			l, err := c.Mutex("/locks/pay/ledger").Lock(ctx)
			return func() { _ = l.Unlock(ctx) }, err
		},
		"/pay/batch/nightly": func(ctx context.Context, c *recipes.Client) (func(), error) {
			l, err := c.RWMutex("/locks/pay/batch/nightly").RLock(ctx)
			return func() { _ = l.Unlock(ctx) }, err
		},
		"/pay/pool": func(ctx context.Context, c *recipes.Client) (func(), error) {
			l, err := c.Semaphore("/locks/pay/pool").Acquire(ctx, 2)
			return func() { _ = l.Unlock(ctx) }, err
		},
		"/solo": func(ctx context.Context, c *recipes.Client) (func(), error) {
			l, err := c.Election("/locks/solo").Campaign(ctx)
			return func() { _ = l.Unlock(ctx) }, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, c := shopped(t)
			release, err := take(t.Context(), s.dial("worker:w"))
			require.NoError(t, err)
			s.wroteNothing(c, func() {
				used := errorAs[*failure.InUseError](t, s.destroy(c, s.shop()))
				require.Equal(t, "/locks"+name, used.Path)
				require.True(t, used.Usage.Busy())
			})
			release()
			require.NoError(t, s.destroy(c, s.shop()))
		})
	}
}

// A contender that arrives between the last look and the transaction: ZooKeeper
// itself refuses, and so the whole apply.
func TestContenderThatArrivesAtTheLastMomentIsUnharmed(t *testing.T) { lastMoment(t, inMemory(t)) }

func lastMoment(t *testing.T, s *site) {
	c := s.provisioner()
	s.apply(c, s.shop())
	w := s.dial("worker:w")
	p := s.plan(c, s.shop(), plan.Options{Destroy: true})
	var lease *recipes.Lease
	x := executor(c)
	var failed []event.Failed
	x.Events = func(e event.Event) {
		switch e := e.(type) {
		case event.Verified: // all was idle
			var err error
			lease, err = w.Mutex(s.root + "/pay/ledger").Lock(t.Context())
			require.NoError(t, err)
		case event.Failed:
			failed = append(failed, e)
		}
	}
	s.unchangedBut(c, s.root+"/pay/ledger/", func() {
		_, err := x.Run(t.Context(), p)
		used := errorAs[*failure.InUseError](t, err)
		require.Equal(t, "worker", used.Usage.Holders[0].ID)
	})
	require.Len(t, failed, 1)
	require.EqualValues(t, "pay.ledger.mutex", failed[0].Addr)
	require.NoError(t, lease.Verify(t.Context()))
}

func TestNodesThatAreNotOursSurviveADestroy(t *testing.T) {
	s, c := shopped(t)
	require.NoError(t, s.server.Create("/locks/pay/alien", []byte("keep me")))
	other := &kind.Payload{Params: kind.Mutex.New(), Owner: kind.Owner{Stack: "other", Addr: "x"}}
	data, err := other.Encode()
	require.NoError(t, err)
	require.NoError(t, s.server.Create("/locks/theirs", data))

	p := s.plan(c, s.shop(), plan.Options{Destroy: true})
	require.Equal(t, problem.Unmanaged, p.Problems[0].Code)
	s.runs(c, p)
	left := s.dump(c)
	require.Contains(t, left, "/locks/pay/alien")
	require.Contains(t, left, "/locks/theirs")
	require.NotContains(t, left, "/locks/pay/ledger")
	require.NotContains(t, left, "/locks/solo")
}

func find[E event.Event](ev events) (out E) {
	for _, e := range ev {
		if got, ok := e.(E); ok {
			out = got
		}
	}
	return out
}

// patience is how long others are waited for, and servers: nothing here takes so long but what hangs.
const patience = 5 * time.Minute

// at declares a node under an address that does not follow from its path.
func at(addr string) func(*plan.Node) {
	return func(n *plan.Node) { n.Addr, n.Payload.Owner.Addr = plan.Addr(addr), addr }
}
