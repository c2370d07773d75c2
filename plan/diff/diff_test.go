package diff_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/diff"
	"github.com/locktree/locktree/plan/document"
	"github.com/locktree/locktree/plan/record"
	"github.com/locktree/locktree/plan/saved"
	"github.com/locktree/locktree/plan/tx"
	"github.com/locktree/locktree/recipes/kind"
)

func base() *plan.Tree {
	return declared(
		declare("/locks/pay", kind.Namespace),
		declare("/locks/pay/ledger", kind.Mutex),
		declare("/locks/pay/pool", kind.Semaphore, set("permits", 3)),
		declare("/locks/solo", kind.Election),
	)
}

// unlent is base with a namespace in which only we create nodes.
func unlent() *plan.Tree {
	tree := base()
	tree.Nodes[0].ACL = []kind.ACL{admin}
	return tree
}

func TestStructuralChildrenBelongToTheirLock(t *testing.T) {
	m := applied(t, base())
	require.NotNil(t, m.nodes["/locks/pay/pool/leases"])
	require.NotNil(t, m.nodes["/locks/pay/pool/locks"])
	delete(m.nodes, "/locks/pay/pool/leases")
	p := replan(t, m, base())
	require.Equal(t, []string{"~ /locks/pay/pool"}, actions(p))
	require.Equal(t, []string{"leases"}, p.Changes[2].MissingParts)
	before := m.nodes["/locks/pay/pool"].version
	m.apply(t, p)
	require.NotNil(t, m.nodes["/locks/pay/pool/leases"])
	require.Equal(t, before, m.nodes["/locks/pay/pool"].version, "the lock's own data did not change")
	require.False(t, replan(t, m, base()).HasChanges())
}

func TestALockOnAnotherEnsembleIsStillInTheConfiguration(t *testing.T) {
	lock := declare("/locks/a", kind.Mutex)
	here := declared()
	here.Intent.Elsewhere = []*plan.Tree{declared(lock)}
	p := replan(t, applied(t, declared(lock)), here)
	require.Equal(t, "because its ensemble is another one", p.Changes[0].ReasonText())
}

func TestUpdateKeepsFieldsOfNewerVersions(t *testing.T) {
	m := applied(t, base())
	n := m.nodes["/locks/pay/pool"]
	var doc map[string]any
	require.NoError(t, json.Unmarshal(n.data, &doc))
	doc["future"] = "kept"
	doc["spec"].(map[string]any)["burst"] = 7
	n.data, _ = json.Marshal(doc)
	require.Empty(t, actions(replan(t, m, base())), "what we do not know is no difference")
	tree := base()
	set("permits", 8)(tree.Nodes[2])
	index := m.nodes[record.IndexPath(testRoot, testStack)]
	index.data = bytes.Replace(index.data, []byte("{"), []byte(`{"future":true,`), 1)
	m.apply(t, replan(t, m, tree))
	require.Contains(t, string(index.data), `"future":true`)
	require.NoError(t, json.Unmarshal(m.nodes["/locks/pay/pool"].data, &doc))
	require.Equal(t, "kept", doc["future"])
	require.EqualValues(t, 7, doc["spec"].(map[string]any)["burst"])
}

func TestAccessListsAreSetAfterTheTransactionLeavesFirst(t *testing.T) {
	m := applied(t, base())
	tree := base()
	for _, n := range tree.Nodes {
		n.ACL = kind.List{admin}
	}
	p := replan(t, m, tree)
	require.Equal(t, plan.Counts{Change: 4}, p.Summary())
	var paths []string
	for _, s := range p.ACLSteps() {
		paths = append(paths, s.Path)
	}
	require.Equal(t, []string{"/locks/solo", "/locks/pay/pool/locks", "/locks/pay/pool/leases", "/locks/pay/pool", "/locks/pay/ledger", "/locks/pay"}, paths)
	ops, err := operations(p, "0123456789abcdef", nil)
	require.NoError(t, err)
	require.Len(t, ops, 5, "four marks and the record")
	require.Equal(t, tx.OpSet, ops[0].Kind)

	// The apply is interrupted before it sets the first list. The journal notes that, and the next plan finishes.
	require.NoError(t, m.multi(ops))
	p = replan(t, m, tree)
	require.Equal(t, "0123456789abcdef", p.Resumes)
	require.Len(t, p.ACLSteps(), 6)
	m.apply(t, p)
	require.False(t, replan(t, m, tree).HasChanges())
}

// A destroy forgets one lock on the way. It belongs to no stack then, so no record stays.
func TestDestroyThatLetsALockGoLeavesNoIndex(t *testing.T) {
	m := applied(t, base())
	rest := base()
	rest.Nodes[3] = declare("/locks/never", kind.Mutex)
	rest.Intent = plan.Intent{Removals: []plan.Removal{{From: "namespace.x.election.locks_solo"}}}
	p := diff.Compare(m.read(t, testRoot, testStack), rest, plan.Options{Destroy: true, Identities: us})
	require.Equal(t, plan.Counts{Destroy: 3, Forget: 1}, p.Summary())
	require.False(t, slices.ContainsFunc(p.Pins, func(pin plan.Pin) bool { return pin.Path == "/locks/never" }), "what is not there is nothing to destroy")
	m.apply(t, p)
	require.Nil(t, m.nodes[record.IndexPath(testRoot, testStack)])
	require.NotNil(t, m.nodes["/locks/solo"])
	require.False(t, diff.Compare(m.read(t, testRoot, testStack), rest, plan.Options{Identities: us, Destroy: true}).HasChanges())
}

func TestDiffLeavesItsArgumentsAlone(t *testing.T) {
	m := applied(t, base())
	current, desired := m.read(t, testRoot, testStack), base()
	set("permits", 9)(desired.Nodes[2])
	all := func() string {
		var text bytes.Buffer
		q := &saved.Question{Ensembles: []diff.Ensemble{{Current: current, Desired: desired}}}
		require.NoError(t, q.Encode(&text, "", nil))
		return text.String()
	}
	before := all()
	p := diff.Compare(current, desired, plan.Options{Identities: us})
	require.True(t, p.HasChanges())
	require.Equal(t, before, all())
	require.Zero(t, desired.Nodes[2].Payload.Gen)
	require.EqualValues(t, 2, p.Changes[2].After.Payload.Gen, "counts the writes")
}

// The JSON left out the changes, without an error.
func TestTheJSONOfAPlanIsComplete(t *testing.T) {
	p := diff.Compare(nil, base(), plan.Options{Identities: us})
	for _, v := range []any{p, *p} {
		_, err := json.Marshal(v)
		require.ErrorContains(t, err, "document.Of makes the JSON of a plan")
	}
	doc := document.Of("", nil, p)
	require.Len(t, doc.ResourceChanges, len(p.Changes))
	for i, c := range doc.ResourceChanges {
		require.Equal(t, p.Changes[i].Path, c.Change.After["path"])
		require.Equal(t, []string{"create"}, c.Change.Actions)
	}
	require.Equal(t, "/locks", doc.Ensembles[0].Root)
	require.True(t, doc.Applyable)
}

// richPlan has a change of every sort.
func richPlan(t testing.TB) *plan.Plan {
	m := applied(t, base())
	tree := declared(
		declare("/locks/new", kind.RWLock),
		declare("/locks/pay", kind.Namespace, acl(admin)),
		declare("/locks/pay/ledger", kind.Mutex, set("wire", "kazoo")),
		declare("/locks/pay/pool", kind.Semaphore, set("permits", 5), acl(admin)),
	)
	tree.Intent.Outputs = []plan.Output{{Name: "o", Type: json.RawMessage(`"string"`), Value: json.RawMessage(`"v"`)}, {Name: "s", Sensitive: true, Value: json.RawMessage(`"hunter2"`)}}
	current := held(m.read(t, testRoot, testStack), "/locks/pay/pool", 2, 1)
	return diff.Compare(current, tree, plan.Options{Identities: us})
}

func TestNothingPrintedShowsADigest(t *testing.T) {
	p := richPlan(t)
	doc, err := json.Marshal(document.Of("", nil, p))
	require.NoError(t, err)
	printed := string(doc) + p.String()
	for i := range p.Changes {
		c := &p.Changes[i]
		one, err := json.Marshal(c)
		require.NoError(t, err)
		printed += string(one) + c.String() + fmt.Sprintf("%+v %v", c.Before, c.After)
	}
	require.Contains(t, printed, "digest:worker:cdr")
	for _, secret := range []string{"AAAA", "BBBB", "hunter2"} {
		require.NotContains(t, printed, secret)
	}
}
