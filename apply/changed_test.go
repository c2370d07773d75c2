package apply_test

import (
	"context"
	"io"
	"slices"
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
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/once"
	"github.com/locktree/locktree/recipes/zktest"
)

// lockAt declares a lock, which keeps its address, at one of two paths.
func (s *site) lockAt(path string, k *kind.Kind) *plan.Tree {
	return s.tree(declare("/pay", kind.Namespace), declare(path, k, at("lock."+k.Name)))
}

// opened opens a lock of any kind.
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

// A changed path is refused while the lock is held or waited for, and goes on with a drain. At no moment does a program hold the lock
// at both paths: one transaction deletes the old node and creates the new one, which only the apply can create.
func TestChangedPathOfALockInUse(t *testing.T) {
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

				transactions := s.oneTransaction(old, next)
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

// oneTransaction counts the transactions that write at both paths.
func (s *site) oneTransaction(a, b string) *zktest.Injection {
	return s.server.Inject(func(r zktest.Request) bool {
		return r.Op == "multi" && slices.Contains(r.Paths, a) && slices.Contains(r.Paths, b)
	}, zktest.Fault{})
}

// creates has a program create a node, as clients of other libraries do where none is.
func (s *site) creates(who, path string) error {
	_, err := s.session(s.dial(who)).Create(s.t.Context(), path, nil, 0, wire.ToZK(kind.WorldAll()))
	return err
}

// A namespace may let others create nodes. There a program of another library brings the old path back, as a node that is not ours:
// programs of this library refuse it, and the next apply leaves it alone.
func TestChangedPathThatAnotherProgramBringsBack(t *testing.T) {
	s, c := provisioned(t)
	at := func(path string) *plan.Tree {
		return s.tree(declare("/pay", kind.Namespace, openToOthers), declare(path, kind.Mutex, at("lock.mutex")))
	}
	s.apply(c, at("/pay/old"))
	s.apply(c, at("/pay/new"))
	require.NoError(t, s.creates("worker:w", s.root+"/pay/old"))
	_, err := s.dial("worker:w").Mutex(s.root + "/pay/old").Lock(t.Context())
	require.ErrorIs(t, err, recipes.ErrNotProvisioned)
	require.ErrorContains(t, err, s.root+"/pay/old")
	p := s.plan(c, at("/pay/new"))
	require.False(t, p.HasChanges(), "%s", p)
	_, there := s.server.Get(s.root + "/pay/old")
	require.True(t, there)
}

// What an apply does to a job whose schedule stays costs it no slot that is due, and lets no slot run twice: its record goes along.
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

// A new address was destroy and create: what a configuration intends was in two places, and only the command put them together.
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
