package apply_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/apply/event"
	"github.com/locktree/locktree/apply/failure"
	"github.com/locktree/locktree/apply/internal/wire"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/record"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
)

func kindOf(n *plan.Node) *kind.Kind { return n.Kind() }

// closed is the shop with every access list reduced to the administrator's.
func closed(s *site) *plan.Tree {
	tree := s.shop()
	for _, n := range tree.Nodes {
		adminOnly(n)
	}
	return tree
}

func TestAccessListsAreSetAfterTheTransaction(t *testing.T) { accessLists(t, inMemory(t)) }

func accessLists(t *testing.T, s *site) {
	c := s.provisioner()
	s.apply(c, s.shop())
	p := s.plan(c, closed(s))
	require.Equal(t, 8, p.Transaction.ACLPhase)
	var ev events
	x := executor(c, ev.add)
	res, err := x.Run(t.Context(), p)
	require.NoError(t, err)
	require.Equal(t, 8, res.ACLs)
	require.Equal(t, 8, find[event.ACLPhase](ev).Total)
	for _, path := range []string{"/pay", "/pay/pool", "/pay/pool/leases", "/pay/pool/locks", "/solo"} {
		acl, _, err := s.session(c).GetACL(t.Context(), s.root+path)
		require.NoError(t, err)
		require.True(t, kind.List{admin}.Equal(wire.FromZK(acl)), path)
	}
	again := s.plan(c, closed(s))
	require.False(t, again.HasChanges())
	require.Empty(t, again.Resumes)
	x2 := s.index(c)
	require.Empty(t, x2.Pending, "the note is cleared")
}

// All lists were set, and "0 of 8 access lists" were said to be left. What an interrupted apply had not come to was told as changed by
// hand, beside the word that the plan finishes it. Data that was changed by hand meanwhile is told all the same.
func TestInterruptedAccessListsAreFinishedByTheNextApply(t *testing.T) {
	for done, says := range map[int]string{1: "1 of 8 access lists", 3: "3 of 8 access lists", 8: "all 8 access lists"} {
		s, c := shopped(t)
		ctx, interrupt := context.WithCancel(t.Context())
		n := 0
		_, err := executor(c, on(func(event.ACLApplied) {
			if n++; n == done {
				interrupt()
			}
		})).Run(ctx, s.plan(c, closed(s)))
		partly := errorAs[*failure.ACLPhaseError](t, err)
		require.ErrorContains(t, err, says)
		require.Equal(t, done, partly.Done)
		p := s.plan(c, closed(s))
		require.Equal(t, done < 8, p.HasChanges())
		require.Empty(t, p.Drifted)
		require.False(t, slices.ContainsFunc(p.Changes, func(c plan.Change) bool { return c.Drift }))
		if done < 8 {
			require.ErrorIs(t, err, context.Canceled)
			require.Equal(t, partly.ApplyID, p.Resumes)
			require.Equal(t, 8-done, p.Transaction.ACLPhase)
		}
		s.protect("/pay/ledger")
		p = s.plan(c, closed(s))
		require.Len(t, p.Drifted, 1)
		require.Equal(t, s.root+"/pay/ledger", p.Drifted[0].Path)
		s.converges(c, closed(s), plan.Options{})
	}
}

func TestInterruptBeforeTheTransactionWritesNothing(t *testing.T) {
	s, c := shopped(t)
	p := s.plan(c, closed(s))
	ctx, interrupt := context.WithCancel(t.Context())
	x := executor(c, on(func(event.Verified) { interrupt() }))
	s.unchanged(c, func() {
		_, err := x.Run(ctx, p)
		require.ErrorIs(t, err, context.Canceled)
	})
	n, _ := s.server.Get(record.LockPath(s.root, stack))
	require.Empty(t, n.Children, "the lock is given back")
}

func TestAccessListChangedByHandIsNotOverwritten(t *testing.T) {
	s, c := shopped(t)
	p := s.plan(c, closed(s))
	x := executor(c)
	mine := []zk.ACL{{Scheme: "digest", ID: admin.ID, Perms: zk.PermAll}, {Scheme: "ip", ID: "10.0.0.1", Perms: zk.PermRead}}
	x.Events = on(func(event.ACLPhase) {
		_, err := s.session(c).SetACL(t.Context(), "/locks/pay", mine, -1)
		require.NoError(t, err)
	})
	_, err := x.Run(t.Context(), p)
	errorAs[*failure.ACLPhaseError](t, err)
	require.ErrorIs(t, err, zk.ErrBadVersion)
	require.ErrorContains(t, err, "another client changed it meanwhile")
	acl, _, err := s.session(c).GetACL(t.Context(), "/locks/pay")
	require.NoError(t, err)
	require.Len(t, acl, 2)
}

func TestServerThatRewritesTheListIsNoticed(t *testing.T) {
	s, c := provisioned(t)
	// "auth" is written out by the server: what stands there is not what was declared.
	auth := func(n *plan.Node) { n.ACL = kind.List{{Scheme: "auth", Perms: kind.PermAll}} }
	p := s.plan(c, s.tree(declare("/a", kind.Mutex, auth)))
	_, err := executor(c).Run(t.Context(), p)
	e := errorAs[*failure.VerifyError](t, err)
	require.EqualValues(t, "a.mutex", e.Differences[0].Addr)
	require.ErrorContains(t, err, "The transaction was committed")
	require.NotContains(t, err.Error(), admin.ID)
}

// The reply to a list is lost, and with it the servers: what the user must know is that the lock is lost, and not only
// that one connection was.
func TestAccessListCutOffForGoodTellsThatTheLockIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := shopped(t)
		p := s.plan(c, closed(s))
		s.server.Inject(func(r zktest.Request) bool {
			if r.Op != "setACL" {
				return false
			}
			s.server.RefuseDials(true)
			return true
		}, zktest.CutBefore)
		_, err := executor(c).Run(t.Context(), p)
		partly := errorAs[*failure.ACLPhaseError](t, err)
		require.Zero(t, partly.Done)
		require.ErrorIs(t, err, recipes.ErrSessionLost)
		t.Log(err)
		require.ErrorContains(t, err, "the lock was lost")
		require.NotContains(t, err.Error(), "Nothing was written", "the transaction was")
	})
}
