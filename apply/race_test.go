package apply_test

import (
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/apply/event"
	"github.com/locktree/locktree/apply/failure"
	"github.com/locktree/locktree/apply/read"
	"github.com/locktree/locktree/plan/explain"
	"github.com/locktree/locktree/plan/record"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
)

// Somebody changes a node by hand in the moment between the verification and the
// transaction: the versions in the transaction refuse it as a whole.
func TestEditBetweenVerificationAndTransactionAbortsIt(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*testing.T, *site)
		path string
		why  string
	}{
		"updated node edited": {func(t *testing.T, s *site) {
			require.NoError(t, s.server.Set("/locks/pay/pool", []byte("x")))
		}, "/locks/pay/pool", "its data was changed"},
		"deleted node edited": {func(t *testing.T, s *site) {
			require.NoError(t, s.server.Set("/locks/solo", []byte("x")))
		}, "/locks/solo", "its data was changed"},
		"node whose list changes edited": {func(t *testing.T, s *site) {
			require.NoError(t, s.server.Set("/locks/pay/batch", []byte("x")))
		}, "/locks/pay/batch", "its data was changed"},
		"created node there": {func(t *testing.T, s *site) {
			require.NoError(t, s.server.Create("/locks/new", nil))
		}, "/locks/new", "another program created it"},
		"updated node deleted": {func(t *testing.T, s *site) {
			require.NoError(t, s.server.Delete("/locks/pay/pool"))
		}, "/locks/pay/pool", "it was deleted"},
		"index written": {func(t *testing.T, s *site) {
			require.NoError(t, s.server.Set(record.IndexPath("/locks", stack), []byte("x")))
		}, record.IndexPath("/locks", stack), "its data was changed"},
	} {
		t.Run(name, func(t *testing.T) {
			s := inMemory(t)
			p := s.provisioner()
			s.apply(p, s.shop())
			var edited map[string]string
			x := executor(p, on(func(event.Verified) {
				c.edit(t, s)
				edited = s.dump(p)
			}))
			_, err := x.Run(t.Context(), s.plan(p, rich(s)))
			conflict := errorAs[*failure.ConflictError](t, err)
			require.Equal(t, c.path, conflict.Path)
			require.Contains(t, conflict.Why, c.why)
			require.Equal(t, edited, s.dump(p), "something was written")
		})
	}
}

// An apply finishes while the tree is read: the read starts over, so that index
// and nodes are of one moment, and gives up when that never ends.
func TestReadThatIsOvertakenStartsOver(t *testing.T) {
	for name, times := range map[string]int{"once": 1, "always": read.Tries} {
		t.Run(name, func(t *testing.T) {
			s, c := shopped(t)
			path := record.IndexPath(s.root, stack)
			n, _ := s.server.Get(path)
			in := s.server.Inject(zktest.Once(zktest.On("getACL")), zktest.Hold)
			s.server.ResetCounts()
			done := make(chan struct{})
			go func() {
				defer close(done)
				for i := range times {
					<-in.Hit()
					if err := s.server.Set(path, n.Data); err != nil {
						t.Error(err)
					}
					held := in
					if i < times-1 {
						in = s.server.Inject(zktest.Once(zktest.On("sync")), zktest.Hold)
						held.Release()
						<-in.Hit()
						sync := in
						in = s.server.Inject(zktest.Once(zktest.On("getACL")), zktest.Hold)
						sync.Release()
						continue
					}
					held.Release()
				}
			}()
			live, err := read.Tree(t.Context(), s.session(c), s.shop())
			<-done
			if times < read.Tries {
				require.NoError(t, err)
				require.EqualValues(t, times, live.IndexPin.Version)
				require.Equal(t, times+1, s.server.Counts().ByOp["sync"])
				return
			}
			moved := errorAs[*failure.MovedError](t, err)
			require.Equal(t, path, moved.Path)
		})
	}
}

// Two stacks and four appliers meet on an empty server, where even the root is
// missing: one applies, and nobody fails because somebody else made the root first.
func TestFirstAppliersAtOnceShareTheScaffold(t *testing.T) {
	for range 20 {
		s := inMemory(t)
		s.root = "/a/b"
		runs := make([]func() error, 4)
		for i := range runs { // all plans are of the empty server
			c := s.provisioner()
			tree := s.tree(declare("/x"+string(rune('0'+i%2)), kind.Mutex))
			tree.Stack = []string{"one", "two"}[i%2]
			tree.Nodes[0].Payload.Owner.Stack = tree.Stack
			p := s.plan(c, tree)
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

// Another stack is applied for the first time after the last look of this one, and before its transaction.
func TestTwoStacksCannotBothTakeARoot(t *testing.T) {
	s, c := provisioned(t)
	first, second := s.tree(declare("/x", kind.Mutex)), s.tree(declare("/y", kind.Mutex))
	second.Stack, second.Nodes[0].Payload.Owner.Stack = "depot", "depot"
	p := s.plan(c, first)
	in := s.server.Inject(zktest.Once(transaction(s)), zktest.Hold)
	done := make(chan error)
	go func() {
		_, err := executor(c).Run(t.Context(), p)
		done <- err
	}()
	<-in.Hit()
	s.apply(s.provisioner(), second)
	in.Release()
	err := <-done
	require.ErrorContains(t, err, `this root belongs to stack "depot" (/locks/.locktree/stacks/depot is its record)`)
	require.Nil(t, s.node(c, "/x"))
	require.False(t, s.plan(c, second).HasChanges())
}
