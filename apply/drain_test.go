package apply_test

import (
	"context"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/apply/event"
	"github.com/locktree/locktree/apply/failure"
	"github.com/locktree/locktree/apply/internal/prepare"
	"github.com/locktree/locktree/apply/internal/wire"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/problem"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/once"
	"github.com/locktree/locktree/recipes/zktest"
)

// shopWithout is the shop without its ledger.
func (s *site) shopWithout() *plan.Tree {
	tree := s.shop()
	tree.Nodes = slices.DeleteFunc(tree.Nodes, func(n *plan.Node) bool { return n.Path == s.root+"/pay/ledger" })
	return tree
}

// An apply that loses the apply lock during a drain must not write any more, so the drained lock stays shut. The error did not say so, or
// said "nothing was written".
func TestLockThatADrainLeavesShutIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := shopped(t)
		_ = s.locks("provisioner:secret", s.root+"/pay/ledger")
		x := executor(c, on(func(event.Draining) { s.server.Expire(s.session(c).ID()) }))
		_, err := x.Run(t.Context(), s.plan(c, s.shopWithout(), plan.Options{Drain: time.Minute}))
		e := errorAs[*failure.ClosedError](t, err)
		require.Equal(t, []string{"pay.ledger.mutex (/locks/pay/ledger)"}, e.Locks)
		require.Contains(t, err.Error(), "they grant nothing new: pay.ledger.mutex (/locks/pay/ledger)")
		require.NotContains(t, strings.ToLower(err.Error()), "nothing was written")
		require.Equal(t, kind.StateDraining, s.payload(s.root+"/pay/ledger").State)
	})
}

// Formerly, if other programs took one imported lock between plan and apply, this stopped the apply of all locks. Now that lock keeps its
// node, which may be a container. The next apply that finds the lock idle creates the node again.
func TestAContainerInUseIsLeftAndEachApplyTriesAgain(t *testing.T) {
	for name, late := range map[string]bool{"since the plan": false, "since the apply looked": true} {
		for _, data := range []string{"10.0.0.1", ""} {
			t.Run(name+", data "+data, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { containerInUse(t, inMemory(t), late, data) })
			})
		}
	}
}

func containerInUse(t *testing.T, s *site, late bool, data string) {
	ours, foreign, tree := s.provisioner(), s.dial("provisioner:secret"), s.shop()
	s.apply(ours, tree)
	for _, name := range []string{"/far", "/idle"} {
		s.create(ours, s.root+name, data, everybody...)
		n := s.tree(declare(name, kind.Mutex)).Nodes[0]
		tree.Nodes = append(tree.Nodes, n)
		tree.Intent.Imports = append(tree.Intent.Imports, plan.Import{To: n.Addr, Path: n.Path})
	}
	// applies runs an apply. It asserts who made the nodes, and that the apply left the locks in use.
	applies := func(p *plan.Plan, used bool, left ...plan.Addr) {
		require.True(t, p.Applyable(), "%s", p)
		contender, ev := "", events{}
		hold := func() { contender = s.contend(foreign, "/far", everybody) }
		if used && !late {
			hold()
		}
		s.succeeds(executor(s.provisioner(), func(e event.Event) {
			ev.add(e)
			if _, ok := e.(event.Started); ok && used && contender == "" {
				hold()
			}
		}), p)
		far := kind.MadeHere
		if used {
			far = kind.MadeElsewhere
			s.leaves(foreign, contender)
		}
		live := s.read(ours, tree)
		require.Equal(t, []kind.Made{far, kind.MadeHere}, []kind.Made{live.Find(s.root + "/far").Payload.Made, live.Find(s.root + "/idle").Payload.Made})
		require.Equal(t, left, find[event.Left](ev).Addrs)
	}
	for range 2 { // first the import, then another apply
		applies(s.resaved(s.plan(ours, tree, plan.Options{OverwriteData: true})), true, "far.mutex")
	}
	p := s.plan(ours, tree)
	require.Equal(t, plan.ReasonReplaceContainer, p.Changes[slices.IndexFunc(p.Changes, func(c plan.Change) bool { return c.Path == s.root+"/far" })].Reason)
	applies(p, false)
	require.False(t, s.plan(ours, tree).HasChanges())
}

// Programs of other libraries ignore draining. One comes or leaves between the look at the contenders and the transaction. The lock is
// broken by force all the same.
func TestForceBreakOvertakenByAContenderLooksAgain(t *testing.T) {
	for name, comes := range map[string]bool{"one comes": true, "one leaves": false} {
		t.Run(name, func(t *testing.T) {
			s, c := shopped(t)
			foreign := s.dial("worker:w")
			queue := func() string { return s.contend(foreign, "/pay/ledger", kind.List{admin, crew}) }
			first := queue()
			looks := 0
			var ev events
			x := executor(c, func(e event.Event) {
				ev.add(e)
				if _, ok := e.(event.Breaking); !ok {
					return
				}
				if looks++; looks == 1 && comes {
					queue()
				} else if looks == 1 {
					s.leaves(foreign, first)
				}
			})
			s.succeeds(x, s.plan(c, s.shopWithout(), plan.Options{ForceBreak: []string{"pay.ledger.mutex"}}))
			require.Equal(t, map[bool]int{true: 2, false: 1}[comes], looks)
			require.Zero(t, find[event.Failed](ev), "it did not fail")
			require.False(t, s.plan(c, s.shopWithout()).HasChanges())
		})
	}
}

// The first batch is committed and the second is refused. The apply then opens the lock that it drained for the second, so that no program
// is locked out until the next apply.
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

// A contender arrives between the last look and the transaction. ZooKeeper refuses the transaction, and so the whole apply.
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
		case event.Verified: // all locks were idle
			lease = s.takes(w.Mutex(s.root + "/pay/ledger").Lock)
		case event.Failed:
			failed = append(failed, e)
		}
	}
	before := s.dump(c)
	_, err := x.Run(t.Context(), p)
	used := errorAs[*failure.InUseError](t, err)
	require.Equal(t, "worker", used.Usage.Holders[0].ID)
	after := s.dump(c)
	delete(after, lease.Node())
	require.Equal(t, before, after, "something was written")
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

// patience is how long the tests wait for other programs and for servers. Only something that hangs takes so long.
const patience = 5 * time.Minute

// at gives a node an address that does not follow from its path.
func at(addr string) func(*plan.Node) {
	return func(n *plan.Node) { n.Addr, n.Payload.Owner.Addr = plan.Addr(addr), addr }
}

// lockAt declares a lock at a path. Its address does not depend on the path.
func (s *site) lockAt(path string, k *kind.Kind) *plan.Tree {
	return s.tree(declare("/pay", kind.Namespace), declare(path, k, at("lock."+k.Name)))
}

// opened returns the function that takes a lock, for any kind.
func opened(c *recipes.Client, k *kind.Kind, path string) func(context.Context) (*recipes.Lease, error) {
	switch k {
	case kind.RWLock:
		return c.RWMutex(path).Lock
	case kind.Semaphore:
		return func(ctx context.Context) (*recipes.Lease, error) { return c.Semaphore(path).Acquire(ctx, 1) }
	case kind.Election:
		return c.Election(path).Campaign
	case kind.Keyed:
		return c.Keyed(path).Mutex("order-17").Lock
	}
	return c.Mutex(path).Lock
}

// An apply refuses to change the path of a lock that is held or waited for, unless it drains the lock. Programs never hold the lock at both
// paths: one transaction deletes the old node and creates the new one, which only the apply can create.
func TestALockInUseChangesItsPathOnlyWhenDrained(t *testing.T) {
	for _, k := range []*kind.Kind{kind.Mutex, kind.RWLock, kind.Semaphore, kind.Election, kind.Keyed} {
		t.Run(k.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, c := provisioned(t)
				before, after := s.lockAt("/pay/old", k), s.lockAt("/pay/new", k)
				old, next := s.root+"/pay/old", s.root+"/pay/new"
				s.apply(c, before)
				holds, waits := s.dial("worker:w"), s.dial("worker:w")
				lease, err := opened(holds, k, old)(t.Context())
				require.NoError(t, err)
				sent := make(chan error, 1)
				go func() {
					l, err := opened(waits, k, old)(t.Context())
					if err == nil {
						err = l.Unlock(t.Context())
					}
					sent <- err
				}()
				synctest.Wait()

				s.unchanged(c, func() {
					_, err = executor(c).Run(t.Context(), s.plan(c, after))
					used := errorAs[*failure.InUseError](t, err)
					require.Equal(t, old, used.Path)
				})

				transactions := s.server.Inject(func(r zktest.Request) bool {
					return r.Op == "multi" && slices.Contains(r.Paths, old) && slices.Contains(r.Paths, next)
				}, zktest.Fault{})
				x := executor(c, on(func(event.Draining) {
					go func() {
						_, err := opened(s.dial("worker:w"), k, old)(t.Context())
						assert.ErrorIs(t, err, recipes.ErrDraining)
						_, err = opened(s.dial("worker:w"), k, next)(t.Context())
						assert.ErrorIs(t, err, recipes.ErrNotProvisioned)
						assert.ErrorContains(t, err, next)
						assert.ErrorIs(t, s.creates("worker:w", next), zk.ErrNoAuth)
						time.Sleep(20 * time.Second)
						assert.NoError(t, lease.Context().Err(), "the holder was not disturbed")
						assert.NoError(t, lease.Unlock(t.Context()))
					}()
				}))
				s.succeeds(x, s.plan(c, after, plan.Options{Drain: time.Minute}))
				require.Equal(t, 1, transactions.Hits(), "both paths change in one transaction")
				require.ErrorIs(t, <-sent, recipes.ErrDraining)
				synctest.Wait() // until then a program may know only that the lock was draining

				for _, program := range []*recipes.Client{holds, waits, s.dial("worker:w")} {
					_, err := opened(program, k, old)(t.Context())
					require.ErrorIs(t, err, recipes.ErrNotProvisioned)
					require.ErrorContains(t, err, old)
					l, err := opened(program, k, next)(t.Context())
					require.NoError(t, err)
					require.NoError(t, l.Unlock(t.Context()))
				}
				require.ErrorIs(t, s.creates("worker:w", old), zk.ErrNoAuth, "no program brings the old path back")
				require.False(t, s.plan(c, after).HasChanges())
			})
		})
	}
}

// creates has a program create a node, as clients of other libraries do if it is missing.
func (s *site) creates(who, path string) error {
	_, err := s.session(s.dial(who)).Create(s.t.Context(), path, nil, 0, wire.ToZK(kind.WorldAll()))
	return err
}

// If a job's schedule stays, no apply makes it miss a due slot or run a slot twice: its record moves along.
func TestAJobKeepsItsSlotsWhateverElseIsApplied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := provisioned(t)
		job := func(path, schedule string, change ...func(*plan.Node)) *plan.Tree {
			return s.tree(declare(path, kind.Once, append(change, set("schedule", schedule), set("catch_up", "20h"), at("once.job"))...))
		}
		const hourly, nightly = "0 * * * *", "0 3 * * *"
		s.apply(c, job("/job", hourly))
		run := func(path string) (hours []int) {
			ctx, stop := context.WithTimeout(t.Context(), 10*time.Minute)
			defer stop()
			require.ErrorIs(t, once.New(c, s.root+path).Run(ctx, func(_ context.Context, at time.Time, _ *recipes.Lease) error {
				hours = append(hours, at.Hour())
				return nil
			}), context.DeadlineExceeded)
			return hours
		}
		for i, step := range []struct {
			tree *plan.Tree
			opts plan.Options
			path string
		}{
			{job("/job", hourly, set("owner", "us")), plan.Options{}, "/job"},
			{job("/job", hourly, set("owner", "us")), plan.Options{Replace: []string{"once.job"}}, "/job"},
			{job("/moved", hourly, set("owner", "us")), plan.Options{}, "/moved"},
			{job("/moved", hourly, set("owner", "them")), plan.Options{}, "/moved"},
		} {
			time.Sleep(time.Until(time.Now().Truncate(time.Hour).Add(time.Hour + time.Minute)))
			s.apply(c, step.tree, step.opts)
			require.False(t, s.plan(c, step.tree).HasChanges())
			require.Equal(t, []int{i + 1}, run(step.path))
		}
		time.Sleep(time.Hour)
		s.apply(c, job("/moved", nightly))
		time.Sleep(time.Minute)
		s.apply(c, job("/moved", hourly))
		require.Empty(t, run("/moved"), "slots count from the change on")
		time.Sleep(time.Hour)
		require.Equal(t, []int{6}, run("/moved"))
	})
}

// Formerly, a configuration's moves were not in its tree, and only the command added them. In a program that applied the tree alone, a
// new address caused a destroy and a create.
func TestProgramThatFollowsThePackageDocumentationKeepsARenamedLock(t *testing.T) {
	srv, inputs := server()
	defer srv.Close()
	dir := t.TempDir()
	write(dir, first)
	require.NoError(t, provision(t.Context(), io.Discard, dir, inputs...))
	another(srv)
	made, _ := srv.Get("/locks/payments/books")
	write(dir, second)
	require.NoError(t, provision(t.Context(), io.Discard, dir, inputs...))

	node, ok := srv.Get("/locks/payments/books")
	require.True(t, ok, "it is gone")
	books, err := kind.Decode(node.Data)
	require.NoError(t, err)
	require.Equal(t, "namespace.payments.mutex.ledger", books.Owner.Addr, "the declaration has another address")
	require.Equal(t, int64(2), books.Gen, "the same declaration goes on")
	require.Equal(t, made.Stat.Czxid, node.Stat.Czxid, "the lock is the same node")
}
