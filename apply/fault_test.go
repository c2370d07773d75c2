package apply_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/apply/event"
	"github.com/locktree/locktree/apply/failure"
	"github.com/locktree/locktree/apply/internal/commit"
	"github.com/locktree/locktree/apply/internal/lock"
	"github.com/locktree/locktree/apply/read"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/record"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/direct"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
	"github.com/locktree/locktree/recipes/zktest/effort"
)

// transaction matches the multi of an apply: the one that names the record.
func transaction(s *site) func(zktest.Request) bool {
	index := record.IndexPath(s.root, stack)
	return func(r zktest.Request) bool {
		if r.Op != "multi" {
			return false
		}
		for _, p := range r.Paths {
			if p == index {
				return true
			}
		}
		return false
	}
}

// The reply to the transaction does not arrive. Whatever became of it, the apply
// finds out, and one transaction is committed, never two.
func TestLostReplyIsResolvedAndNeverGuessed(t *testing.T) {
	for name, c := range map[string]struct {
		fault    zktest.Fault
		resolved bool // the transaction was executed, the record says so
	}{
		"executed, reply lost":        {zktest.DropReply, true},
		"executed, reply cut in half": {zktest.CutAt(10), true},
		"cut before execution":        {zktest.CutBefore, false},
		"swallowed, connection lives": {zktest.DropRequest, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := inMemory(t)
				c0 := s.provisioner()
				in := s.server.Inject(zktest.Once(transaction(s)), c.fault)
				x := executor(c0)
				var ev events
				x.Events = ev.add
				_, err := x.Run(t.Context(), s.plan(c0, s.shop()))
				require.NoError(t, err)
				require.Equal(t, 1, in.Hits())
				require.Equal(t, c.resolved, find[event.Committed](ev).Resolved)
				require.False(t, s.plan(c0, s.shop()).HasChanges())
				index, _ := s.server.Get(record.IndexPath(s.root, stack))
				require.Zero(t, index.Stat.Version, "written once")
			})
		})
	}
}

// The reply is lost, and the client meets the leader of before, which has lost its followers and has not noticed. It
// knows nothing of the transaction, and the lock was lost while it left the next one unanswered: the user was told that
// nothing was written.
func TestATransactionIsNotAskedForOfALeaderThatWasCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := inMemory(t)
		c0 := s.provisioner()
		s.apply(c0, s.shop())
		tree := s.shop(set("description", "other"))
		old := s.server.Replica()
		var moved atomic.Bool
		theirs := *s
		theirs.config.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
			if !moved.Load() {
				return s.config.Dialer(ctx, network, address)
			}
			return old.DialContext(ctx, network, address)
		}
		c := theirs.provisioner()
		p := s.plan(c, tree)
		x := executor(c)
		var ev events
		x.Events = ev.add
		in := s.server.Inject(zktest.Once(func(r zktest.Request) bool {
			if !transaction(s)(r) {
				return false
			}
			old.CutOff()
			moved.Store(true)
			return true
		}), zktest.DropReply)
		time.AfterFunc(s.config.SessionTimeout, func() { moved.Store(false) }) // in a new session: who has none gets none there
		_, err := x.Run(t.Context(), p)
		require.Equal(t, 1, in.Hits())
		require.NoError(t, err)
		require.True(t, find[event.Committed](ev).Resolved)
		require.False(t, s.plan(c0, tree).HasChanges())
	})
}

// The transaction is stuck on the way, the connection breaks, the client comes
// back and sends it again; then the first copy arrives after all.
func TestLateTransactionIsNotAppliedTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := inMemory(t)
		c := s.provisioner()
		s.apply(c, s.shop())
		p := s.plan(c, s.shop(set("description", "late")))
		in := s.server.Inject(zktest.Once(transaction(s)), zktest.HoldReader)
		go func() {
			<-in.Hit()
			synctest.Wait()
			s.server.Disconnect(s.session(c).ID())
		}()
		x := executor(c)
		var ev events
		x.Events = ev.add
		_, err := x.Run(t.Context(), p)
		require.NoError(t, err)
		in.Release()
		synctest.Wait()
		index, _ := s.server.Get(record.IndexPath(s.root, stack))
		require.EqualValues(t, 1, index.Stat.Version)
		require.False(t, s.plan(c, s.shop(set("description", "late"))).HasChanges())
	})
}

// As before, but the first copy arrives just before the second, which is then
// refused: the refusal is the echo of our own success and no conflict.
func TestRefusalOfTheSecondCopyIsNotMistakenForAConflict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := inMemory(t)
		c := s.provisioner()
		s.apply(c, s.shop())
		p := s.plan(c, s.shop(set("description", "late")))
		first := s.server.Inject(zktest.Once(transaction(s)), zktest.HoldReader)
		go func() {
			<-first.Hit()
			synctest.Wait()
			second := s.server.Inject(zktest.Once(transaction(s)), zktest.Hold)
			s.server.Disconnect(s.session(c).ID())
			<-second.Hit()
			first.Release()
			synctest.Wait()
			second.Release()
		}()
		x := executor(c)
		var ev events
		x.Events = ev.add
		_, err := x.Run(t.Context(), p)
		require.NoError(t, err)
		require.True(t, find[event.Committed](ev).Resolved)
		index, _ := s.server.Get(record.IndexPath(s.root, stack))
		require.EqualValues(t, 1, index.Stat.Version)
	})
}

// The session dies with the transaction under way: the answer must wait until the
// old contender is gone, after which the transaction can no longer be committed.
func TestSessionLostInTheTransactionIsResolved(t *testing.T) {
	for name, executed := range map[string]bool{"executed": true, "not executed": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := inMemory(t)
				c := s.provisioner()
				s.apply(c, s.shop())
				p := s.plan(c, s.shop(set("description", "new")))
				fault := zktest.DropRequest
				if executed {
					fault = zktest.LoseReply
				}
				id := s.session(c).ID()
				in := s.server.Inject(zktest.Once(transaction(s)), fault)
				go func() {
					<-in.Hit()
					synctest.Wait()
					s.server.Partition(id, zktest.Both)
				}()
				_, err := executor(c).Run(t.Context(), p)
				s.server.Heal(0)
				if executed {
					require.NoError(t, err)
				} else {
					var e *failure.NodeError
					require.ErrorAs(t, err, &e)
					require.ErrorIs(t, err, recipes.ErrSessionLost)
				}
				require.Equal(t, !executed, s.plan(c, s.shop(set("description", "new"))).HasChanges())
			})
		})
	}
}

// Nobody can say: then nobody is told anything but that.
func TestUnreachableServersLeaveTheOutcomeUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := inMemory(t)
		c := s.provisioner()
		s.apply(c, s.shop())
		p := s.plan(c, s.shop(set("description", "new")))
		in := s.server.Inject(zktest.Once(transaction(s)), zktest.DropReply)
		go func() {
			<-in.Hit()
			s.server.RefuseDials(true)
		}()
		_, err := executor(c).Run(t.Context(), p)
		var e *failure.UnknownError
		require.ErrorAs(t, err, &e)
		s.server.RefuseDials(false)
		require.False(t, s.plan(c, s.shop(set("description", "new"))).HasChanges(), "it had been committed")
	})
}

// One rich apply: an update, a replacement, a creation, a deletion and access lists.
func rich(s *site) *plan.Tree {
	tree := s.shop(set("wire", "kazoo"))
	for _, n := range tree.Nodes {
		adminOnly(n)
	}
	set("permits", 9)(tree.Nodes[4])
	tree.Nodes[5] = s.tree(declare("/new", kindOf(tree.Nodes[5]), adminOnly)).Nodes[0]
	return tree
}

func writes(op string) bool {
	switch op {
	case "create", "create2", "delete", "setData", "setACL", "multi":
		return true
	}
	return false
}

// The program dies at every write of an apply: before it, with it executed, and
// anywhere in between. The next apply converges in one run.
func TestCrashAtEveryWriteConvergesInOneRun(t *testing.T) {
	effort.Proof(t)
	crashAtEveryWrite(t)
}

func crashAtEveryWrite(t *testing.T, opts ...zktest.Option) {
	for _, first := range []bool{true, false} {
		for name, fault := range map[string]zktest.Fault{"before": zktest.CutBefore, "after": zktest.DropReply} {
			points := 0
			for k := 1; ; k++ {
				struck := false
				t.Run(fmt.Sprintf("first %t, %s write %d", first, name, k), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { struck = crashAt(inMemory(t, opts...), k, fault, first) })
				})
				if !struck {
					break
				}
				points++
			}
			require.GreaterOrEqual(t, points, map[bool]int{true: 3, false: 8}[first], "the writes were not all met")
		}
	}
}

// crashAt kills an apply at its k-th write and applies again; false when it has
// fewer writes.
func crashAt(s *site, k int, fault zktest.Fault, first bool) bool {
	t := s.t
	old := s.provisioner()
	if !first {
		s.apply(old, s.shop())
	}
	p := s.plan(old, rich(s))
	hit, err := s.runStruck(p, k, fault, true, nil)
	if !hit {
		require.NoError(t, err)
		return false
	}

	// Whatever is there is usable as it is declared: a lock without its structural
	// children, or without a declaration, is never seen.
	live, err := read.Tree(t.Context(), s.session(old), s.shop())
	require.NoError(t, err)
	for _, node := range live.Nodes {
		require.NotNil(t, node.Payload, node.Path)
		require.False(t, slices.ContainsFunc(node.Live.Parts, func(p plan.Part) bool { return p.Absent }), node.Path)
	}
	s.apply(old, rich(s))
	again := s.plan(old, rich(s))
	require.False(t, again.HasChanges(), "%s", again)
	require.Empty(t, again.Resumes, "the journal of access lists is done")
	return true
}

// The servers answer the whole transaction with a failure of their own, which says
// nothing about its outcome: the record does. The person is told what failed, that nothing
// was written, and where to look; not that the connection broke.
func TestSystemErrorOfTheTransactionSaysWhatToDo(t *testing.T) {
	for name, long := range map[string]bool{"short": false, "longer than a small jute.maxbuffer": true} {
		t.Run(name, func(t *testing.T) {
			s := inMemory(t)
			c := s.provisioner()
			s.apply(c, s.shop())
			tree := s.shop(set("description", "new"))
			if long {
				tree = s.tree(bulk(40, 10, "x")...)
			}
			p := s.plan(c, tree)
			require.Equal(t, long, p.Transaction.Bytes > commit.Suspect)
			in := s.server.Inject(transaction(s), zktest.Fail(zktest.CodeSystemError))
			s.unchanged(c, func() {
				_, err := executor(c).Run(t.Context(), p)
				var e *failure.NodeError
				require.ErrorAs(t, err, &e)
				require.ErrorIs(t, err, direct.ErrServer)
				require.EqualError(t, err, "apply: The transaction was not committed: "+s.root+": the servers failed each time the transaction was sent: "+
					"system error (code -1). Nothing was written. Look at the servers' logs, then apply again.")
			})
			require.Equal(t, lock.Tries, in.Hits())
			in.Remove()
			s.server.Inject(zktest.Once(transaction(s)), zktest.Fail(zktest.CodeSystemError))
			_, err := executor(c).Run(t.Context(), p)
			require.NoError(t, err, "once is no reason to give up")
			s.converges(c, tree, plan.Options{})
		})
	}
}

// setQuota sets a quota as zkCli.sh does.
func (s *site) setQuota(c *recipes.Client, path string, n int) {
	at, session := "/zookeeper/quota"+path, s.session(c)
	for i := len("/zookeeper/quota/"); i <= len(at); i++ {
		if i == len(at) || at[i] == '/' {
			_, err := session.Create(s.t.Context(), at[:i], nil, 0, zk.WorldACL(zk.PermAll))
			require.True(s.t, err == nil || errors.Is(err, zk.ErrNodeExists), err)
		}
	}
	_, err := session.Create(s.t.Context(), at+"/zookeeper_limits", fmt.Appendf(nil, "count=-1,bytes=-1=;byteHardLimit=-1;countHardLimit=%d", n), 0, zk.WorldACL(zk.PermAll))
	require.NoError(s.t, err)
	_, err = session.Create(s.t.Context(), at+"/zookeeper_stats", []byte("count=0,bytes=0"), 0, zk.WorldACL(zk.PermAll))
	require.NoError(s.t, err)
}

func TestQuotaRefusalOfATransactionSaysThatItIsUsedUp(t *testing.T) {
	quotaRefusal(t, inMemory(t, zktest.WithQuotaEnforcement()))
}

func quotaRefusal(t *testing.T, s *site) {
	c := s.provisioner()
	pay, ledger := declare("/pay", kind.Namespace), declare("/pay/ledger", kind.Mutex)
	s.apply(c, s.tree(pay, ledger))
	s.setQuota(c, s.root+"/pay", 2)
	_, err := executor(c).Run(t.Context(), s.plan(c, s.tree(pay, ledger, declare("/pay/books", kind.Mutex))))
	var node *failure.NodeError
	require.ErrorAs(t, err, &node)
	require.ErrorIs(t, err, recipes.ErrQuotaExceeded)
	require.Equal(t, s.root+"/pay/books", node.Path)
	require.Equal(t, "a quota on the tree is used up", node.Why)
	require.Equal(t, "Raise the quota or remove something first.", node.Next)
}
