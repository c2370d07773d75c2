package apply_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/apply/event"
	"github.com/locktree/locktree/apply/failure"
	"github.com/locktree/locktree/apply/internal/wire"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/explain"
	"github.com/locktree/locktree/plan/record"
	"github.com/locktree/locktree/plan/tx"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
)

func TestFirstApplyMakesTheTreeAndTheSecondPlanIsEmpty(t *testing.T) {
	s, c := provisioned(t)
	var ev events
	x := executor(c, ev.add)
	p := s.plan(c, s.shop())
	res := s.succeeds(x, p)
	require.Equal(t, plan.Counts{Add: 6}, res.Counts)
	require.Equal(t, 9, res.Ops, "six nodes, two structural children, the record")
	require.NotRegexp(t, " (container|ttl|ephemeral)", s.server.Dump(), "a node stays when its contenders leave")
	var kinds []string
	for _, e := range ev {
		kinds = append(kinds, fmt.Sprintf("%T", e)[len("apply."):])
	}
	require.Equal(t, []string{
		"Scaffolded", "LockAcquired", "Verified", "Started", "Started", "Started", "Started", "Started", "Started",
		"Committed", "Applied", "Applied", "Applied", "Applied", "Applied", "Applied", "Recorded", "Finished",
	}, kinds)

	again := s.plan(c, s.shop())
	require.Empty(t, again.Problems)
	require.False(t, again.HasChanges(), "%s", again)
	s.wroteNothing(c, func() {
		res := s.runs(c, again)
		require.Empty(t, res.ApplyID)
	})

	// Programs can use what was applied, as declared.
	w := s.dial("worker:w")
	l := s.takes(w.Mutex("/locks/pay/ledger").Lock)
	require.NoError(t, l.Unlock(t.Context()))
	permits, err := w.Semaphore("/locks/pay/pool").Acquire(t.Context(), 2)
	require.NoError(t, err)
	require.NoError(t, permits.Unlock(t.Context()))
	_, err = w.Semaphore("/locks/pay/ledger").Acquire(t.Context(), 1)
	require.ErrorIs(t, err, recipes.ErrKindMismatch)
}

func TestReadSendsNoWriteAndWorksReadOnly(t *testing.T) {
	s, _ := shopped(t)
	s.config.ReadOnly = true
	reader := s.provisioner()
	s.wroteNothing(reader, func() {
		p := s.plan(reader, s.shop())
		require.False(t, p.HasChanges(), "%s", p)
	})
	p := s.plan(reader, s.tree())
	_, err := executor(reader).Run(t.Context(), p)
	require.ErrorIs(t, err, recipes.ErrReadOnly)
}

func TestPlanOfAThousandNewLocksCostsAHandfulOfRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := provisioned(t)
		nodes := []*plan.Node{declare("/many", kind.Namespace)}
		for i := range 1000 {
			nodes = append(nodes, declare(fmt.Sprintf("/many/lock-%04d", i), kind.Mutex))
		}
		s.server.ResetCounts()
		p := s.plan(c, s.tree(nodes...))
		require.LessOrEqual(t, s.server.Counts().Total, 5)
		s.server.ResetCounts()
		s.runs(c, p)
		// Two verifications, the scaffold, the lock, the transaction and its check.
		require.LessOrEqual(t, s.server.Counts().Total, 30, "%v", s.server.Counts().ByOp)
		require.Equal(t, 2, s.server.Counts().ByOp["multi"], "the scaffold's and the apply's: %v", s.server.Counts().ByOp)
		set("description", "new")(nodes[500])
		p = s.plan(c, s.tree(nodes...))
		s.server.ResetCounts()
		s.runs(c, p)
		// Two verifications of all nodes and the record, whose data is also read; the directory of records, the lock and the history.
		n := s.server.Counts().ByOp
		require.Equal(t, []int{2*(len(p.Pins)+1) + 2, 2 + 1, 1}, []int{n["exists"], n["getData"], n["multi"]}, "%v", n)
	})
}

// edits change the shop by hand, at path. The field stale is the name of the change in the error of a saved plan. The field late is the
// reason why ZooKeeper refuses the transaction. If a field is empty, it is not checked.
var edits = map[string]struct {
	edit        func(*site, *recipes.Client)
	path        string
	stale, late string
}{
	"data":                      {overwrite("/pay/pool"), "/pay/pool", "data changed", "its data was changed"},
	"data of what is deleted":   {overwrite("/solo"), "/solo", "data changed", "its data was changed"},
	"data where only lists are": {overwrite("/pay/batch"), "/pay/batch", "data changed", "its data was changed"},
	"access list": {func(s *site, c *recipes.Client) {
		s.setByHand(c, "/locks/pay/pool", everybody...)
	}, "/pay/pool", "access list changed", ""},
	"structural child": {func(s *site, c *recipes.Client) {
		s.leaves(c, "/locks/pay/pool/leases")
	}, "/pay/pool/leases", "deleted", ""},
	"gone":     {func(s *site, c *recipes.Client) { s.leaves(c, "/locks/solo") }, "/solo", "deleted", "it was deleted"},
	"all gone": {func(s *site, _ *recipes.Client) { require.NoError(s.t, s.server.Delete("/locks/pay/pool")) }, "/pay/pool", "", "it was deleted"},
	"recreated": {func(s *site, c *recipes.Client) {
		data := string(s.at("/solo").Data)
		s.leaves(c, "/locks/solo")
		s.create(c, "/locks/solo", data, everybody...)
	}, "/solo", "deleted and created again", ""},
	"in the way": {func(s *site, c *recipes.Client) {
		s.create(c, "/locks/new", "", everybody...)
	}, "/new", "created", "another program created it"},
	"another apply": {func(s *site, _ *recipes.Client) {
		at := record.IndexPath("/locks", stack)
		n, _ := s.server.Get(at)
		require.NoError(s.t, s.server.Set(at, n.Data))
	}, "/.locktree/stacks/" + stack, "data changed", "its data was changed"},
}

func overwrite(path string) func(*site, *recipes.Client) {
	return func(s *site, _ *recipes.Client) { require.NoError(s.t, s.server.Set("/locks"+path, []byte("x"))) }
}

func TestPlanIsRefusedWhateverChangedAndNothingIsWritten(t *testing.T) {
	for name, e := range edits {
		t.Run(name, func(t *testing.T) {
			s, c := shopped(t)
			stale := s.plan(c, rich(s))
			e.edit(s, c)
			s.wroteNothing(c, func() {
				_, err := executor(c).Run(t.Context(), stale)
				found := errorAs[*failure.StaleError](t, err)
				if e.stale != "" {
					require.Len(t, found.Differences, 1, "%v", err)
					require.Equal(t, []string{"/locks" + e.path, e.stale}, []string{found.Differences[0].Path, found.Differences[0].What})
				}
			})
		})
	}
}

// This includes the very first apply. After a destroy, everything that the old plan found absent is absent again, and the plan must still
// not fit.
func TestAPlanCanBeAppliedOnceAlsoAfterADestroy(t *testing.T) {
	s, c := provisioned(t)
	for range 2 { // the first time the tool's own nodes are missing, then they are there
		p := s.resaved(s.plan(c, s.shop()))
		again := func() error {
			_, err := executor(c).Run(t.Context(), p)
			errorAs[*failure.StaleError](t, err)
			return err
		}
		s.runs(c, p)
		s.wroteNothing(c, func() { _ = again() })
		require.NoError(t, s.destroy(c, s.shop()))
		s.wroteNothing(c, func() { require.ErrorContains(t, again(), "applied and destroyed since") })
	}
}

// Servers restored from a backup repeat versions. So the plan's czxids and versions fit, but the nodes are not those that it saw.
// TestRunbookRestoreBackup in examples does it with real servers.
func TestAPlanOfAHistoryThatWasTakenBackIsStale(t *testing.T) {
	s, c := shopped(t)
	desired := s.shop()
	desired.Nodes[0].Payload.Params.(*kind.NamespaceParams).Description = "other"
	p := s.plan(c, desired)
	require.True(t, p.HasChanges())
	s.asked.Load().question.Ensembles[0].Current.Index.Apply = "0123456789abcdef"
	s.wroteNothing(c, func() {
		_, err := executor(c).Run(t.Context(), s.resaved(p))
		errorAs[*failure.StaleError](t, err)
		require.ErrorContains(t, err, "restore from a backup")
	})
}

func TestPlanWithProblemsIsRefusedBeforeAnyRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := provisioned(t)
		require.NoError(t, s.server.Create("/locks/pay", []byte("somebody's")))
		p := s.plan(c, s.shop())
		s.server.ResetCounts()
		_, err := executor(c).Run(t.Context(), p)
		errorAs[*failure.ProblemsError](t, err)
		require.ErrorContains(t, err, "Path is taken")
		require.Zero(t, s.server.Counts().Total)
	})
}

func TestSizeIsWhatGoesOverTheWire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := provisioned(t)
		p := s.plan(c, s.shop())
		var in, out int64
		x := executor(c, func(e event.Event) {
			switch e.(type) {
			case event.Verified:
				in = s.server.Counts().BytesIn
			case event.Committed:
				out = s.server.Counts().BytesIn
			}
		})
		res := s.succeeds(x, p)
		require.NoError(t, tx.Each(p, "0123456789abcdef", wire.OwnACL(c, nil), func(batch *tx.Transaction) error {
			require.True(t, batch.Last)
			require.Equal(t, tx.Size(batch.Ops), res.Bytes)
			return nil
		}))
		// The frame also carries the fencing check, whose path is the contender's.
		check := int64(9 + 4 + len(record.LockPath(s.root, stack)) + 1 + len("_c_00000000-0000-0000-0000-000000000000-lock-0000000000") + 4)
		history, _ := s.server.Get(record.HistoryPath(s.root, stack))
		note := tx.Size([]tx.Op{
			{Kind: tx.OpSet, Path: record.HistoryPath(s.root, stack), Data: history.Data},
			{Kind: tx.OpSet, Path: record.ScaffoldPath(s.root) + "/stacks"}, // of a first apply
		}) - tx.Size(nil)
		require.Equal(t, int64(res.Bytes+note)+check, out-in)
	})
}

func TestErrorsUnwrap(t *testing.T) {
	cause := errors.New("cause")
	for _, err := range []error{
		&failure.ConflictError{Err: cause}, &failure.NodeError{Err: cause}, &failure.UnknownError{Err: cause}, &failure.ACLPhaseError{Err: cause}, &failure.VerifyError{Err: cause},
	} {
		require.ErrorIs(t, err, cause)
		require.Contains(t, err.Error(), "apply: ")
	}
}

// If the servers cannot be reached, no server has refused anything.
func TestAnAnswerThatDoesNotComeIsNoRefusal(t *testing.T) {
	e := &failure.NodeError{Path: "/locks", Op: "read", Why: "no answer"}
	for _, cause := range []error{context.DeadlineExceeded, recipes.ErrSessionLost, recipes.ErrUnreachable} {
		e.Err = fmt.Errorf("away: %w", cause)
		require.Equal(t, "Could not read a node", e.Explain().Summary)
	}
	e.Err = zk.ErrNoAuth
	require.Equal(t, "ZooKeeper refused to read a node", e.Explain().Summary)
}

// As things stand, Check refuses whatever Run would refuse, with the same error.
func TestCheckRefusesWhatApplyWouldAndWritesNothing(t *testing.T) { checkRefuses(t, inMemory(t)) }

func checkRefuses(t *testing.T, s *site) {
	c, other := s.provisioner(), s.provisioner()
	check := func(x *applying, p *plan.Plan) (err error) {
		s.unchanged(c, func() { err = x.applier().Check(t.Context(), p) })
		return err
	}
	p := s.plan(c, s.shop())
	require.NoError(t, check(executor(c), p))
	s.apply(c, s.shop())
	stale := errorAs[*failure.StaleError](t, check(executor(c), p))
	require.NoError(t, check(executor(c), s.plan(c, s.shop())), "nothing to do")

	p = s.plan(c, s.shop(set("description", "b")))
	require.NoError(t, check(executor(c), p))
	_, err := s.session(c).Set(t.Context(), s.root+"/pay/ledger", []byte("x"), -1)
	require.NoError(t, err)
	require.ErrorAs(t, check(executor(c), p), &stale)
	errorAs[*failure.ProblemsError](t, check(executor(c), s.plan(c, s.shop())))
	require.NoError(t, s.session(c).Delete(t.Context(), s.root+"/pay/ledger", -1))
	s.apply(c, s.shop())

	lease := s.takes(other.Mutex(s.root + "/pay/ledger").Lock)
	p = s.plan(c, s.tree(declare("/solo", kind.Election)), plan.Options{AllowMassDestroy: true})
	errorAs[*failure.InUseError](t, check(executor(c), p))
	require.NoError(t, lease.Unlock(t.Context()))

	// Another apply is under way.
	p = s.plan(c, s.shop(set("description", "b")))
	x, looked := executor(other), false
	x.Events = on(func(event.Verified) {
		looked = true
		locked := errorAs[*failure.LockedError](t, check(executor(c), p))
		require.Equal(t, "me@here", locked.Info.Who)
		require.Equal(t, record.LockPath(s.root, stack), locked.Path)
		patient := executor(c)
		patient.LockTimeout = time.Hour
		require.NoError(t, check(patient, p), "Apply would wait for it")
	})
	s.succeeds(x, s.plan(other, s.shop(set("description", "c"))))
	require.True(t, looked)
}

// A person changes a node between the verification and the transaction. Because of the versions in the transaction, the servers refuse it
// as a whole.
func TestEditBetweenVerificationAndTransactionAbortsIt(t *testing.T) {
	for name, e := range edits {
		if e.late == "" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			s, c := shopped(t)
			var edited map[string]string
			x := executor(c, on(func(event.Verified) {
				e.edit(s, c)
				edited = s.dump(c)
			}))
			_, err := x.Run(t.Context(), s.plan(c, rich(s)))
			conflict := errorAs[*failure.ConflictError](t, err)
			require.Equal(t, "/locks"+e.path, conflict.Path)
			require.Contains(t, conflict.Why, e.late)
			require.Equal(t, edited, s.dump(c), "something was written")
		})
	}
}

// An apply finishes while the tree is read. The read starts over, so that the record and the nodes are of one moment.
func TestReadThatIsOvertakenStartsOver(t *testing.T) {
	s, c := shopped(t)
	path := record.IndexPath(s.root, stack)
	n, _ := s.server.Get(path)
	in := s.server.Inject(zktest.Once(func(r zktest.Request) bool {
		if r.Op == "getACL" {
			assert.NoError(t, s.server.Set(path, n.Data))
		}
		return r.Op == "getACL"
	}), zktest.Fault{})
	s.server.ResetCounts()
	live := s.read(c, s.shop())
	require.Equal(t, 1, in.Hits())
	require.EqualValues(t, 1, live.IndexPin.Version)
	require.Equal(t, 2, s.server.Counts().ByOp["sync"])
}

// Four appliers of two stacks meet on an empty server, where even the root is missing. One applies, and none fails because another one
// created the root first.
func TestFirstAppliersAtOnceShareTheScaffold(t *testing.T) {
	for range 20 {
		s := inMemory(t)
		s.root = "/a/b"
		runs := make([]func() error, 4)
		for i := range runs { // all plans are of the empty server
			c := s.provisioner()
			p := s.plan(c, s.of([]string{"one", "two"}[i%2], nil))
			runs[i] = func() error {
				x := executor(c)
				x.LockTimeout = patience
				_, err := x.Run(t.Context(), p)
				return err
			}
		}
		var wg sync.WaitGroup
		errs := make([]error, len(runs))
		for i, run := range runs {
			wg.Go(func() { errs[i] = run() })
		}
		wg.Wait()
		late := 0
		for _, err := range errs {
			var e *failure.StaleError
			if errors.As(err, &e) || err != nil && explain.Of(err).Summary == "Root belongs to another stack" {
				late++
				continue
			}
			require.NoError(t, err)
		}
		require.Equal(t, 3, late, "one applied, and the others came too late: %v", errs)
	}
}
