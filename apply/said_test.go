package apply_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/apply"
	"github.com/locktree/locktree/apply/event"
	"github.com/locktree/locktree/apply/evict"
	"github.com/locktree/locktree/apply/failure"
	"github.com/locktree/locktree/apply/history"
	"github.com/locktree/locktree/apply/internal/refusal"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/explain"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/direct"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
)

// What an apply says of itself when it fails has to be true.

const codeNoAuth = zktest.Code(-102)

// "All 0 access lists were set, and the note does no harm", although the keys in use still had the former list.
func TestKeysThatCannotBeListedAreNotTakenForANoteThatIsLeft(t *testing.T) {
	s, c, w, tree := family(t, of("mutex"))
	s.hold(w, tree, "order-17")
	next := s.orders(of("mutex"), to(kind.List{admin, worker}, kind.List{admin, crew, joined}))
	x := executor(c, on(func(event.Committed) {
		family := s.root + "/shop/orders"
		s.server.Inject(zktest.Once(func(r zktest.Request) bool { return strings.HasPrefix(r.Op, "getChildren") && r.Path == family }), zktest.Fail(codeNoAuth))
	}))
	p := s.plan(c, next)
	require.Empty(t, p.ACLSteps())
	_, err := x.Run(t.Context(), p)
	errorAs[*failure.ACLPhaseError](t, err)
	require.Equal(t, "Not all access lists are set", explain.Of(err).Summary)
	require.NotContains(t, err.Error(), "does no harm")
	s.apply(c, next)
	require.True(t, s.list(c, keyPath(tree, "order-17")).Equal(kind.List{admin, crew, joined}))
}

// "Shorten the declaration", of thousands of places in a queue.
func TestForceBreakOfALongQueueDoesNotBlameTheDeclaration(t *testing.T) {
	s, c := provisioned(t)
	long := declare("/"+strings.Repeat("x", 250), kind.Mutex)
	s.apply(c, s.tree(long))
	for i := range 3000 {
		require.NoError(t, s.server.Create(fmt.Sprintf("%s%s/%s%010d", s.root, long.Path, mutexName, i), nil))
	}
	_, err := executor(c).Run(t.Context(), s.plan(c, s.tree(), plan.Options{ForceBreak: []string{string(long.Addr)}}))
	errorAs[*failure.TooLargeError](t, err)
	require.NotContains(t, err.Error(), "Shorten")
	require.Contains(t, err.Error(), "in its queue")
}

// The last key was released between the last two looks of a drain: the apply failed for no reason, and its error had none.
func TestFamilyThatIsIdleWhenItsDrainEndsGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c, w, tree := family(t, of("mutex"))
		held := s.hold(w, tree, "order-17")
		x, worker := executor(c), s.session(w)
		x.Events = on(func(event.Draining) {
			look := s.server.Inject(zktest.Once(func(r zktest.Request) bool { return r.Op == "exists" && r.Path == keyPath(tree, "order-17") }), zktest.DelayReply(time.Second))
			go func() {
				<-look.Hit()
				time.Sleep(500 * time.Millisecond)
				_ = worker.Delete(t.Context(), held, -1)
			}()
		})
		s.succeeds(x, s.plan(c, s.tree(declare("/shop", kind.Namespace)), plan.Options{Drain: 500 * time.Millisecond}))
	})
}

// A set was held in two locks, the second of which refused: the error named the first, and that the servers may be down.
func TestBreakNamesTheLockThatRefusesIt(t *testing.T) {
	s, c := provisioned(t)
	s.apply(c, s.tree(declare("/a", kind.Mutex), declare("/b", kind.Mutex)))
	s.takes(c.MultiLock(c.Mutex(s.root+"/a"), c.Mutex(s.root+"/b")).Lock)
	in, all := s.acquisitions(c, s.root+"/a")
	one := all[0]
	s.complete(&one)
	require.NoError(t, s.setACL(c, s.root+"/b", kind.List{admin, {Scheme: "digest", ID: worker.ID, Perms: kind.PermRead}}))
	_, err := evict.Break(t.Context(), s.dial("worker:w"), history.Author{}, in, one)
	require.Equal(t, s.root+"/b", failure.RefusedAt(err))
	require.ErrorContains(t, err, "do not have DELETE on "+s.root+"/b")
	require.NotContains(t, err.Error(), "Check that the servers run")
}

// The request never arrived, and the client left by itself: it was said to have been broken, and that the history has it.
func TestBreakThatNeverArrivedIsNotSaidToBeInTheHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c, _ := evicting(t)
		holder := s.dial("worker:w")
		s.takes(holder.Mutex(s.root + "/a").Lock)
		in, all := s.acquisitions(c, s.root+"/a")
		me, them := s.session(c).ID(), s.session(holder).ID()
		lost := s.server.Inject(zktest.Once(func(r zktest.Request) bool { return r.Op == "multi" && r.Session == me }), zktest.CutBefore)
		go func() {
			<-lost.Hit()
			s.server.Expire(them)
		}()
		done := s.breaks(c, in, all[0])
		require.Len(t, s.history(c), 1)
		require.True(t, done.Gone(), "%v", done)
	})
}

// "Nothing was written", of an apply that had created its own nodes, or given itself rights.
func TestRefusedApplySaysWhatItPrepared(t *testing.T) {
	s, c := provisioned(t)
	x := executor(c, on(func(event.LockAcquired) { require.NoError(t, s.server.Create(s.root+"/pay", nil)) }))
	_, err := x.Run(t.Context(), s.plan(c, s.shop()))
	errorAs[*failure.StaleError](t, err)
	require.Contains(t, explain.Of(err).Written, "Nothing of the plan was written, but the nodes that an apply needs were created ("+s.root+", ")
	require.NoError(t, s.server.Delete(s.root+"/pay"))
	s.apply(c, s.shop())

	require.NoError(t, s.setACL(c, s.root+"/pay/ledger", kind.List{{Scheme: "digest", ID: admin.ID, Perms: kind.PermRead | kind.PermAdmin}}))
	x.Events = on(func(event.Verified) { require.NoError(t, s.server.Set(s.root+"/pay/ledger", []byte("x"))) })
	tree := s.shop(func(n *plan.Node) {
		if strings.HasSuffix(n.Path, "/ledger") {
			n.Payload.Protect = true
		}
	})
	p := s.plan(c, tree)
	require.True(t, slices.ContainsFunc(p.Changes, func(c plan.Change) bool { return c.Action == plan.Update }))
	_, err = x.Run(t.Context(), p)
	errorAs[*failure.ConflictError](t, err)
	require.Contains(t, explain.Of(err).Written, "Nothing of the plan was written, but ")
	require.Contains(t, explain.Of(err).Written, "/pay/ledger")
}

// "Saved plan is stale", of a first apply that nobody had saved a plan for, when another one was first.
func TestFirstApplyThatIsOvertakenIsNotASavedPlan(t *testing.T) {
	s := inMemory(t)
	run, err := apply.Begin(t.Context(), s.provisioner(), s.shop(), apply.Options{})
	require.NoError(t, err)
	defer run.Close()
	p := run.Plan(plan.Options{})
	s.apply(s.provisioner(), s.shop())
	_, err = run.Apply(t.Context(), p)
	errorAs[*failure.StaleError](t, err)
	require.NotContains(t, err.Error(), "Saved plan")
	require.ErrorContains(t, err, "Another apply was first")
}

// Whatever the servers answer, the error says what to do next.
func TestEveryAnswerHasANextStep(t *testing.T) {
	step := plan.ACLStep{Addr: "a.mutex", Path: "/locks/a"}
	for _, err := range []error{
		zk.ErrNoAuth, zk.ErrNoNode, zk.ErrBadVersion, zk.ErrInvalidACL, zk.ErrNoChildrenForEphemerals, zk.ErrAPIError,
		recipes.ErrQuotaExceeded, recipes.ErrThrottled, recipes.ErrReadOnly, direct.ErrServer, recipes.ErrSessionLost,
		recipes.ErrUnreachable, recipes.ErrAuth, errors.New("recipes: protocol violation"), recipes.ErrClosed, recipes.ErrLost, errors.New("anything else"),
	} {
		wrapped := &direct.OpError{Op: "get", Path: "/locks/a", Outcome: direct.OutcomeUnknown, Err: fmt.Errorf("%w: more", err)}
		for _, e := range []error{
			refusal.Read("/locks/a", wrapped), refusal.ACL(step, wrapped), refusal.Scaffold("/locks/a", wrapped), refusal.Lock("/locks/a", wrapped),
		} {
			node := errorAs[*failure.NodeError](t, e)
			require.ErrorIs(t, e, err)
			require.NotEmpty(t, node.Next, "%v", e)
			require.NotRegexp(t, packageName, node.Why+" "+node.Next)
			require.NotContains(t, node.Why, "outcome", "what is known of it is ours to say")
		}
	}
}
