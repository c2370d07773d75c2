package apply_test

import (
	"bytes"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/diff"
	"github.com/locktree/locktree/plan/saved"
	"github.com/locktree/locktree/recipes/kind"
)

// What BenchmarkScale measures in seconds and MiB follows from these numbers, which
// are the same on every machine.

// A plan costs a read of each node and a fixed number for the rest: the access lists of nodes that nobody has touched are not read,
// except those of the last transaction, which the next apply names. An apply costs as many transactions as the plan says, and a
// check of each node.
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
		require.LessOrEqual(t, counts.ByOp["multi"], res.Transactions+2, "%v", counts.ByOp) // the apply lock, the scaffold
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

// bytesPerLock is what a plan may keep for each lock that stays as it is: the node as
// it was read, the change that is none, and the pin. Measured
// are 853 bytes; it was 2,680 with a copy of each text and access list for everybody
// who mentions it, and with the payloads' emptied maps.
const bytesPerLock = 920

// bytesPerChange is what a saved plan may take, once it is read, for each semaphore that
// gets another limit: the node before and after, the change, the pins of the node and of
// its two children. Measured are 1,798 bytes; it was 3,800 with the access lists of three
// entries that each of the four nodes and two payloads had for itself. 180 of them are room for
// max_hold, max_wait, owner and runbook in the parameters before and after.
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

// heap is what is in use.
func heap() int64 {
	runtime.GC()
	runtime.GC() // what the first one finalises
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// The configuration's own tree and the server live before and after, so that they
// are in neither number.
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
	p := diff.Compare(current, tree, plan.Options{Identities: plan.Identities(c.Identities())})
	after := heap()
	require.False(t, p.HasChanges())
	t.Logf("bytes a lock: %d read, %d with the plan", (read-before)/locks, (after-before)/locks)
	require.Less(t, (after-before)/locks, int64(bytesPerLock), "bytes a lock")
	runtime.KeepAlive(current)
	runtime.KeepAlive(tree)
}
