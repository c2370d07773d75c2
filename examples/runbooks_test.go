package examples_test

import (
	"context"
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/zktest"
	"github.com/locktree/locktree/recipes/zktest/effort"
	"github.com/locktree/locktree/recipes/zktest/realzk"
)

// locks are the runbooks' locks, with an access list of this name.
func locks(acl string) string {
	return `locktree {
  stack = "payments"
}

variable "permits" {
  default = 4
}

namespace "payments" {
  acl = acl.` + acl + `

  mutex "ledger" {}

  semaphore "workers" {
    permits = var.permits
  }
}
`
}

// openLocks are for the runbooks that show no configuration.
var openLocks = locks("open") + `
ensemble "main" {
  root            = "/locks"
  connect_timeout = "30s"
}

principal "anyone" {
  scheme = "world"
}

acl "open" {
  allow_world = true
  grant {
    to    = [principal.anyone]
    allow = "admin"
  }
}
`

const (
	ledger  = "/locks/payments/ledger"
	workers = "/locks/payments/workers"
)

func newRunbook(t *testing.T, topic, addr, config string, env ...string) *runbook {
	dir := t.TempDir()
	if config != "" {
		write(t, filepath.Join(dir, "locks.locktree.hcl"), config)
	}
	return &runbook{t: t, topic: topic, dir: dir, shell: newShell(t, dir, environ(addr, env...))}
}

// must types a command of the test itself, which must succeed.
func (r *runbook) must(command string) string {
	out, code := r.shell.run(command)
	require.Zero(r.t, code, "%s\n%s", command, out)
	r.quiet(out)
	return out
}

func program(t *testing.T, addr, id string, auth ...recipes.Auth) *recipes.Client {
	return dial(t, addr, id, 20*time.Second, auth...)
}

func dial(t *testing.T, addr, id string, timeout time.Duration, auth ...recipes.Auth) *recipes.Client {
	ctx, cancel := context.WithTimeout(t.Context(), hanging)
	defer cancel()
	c, err := recipes.Dial(ctx, recipes.Config{Servers: strings.Split(addr, ","), ID: id, Auth: auth, ConnectTimeout: hanging, SessionTimeout: timeout})
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

func TestRunbookRestoreBackup(t *testing.T) {
	effort.Proof(t, effort.Unraced)
	t.Parallel()
	t.Run("in memory", func(t *testing.T) {
		srv := zktest.Start(t)
		r := newRunbook(t, "restore-backup", srv.Addr(), openLocks)
		// There are no files: the test creates the backup's nodes again, and no counter goes back.
		backup := map[string][]byte{}
		nothing := func() {}
		r.instead = map[string]func(){
			"$ mkdir -p $BACKUP/version-2":                                    func() { keep(srv, backup, "/locks") },
			"$ zkServer.sh stop; while zkServer.sh status; do sleep 1; done":  nothing,
			"$ mv $DATA/version-2 $DATA/version-2.lost":                       func() { putBack(t, srv, backup) },
			"$ echo 4096 > $DATA/version-2/acceptedEpoch":                     nothing,
			"$ until zkServer.sh status; do zkServer.sh start; sleep 1; done": nothing,
			"$ zkServer.sh start":                                             nothing,
		}
		restoreBackup(t, r, srv.Addr())
	})
	t.Run("standalone", func(t *testing.T) {
		t.Parallel()
		srv := realzk.Start(t, realzk.Options{})
		r := newRunbook(t, "restore-backup", srv.Addr, openLocks)
		r.hosts, r.skip = []*shell{hostShell(t, srv, t.TempDir())}, []string{"In an ensemble"}
		restoreBackup(t, r, srv.Addr)
	})
	t.Run("ensemble", func(t *testing.T) {
		t.Parallel()
		servers := realzk.StartEnsemble(t, 3, realzk.Options{})
		r := newRunbook(t, "restore-backup", servers[0].Addr, openLocks)
		r.skip = []string{"A standalone server"}
		backup := t.TempDir()
		for _, srv := range servers {
			r.hosts = append(r.hosts, hostShell(t, srv, backup))
		}
		restoreBackup(t, r, servers[0].Addr)
	})
}

func restoreBackup(t *testing.T, r *runbook, addr string) {
	r.must("LOCKTREE_VAR_permits=3 locktree apply -auto-approve")
	then, now := program(t, addr, "then"), program(t, addr, "now")
	held, err := then.Mutex(ledger).Lock(t.Context())
	require.NoError(t, err)
	var highest uint64
	r.between = func(step int) {
		switch step {
		case 0:
			// After the backup come another holder, an apply and a saved plan.
			require.NoError(t, held.Unlock(t.Context()))
			l, err := now.Mutex(ledger).Lock(t.Context())
			require.NoError(t, err)
			highest = l.Token()
			r.must("locktree apply -auto-approve && LOCKTREE_VAR_permits=5 locktree plan -out=since.plan")
			// Step 1.
			require.NoError(t, then.Close())
			require.NoError(t, now.Close())
		case 8:
			l, err := program(t, addr, "after").Mutex(ledger).Lock(t.Context())
			require.NoError(t, err)
			require.Greater(t, l.Token(), highest)
		}
	}
	r.play()
	out, code := r.shell.run("locktree apply since.plan")
	require.Equal(t, 1, code, out)
	require.Contains(t, out, "Saved plan is stale")
}

// keep records the declared nodes and their data. putBack restores them as a copy of the nodes does.
func keep(srv *zktest.Server, all map[string][]byte, path string) {
	n, ok := srv.Get(path)
	if !ok || n.Stat.EphemeralOwner != 0 {
		return
	}
	all[path] = n.Data
	for _, name := range n.Children {
		keep(srv, all, path+"/"+name)
	}
}

func putBack(t *testing.T, srv *zktest.Server, all map[string][]byte) {
	require.NoError(t, srv.Delete("/locks"))
	for _, path := range slices.Sorted(maps.Keys(all)) {
		require.NoError(t, srv.Create(path, all[path]))
	}
}

func TestRunbookMigrateEnsemble(t *testing.T) {
	effort.Proof(t, effort.Unraced)
	t.Parallel()
	onBoth(t, func(t *testing.T, start func() string) {
		from, to := start(), start()
		r := newRunbook(t, "migrate-ensemble", from, openLocks, "OLD="+from, "NEW="+to)
		r.must("locktree apply -auto-approve")
		// One program holds a permit until the lock drains; another takes permits again and again.
		permit, err := program(t, from, "worker-1").Semaphore(workers).Acquire(t.Context(), 1)
		require.NoError(t, err)
		over := make(chan error, 1)
		go func() { over <- untilGone(t, program(t, from, "worker-2"), permit) }()
		r.between = func(step int) {
			if step == 3 { // now the test does step 4
				require.ErrorIs(t, <-over, recipes.ErrNotProvisioned)
				require.ErrorIs(t, context.Cause(permit.Context()), recipes.ErrReleased, "a holder lost its permit")
				_, err = program(t, to, "worker-1").Semaphore(workers).Acquire(t.Context(), 1)
				require.NoError(t, err)
			}
		}
		r.play()
	})
}

// untilGone takes permits until the lock is gone. When the lock drains, it releases held.
func untilGone(t *testing.T, c *recipes.Client, held *recipes.Lease) error {
	ctx := context.WithoutCancel(t.Context())
	for {
		l, err := c.Semaphore(workers).Acquire(ctx, 1)
		switch {
		case errors.Is(err, recipes.ErrDraining):
			err = held.Unlock(ctx)
			time.Sleep(10 * time.Millisecond) // another program deletes the lock: there is nothing to wait on
		case err == nil:
			err = l.Unlock(ctx)
		}
		if err != nil {
			return err
		}
	}
}

// onBoth runs a test on the in-memory server and on Apache ZooKeeper. Commands on the latter mostly wait for Java to start and for sessions
// to time out.
func onBoth(t *testing.T, test func(t *testing.T, start func() string)) {
	t.Run("in memory", func(t *testing.T) {
		test(t, func() string { return zktest.Start(t).Addr() })
	})
	t.Run("Apache ZooKeeper", func(t *testing.T) {
		t.Parallel()
		test(t, func() string {
			return realzk.Start(t, realzk.Options{Properties: map[string]string{"zookeeper.forceSync": "no"}}).Addr
		})
	})
}
