//go:build linux

package interop_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/inspect"
	"github.com/locktree/locktree/recipes/inspect/scan"
	"github.com/locktree/locktree/recipes/internal/hostile"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest/effort"
)

// former is the commit whose command and library meet the present ones.
const former = "fcdc5a8"

// version is one build of the command, and a process of one build of the library.
type version struct {
	name, command string
	*peer
}

// TestVersionsShareATreeAndGoBack lets the command and the programs of a former version and of this one meet on the same tree. One version
// makes the tree, the other uses and changes it, and then they go back.
func TestVersionsShareATreeAndGoBack(t *testing.T) {
	effort.Proof(t, effort.Unraced)
	t.Parallel()
	l := bareLab(t)
	u := &upgrade{realLab: l, dir: t.TempDir()}
	u.was, u.is = u.build(t, "former"), u.build(t, "now")

	t.Run("the former command's tree", func(t *testing.T) {
		u.configure(t, "ledger", "")
		u.run(t, u.was, 0, "apply", "-auto-approve")
		u.matrix(t, "ledger")
	})
	t.Run("applied by this one while both wait", func(t *testing.T) {
		u.waitThrough(t, func() {
			require.Contains(t, u.run(t, u.is, 0, "apply", "-auto-approve"), "Apply complete!")
			require.Contains(t, u.run(t, u.is, 0, "plan", "-detailed-exitcode"), "No changes")
		})
	})
	t.Run("this command's tree", func(t *testing.T) { u.matrix(t, "ledger") })
	t.Run("a lock at a new path", func(t *testing.T) {
		u.configure(t, "books", "ledger")
		u.run(t, u.is, 0, "apply", "-auto-approve")
		u.nothingAt(t, "ledger")
		u.matrix(t, "books")
	})
	t.Run("and back", func(t *testing.T) {
		u.run(t, u.is, 0, "destroy", "-auto-approve")
		u.configure(t, "ledger", "")
		u.run(t, u.was, 0, "apply", "-auto-approve")
		u.nothingAt(t, "books")
		u.matrix(t, "ledger")
	})
}

// upgrade is the two versions on one ensemble.
type upgrade struct {
	*realLab
	dir     string
	was, is version
}

// build compiles the command, and the program of testdata/interop/go as it is now, with the library of a version. The former version
// comes from the history of the repository.
func (u *upgrade) build(t *testing.T, name string) version {
	root, err := filepath.Abs("../../..")
	require.NoError(t, err)
	source := root
	if name == "former" {
		source = t.TempDir()
		archive := exec.Command("git", "-C", root, "archive", former)
		var tar, errs bytes.Buffer
		archive.Stdout, archive.Stderr = &tar, &errs
		require.NoError(t, archive.Run(), "commit %s is needed: a clone with its history (git fetch --unshallow).\n%s", former, errs.String())
		unpack := exec.Command("tar", "-x", "-C", source)
		unpack.Stdin = &tar
		require.NoError(t, unpack.Run())
		program := filepath.Join(source, "testdata/interop/go")
		require.NoError(t, os.RemoveAll(program))
		require.NoError(t, os.CopyFS(program, os.DirFS(interop+"/go")))
	}
	v := version{name: name, command: filepath.Join(u.dir, name+"-locktree")}
	program := filepath.Join(u.dir, name+"-program")
	goBuild(t, source, v.command, "./cmd/locktree")
	goBuild(t, source, program, "./testdata/interop/go")
	v.peer = startPeer(t, name, exec.Command(program, u.zk.Addr, fmt.Sprint(livingSession.Milliseconds()), name), u.hear)
	return v
}

// configure writes the configuration. from is the former name of its mutex, or empty.
func (u *upgrade) configure(t *testing.T, mutex, from string) {
	moved := ""
	if from != "" {
		moved = fmt.Sprintf("moved {\n  from = namespace.pay.mutex.%s\n  to   = namespace.pay.mutex.%s\n}\n", from, mutex)
	}
	require.NoError(t, os.WriteFile(filepath.Join(u.dir, "shop.locktree.hcl"), fmt.Appendf(nil, `
locktree { stack = "shop" }
ensemble "main" {
  servers = [%q]
  root    = "/locks"
}
principal "anyone" { scheme = "world" }
acl "open" {
  allow_world = true
  grant {
    to    = [principal.anyone]
    allow = "admin"
  }
}
namespace "pay" {
  acl = acl.open
  mutex %q {}
  rwlock "catalog" {}
  semaphore "workers" { permits = 1 }
  election "scheduler" {}
}
%s`, u.zk.Addr, mutex, moved), 0o600))
}

// run runs a command and returns what it printed.
func (u *upgrade) run(t *testing.T, v version, code int, args ...string) string {
	t.Helper()
	cmd := exec.Command(v.command, args...)
	cmd.Dir = u.dir
	out, err := cmd.CombinedOutput()
	if _, ended := err.(*exec.ExitError); err != nil && !ended {
		require.NoError(t, err)
	}
	require.Equal(t, code, cmd.ProcessState.ExitCode(), "%s: locktree %s\n%s", v.name, strings.Join(args, " "), out)
	return string(out)
}

// enter is a way of a version's program into a lock below /locks/pay.
func (u *upgrade) enter(t *testing.T, v version, recipe, lock string) *entry {
	return foreign(v.name, func(*realLab) *peer { return v.peer }, recipe).enter(t, u.realLab, "/locks/pay/"+lock)
}

// matrix lets each of the two versions hold each lock while the other one waits for it.
func (u *upgrade) matrix(t *testing.T, mutex string) {
	for _, of := range []struct{ holds, waits, lock string }{
		{"mutex", "mutex", mutex}, {"read", "write", "catalog"}, {"write", "read", "catalog"},
		{"semaphore", "semaphore", "workers"}, {"election", "election", "scheduler"},
	} {
		for _, pair := range [][2]version{{u.was, u.is}, {u.is, u.was}} {
			t.Run(fmt.Sprintf("%s=%s,%s=%s", of.holds, pair[0].name, of.waits, pair[1].name), func(t *testing.T) {
				ctx := hostile.Within(t, hostile.Patience)
				h, w := u.enter(t, pair[0], of.holds, of.lock), u.enter(t, pair[1], of.waits, of.lock)
				require.NoError(t, h.acquire(ctx))
				if of.waits != "election" {
					require.ErrorIs(t, w.try(ctx), errPeerHeld)
				}
				granted := u.request(ctx, w)
				u.awaitQueue(t, of.lock, 1)
				select {
				case err := <-granted:
					t.Fatalf("granted while another program holds the lock: %v", err)
				default:
				}
				require.NoError(t, h.release(ctx))
				require.NoError(t, <-granted)
				require.NoError(t, w.release(ctx))
			})
		}
	}
}

// awaitQueue returns when one holds the lock and that number of waiters waits.
func (u *upgrade) awaitQueue(t *testing.T, lock string, waiters int) {
	t.Helper()
	c := u.goClient(t, "looks", nil)
	require.Eventually(t, func() bool {
		r, err := inspect.Lock(t.Context(), c, "/locks/pay/"+lock)
		return err == nil && len(r.Holders) == 1 && len(r.Waiters) == waiters
	}, hostile.Patience, pollEvery)
}

// waitThrough keeps the mutex in use while the tree is changed: the former version holds it, and this one waits. Then they swap.
func (u *upgrade) waitThrough(t *testing.T, change func()) {
	ctx := hostile.Within(t, hostile.Patience)
	holder, first := u.enter(t, u.was, "mutex", "ledger"), u.enter(t, u.is, "mutex", "ledger")
	require.NoError(t, holder.acquire(ctx))
	isGranted := u.request(ctx, first)
	u.awaitQueue(t, "ledger", 1)
	change()
	u.awaitQueue(t, "ledger", 1)
	require.NoError(t, holder.release(ctx))
	require.NoError(t, <-isGranted)
	wasGranted := u.request(ctx, holder)
	u.awaitQueue(t, "ledger", 1)
	require.NoError(t, first.release(ctx))
	require.NoError(t, <-wasGranted)
	require.NoError(t, holder.release(ctx))
}

// nothingAt checks that programs of both versions are told that no lock is there.
func (u *upgrade) nothingAt(t *testing.T, lock string) {
	ctx := hostile.Within(t, hostile.Patience)
	for _, v := range []version{u.was, u.is} {
		require.ErrorContains(t, u.enter(t, v, "mutex", lock).acquire(ctx), "/locks/pay/"+lock+" does not exist", v.name)
	}
}

// Semaphores and queues became namespaces, idle locks were left out, and locks that had been taken over vanished with their programs. Two
// commands take over the estate of a Java and of a Python program while both run. Afterwards each lock is there, of its kind, held by its
// holder. It stays when the programs have ended and the server has deleted the empty containers. Nodes that are no locks are named, and
// untouched.
func TestAnEstateIsTakenOverWhileItsProgramsRun(t *testing.T) {
	effort.Proof(t, effort.Unraced)
	t.Run("and applied again when they have ended", func(t *testing.T) { takeOver(t, true) })
	t.Run("and applied again when the containers have gone", func(t *testing.T) { takeOver(t, false) })
}

// estateLock is a lock of an estate: who holds it while it is taken over, how many wait, and what it is.
type estateLock struct {
	path          string
	kind          *kind.Kind
	in            func(*realLab) *peer
	holds, waits  []string // recipe and options; nil: no program does
	idle, leftOut bool     // idle: -kind says what it is; leftOut: both libraries cannot share it
}

func estateLocks() []estateLock {
	s2, s1 := []string{"semaphore", "2", "2"}, []string{"semaphore", "2", "1"}
	one := func(recipe string) []string { return []string{recipe} }
	return []estateLock{
		{path: "java/mutex-idle", kind: kind.Mutex, in: java, holds: one("mutex"), idle: true},
		{path: "java/mutex-held", kind: kind.Mutex, in: java, holds: one("mutex")},
		{path: "java/mutex-queued", kind: kind.Mutex, in: java, holds: one("mutex"), waits: one("mutex")},
		{path: "java/rw-idle", kind: kind.RWLock, in: java, holds: one("write"), idle: true},
		{path: "java/rw-held", kind: kind.RWLock, in: java, holds: one("read")},
		{path: "java/rw-queued", kind: kind.RWLock, in: java, holds: one("write"), waits: one("read")},
		{path: "java/semaphore-idle", kind: kind.Semaphore, in: java, holds: s2, idle: true},
		{path: "java/semaphore-held", kind: kind.Semaphore, in: java, holds: s2},
		{path: "java/semaphore-queued", kind: kind.Semaphore, in: java, holds: s2, waits: s1},
		{path: "java/election-idle", kind: kind.Election, in: java, holds: one("latch"), idle: true},
		{path: "java/election-held", kind: kind.Election, in: java, holds: one("latch")},
		{path: "java/election-queued", kind: kind.Election, in: java, holds: one("latch"), waits: one("latch")},
		{path: "py/mutex-idle", kind: kind.Mutex, in: python, holds: one("lock"), idle: true},
		{path: "py/mutex-held", kind: kind.Mutex, in: python, holds: one("lock")},
		{path: "py/mutex-queued", kind: kind.Mutex, in: python, holds: one("lock"), waits: one("lock")},
		{path: "py/rw-idle", kind: kind.RWLock, in: python, holds: one("write"), idle: true},
		{path: "py/rw-held", kind: kind.RWLock, in: python, holds: one("read")},
		{path: "py/rw-queued", kind: kind.RWLock, in: python, holds: one("read"), waits: one("write")},
		{path: "py/semaphore-idle", kind: kind.Semaphore, in: python, holds: []string{"semaphore", "3"}, idle: true},
		{path: "py/semaphore-held", in: python, holds: []string{"semaphore", "3"}, leftOut: true},
		{path: "py/election-idle", kind: kind.Mutex, in: python, holds: one("election"), idle: true}, // a mutex: -kind may say so
		{path: "py/election-held", kind: kind.Mutex, in: python, holds: one("election")},             // its candidates have the names of a mutex
		{path: "py/election-queued", kind: kind.Mutex, in: python, holds: one("election"), waits: one("election")},
	}
}

// alone are locks that programs used before the take-over, and left alone until the server had deleted their empty nodes.
var alone = []estateLock{
	{path: "java/semaphore-alone", kind: kind.Semaphore, in: java, holds: []string{"semaphore", "2", "2"}},
	{path: "java/mutex-gone", in: java, holds: []string{"mutex"}, idle: true},
	{path: "java/semaphore-gone", in: java, holds: []string{"semaphore", "2", "2"}, idle: true},
}

// estate is an ensemble that deletes empty containers when the test says so.
type estate struct {
	*upgrade
	interval string // the file with the server's option
	command  version
}

func newEstate(t *testing.T) *estate {
	dir := t.TempDir()
	e := &estate{interval: filepath.Join(t.TempDir(), "options"), command: version{name: "now", command: filepath.Join(dir, "locktree")}}
	e.every(t, 24*time.Hour)
	e.upgrade = &upgrade{realLab: bareLab(t, "@"+e.interval), dir: dir}
	e.startPeers(t)
	goBuild(t, "../../..", e.command.command, "./cmd/locktree")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "base.locktree.hcl"), fmt.Appendf(nil, "locktree { stack = \"shop\" }\nensemble \"main\" {\n  servers = [%q]\n  root = \"/estate\"\n}\n", e.zk.Addr), 0o600))
	return e
}

// every sets how often the server looks for empty containers, from its next start.
func (e *estate) every(t *testing.T, interval time.Duration) {
	require.NoError(t, os.WriteFile(e.interval, fmt.Appendf(nil, "-Dzookeeper.forceSync=no -Dznode.container.checkIntervalMs=%d\n", interval.Milliseconds()), 0o600))
}

// reap lets the server delete all empty containers, and then stop that. The programs keep their sessions.
func (e *estate) reap(t *testing.T, programs ...*peer) {
	e.restart(t, time.Second)
	for range 2 { // a later pass deletes the second: by then, the pass that deleted the first has looked at all containers
		_, err := e.admin.CreateContainer("/reaped", nil, 4, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		e.create(t, "/reaped/child", nil)
		require.NoError(t, e.admin.Delete("/reaped/child", -1))
		require.Eventually(t, func() bool {
			there, _, err := e.admin.Exists("/reaped")
			return err == nil && !there
		}, hostile.Patience, 20*time.Millisecond)
	}
	e.restart(t, 24*time.Hour)
	for _, p := range programs {
		require.Eventually(t, func() bool { return strings.Contains(e.zk.Word("cons"), "sid="+p.session+",") }, hostile.Patience, 20*time.Millisecond, "%s is not connected again", p.name)
	}
}

// restart closes the administrator's client first: it may connect to the server that is ending, and then wait 400 s for an answer.
func (e *estate) restart(t *testing.T, interval time.Duration) {
	e.every(t, interval)
	e.admin.Close()
	e.zk.Restart()
	e.connect(t)
}

func (e *estate) use(t *testing.T, ctx context.Context, locks ...estateLock) {
	for _, l := range locks {
		h := foreign("", l.in, l.holds[0], l.holds[1:]...).enter(t, e.realLab, "/estate/"+l.path)
		require.NoError(t, h.acquire(ctx), l.path)
		if l.idle {
			require.NoError(t, h.release(ctx), l.path)
		}
		if l.waits != nil {
			e.request(ctx, foreign("", l.in, l.waits[0], l.waits[1:]...).enter(t, e.realLab, "/estate/"+l.path))
		}
	}
}

// want returns what look must say of a lock.
func (e *estate) want(l estateLock) string {
	text := l.path + " " + l.kind.Name
	if !l.idle {
		text += " held by " + l.in(e.realLab).session
	}
	if l.waits != nil {
		text += ", 1 waits"
	}
	return text
}

// look describes the locks that a scan finds.
func (e *estate) look(t *testing.T) (found []string) {
	snap, err := scan.Look(t.Context(), e.readOnly(t), scan.Options{Prefix: "/estate"})
	require.NoError(t, err)
	require.Empty(t, snap.Unread)
	for _, in := range snap.Locks {
		if in.Path == "/estate/py/semaphore-held" { // it stays kazoo's
			continue
		}
		text := strings.TrimPrefix(in.Path, "/estate/") + " " + in.Kind.Name
		if len(in.Holders) > 0 {
			text += fmt.Sprintf(" held by 0x%x", in.Holders[0].Session)
		}
		if len(in.Waiters) > 0 {
			text += fmt.Sprintf(", %d waits", len(in.Waiters))
		}
		if in.Payload != nil {
			text += ", declared"
		}
		found = append(found, text)
	}
	return found
}

// tree describes the nodes at and below a path, with all that the server knows of them.
func (e *estate) tree(t *testing.T, path string) (nodes []string) {
	data, stat, err := e.admin.Get(path)
	require.NoError(t, err)
	acl, _, err := e.admin.GetACL(path)
	require.NoError(t, err)
	nodes = append(nodes, fmt.Sprintf("%s %q %+v %+v", path, data, *stat, acl))
	children, _, err := e.admin.Children(path)
	require.NoError(t, err)
	for _, name := range children {
		nodes = append(nodes, e.tree(t, path+"/"+name)...)
	}
	return nodes
}

func takeOver(t *testing.T, applyFirst bool) {
	ctx := hostile.Within(t, hostile.Patience)
	e := newEstate(t)
	e.use(t, ctx, alone...)
	e.reap(t, e.java, e.python)
	for _, p := range []*peer{e.java, e.python} { // these create nodes after their answer, too
		_, err := p.call(ctx, "others", map[bool]string{true: "/estate/java/others", false: "/estate/py/others"}[p == e.java])
		require.NoError(t, err)
	}
	e.use(t, ctx, estateLocks()...)
	var before, declared, after, kinds []string
	for _, l := range append(estateLocks(), alone[0]) {
		switch {
		case l.leftOut:
			continue
		case l.idle:
			kinds = append(kinds, "-kind=/estate/"+l.path+"="+l.kind.Name)
		default:
			before = append(before, e.want(l))
		}
		declared = append(declared, e.want(l)+", declared")
		after = append(after, l.path+" "+l.kind.Name+", declared")
	}
	running := func() []string { // the locks that programs hold, and nothing declares
		return slices.DeleteFunc(e.look(t), func(line string) bool { return !strings.Contains(line, " held by ") })
	}
	require.EventuallyWithT(t, func(c *assert.CollectT) { require.ElementsMatch(c, before, running()) }, hostile.Patience, 50*time.Millisecond)
	others := append(e.tree(t, "/estate/java/others"), e.tree(t, "/estate/py/others")...)
	heldByKazoo := e.tree(t, "/estate/py/semaphore-held")

	said := e.run(t, e.command, 0, append([]string{"import", "-from=/estate", "-generate=found.locktree.hcl"}, kinds...)...)
	for _, name := range []string{"java/others/queue", "java/others/priority", "java/others/ids", "java/others/simple", "java/others/group", "java/others/barrier", "java/others/count",
		"java/others/atomic", "java/others/services/web", "java/others/double", "py/others/queue", "py/others/locking", "py/others/party", "py/others/shallow",
		"py/others/counter", "py/others/double", "py/semaphore-held"} {
		require.Regexp(t, `(?m)^/estate/`+name+` +left out: `, said)
	}
	require.Regexp(t, `(?m)^/estate/py/others/barrier +unknown: `, said)
	e.run(t, e.command, 0, "apply", "-auto-approve", "-overwrite-data") // kazoo's idle semaphore has data
	require.ElementsMatch(t, declared, e.look(t))
	require.Equal(t, others, append(e.tree(t, "/estate/java/others"), e.tree(t, "/estate/py/others")...))
	require.Equal(t, heldByKazoo, e.tree(t, "/estate/py/semaphore-held"))

	e.java.quit(t)
	e.python.quit(t)
	if !applyFirst {
		e.reap(t)
		require.NotContains(t, e.look(t), "java/mutex-held mutex, declared")
	}
	e.run(t, e.command, 0, "apply", "-auto-approve", "-overwrite-data")
	e.reap(t)
	require.ElementsMatch(t, after, e.look(t))
	require.NotContains(t, e.run(t, e.command, 0, "plan", "-detailed-exitcode"), "container")
}

// After their empty node was deleted, Curator creates it again, a kazoo object that was used before fails, and a new one works. A scan
// knows since when the nodes have been empty.
func TestProgramsAfterTheirEmptyNodeWasDeleted(t *testing.T) {
	l := newLab(t)
	ctx := hostile.Within(t, hostile.Patience)
	curator, kazoo := foreign("curator", java, "mutex"), foreign("kazoo", python, "lock")
	l.create(t, "/left", nil)
	inJava, inPython := curator.enter(t, l, "/left/java"), kazoo.enter(t, l, "/left/python")
	use := func(e *entry) {
		require.NoError(t, e.acquire(ctx))
		require.NoError(t, e.release(ctx))
	}
	use(inJava)
	use(inPython)
	l.provision(t, kind.Mutex.New()) // a later transaction, but of a node that is not looked at
	left := l.empty(ctx, t)
	require.Len(t, left, 2)
	require.NotZero(t, left[0].Before, "python's node was made later than Java's was left")
	require.Zero(t, left[1].Before)
	l.create(t, "/left/later", nil)
	left = l.empty(ctx, t)
	require.Len(t, left, 2)
	for _, e := range left {
		require.WithinDuration(t, time.Now(), e.Before, hostile.Patience, e.Path)
	}

	admin, err := l.goClient(t, "admin", nil).Session(ctx)
	require.NoError(t, err)
	held := kazoo.enter(t, l, "/left/python")
	require.NoError(t, held.acquire(ctx))
	require.ErrorIs(t, admin.Delete(ctx, "/left/python", -1), zk.ErrNotEmpty)
	require.Len(t, l.empty(ctx, t), 1)
	require.NoError(t, held.release(ctx))
	for _, e := range l.empty(ctx, t) {
		require.NoError(t, admin.Delete(ctx, e.Path, -1))
	}
	require.Empty(t, l.empty(ctx, t))

	use(inJava)
	require.ErrorContains(t, inPython.acquire(ctx), "NoNodeError")
	use(kazoo.enter(t, l, "/left/python"))
	use(inPython)
}

// empty returns the nodes below /left that a scan finds empty.
func (l *realLab) empty(ctx context.Context, t *testing.T) []scan.Empty {
	t.Helper()
	c := l.readOnly(t)
	snap, err := scan.Look(ctx, c, scan.Options{Prefix: "/left"})
	require.NoError(t, err)
	return snap.Empty
}
