package apply_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/apply/event"
	"github.com/locktree/locktree/apply/failure"
	"github.com/locktree/locktree/apply/internal/wire"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes/kind"
)

// A program of another library does not know of draining: it comes, or leaves,
// between the look at the contenders and the transaction. By force means by force.
func TestForceBreakOvertakenByAContenderLooksAgain(t *testing.T) {
	for name, comes := range map[string]bool{"one comes": true, "one leaves": false} {
		t.Run(name, func(t *testing.T) {
			s, c := shopped(t)
			foreign := s.session(s.dial("worker:w"))
			queue := func() string {
				at, err := foreign.Create(t.Context(), s.root+"/pay/ledger/_c_01234567-89ab-cdef-0123-456789abcdef-lock-", nil,
					zk.FlagEphemeral|zk.FlagSequence, wire.ToZK(kind.List{admin, crew}))
				require.NoError(t, err)
				return at
			}
			first := queue()
			x := executor(c)
			looks := 0
			var ev events
			x.Events = func(e event.Event) {
				ev.add(e)
				if _, ok := e.(event.Breaking); !ok {
					return
				}
				if looks++; looks > 1 {
					return
				}
				if comes {
					queue()
				} else {
					require.NoError(t, foreign.Delete(t.Context(), first, -1))
				}
			}
			_, err := x.Run(t.Context(), s.plan(c, s.shopWithout(), plan.Options{ForceBreak: []string{"pay.ledger.mutex"}}))
			require.NoError(t, err)
			require.Equal(t, map[bool]int{true: 2, false: 1}[comes], looks)
			require.Zero(t, find[event.Failed](ev), "it did not fail")
			require.False(t, s.plan(c, s.shopWithout()).HasChanges())
		})
	}
}

// The first batch is there, the second is refused: the lock that was emptied for it
// is opened again, and nobody is locked out until somebody applies again.
func TestLockThatDrainsForALaterBatchIsOpenedWhenThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := provisioned(t)
		old := declare("/zz", kind.Mutex)
		s.apply(c, s.tree(old, declare("/zz-edited", kind.Mutex)))
		lease := s.locks("provisioner:secret", s.root+"/zz")
		tree := s.tree(append(bulk(44, 280, "x"), declare("/zz", kind.Mutex, set("wire", "kazoo")),
			declare("/zz-edited", kind.Mutex, set("description", "new")))...)
		p := s.plan(c, tree, plan.Options{Drain: time.Minute})
		require.Len(t, p.Batches, 2)
		x := executor(c, func(e event.Event) {
			switch e := e.(type) {
			case event.Draining:
				require.EqualValues(t, "zz.mutex", e.Addr)
				require.NoError(t, lease.Unlock(t.Context()))
			case event.Committed:
				require.Equal(t, 1, e.Batch)
				require.NoError(t, s.server.Set(s.root+"/zz-edited", []byte("by hand")))
			}
		})
		_, err := x.Run(t.Context(), p)
		partial := errorAs[*failure.PartialError](t, err)
		require.Equal(t, 1, partial.Done)
		require.Equal(t, kind.StateActive, s.payload(s.root+"/zz").State)
		require.Equal(t, old.Payload.Params, s.payload(s.root+"/zz").Params, "as before")
	})
}
