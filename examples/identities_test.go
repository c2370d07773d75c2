package examples_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/zktest"
	"github.com/locktree/locktree/recipes/zktest/effort"
	"github.com/locktree/locktree/recipes/zktest/realzk"
)

// guardedAccess is the access configuration of the runbooks about access.
const guardedAccess = `locals {
  administrators = [principal.platform]
  programs       = [principal.app]
}

principal "platform" {
  scheme = "digest"
  id     = file("platform.digest")
}

principal "app" {
  scheme = "digest"
  id     = file("app.digest")
}

principal "ci" {
  scheme = "digest"
  id     = file("ci.digest")
}

ensemble "main" {
  root    = "/locks"
  admins  = local.administrators
  readers = [principal.ci]

  connect_timeout = "30s"
}

acl "payments" {
  grant {
    to    = local.administrators
    allow = "admin"
  }
  grant {
    to    = local.programs
    allow = "lock"
  }
  grant {
    to    = [principal.ci]
    allow = "observe"
  }
}
`

// No output may show these passwords. A secret with a name in capitals is typed where a runbook reads it.
const (
	oldPlatform = "old-platform-7f3a"
	oldApp      = "old-app-51c9"
	oldCI       = "old-ci-88e0"
)

// guard writes the access configuration and the digests. No output after it may show a secret.
func (r *runbook) guard(access string, secrets map[string]string) {
	secrets["old platform"], secrets["app"], secrets["ci"] = oldPlatform, oldApp, oldCI
	r.hushed(secrets)
	r.file("access.locktree.hcl", access)
	r.digest("platform", oldPlatform)
	r.digest("app", oldApp)
	r.digest("ci", oldCI)
}

func (r *runbook) hushed(secrets map[string]string) {
	r.secrets = secrets
	r.users = []string{"platform", "app", "ci", "payments", "search", "super"}
}

// file writes a file into the operator's directory.
func (r *runbook) file(name, text string) {
	write(r.t, filepath.Join(r.dir, name), text)
}

// digest writes the file with a principal's id.
func (r *runbook) digest(user, password string) {
	r.file(user+".digest", user+":"+digestOf(user, password)+"\n")
}

// as types a command with a user's credentials.
func (r *runbook) as(user, password, command string) (out string, code int) {
	out, code = r.shell.run(fmt.Sprintf("( export ZOOKEEPER_USERNAME=%s ZOOKEEPER_PASSWORD=%s; %s )", user, password, command))
	r.quiet(out)
	return out, code
}

// mustAs types a command like the method as, and requires that it succeeds.
func (r *runbook) mustAs(user, password, command string) string {
	out, code := r.as(user, password, command)
	require.Zero(r.t, code, "as %s: %s\n%s", user, command, out)
	return out
}

func digestAuth(user, password string) recipes.Auth {
	return recipes.Auth{Scheme: "digest", Credentials: recipes.Secret(user + ":" + password)}
}

func TestRunbookRotatePassword(t *testing.T) {
	effort.Proof(t, effort.Unraced)
	t.Parallel()
	onBoth(t, func(t *testing.T, start func() string) { rotate(t, start(), guardedAccess) })
	// A stack without administrators: its nodes belong to the first applier, which declares itself in the rotation.
	t.Run("none declared", func(t *testing.T) { rotate(t, zktest.Start(t).Addr(), undeclared) })
}

// undeclared is guardedAccess without administrators and readers.
var undeclared = strings.Replace(guardedAccess, "  admins  = local.administrators\n  readers = [principal.ci]\n", "", 1)

func rotate(t *testing.T, addr, access string) {
	r := newRunbook(t, "rotate-password", addr, locks("payments"), "ZOOKEEPER_USERNAME=platform", "ZOOKEEPER_PASSWORD="+oldPlatform)
	const newPlatform, newApp = "new-platform-04d1", "new-app-a6b2"
	r.guard(access, map[string]string{"NEW_PLATFORM_PASSWORD": newPlatform, "NEW_APP_PASSWORD": newApp})
	r.must("locktree apply -auto-approve")
	r.file("access.locktree.hcl", guardedAccess)

	// One program holds a permit and takes the mutex again and again. In step 3 another one, with the new password, does the same before
	// the first one ends.
	at := worker(t, digestAuth("app", oldApp), addr)
	r.between = func(step int) {
		at.goesOn()
		if step == 3 {
			next := worker(t, digestAuth("app", newApp), addr)
			at.goesOn()
			at.stop()
			at = next
		}
		if step > 1 || access == guardedAccess {
			r.mustAs("ci", oldCI, "locktree plan")
		}
		for password, works := range map[string]bool{oldPlatform: step < 4, newPlatform: step > 1} {
			if works {
				r.mustAs("platform", password, "locktree apply -auto-approve -var permits=6 && locktree apply -auto-approve && locktree doctor")
			} else if out, code := r.as("platform", password, "locktree plan"); code == 0 {
				require.Fail(t, "a password that is not in force works", out)
			}
		}
		at.goesOn()
	}
	r.play()
	at.stop()
}

// work is a running program.
type work struct {
	t     *testing.T
	held  *recipes.Lease
	turns chan error // one result for each turn of the mutex
	end   context.CancelFunc
}

func worker(t *testing.T, auth recipes.Auth, addrs ...string) *work {
	c := dial(t, strings.Join(addrs, ","), "worker", 160*time.Second, auth) // it survives a server's restart
	permit, err := c.Semaphore(workers).Acquire(t.Context(), 1)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	w := &work{t: t, held: permit, turns: make(chan error), end: cancel}
	go func() {
		for ctx.Err() == nil {
			l, err := c.Mutex(ledger).Lock(ctx)
			if err == nil {
				err = l.Unlock(context.WithoutCancel(ctx))
			}
			select {
			case w.turns <- err:
			case <-ctx.Done():
			}
		}
	}()
	t.Cleanup(cancel)
	return w
}

// goesOn waits for two more turns: the second began after the call.
func (w *work) goesOn() {
	for range 2 {
		require.NoError(w.t, <-w.turns)
	}
	require.NoError(w.t, w.held.Context().Err(), "a holder lost its permit: %v", context.Cause(w.held.Context()))
}

func (w *work) stop() {
	w.end()
	require.NoError(w.t, w.held.Unlock(w.t.Context()))
}

func TestRunbookCIAccess(t *testing.T) {
	effort.Proof(t, effort.Unraced)
	t.Parallel()
	onBoth(t, func(t *testing.T, start func() string) {
		addr := start()
		r := newRunbook(t, "ci-access", addr, locks("payments"), "PLATFORM_PASSWORD="+oldPlatform)
		r.hushed(map[string]string{"CI_PASSWORD": oldCI, "platform": oldPlatform, "app": oldApp})
		r.digest("platform", oldPlatform)
		r.digest("app", oldApp)
		r.play()
		_, err := program(t, addr, "worker", digestAuth("app", oldApp)).Mutex(ledger).Lock(t.Context())
		require.NoError(t, err)
	})
}

// The runbook takes over a stack with declared administrators, and one without, whose nodes belong to the first applier. It uses the
// superuser, or the old password.
func TestRunbookTakeOverStack(t *testing.T) {
	effort.Proof(t, effort.Unraced)
	t.Parallel()
	const super = "super-c0ff"
	for name, access := range map[string]string{
		"administrators": guardedAccess,
		"none declared":  undeclared,
	} {
		t.Run(name+", in memory", func(t *testing.T) {
			srv := zktest.Start(t, zktest.WithSuperDigest("super:"+digestOf("super", super)))
			r := newRunbook(t, "take-over-stack", srv.Addr(), locks("payments"))
			r.instead = noRestart // it knows its superuser from the beginning
			takeOver(t, r, access, super, srv.Addr())
		})
		t.Run(name+", Apache ZooKeeper", func(t *testing.T) {
			t.Parallel()
			takeOverReal(t, []*realzk.Server{realzk.Start(t, patient)}, access, super)
		})
	}
	onBoth(t, func(t *testing.T, start func() string) {
		addr := start()
		r := newRunbook(t, "take-over-stack", addr, locks("payments"))
		r.instead = noRestart
		r.edit = func(text string) string {
			return strings.ReplaceAll(text, `username = "super"`, `username = "platform"`)
		}
		takeOver(t, r, guardedAccess, oldPlatform, addr)
	})
	// One of three servers knows the superuser; every write goes through the leader.
	t.Run("ensemble", func(t *testing.T) {
		t.Parallel()
		takeOverReal(t, realzk.StartEnsemble(t, 3, patient), guardedAccess, super)
	})
}

// noRestart leaves out the steps at the server.
var noRestart = map[string]func(){
	`$ digest() { echo "$1:$(printf %s "$1:$2" | openssl dgst -sha1 -binary | openssl base64)"; }`: func() {},
	"$ unset SERVER_JVMFLAGS SUPER_PASSWORD":                                                       func() {},
}

// patient servers grant sessions of 160 s, 20 ticks: on a busy machine, a JVM may take longer to start than the usual lease of 40 s lasts.
var patient = realzk.Options{TickTime: 8 * time.Second}

// takeOverReal restarts the first server. The worker knows all servers, as a program would.
func takeOverReal(t *testing.T, servers []*realzk.Server, access, super string) {
	r := newRunbook(t, "take-over-stack", servers[0].Addr, locks("payments"))
	r.hosts = []*shell{hostShell(t, servers[0], t.TempDir())}
	var addrs []string
	for _, srv := range servers {
		addrs = append(addrs, srv.Addr)
	}
	takeOver(t, r, access, super, addrs...)
}

func takeOver(t *testing.T, r *runbook, access, super string, addrs ...string) {
	const newPlatform = "new-platform-04d1"
	r.guard(access, map[string]string{"SUPER_PASSWORD": super, "PLATFORM_PASSWORD": newPlatform})
	r.mustAs("platform", oldPlatform, "locktree apply -auto-approve")
	at := worker(t, digestAuth("app", oldApp), addrs...)
	r.between = func(step int) {
		at.goesOn()
		if step == 2 {
			r.file("access.locktree.hcl", guardedAccess) // with admins
			out, code := r.as("platform", newPlatform, "locktree apply -auto-approve")
			require.Equal(t, 1, code, "nothing had to be taken over: %s", out)
		}
	}
	r.play()
	r.mustAs("ci", oldCI, "locktree plan")
	out, code := r.as("platform", oldPlatform, "locktree plan")
	require.Equal(t, 1, code, out)
	at.stop()
}

func TestRunbookTwoTeams(t *testing.T) {
	effort.Proof(t, effort.Unraced)
	t.Parallel()
	onBoth(t, func(t *testing.T, start func() string) {
		const search = "search-5d5d"
		addr := start()
		r := newRunbook(t, "two-teams", addr, "")
		r.hushed(map[string]string{"PAYMENTS_PASSWORD": "payments-91aa", "SEARCH_PASSWORD": search, "OBSERVERS_PASSWORD": "observers-2f07"})
		r.instead = map[string]func(){`$ zkCli.sh -server "$ZOOKEEPER_SERVERS" create /locks "" world:anyone:cr`: func() {
			s, err := program(t, addr, "administrator", digestAuth("zookeeper", "theirs")).Session(t.Context())
			require.NoError(t, err)
			_, err = s.Create(t.Context(), "/locks", nil, 0, zk.WorldACL(zk.PermCreate|zk.PermRead))
			require.NoError(t, err)
		}}
		r.between = func(step int) {
			if step == 3 {
				mayNotTouch(t, addr, digestAuth("search", search), "/locks/payments")
			}
		}
		r.play()
	})
}

// mayNotTouch checks that no client with auth can create, write or delete a node at path or below, or change its access list.
func mayNotTouch(t *testing.T, addr string, auth recipes.Auth, path string) {
	s, err := program(t, addr, "intruder", auth).Session(t.Context())
	require.NoError(t, err)
	names := []string{path, path + "/ledger", path + "/.locktree", path + "/.locktree/stacks", path + "/.locktree/stacks/payments", path + "/.locktree/apply", path + "/.locktree/apply/payments"}
	for _, name := range names {
		stat, err := s.Exists(t.Context(), name)
		require.NoError(t, err)
		require.NotNil(t, stat, name)
		_, err = s.Create(t.Context(), name+"/mine", nil, 0, zk.WorldACL(zk.PermAll))
		require.ErrorIs(t, err, zk.ErrNoAuth, name)
		_, err = s.Set(t.Context(), name, nil, -1)
		require.ErrorIs(t, err, zk.ErrNoAuth, name)
		_, err = s.SetACL(t.Context(), name, zk.WorldACL(zk.PermAll), -1)
		require.ErrorIs(t, err, zk.ErrNoAuth, name)
		require.ErrorIs(t, s.Delete(t.Context(), name, -1), zk.ErrNoAuth, name)
	}
}
