package apply_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
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
	"github.com/locktree/locktree/apply/internal/commit"
	"github.com/locktree/locktree/apply/internal/lock"
	"github.com/locktree/locktree/apply/internal/refusal"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/explain"
	"github.com/locktree/locktree/plan/record"
	"github.com/locktree/locktree/plan/tx"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/direct"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
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

// struck is a transaction whose reply does not arrive, or not in time.
type struck struct {
	*site
	client *recipes.Client
	in     *zktest.Injection
}

// partition ends the session of the apply without its knowledge.
func (x *struck) partition() { x.server.Partition(x.session(x.client).ID(), zktest.Both) }

// givenUp releases the transaction when the applier has given up the session that sent it, while the servers still keep that session.
func (x *struck) givenUp() {
	old := x.session(x.client)
	x.server.Partition(old.ID(), zktest.Both)
	<-old.Done()
	if fresh, err := x.client.Session(x.t.Context()); err == nil && fresh.ID() != old.ID() {
		time.Sleep(time.Second) // fake: the applier has asked by now
		x.in.Release()
	}
}

// overtaken lets the first copy of the transaction arrive just before the second one, which is then refused. That refusal is the echo of
// our own success, and no conflict.
func (x *struck) overtaken() {
	second := x.server.Inject(zktest.Once(transaction(x.site)), zktest.Hold)
	x.server.Disconnect(x.session(x.client).ID())
	<-second.Hit()
	x.in.Release()
	synctest.Wait()
	second.Release()
}

// The apply finds out what became of its transaction, and never commits it twice. If it cannot find out, its error says only that.
func TestLostReplyIsResolvedAndNeverGuessed(t *testing.T) {
	var lost *failure.NodeError
	var unknown *failure.UnknownError
	for name, c := range map[string]struct {
		fault     zktest.Fault
		meanwhile func(*struck)
		resolved  bool // the record says that it was committed
		ends      any  // the error, if there is one
	}{
		"executed, reply lost":                {zktest.DropReply, nil, true, nil},
		"executed, reply cut in half":         {zktest.CutAt(10), nil, true, nil},
		"cut before execution":                {zktest.CutBefore, nil, false, nil},
		"swallowed, connection lives":         {zktest.DropRequest, nil, false, nil},
		"sent again, then the first arrives":  {zktest.HoldReader, func(x *struck) { x.server.Disconnect(x.session(x.client).ID()) }, false, nil},
		"sent again, the first arrives first": {zktest.HoldReader, (*struck).overtaken, true, nil},
		"executed, session lost":              {zktest.LoseReply, (*struck).partition, true, nil},
		"not executed, session lost":          {zktest.DropRequest, (*struck).partition, false, &lost},
		"executed, session given up before":   {zktest.Hold, (*struck).givenUp, true, nil},
		"executed, servers unreachable":       {zktest.DropReply, func(x *struck) { x.server.RefuseDials(true) }, true, &unknown},
	} {
		for what, version := range map[string]int32{"first apply": 0, "later apply": 1} {
			t.Run(name+", "+what, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := inMemory(t)
					client := s.provisioner()
					if version > 0 {
						s.apply(client, s.shop())
					}
					tree := s.shop(set("description", "late"))
					p := s.plan(client, tree)
					x := &struck{s, client, s.server.Inject(zktest.Once(transaction(s)), c.fault)}
					done := make(chan struct{})
					go func() {
						defer close(done)
						<-x.in.Hit()
						synctest.Wait() // until it is held: a partition swallows what is under way
						if c.meanwhile != nil {
							c.meanwhile(x)
						}
					}()
					a, ev := executor(client), events{}
					a.Events = ev.add
					_, err := a.Run(t.Context(), p)
					<-done
					s.server.Heal(0)
					s.server.RefuseDials(false)
					x.in.Release()
					synctest.Wait()
					if c.ends == nil {
						require.NoError(t, err)
						require.Equal(t, c.resolved, find[event.Committed](ev).Resolved)
					} else {
						require.ErrorAs(t, err, c.ends)
						require.Equal(t, !c.resolved, errors.Is(err, recipes.ErrSessionLost))
					}
					committed := c.ends == nil || c.resolved
					require.Equal(t, !committed, s.plan(client, tree).HasChanges())
					if index, there := s.server.Get(record.IndexPath(s.root, stack)); committed {
						require.Equal(t, version, index.Stat.Version, "written once")
					} else {
						require.Equal(t, version > 0, there)
					}
				})
			})
		}
	}
}

// The reply is lost. The client then meets the former leader, which has lost its followers without noticing, and knows nothing of the
// transaction. Formerly, the client sent that leader the next transaction, and had no reply until the lock was lost. The error then said
// that nothing was written.
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
		var ev events
		x := executor(c, ev.add)
		in := s.server.Inject(zktest.Once(func(r zktest.Request) bool {
			if !transaction(s)(r) {
				return false
			}
			old.CutOff()
			moved.Store(true)
			return true
		}), zktest.DropReply)
		time.AfterFunc(s.config.SessionTimeout, func() { moved.Store(false) }) // for a new session, which the old leader cannot grant
		_, err := x.Run(t.Context(), p)
		require.Equal(t, 1, in.Hits())
		require.NoError(t, err)
		require.True(t, find[event.Committed](ev).Resolved)
		require.False(t, s.plan(c0, tree).HasChanges())
	})
}

// The servers answer the whole transaction with an internal failure, which says nothing about its outcome. The record tells the outcome.
// The error says what failed, that nothing was written, and where to look; not that the connection broke.
func TestSystemErrorOfTheTransactionSaysWhatToDo(t *testing.T) {
	s, c := shopped(t)
	tree := s.tree(bulk(40, 10, "x")...)
	p := s.plan(c, tree)
	require.Greater(t, p.Transaction.Bytes, commit.Suspect, "longer than a small jute.maxbuffer")
	in := s.server.Inject(transaction(s), zktest.Fail(zktest.CodeSystemError))
	s.unchanged(c, func() {
		_, err := executor(c).Run(t.Context(), p)
		errorAs[*failure.NodeError](t, err)
		require.ErrorIs(t, err, direct.ErrServer)
		require.EqualError(t, err, "apply: The transaction was not committed: "+s.root+": the servers failed each time the transaction was sent: "+
			"system error (code -1). Nothing was written. Look at the servers' logs, then apply again.")
	})
	require.Equal(t, lock.Tries, in.Hits())
	in.Remove()
	s.server.Inject(zktest.Once(transaction(s)), zktest.Fail(zktest.CodeSystemError))
	s.runs(c, p)
	s.converges(c, tree, plan.Options{})
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

func quotaRefusal(t *testing.T, s *site) {
	c := s.provisioner()
	pay, ledger := declare("/pay", kind.Namespace), declare("/pay/ledger", kind.Mutex)
	s.apply(c, s.tree(pay, ledger))
	s.setQuota(c, s.root+"/pay", 2)
	_, err := executor(c).Run(t.Context(), s.plan(c, s.tree(pay, ledger, declare("/pay/books", kind.Mutex))))
	node := errorAs[*failure.NodeError](t, err)
	require.ErrorIs(t, err, recipes.ErrQuotaExceeded)
	require.Equal(t, s.root+"/pay/books", node.Path)
	require.Equal(t, "a quota on the tree is used up", node.Why)
	require.Equal(t, "Raise the quota or remove something first.", node.Next)
}

// The network breaks again and again, always on the transaction. Servers that answer a request of the same length can read the transaction,
// too. So the apply sends it again unchanged, and never cuts it as too long.
func TestFlappingNetworkIsNotTakenForServersThatReadLess(t *testing.T) {
	for name, c := range map[string]struct {
		flaps int // how often the transaction ends its connection
		probe int // how often the request that finds out why ends its connection
		fails bool
	}{
		"twice":                         {2, 0, false},
		"twice, and once what asks why": {2, 1, false},
		"each time":                     {9, 0, true},
		"each time, and once what asks": {9, 1, true},
		"once, and each time what asks": {1, 9, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { flapping(t, inMemory(t), c.flaps, c.probe, c.fails) })
		})
	}
}

func flapping(t *testing.T, s *site, flaps, probe int, fails bool) {
	c := s.provisioner()
	tree := s.tree(bulk(20, 280, "x")...)
	s.apply(c, s.tree(declare("/first", kind.Mutex)))
	p := s.plan(c, tree)
	require.Empty(t, p.Batches)
	require.Greater(t, p.Transaction.Bytes, commit.Suspect)
	sent := transaction(s)
	strike := func(n int, match func(zktest.Request) bool) *zktest.Injection {
		return s.server.Inject(func(r zktest.Request) bool {
			if n == 0 || !match(r) {
				return false
			}
			n--
			return true
		}, zktest.CutBefore)
	}
	faults := []*zktest.Injection{strike(flaps, sent), strike(probe, asksWhy(s))}
	var ev events
	x := executor(c, ev.add)
	before := s.dump(c)
	res, err := x.Run(t.Context(), p)
	for _, f := range faults {
		f.Remove()
	}
	require.Equal(t, min(flaps, lock.Tries), faults[0].Hits())
	require.Equal(t, min(probe, 1), faults[1].Hits())
	if fails {
		errorAs[*failure.NodeError](t, err)
		require.ErrorIs(t, err, commit.ErrLostAgain)
		require.NotErrorIs(t, err, tx.ErrTooLong)
		require.ErrorContains(t, err, "Nothing was written")
		require.Equal(t, before, s.dump(c))
		return
	}
	require.NoError(t, err)
	require.Equal(t, 1, res.Transactions, "it was cut")
	require.Equal(t, p.Transaction.Bytes, res.Bytes)
	s.converges(c, tree, plan.Options{})
}

// Servers that read requests of that length answer; others end the connection. The request writes nothing.
func TestLongRequestThatAsksChangesNothing(t *testing.T) { asking(t, inMemory(t)) }

func asking(t *testing.T, s *site) {
	c := s.provisioner()
	s.apply(c, s.tree(declare("/first", kind.Mutex)))
	r, err := apply.BeginSending(t.Context(), executor(c).applier(), s.plan(c, s.tree(declare("/second", kind.Mutex))))
	require.NoError(t, err)
	const bytes = 600_000
	s.unchanged(c, func() {
		require.True(t, r.Readable(t.Context(), bytes))
		require.Equal(t, bytes, r.Longest)
	})
	r.Held.Unlock(t.Context())
}

// asksWhy matches the request by which an apply finds out whether servers read its transaction.
func asksWhy(s *site) func(zktest.Request) bool {
	lock := record.LockPath(s.root, stack)
	return func(r zktest.Request) bool { return r.Op == "multi" && len(r.Paths) == 2 && r.Paths[1] == lock }
}

// A failed apply must say only what is true.

const codeNoAuth = zktest.Code(-102)

// The error said "All 0 access lists were set, and the note does no harm", although the keys in use still had the former list.
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

// The error said "Shorten the declaration" because of thousands of nodes in a queue.
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

// The last key was released between the last two looks of a drain. The apply failed for no reason, and its error gave none.
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

// A set was held in two locks, and the second refused. The error named the first, and said that the servers may be down.
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

// The error said "Nothing was written" although the apply had created its own nodes, or given itself rights.
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

// For every answer of the servers, the error says what to do next.
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
