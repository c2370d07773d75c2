package apply_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/apply/event"
	"github.com/locktree/locktree/apply/internal/wire"
	"github.com/locktree/locktree/apply/read"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/record"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
	"github.com/locktree/locktree/recipes/zktest/effort"
)

// scene is an apply that is about to begin, and what must hold when it stopped
// anywhere.
type scene struct {
	tree    *plan.Tree // to be applied
	options plan.Options
	fails   bool // the apply is refused when nothing strikes
	// begun is called when the apply begins to drain.
	begun func()
	// stopped asserts what must hold of those who use the locks. It then makes them
	// leave, so that the next apply finds the locks idle.
	stopped func(crashed bool)
	// next is what the next apply is asked for; nil is tree.
	next *plan.Tree
	// again are the options of the next apply.
	again plan.Options
	// finished asserts what must hold when the next apply is done.
	finished func()
}

// scenes are the applies beside the rich one: each is struck at every write.
var scenes = map[string]struct {
	stage  func(*testing.T, *site, *recipes.Client) scene
	writes int // at least, lock and unlock included
	reads  int // the longest request the server reads, in bytes; 0 is ZooKeeper's default
}{
	"drain":                                 {drainScene(false), 8, 0},
	"drain, then declared again":            {drainScene(true), 8, 0},
	"drain that takes too long":             {reopenScene, 5, 0},
	"contenders broken by force":            {forceScene, 5, 0},
	"rights granted to ourselves first":     {widenScene, 8, 0},
	"cut by what the servers read":          {cutScene, 6, 100_000},
	"paths changed of a namespace's locks":  {pathScene, 3, 0},
	"record written anew":                   {lostScene, 4, 0},
	"all destroyed, without a record":       {recordlessScene, 3, 0},
	"imports, some made anew":               {importScene, 5, 0},
	"keys in use get another access list":   {relistScene, 8, 0},
	"family replaced that a crash littered": {litteredScene, 6, 0},
}

func TestCrashAtEveryWriteOfEveryKindOfApply(t *testing.T) {
	effort.Proof(t)
	i := 0
	for name, c := range scenes {
		atEveryWrite(t, name, &i, c.writes, effort.Of(1, 19), func(t *testing.T, k int, fault zktest.Fault, dies bool) (struck bool) {
			synctest.Test(t, func(t *testing.T) {
				s := inMemory(t)
				if c.reads > 0 {
					s = inMemory(t, zktest.WithMaxFrame(c.reads))
				}
				c0 := s.provisioner()
				struck = s.strike(c0, c.stage(t, s, c0), k, fault, dies)
			})
			return struck
		})
	}
}

// atEveryWrite calls strike for each write of an apply in each of the four ways in which it can end or lose its answer, until
// strike says that there was none; every stride-th of them, from another one on in each way: i counts the ways.
func atEveryWrite(t *testing.T, name string, i *int, least, stride int, strike func(t *testing.T, k int, fault zktest.Fault, dies bool) (struck bool)) {
	for _, way := range []struct {
		name  string
		fault zktest.Fault
		dies  bool
	}{
		{"dies before", zktest.CutBefore, true},
		{"dies after", zktest.DropReply, true},
		{"lives, reply lost", zktest.DropReply, false},
		{"lives, cut before the write", zktest.CutBefore, false},
	} {
		points := 0
		*i++
		stride := min(stride, least) // one of them at least
		for k := 1 + *i%stride; ; k += stride {
			struck := false
			t.Run(fmt.Sprintf("%s, %s, write %d", name, way.name, k), func(t *testing.T) { struck = strike(t, k, way.fault, way.dies) })
			if !struck {
				break
			}
			points++
		}
		require.GreaterOrEqual(t, points*stride+stride-1, max(least, stride), "%s: the writes were not all met", name)
	}
}

// strike hits the k-th write of an apply, and applies again; false when it has
// fewer writes.
func (s *site) strike(c *recipes.Client, sc scene, k int, fault zktest.Fault, dies bool) bool {
	t := s.t
	p := s.plan(c, sc.tree, sc.options)
	require.True(t, p.Applyable(), "%s", p)
	hit, err := s.runStruck(p, k, fault, dies, sc.begun)
	cut := hit && dies
	switch {
	case cut: // nobody is left to be told, or what is told is that
	case sc.fails:
		require.Error(t, err)
	default:
		require.NoError(t, err)
	}
	s.sound(c, sc.tree)
	if sc.stopped != nil {
		sc.stopped(cut)
	}
	next := sc.tree
	if sc.next != nil {
		next = sc.next
	}
	s.converges(c, next, sc.again)
	if sc.finished != nil {
		sc.finished()
	}
	return hit
}

// runStruck runs a plan as a program of its own, whose k-th write is struck.
func (s *site) runStruck(p *plan.Plan, k int, fault zktest.Fault, dies bool, begun func()) (hit bool, err error) {
	return s.runAsStruck(s.provisioner(), p, k, fault, dies, begun)
}

func (s *site) runAsStruck(victim *recipes.Client, p *plan.Plan, k int, fault zktest.Fault, dies bool, begun func()) (hit bool, err error) {
	id := s.session(victim).ID()
	n := 0
	in := s.server.Inject(func(r zktest.Request) bool {
		if r.Session == id && writes(r.Op) {
			n++
			return n == k
		}
		return false
	}, fault)
	ctx, kill := context.WithCancel(s.t.Context())
	defer kill()
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		select {
		case <-in.Hit():
			if dies {
				s.server.Expire(id) // the process is gone, and with it its session
				s.server.RefuseDials(true)
				kill()
				_ = victim.Close()
				s.server.RefuseDials(false)
			}
		case <-ctx.Done():
		}
	}()
	x := executor(victim)
	x.Events = func(e event.Event) {
		if _, ok := e.(event.Draining); ok && begun != nil {
			begun()
			begun = nil
		}
	}
	_, err = x.Run(ctx, p)
	kill()
	<-closed
	in.Remove()
	return in.Hits() > 0, err
}

// sound asserts that nothing half-made can be used: what is active is whole, and
// stands at one path only.
func (s *site) sound(c *recipes.Client, tree *plan.Tree) {
	s.t.Helper()
	live, err := read.Tree(s.t.Context(), s.session(c), tree)
	require.NoError(s.t, err)
	at := map[string]string{}
	for _, n := range live.Nodes {
		if n.Payload == nil || n.Payload.Owner.Stack != stack {
			continue // still somebody else's
		}
		require.False(s.t, slices.ContainsFunc(n.Live.Parts, func(p plan.Part) bool { return p.Absent }), n.Path)
		require.Empty(s.t, at[string(n.Addr)], "%s is usable at %s, too", n.Addr, n.Path)
		at[string(n.Addr)] = n.Path
	}
}

// converges applies once, after which nothing is left to do and every lock can be
// taken by a program that has never seen it.
func (s *site) converges(c *recipes.Client, tree *plan.Tree, opts plan.Options) {
	s.t.Helper()
	p := s.plan(c, tree, opts)
	require.True(s.t, p.Applyable(), "%s", p)
	if p.HasChanges() {
		_, err := executor(c).Run(s.t.Context(), p)
		require.NoError(s.t, err)
	}
	again := s.plan(c, tree)
	require.False(s.t, again.HasChanges(), "%s", again)
	require.Empty(s.t, again.Resumes, "the journal of access lists is done")
	require.Empty(s.t, again.Drifted, "the record agrees with the nodes")
	for _, q := range again.Problems { // of the lock that was imported while it was in use
		require.Equal(s.t, plan.ProblemContainer, q.Code, q.Detail)
	}
	program := s.dial("provisioner:secret")
	for _, n := range tree.Nodes {
		if n.Kind() != kind.Mutex {
			continue
		}
		lease, err := program.Mutex(n.Path).TryLock(s.t.Context())
		require.NoError(s.t, err, n.Path)
		require.NoError(s.t, lease.Unlock(s.t.Context()))
		if len(tree.Nodes) > 50 {
			return
		}
	}
	require.NoError(s.t, program.Close())
}

// users holds two locks of the shop: one goes in the scenes below, one is replaced.
func users(t *testing.T, s *site) (ledger, pool *recipes.Lease) {
	program := s.dial("provisioner:secret")
	ledger, err := program.Mutex(s.root + "/pay/ledger").Lock(t.Context())
	require.NoError(t, err)
	pool, err = program.Semaphore(s.root+"/pay/pool").Acquire(t.Context(), 2)
	require.NoError(t, err)
	return ledger, pool
}

// drainScene: two locks in use go, one for good. Nobody who holds one is disturbed,
// and whatever was left draining is finished, or opened when it is declared again.
func drainScene(declaredAgain bool) func(*testing.T, *site, *recipes.Client) scene {
	return func(t *testing.T, s *site, c *recipes.Client) scene {
		s.apply(c, s.shop())
		ledger, pool := users(t, s)
		left := make(chan struct{})
		leave := func() {
			defer close(left)
			for _, l := range []*recipes.Lease{ledger, pool} {
				if l.Context().Err() != nil {
					t.Error("a holder was disturbed")
				}
				if err := l.Unlock(t.Context()); err != nil {
					t.Error(err)
				}
			}
		}
		begun := false
		sc := scene{
			tree: s.shopWithout(), options: plan.Options{Drain: time.Minute, Replace: []string{"pay.pool.semaphore"}},
			begun: func() {
				begun = true
				go func() {
					time.Sleep(5 * time.Second) // fake time: as long as they work
					leave()
				}()
			},
			stopped: func(bool) {
				if !begun {
					go leave()
				}
				<-left
				s.tellsOfDraining(c, s.shopWithout())
			},
		}
		if declaredAgain {
			sc.next = s.shop()
		}
		return sc
	}
}

// tellsOfDraining asserts that a plan says what it does about a lock that was left
// draining, and does not take it for somebody's doing.
func (s *site) tellsOfDraining(c *recipes.Client, tree *plan.Tree) {
	p := s.plan(c, tree)
	require.Empty(s.t, p.Drifted)
	told := map[string]bool{}
	for _, q := range p.Problems {
		told[q.Path] = told[q.Path] || q.Code == plan.ProblemDraining
	}
	for i := range p.Changes {
		if ch := &p.Changes[i]; ch.Before != nil && ch.Before.Payload.State == kind.StateDraining {
			require.Equal(s.t, !ch.Revive || ch.Action == plan.Replace, told[ch.Path], "%s", p)
		}
	}
}

// reopenScene: the holder stays, so the lock is opened again, or by the next apply.
func reopenScene(t *testing.T, s *site, c *recipes.Client) scene {
	s.apply(c, s.shop())
	ledger, pool := users(t, s)
	return scene{
		tree: s.shopWithout(), options: plan.Options{Drain: 2 * time.Second}, fails: true, next: s.shop(),
		stopped: func(crashed bool) {
			require.NoError(t, ledger.Verify(t.Context()), "the holder was disturbed")
			again := s.plan(c, s.shop())
			if again.HasChanges() {
				require.True(t, crashed, "who lives opens the lock again")
				require.True(t, again.Changes[3].Revive, "%s", again)
			}
			s.tellsOfDraining(c, s.shop())
			s.tellsOfDraining(c, s.shopWithout())
			s.apply(c, s.shop()) // with the holder in it
			require.NoError(t, ledger.Verify(t.Context()))
			require.NoError(t, ledger.Unlock(t.Context()))
			require.NoError(t, pool.Unlock(t.Context()))
		},
	}
}

// forceScene: the holders lose their locks with the transaction or not at all.
func forceScene(t *testing.T, s *site, c *recipes.Client) scene {
	s.apply(c, s.shop())
	ledger, pool := users(t, s)
	leader, err := s.dial("provisioner:secret").Election(s.root + "/solo").Campaign(t.Context())
	require.NoError(t, err)
	force := plan.Options{ForceBreak: []string{"pay.ledger.mutex", "pay.pool.semaphore"}, Replace: []string{"pay.pool.semaphore"}}
	again := force
	again.Replace = nil
	return scene{
		tree: s.shopWithout(), options: force, again: again,
		stopped: func(bool) {
			_, there := s.server.Get(s.root + "/pay/ledger")
			for _, l := range []*recipes.Lease{ledger, pool} {
				if there {
					require.NoError(t, l.Verify(t.Context()), "broken, but not applied")
				} else {
					require.ErrorIs(t, l.Verify(t.Context()), recipes.ErrLost)
				}
			}
			require.NoError(t, leader.Verify(t.Context()), "nobody named this one")
		},
	}
}

// widenScene: we have ADMIN and nothing else on nodes that are to change.
func widenScene(t *testing.T, s *site, c *recipes.Client) scene {
	s.apply(c, s.shop())
	weak := kind.List{{Scheme: "digest", ID: admin.ID, Perms: kind.PermAdmin | kind.PermRead}}
	for _, path := range []string{"/pay", "/pay/ledger"} {
		_, err := s.session(c).SetACL(t.Context(), s.root+path, wire.ToZK(weak), -1)
		require.NoError(t, err)
	}
	return scene{tree: s.tree(append(s.shopNodes(set("description", "new")), declare("/pay/another", kind.Mutex))...)}
}

// lostScene: the record is damaged, while much changes.
func lostScene(t *testing.T, s *site, c *recipes.Client) scene {
	s.apply(c, s.tree(longNames(0, 110)...))
	require.NoError(t, s.server.Set(record.IndexPath(s.root, stack), []byte("x")))
	sc := scene{tree: s.tree(longNames(60, 320)...)}
	require.Greater(t, len(s.plan(c, sc.tree).Batches), 1)
	return sc
}

// pathScene: a namespace and everything in it gets another path.
func pathScene(t *testing.T, s *site, c *recipes.Client) scene {
	s.apply(c, s.shop())
	nodes := s.shopNodes()
	for _, n := range nodes {
		n.Path = strings.Replace(n.Path, "/pay", "/billing", 1)
	}
	return scene{tree: s.tree(nodes...)}
}

// importScene takes over what other programs made: idle locks are made anew,
// because they may be containers, one in use is taken as it is.
func importScene(t *testing.T, s *site, c *recipes.Client) scene {
	s.apply(c, s.tree(declare("/pay", kind.Namespace)))
	session := s.session(c)
	for _, path := range []string{"/idle", "/pool", "/pool/locks", "/pool/leases", "/busy", "/text"} {
		data := ""
		if path == "/text" {
			data = "10.0.0.1"
		}
		_, err := session.Create(t.Context(), s.root+path, []byte(data), 0, wire.ToZK(kind.WorldAll()))
		require.NoError(t, err)
	}
	foreign := s.dial("")
	name := s.root + "/busy/_c_01234567-89ab-cdef-0123-456789abcdef-lock-"
	at, err := s.session(foreign).Create(t.Context(), name, nil, zk.FlagEphemeral|zk.FlagSequence, wire.ToZK(kind.WorldAll()))
	require.NoError(t, err)
	tree := s.tree(declare("/pay", kind.Namespace), declare("/idle", kind.Mutex), declare("/pool", kind.Semaphore, set("permits", 2)),
		declare("/busy", kind.Mutex), declare("/text", kind.RWLock))
	for to, path := range map[string]string{
		"idle.mutex": "/idle", "pool.semaphore": "/pool", "busy.mutex": "/busy", "text.rwlock": "/text",
	} {
		tree.Intent.Imports = append(tree.Intent.Imports, plan.Import{To: plan.Addr(to), Path: s.root + path})
	}
	return scene{tree: tree, options: plan.Options{OverwriteData: true}, again: plan.Options{OverwriteData: true}, stopped: func(bool) {
		_, there := s.server.Get(at)
		require.True(t, there, "the foreign holder was harmed")
		require.NoError(t, foreign.Close())
	}}
}
