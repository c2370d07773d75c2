package apply_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/apply/event"
	"github.com/locktree/locktree/apply/failure"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/diff"
	"github.com/locktree/locktree/plan/record"
	"github.com/locktree/locktree/plan/saved"
	"github.com/locktree/locktree/plan/tx"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
)

// bulk declares n mutexes in namespaces of 500. If the parameter lines is positive, each declaration is long: its list for contenders
// then has an id of more than 70*lines characters.
func bulk(n, lines int, text string) []*plan.Node {
	var nodes []*plan.Node
	for i := range n {
		ns := fmt.Sprintf("/bulk-%03d", i/500)
		if i%500 == 0 {
			nodes = append(nodes, declare(ns, kind.Namespace))
		}
		m := declare(fmt.Sprintf("%s/lock-%05d", ns, i), kind.Mutex, set("description", text))
		if lines > 0 {
			// One long id is enough: many entries would only slow the test.
			id := text + ":" + strings.Repeat(strings.Repeat("A", 69)+"=", lines)
			m.Payload.ChildACL = append(m.Payload.ChildACL, kind.ACL{Scheme: "digest", ID: id, Perms: kind.PermRead})
		}
		nodes = append(nodes, m)
	}
	return nodes
}

func TestLargePlanIsAppliedInBatchesOfTheStatedSize(t *testing.T) { batched(t, inMemory(t)) }

func batched(t *testing.T, s *site) {
	c := s.provisioner()
	tree := s.tree(bulk(3000, 0, "x")...)
	p := s.plan(c, tree)
	require.Greater(t, len(p.Batches), 1)
	var sizes []plan.Stats
	x := executor(c, on(func(e event.Committed) {
		sizes = append(sizes, plan.Stats{Ops: e.Ops, Bytes: e.Bytes})
		require.LessOrEqual(t, e.Bytes, tx.MaxTransaction)
	}))
	res := s.succeeds(x, p)
	require.Len(t, sizes, len(p.Batches))
	for i, size := range sizes {
		require.Equal(t, p.Batches[i].Ops, size.Ops)
		require.InDelta(t, p.Batches[i].Bytes, size.Bytes, 100, "the access list of the record is the connection's")
	}
	require.Equal(t, len(sizes), res.Transactions)
	p = s.plan(c, tree)
	require.False(t, p.HasChanges(), "%s", p)

	// A change of one lock takes two operations: one for the lock and one for the record.
	one := s.tree(bulk(3000, 0, "x")...)
	set("description", "changed")(one.Nodes[1700])
	p = s.plan(c, one)
	require.Nil(t, p.Batches)
	require.Equal(t, 2, p.Transaction.Ops)
	require.Less(t, p.Transaction.Bytes, 2_000)
	s.apply(c, one)

	// Fewer and other locks are declared, and then destroyed: nothing is left.
	rest := s.tree(append(bulk(700, 0, "y"), declare("/solo", kind.Election))...)
	s.apply(c, rest)
	p = s.plan(c, rest)
	require.False(t, p.HasChanges(), "%s", p)
	require.NoError(t, s.destroy(c, rest))
	require.Equal(t, []string{".locktree"}, s.children(c, s.root))
	require.Nil(t, s.node(c, strings.TrimPrefix(record.IndexPath(s.root, stack), s.root)))
}

// wealth is the richest apply, in more than one transaction. It has creations, updates in place, deletions, a replacement, access lists of
// existing nodes, another path, a forgotten lock and an import.
func wealth(s *site) (before, after *plan.Tree) {
	before = s.tree(append(bulk(44, 280, "x"),
		declare("/pay", kind.Namespace), declare("/pay/ledger", kind.Mutex), declare("/pay/old", kind.Semaphore),
		declare("/pay/pool", kind.Semaphore, set("permits", 3)), declare("/solo", kind.Election), declare("/zone", kind.RWLock))...)
	solo := declare("/pay/boss", kind.Election)
	solo.Addr = "solo.election" // its path changes, its address stays
	solo.Payload.Owner.Addr = string(solo.Addr)
	after = s.tree(append(bulk(45, 280, "y"),
		declare("/pay", kind.Namespace, adminOnly), declare("/pay/ledger", kind.Mutex, set("wire", "kazoo")),
		declare("/pay/pool", kind.Semaphore, set("permits", 5), adminOnly), declare("/pay/tank", kind.Semaphore, set("permits", 2)),
		declare("/theirs", kind.Mutex), solo)...)
	after.Intent = plan.Intent{
		Removals: []plan.Removal{{From: "zone.rwlock"}},
		Imports:  []plan.Import{{To: "theirs.mutex", Path: s.root + "/theirs"}},
	}
	return before, after
}

// An interrupted apply finishes the transaction under way, and its error says what was done.
func TestInterruptBetweenBatchesSaysWhatIsLeft(t *testing.T) {
	s, c := provisioned(t)
	tree := s.tree(bulk(44, 280, "x")...)
	p := s.plan(c, tree)
	require.Len(t, p.Batches, 2)
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("interrupted")
	x := executor(c, on(func(event.Committed) { cancel(why) }))
	_, err := x.Run(ctx, p)
	e := errorAs[*failure.PartialError](t, err)
	require.ErrorIs(t, err, why)
	require.Equal(t, 1, e.Done)
	require.Equal(t, 2, e.Total)
	left := s.plan(c, tree)
	require.Len(t, left.Changes, 45)
	require.Less(t, left.Summary().Add, 44)
	require.NotZero(t, left.Summary().Add)
	s.apply(c, tree)
	require.False(t, s.plan(c, tree).HasChanges())
}

// everything runs the richest apply without a fault.
func everything(t *testing.T, s *site) {
	c := s.provisioner()
	before, after := wealth(s)
	s.apply(c, before)
	s.create(c, s.root+"/theirs", "", everybody...)
	s.apply(c, after)
	s.addresses(c, after)
	again := s.plan(c, after)
	require.False(t, again.HasChanges(), "%s", again)
	data, _, err := s.session(c).Get(t.Context(), s.root+"/zone")
	require.NoError(t, err)
	payload, err := kind.Decode(data)
	require.NoError(t, err)
	require.Empty(t, payload.Owner)
	require.Nil(t, s.node(c, "/solo"), "nothing stays at the path that changed")
	require.NoError(t, s.destroy(c, after))
	require.ElementsMatch(t, []string{".locktree", "zone"}, s.children(c, s.root), "what was forgotten stays")
}

// The servers' limit on the length of a request is lower than the default. If a request is longer, they close the connection without a
// reply. The apply halves the transaction until they accept it. Committed parts stay.
func TestTransactionTheServersDoNotReadIsHalved(t *testing.T) {
	for name, frame := range map[string]int{"one transaction": 250_000, "two": 500_000} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { halved(t, inMemory(t, zktest.WithMaxFrame(frame)), frame) })
		})
	}
}

func halved(t *testing.T, s *site, frame int) {
	c := s.provisioner()
	n := map[bool]int{true: 26, false: 44}[frame < 300_000]
	tree := s.tree(append(bulk(n, 280, "x"), declare("/zz", kind.Semaphore))...)
	p := s.plan(c, tree)
	require.Equal(t, n > 30, len(p.Batches) > 1)
	var ev events
	x := executor(c, ev.add)
	res := s.succeeds(x, p)
	require.Greater(t, res.Transactions, max(1, len(p.Batches)))
	started := map[string]int{}
	for _, e := range ev {
		switch e := e.(type) {
		case event.Committed:
			require.LessOrEqual(t, e.Bytes, frame)
			require.LessOrEqual(t, e.Batch, e.Batches)
		case event.Started:
			started[string(e.Addr)]++
		case event.Failed:
			t.Errorf("%s failed: %v", e.Addr, e.Err)
		}
	}
	require.Len(t, started, len(tree.Nodes))
	for addr, n := range started {
		require.Equal(t, 1, n, addr)
	}
	require.Equal(t, res.Transactions, find[event.Committed](ev).Batches)
	s.converges(c, tree, plan.Options{})
}

// One lock is longer than the servers accept, so nothing can be cut. The error names the setting of the servers. The locks before it in the
// plan are created.
func TestLockTheServersDoNotReadIsTooLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := provisioned(t, zktest.WithMaxFrame(60_000))
		long := declare("/long", kind.Mutex)
		long.Payload.ChildACL = append(long.Payload.ChildACL, kind.ACL{Scheme: "digest", ID: "x:" + strings.Repeat("A", 80_000), Perms: kind.PermRead})
		tree := s.tree(declare("/a", kind.Mutex), long, declare("/z", kind.Mutex))
		p := s.plan(c, tree)
		require.True(t, p.Applyable())
		var failed []event.Failed
		x := executor(c, on(func(e event.Failed) { failed = append(failed, e) }))
		_, err := x.Run(t.Context(), p)
		e := errorAs[*failure.TooLargeError](t, err)
		require.True(t, e.Refused)
		require.EqualValues(t, "long.mutex", e.Addr)
		require.ErrorContains(t, err, "jute.maxbuffer")
		partial := errorAs[*failure.PartialError](t, err)
		require.Equal(t, 1, partial.Done)
		require.Len(t, failed, 1)
		_, there := s.server.Get(s.root + "/a")
		require.True(t, there)
		require.Len(t, s.plan(c, s.tree(declare("/a", kind.Mutex))).Changes, 1, "nothing else is there")
	})
}

// The figures of BenchmarkScale, in seconds and MiB, follow from the counts below, which are the same on every machine.

// A plan reads the data and the access list of each node once, and sends a fixed number of requests besides. An apply sends as many
// transactions as the plan says, and checks each node.
func TestAPlanAsksForEachNodeOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const locks, fixed = 2500, 60 // fixed: root, record, apply lock, namespaces' children
		s, c := provisioned(t)
		tree := s.tree(bulk(locks, 0, "x")...)
		nodes := len(tree.Nodes)

		s.server.ResetCounts()
		p := s.plan(c, tree)
		require.Less(t, s.server.Counts().Total, fixed, "what is not there is not asked for: %v", s.server.Counts().ByOp)

		s.server.ResetCounts()
		res := s.runs(c, p)
		counts := s.server.Counts()
		require.Equal(t, len(p.Batches), res.Transactions)
		require.Greater(t, res.Transactions, 1)
		require.LessOrEqual(t, counts.ByOp["multi"], res.Transactions+2, "%v", counts.ByOp) // two more: the apply lock, the scaffold
		require.LessOrEqual(t, counts.Total, 2*nodes+fixed+2*res.Transactions, "read back once: %v", counts.ByOp)

		s.server.ResetCounts()
		p = s.plan(c, tree)
		require.False(t, p.HasChanges())
		counts = s.server.Counts()
		require.LessOrEqual(t, counts.ByOp["getData"], nodes+fixed, "%v", counts.ByOp)
		require.LessOrEqual(t, counts.ByOp["getACL"], nodes+fixed, "%v", counts.ByOp)
		require.LessOrEqual(t, counts.Total, 2*nodes+2*fixed, "%v", counts.ByOp)
		require.Zero(t, counts.ByOp["multi"])

		for i := range 25 { // one in a hundred
			set("description", "changed")(tree.Nodes[100*i+50])
		}
		p = s.plan(c, tree)
		require.Equal(t, plan.Counts{Change: 25}, p.Summary())
		require.LessOrEqual(t, p.Transaction.Ops, 25+1, "each change, the record")
		s.runs(c, p)

		s.server.ResetCounts()
		require.False(t, s.plan(c, tree).HasChanges())
		counts = s.server.Counts()
		require.LessOrEqual(t, counts.ByOp["getACL"], nodes+fixed, "%v", counts.ByOp)
		require.LessOrEqual(t, counts.Total, 2*nodes+2*fixed, "%v", counts.ByOp)
	})
}

// bytesPerLock limits the memory that a plan keeps for each unchanged lock: the node as read, the change without an action, and the pin.
// The measured value is 853 bytes. It was 2,680 when each mention of a text or access list had its own copy, and payloads kept their
// emptied maps.
const bytesPerLock = 920

// bytesPerChange limits the memory of a saved plan, once read, for each semaphore that gets another limit. It covers the node before and
// after, the change, and the pins of the node and its two children. The measured value is 1,798 bytes. It was 3,800 when each of the four
// nodes and two payloads had its own access lists of three entries. 180 bytes of the limit are room for max_hold, max_wait, owner and
// runbook in the parameters before and after.
const bytesPerChange = 1980

func TestASavedPlanKeepsAnAccessListOnce(t *testing.T) {
	const locks = 2_000
	s, c := provisioned(t)
	tree := func(permits int) *plan.Tree {
		nodes := []*plan.Node{declare("/many", kind.Namespace)}
		for i := range locks {
			n := declare(fmt.Sprintf("/many/pool-%04d", i), kind.Semaphore, set("permits", permits))
			n.ACL = append(n.ACL, kind.ACL{Scheme: "ip", ID: "10.0.0.0/8", Perms: kind.PermRead})
			nodes = append(nodes, n)
		}
		return s.tree(nodes...)
	}
	s.apply(c, tree(3))
	s.plan(c, tree(7))
	data := s.saved(s.asked.Load().question)
	_, err := saved.Decode(bytes.NewReader(data), "test") // warms pools and buffers
	require.NoError(t, err)
	before := heap()
	file, err := saved.Decode(bytes.NewReader(data), "test")
	require.NoError(t, err)
	after := heap()
	require.Equal(t, plan.Counts{Change: locks}, file.Plans[0].Summary())
	t.Logf("bytes a change: %d in the file, %d in memory", len(data)/locks, (after-before)/locks)
	require.Less(t, (after-before)/locks, int64(bytesPerChange), "bytes a change")
	runtime.KeepAlive(file)
	runtime.KeepAlive(data)
}

// heap returns the bytes of the heap in use.
func heap() int64 {
	runtime.GC()
	runtime.GC() // frees what the first one finalised
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// The configuration's tree and the server exist before and after both measurements, so neither figure includes them.
func TestAPlanKeepsWhatIsDeclaredAndReadOnce(t *testing.T) {
	const locks = 5_000
	s, c := provisioned(t)
	tree := s.tree(bulk(locks, 0, "a description of some thirty letters")...)
	s.apply(c, tree)
	s.plan(c, tree) // warms pools and buffers
	s.asked.Store(nil)
	before := heap()
	current := s.read(c, tree)
	read := heap()
	p := diff.Compare(current, tree, plan.Options{Identities: c.Identities()})
	after := heap()
	require.False(t, p.HasChanges())
	t.Logf("bytes a lock: %d read, %d with the plan", (read-before)/locks, (after-before)/locks)
	require.Less(t, (after-before)/locks, int64(bytesPerLock), "bytes a lock")
	runtime.KeepAlive(current)
	runtime.KeepAlive(tree)
}
