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

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/apply/event"
	"github.com/locktree/locktree/apply/failure"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/problem"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
	"github.com/locktree/locktree/recipes/zktest/effort"
)

// The engine of faults. A scene is an apply that is about to begin, on a server of its own and in fake time. The engine runs each scene
// once for each fault and each write of its apply, strikes that write, and asserts every time:
//
//  1. The tree is sound: every active lock is whole, and no lock is gone or at two paths.
//  2. The scene's own condition holds, such as that a holder was not disturbed.
//  3. The next apply converges: it finishes, nothing is left to do, and every lock can be taken.
//  4. A program whose session ended writes nothing when its held write is released.
//  5. An apply that a person interrupts leaves no lock shut.
//
// A new way to apply is a row of the table scenes. A new way to fail is a row of the table faults.

// fault is what happens at one write of an apply.
type fault struct {
	name  string
	write zktest.Fault
	fate  fate
}

// fate is what happens to the program that sent the write.
type fate int

const (
	lives  fate = iota // and must find out what became of its write
	dies               // its session ends with it
	pauses             // its session ends, and its write is held until the next apply has finished
	sleeps             // like pauses, and its machine reaches no server meanwhile
	stops              // a person interrupts it
	meets              // another program applies before the servers see the write
)

var faults = []fault{
	{"connection cut before", zktest.CutBefore, lives},
	{"reply lost", zktest.DropReply, lives},
	{"dies before", zktest.CutBefore, dies},
	{"dies after", zktest.DropReply, dies},
	{"pauses before", zktest.Hold, pauses},
	{"pauses after", zktest.HoldReply, pauses},
	{"sleeps before", zktest.Hold, sleeps},
	{"sleeps after", zktest.HoldReply, sleeps},
	{"interrupted before", zktest.Hold, stops},
	{"meets another apply before", zktest.Hold, meets},
}

// scene is an apply that is about to begin, and what must hold after a strike at any write. A nil function asserts nothing.
type scene struct {
	by      []string // the credentials of the apply; nil is the provisioner's
	tree    *plan.Tree
	options plan.Options
	// draining is called when the apply begins to drain.
	draining func()
	// ends asserts how an apply ends whose program neither died nor paused; nil asserts that it succeeds.
	ends func(error)
	// struck asserts what must hold for the users of the locks. It then makes them leave, so that the next apply finds the locks idle. The
	// parameter stopped says that the apply did not come to its end.
	struck func(stopped bool)
	// next, again and nextBy are the tree, options and credentials of the next apply; nil is tree, and the provisioner.
	next   *plan.Tree
	again  plan.Options
	nextBy []string
	// overtaken is called if a lock came into use at the last moment of the next apply, which is then repeated; nil if none can.
	overtaken func()
	// finished asserts what must hold when the next apply is done.
	finished func()
	// told are the problems that a plan may still report then.
	told []problem.Code
}

func TestAnApplyStruckAtAnyWriteIsFinishedByTheNextOne(t *testing.T) {
	effort.Proof(t)
	if met := sweep(t, 1, effort.Of(1, 19)); !met.left {
		require.Positive(t, met.applied, "another apply was first")
		require.Positive(t, met.refused, "another apply came too late")
	}
}

func TestAnApplyStruckAtSomeWritesIsFinishedByTheNextOne(t *testing.T) {
	sweep(t, len(faults)/2, 37)
}

// sweep strikes some writes of each scene by some faults: every faultStride-th fault, at every writeStride-th write. The first fault and
// the first write change from scene to scene. go test -run finds one: 'AnyWrite/^drain,_dies_before_write_3$'.
func sweep(t *testing.T, faultStride, writeStride int) (all meetings) {
	for i, sc := range scenes {
		for j := i % faultStride; j < len(faults); j += faultStride {
			f, stride, met, left := faults[j], min(writeStride, sc.writes), 0, false
			for k := 1 + (i+j)%stride; k < 500; k += stride {
				ran, struck := false, false
				t.Run(fmt.Sprintf("%s, %s write %d", sc.name, f.name, k), func(t *testing.T) {
					ran = true
					synctest.Test(t, func(t *testing.T) {
						s := inMemory(t, sc.server...)
						s.seed = uint64(k)
						struck = s.strike(sc.stage(t, s, s.provisioner()), f, k, &all)
					})
				})
				if left = left || !ran; ran && !struck {
					break
				}
				met++
			}
			require.True(t, left || met*stride+stride-1 >= sc.writes, "%s, %s: %d writes were met", sc.name, f.name, met)
			all.left = all.left || left
		}
	}
	return all
}

// meetings count how the rivals of a sweep ended.
type meetings struct {
	applied, refused int  // refused includes those because of a lock in use
	left             bool // -run left some out
}

// everyone has the credentials that together can look at each node and take each lock.
var everyone = []string{oldKey, newKey, "worker:w"}

// strike runs the apply of a scene, strikes its k-th write, and runs what follows. It returns false if the apply has fewer writes.
func (s *site) strike(sc *scene, f fault, k int, met *meetings) bool {
	t, all := s.t, s.as(everyone...)
	if sc.by == nil {
		sc.by = []string{oldKey}
	}
	before := s.addresses(all, sc.tree)
	if sc.options.Destroy {
		before = nil
	}
	p := s.plan(s.as(sc.by...), sc.tree, sc.options)
	require.True(t, p.Applyable(), "%s", p)
	rival := &rival{}
	if f.fate == meets {
		rival = s.rival(sc)
	}
	v := s.begin(sc, p, f, k)
	struck := false
	select {
	case <-v.in.Hit():
		struck = true
		synctest.Wait() // until the fault has happened
	case <-v.done:
	}
	gone := struck && slices.Contains([]fate{dies, pauses, sleeps}, f.fate)
	switch {
	case gone:
		v.stop(f.fate)
	case struck && f.fate == meets:
		rival.run(met)
	case struck && f.fate == stops:
		v.kill()
		synctest.Wait()
	}
	if !gone {
		v.in.Release()
		<-v.done
		synctest.Wait() // until what an interrupt left under way has ended
	}
	switch {
	case gone: // no program is left to get an error
	case f.fate == stops && v.err != nil:
		if sc.ends == nil { // otherwise it may end by itself, too
			require.ErrorIs(t, v.err, context.Canceled)
		}
		s.open(all, sc.tree)
	case rival.applied:
		require.True(t, refused(v.err), "%v", v.err)
		require.False(t, s.plan(rival.client, rival.tree).HasChanges(), "the two were mixed")
	case sc.ends != nil:
		sc.ends(v.err)
	default:
		require.NoError(t, v.err)
		require.False(t, s.plan(s.as(sc.by...), sc.tree, sc.again).HasChanges(), "not all was applied")
	}

	s.sound(all, sc.tree, before)
	if sc.struck != nil {
		sc.struck(gone || f.fate == stops && v.err != nil)
	}
	next := sc.next
	if next == nil {
		next = sc.tree
	}
	c := s.as(sc.nextKeys()...)
	if sc.overtaken != nil {
		var used *failure.InUseError
		if _, err := executor(c).Run(t.Context(), s.plan(c, next, sc.again)); errors.As(err, &used) {
			sc.overtaken()
		} else {
			require.NoError(t, err)
		}
	}
	s.converges(c, next, sc.again, sc.told...)
	if sc.finished != nil {
		sc.finished()
	}
	s.takesEach(next)
	if gone && f.fate != dies {
		after := s.dump(all)
		v.off.Store(false)
		v.server.Heal(0)
		v.in.Release() // it runs on to its end
		<-v.done
		require.Equal(t, after, s.dump(all), "it wrote after another had finished: %v", v.err)
		require.False(t, s.plan(c, next).HasChanges())
	}
	return struck
}

func (sc *scene) nextKeys() []string {
	if sc.nextBy == nil {
		return []string{oldKey}
	}
	return sc.nextBy
}

// refused reports whether an apply was refused because another one came first.
func refused(err error) bool {
	var stale *failure.StaleError
	var locked *failure.LockedError
	return errors.As(err, &stale) || errors.As(err, &locked)
}

// rival is another program that applies the scene's next tree, by a plan that it made before.
type rival struct {
	*site
	client  *recipes.Client
	tree    *plan.Tree
	plan    *plan.Plan
	applied bool
}

func (s *site) rival(sc *scene) *rival {
	r := &rival{site: s, client: s.as(sc.nextKeys()...), tree: sc.next}
	if r.tree == nil {
		r.tree = sc.tree
	}
	r.plan = s.plan(r.client, r.tree, sc.again)
	return r
}

// run applies the plan. It may fail only because it comes too late, or because a lock is in use.
func (r *rival) run(met *meetings) {
	if !r.plan.Applyable() || !r.plan.HasChanges() {
		return
	}
	_, err := executor(r.client).Run(r.t.Context(), r.plan)
	var used *failure.InUseError
	if r.applied = err == nil; r.applied {
		met.applied++
		return
	}
	require.True(r.t, refused(err) || errors.As(err, &used), "%v", err)
	met.refused++
}

// victim is a program whose apply is struck.
type victim struct {
	*site
	client *recipes.Client
	id     int64
	in     *zktest.Injection
	off    atomic.Bool // its machine reaches no server
	kill   func()
	done   chan struct{} // the apply has ended, with err
	err    error
}

func (s *site) begin(sc *scene, p *plan.Plan, f fault, k int) *victim {
	v := &victim{site: s, done: make(chan struct{})}
	theirs := *s
	theirs.config.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
		if v.off.Load() {
			return nil, errors.New("the machine is off")
		}
		return s.config.Dialer(ctx, network, address)
	}
	v.client = theirs.as(sc.by...)
	v.id = s.session(v.client).ID()
	n := 0
	v.in = s.server.Inject(func(r zktest.Request) bool {
		if r.Session != v.id || !writes(r.Op) {
			return false
		}
		if n++; n == k && (f.fate == dies || f.fate == sleeps) {
			v.off.Store(true)
		}
		return n == k
	}, f.write)
	ctx, kill := context.WithCancel(s.t.Context())
	v.kill = kill
	x, begun := executor(v.client), false
	x.Events = func(e event.Event) {
		if _, ok := e.(event.Draining); ok && sc.draining != nil && !begun {
			begun = true
			sc.draining()
		}
	}
	go func() {
		defer close(v.done)
		_, v.err = x.Run(ctx, p)
		v.in.Remove()
	}()
	return v
}

// stop ends the program's session, and the program if it dies.
func (v *victim) stop(f fate) {
	if f == sleeps {
		v.server.Partition(v.id, zktest.Both)
	}
	v.server.Expire(v.id)
	if f == dies {
		v.kill()
		_ = v.client.Close()
		<-v.done
	}
}

func writes(op string) bool {
	return slices.Contains([]string{"create", "create2", "delete", "setData", "setACL", "multi"}, op)
}

// addresses returns the paths of this stack's nodes by address. It asserts that each node is whole, and each address at one path.
func (s *site) addresses(c *recipes.Client, tree *plan.Tree) map[plan.Addr]string {
	s.t.Helper()
	live := s.read(c, tree)
	at := map[plan.Addr]string{}
	for _, n := range live.Nodes {
		imported := slices.ContainsFunc(tree.Intent.Imports, func(i plan.Import) bool { return i.Path == n.Path })
		if n.Payload == nil || n.Payload.Owner.Stack != stack {
			require.True(s.t, imported, "%s is half made", n.Path)
			continue
		}
		require.False(s.t, slices.ContainsFunc(n.Live.Parts, func(p plan.Part) bool { return p.Absent }), "%s is not whole", n.Path)
		require.Empty(s.t, at[n.Addr], "%s is usable at %s, too", n.Addr, n.Path)
		at[n.Addr] = n.Path
	}
	return at
}

// sound asserts that no half-made node can be used, and that no declared lock that existed is gone.
func (s *site) sound(c *recipes.Client, tree *plan.Tree, before map[plan.Addr]string) {
	s.t.Helper()
	now := s.addresses(c, tree)
	for _, n := range tree.Nodes {
		if at := before[n.Addr]; at != "" {
			require.NotEmpty(s.t, now[n.Addr], "%s was at %s and is gone", n.Addr, at)
		}
	}
}

// open asserts that no lock is shut.
func (s *site) open(c *recipes.Client, tree *plan.Tree) {
	s.t.Helper()
	for _, n := range s.read(c, tree).Nodes {
		require.False(s.t, n.Payload != nil && n.Payload.State == kind.StateDraining, "%s is shut", n.Path)
	}
}

// converges applies once. It asserts that nothing is left to do then, and that a plan reports only the problems told.
func (s *site) converges(c *recipes.Client, tree *plan.Tree, opts plan.Options, told ...problem.Code) {
	s.t.Helper()
	p := s.plan(c, tree, opts)
	require.True(s.t, p.Applyable(), "%s", p)
	if p.HasChanges() {
		s.runs(c, p)
	}
	again := s.plan(c, tree)
	require.False(s.t, again.HasChanges(), "%s", again)
	require.Empty(s.t, again.Resumes, "the journal of access lists is done")
	require.Empty(s.t, again.Drifted, "the record agrees with the nodes")
	for _, q := range again.Problems {
		require.Contains(s.t, told, q.Code, q.Detail)
	}
}

// takesEach has a program that has never seen the locks take each lock of a small tree, and one lock of a large tree.
func (s *site) takesEach(tree *plan.Tree) {
	s.t.Helper()
	program, limit := s.as(everyone...), patience
	if s.server != nil { // in fake time: before the session of a dead contender would expire
		limit = time.Second
	}
	for _, n := range tree.Nodes {
		if n.Kind() == kind.Namespace {
			continue
		}
		ctx, cancel := context.WithTimeout(s.t.Context(), limit)
		take := opened(program, n.Kind(), n.Path)
		if n.Kind() == kind.Keyed && kind.Keyed.Key(n.Payload.Params).Kind() == kind.Semaphore {
			take = func(ctx context.Context) (*recipes.Lease, error) {
				return program.Keyed(n.Path).Semaphore("order-17").Acquire(ctx, 1)
			}
		}
		lease, err := take(ctx)
		cancel()
		require.NoError(s.t, err, n.Path)
		require.NoError(s.t, lease.Unlock(s.t.Context()))
		if len(tree.Nodes) > 50 {
			return
		}
	}
	require.NoError(s.t, program.Close())
}
