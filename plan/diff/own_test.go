package diff_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/diff"
	"github.com/locktree/locktree/plan/problem"
	"github.com/locktree/locktree/plan/record"
	"github.com/locktree/locktree/plan/tx"
	"github.com/locktree/locktree/recipes/kind"
)

func entry(user string, perms kind.Perm) kind.ACL {
	return kind.ACL{Scheme: "digest", ID: user + ":" + strings.Repeat(user[:1], 27) + "=", Perms: perms}
}

var (
	oldAdmin, newAdmin = entry("old", kind.PermAll), entry("new", kind.PermAll)
	looker             = entry("ci", kind.PermRead)
)

func administered(a *plan.Access, nodes ...*plan.Node) *plan.Tree {
	t := declared(nodes...)
	t.Intent.Access = a
	return t
}

func problemsOf(p *plan.Plan, code problem.Code) (out []string) {
	for _, q := range coded(p, code) {
		out = append(out, fmt.Sprintf("%s: %s: %s", q.Severity, q.Summary, q.Detail))
	}
	return out
}

// The declared administrators will apply. So a plan judges the lists for them, and not for the user who plans.
func TestAdministratorsAreNotLockedOut(t *testing.T) {
	for name, c := range map[string]struct {
		list   kind.List
		admins kind.List
		says   string // "" for nothing
	}{
		"both may":                   {kind.List{oldAdmin, newAdmin, looker}, kind.List{oldAdmin, newAdmin}, ""},
		"one of them may":            {kind.List{oldAdmin, looker}, kind.List{oldAdmin, newAdmin}, "digest:new cannot manage 1 node that only digest:old can manage: namespace.x.mutex.locks_a."},
		"none of them may":           {kind.List{oldAdmin, looker}, kind.List{newAdmin}, `gives no administrator (digest:new) "rwa" on /locks/a, which depends on digest:old now.`},
		"the rights of two":          {kind.List{entry("old", kind.PermRead|kind.PermWrite), entry("new", kind.PermAdmin), looker}, kind.List{oldAdmin, newAdmin}, "gives no administrator (digest:old, digest:new)"},
		"an address may be theirs":   {kind.List{{Scheme: "ip", ID: "10.0.0.1", Perms: kind.PermAll}}, kind.List{newAdmin}, "warning: Apply may lock the administrators out"},
		"an address is declared":     {kind.List{{Scheme: "ip", ID: "10.0.0.1", Perms: kind.PermAll}}, kind.List{{Scheme: "ip", ID: "10.0.0.1", Perms: kind.PermAll}}, ""},
		"the reader may not read":    {kind.List{oldAdmin}, kind.List{oldAdmin}, "digest:ci cannot read 1 node though it is declared to read them: namespace.x.mutex.locks_a."},
		"everybody may read":         {kind.List{oldAdmin, {Scheme: "world", ID: "anyone", Perms: kind.PermRead}}, kind.List{oldAdmin}, ""},
		"the order of names differs": {kind.List{{Scheme: "x509", ID: "OU=ops,CN=sre", Perms: kind.PermAll}}, kind.List{{Scheme: "x509", ID: "CN=sre,OU=ops", Perms: kind.PermAll}}, `write "CN=sre,OU=ops"`},
	} {
		t.Run(name, func(t *testing.T) {
			m := applied(t, declared(declare("/locks/a", kind.Mutex, acl(oldAdmin), func(n *plan.Node) { n.AllowLockout = true })))
			a := &plan.Access{Admins: c.admins, Readers: kind.List{looker}}
			p := diff.Compare(m.read(t, testRoot, testStack), administered(a, declare("/locks/a", kind.Mutex, acl(c.list...))), plan.Options{Identities: us})
			got := strings.Join(append(problemsOf(p, problem.LockOut), problemsOf(p, problem.Access)...), "\n")
			if c.says == "" {
				require.Empty(t, got)
				return
			}
			require.Contains(t, got, c.says)
		})
	}
}

// framed returns the tree that a read would find, with one list on all of the tool's own nodes.
func framed(m *model, t testing.TB, list ...kind.ACL) *plan.Tree {
	current := m.read(t, testRoot, testStack)
	index, lock := record.IndexPath(testRoot, testStack), record.LockPath(testRoot, testStack)
	for _, path := range []string{testRoot, record.ScaffoldPath(testRoot), kind.ParentPath(index), index, kind.ParentPath(lock), lock} {
		current.Frame = append(current.Frame, plan.Framed{Path: path, ACL: list, Pin: plan.Pin{Path: path, Addr: "ensemble.", Czxid: 5}})
	}
	current.Contenders = list
	return current
}

// Servers show a reader no hashes. The lists that it sees may be as declared, and a list that it cannot know is not written.
func TestAReaderPlansWithWhatItIsShown(t *testing.T) {
	hidden := func(user string, p kind.Perm) kind.ACL { return kind.ACL{Scheme: "digest", ID: user + ":x", Perms: p} }
	m := applied(t, base())
	desired := base()
	desired.Intent.Access = &plan.Access{Admins: kind.List{admin}, Readers: kind.List{looker}}
	user, _, _ := strings.Cut(admin.ID, ":")
	asShown := framed(m, t, hidden(user, kind.PermAll), hidden("ci", kind.PermRead))
	asShown.Index.Access = desired.Intent.Access.List()
	p := diff.Compare(asShown, desired, plan.Options{Identities: us})
	require.Empty(t, p.Access)
	require.False(t, p.HasChanges())

	// Another program's root has an entry that must stay. A reader does not know its hash, so it cannot write the entry again.
	current := framed(m, t, hidden(user, kind.PermAll), hidden("ci", kind.PermRead))
	current.Index.Access = desired.Intent.Access.List()
	current.Frame[0].Pin.Czxid = 4
	current.Frame[0].ACL = kind.List{hidden("sre", kind.PermAll), hidden(user, kind.PermAll)}
	p = diff.Compare(current, desired, plan.Options{Identities: us})
	require.Empty(t, p.Access)
	require.Contains(t, strings.Join(problemsOf(p, problem.Access), "\n"), "warning: Access list cannot be planned: The access list of /locks may differ from digest:provisioner:cdrwa, digest:sre:cdrwa: ZooKeeper hides")
}

// An apply needs two credentials. Without one of them, it would fail at the first list.
func TestAnApplyThatNeedsTwoCredentialsIsTold(t *testing.T) {
	m := applied(t, base())
	desired := base()
	desired.Intent.Access = &plan.Access{Admins: kind.List{admin}}
	says := func(who ...kind.ACL) string {
		p := diff.Compare(framed(m, t, oldAdmin), desired, plan.Options{Identities: who})
		return strings.Join(problemsOf(p, problem.Access), "\n")
	}
	old, mine := kind.ACL{Scheme: "digest", ID: oldAdmin.ID}, kind.ACL{Scheme: "digest", ID: admin.ID}
	require.Contains(t, says(old), "6 access lists of the tool's own nodes (/locks first) can be set only by digest:old, which is not a declared administrator")
	require.Contains(t, says(mine), "only by digest:old,")
	require.Empty(t, says(old, mine))
	super := kind.ACL{Scheme: "digest", ID: "super:" + strings.Repeat("s", 27) + "="}
	require.Empty(t, says(super, mine), "the superuser of the servers needs nobody's rights")
	require.Contains(t, says(super), "can be set only by digest:old")

	closed := oldAdmin
	closed.Perms = kind.PermRead
	p := diff.Compare(framed(m, t, closed), desired, plan.Options{Identities: kind.List{mine}})
	require.Contains(t, strings.Join(problemsOf(p, problem.Access), "\n"), "6 access lists of the tool's own nodes (/locks first) grant ADMIN to no identity, so only a superuser of the servers can set them")
}

// A user whose password is replaced has two identities with one name.
func TestWhichDigestOfAUserIsTold(t *testing.T) {
	next := oldAdmin
	next.ID = "old:" + strings.Repeat("p", 27) + "="
	m := applied(t, base())
	at := func(admins kind.List, list ...kind.ACL) string {
		p := diff.Compare(framed(m, t, oldAdmin), administered(&plan.Access{Admins: admins}, declare("/locks/a", kind.Mutex, acl(list...))), plan.Options{Identities: us})
		return strings.Join(append(problemsOf(p, problem.Access), problemsOf(p, problem.Open)...), "\n")
	}
	require.Contains(t, at(kind.List{oldAdmin, next}, oldAdmin), "digest:old (another digest of that user) cannot manage 1 node that only digest:old can manage")
	require.Contains(t, at(kind.List{next}, next), "can be set only by digest:old (another digest of that user), which is not a declared administrator")
}

func TestTheIndexKeepsWhatIsDeclared(t *testing.T) {
	x := &record.Record{Apply: "a", Access: kind.List{admin}}
	data, err := x.Encode()
	require.NoError(t, err)
	y, err := record.Decode(data)
	require.NoError(t, err)
	require.Equal(t, x.Access, y.Access)

	m := applied(t, base())
	desired := base()
	desired.Intent.Access = &plan.Access{Admins: kind.List{admin}}
	p := diff.Compare(framed(m, t, admin), desired, plan.Options{Identities: us})
	require.Empty(t, p.Access)
	require.True(t, p.NotesAccess() && p.HasChanges(), "a later plan goes by it")
	next, err := nextRecord(p, "0123456789abcdef")
	require.NoError(t, err)
	require.Equal(t, kind.List{admin}, next.Access)

	// While lists are to be set, the record has the earlier set and the one that takes its place.
	current := framed(m, t, oldAdmin, admin)
	current.Index.Access = kind.List{oldAdmin, admin}
	p = diff.Compare(current, desired, plan.Options{Identities: us})
	next, err = nextRecord(p, "0123456789abcdef")
	require.NoError(t, err)
	require.Equal(t, kind.List{oldAdmin, admin}.Normalize(), next.Access)
	require.Equal(t, kind.List{admin}, next.Next)
	settled := tx.Settled(p, next)
	require.Equal(t, kind.List{admin}, settled.Access)
	require.Nil(t, settled.Next)

	// If an apply ended in between, the next one goes on or back, whichever of the two sets the root has by now.
	for _, there := range []kind.List{{oldAdmin}, {oldAdmin, admin}, {admin}} {
		for _, to := range []kind.List{{oldAdmin}, {admin}} {
			current := framed(m, t, there...)
			current.Index.Access, current.Index.Next = kind.List{oldAdmin}, kind.List{admin}
			desired := base()
			desired.Intent.Access = &plan.Access{Admins: to}
			p := diff.Compare(current, desired, plan.Options{Identities: us})
			require.Equal(t, to, p.Set.Admins, "%v -> %v", there, to)
		}
	}

	// A plan that leaves the lists alone leaves the noted set alone. So does a plan that does not declare them.
	for _, opts := range []plan.Options{{Targets: []string{"namespace.x.namespace.locks_pay"}}, {Destroy: true}} {
		p = diff.Compare(current, desired, opts)
		require.Empty(t, p.Access)
		set := tx.Settled(p, &record.Record{}).Access
		require.Equal(t, current.Index.Access, set)
	}
	set := tx.Settled(diff.Compare(current, base(), plan.Options{Identities: us}), &record.Record{}).Access
	require.Equal(t, current.Index.Access, set)
}

// mask hides the hashes of digests, as servers do for readers without ADMIN on a node.
func mask(list kind.List) kind.List {
	out := slices.Clone(list)
	for i, a := range out {
		if user, _, ok := strings.Cut(a.ID, ":"); ok && a.Scheme == "digest" {
			out[i].ID = user + ":x"
		}
	}
	return out
}

// masked returns a model with its lists as servers show them to a reader.
func masked(t *testing.T, tree *plan.Tree) *model {
	m := applied(t, tree)
	for _, n := range m.nodes {
		n.acl = mask(n.acl)
	}
	return m
}

// uncompared returns the problems that say that passwords were not compared.
func uncompared(p *plan.Plan) (out []plan.Problem) {
	for _, q := range p.Problems {
		if q.Summary == "Passwords were not compared" {
			out = append(out, q)
		}
	}
	return out
}

func TestMaskedListsAreComparedBySchemeAndName(t *testing.T) {
	alone := kind.List{admin}
	another, more, stranger := worker, worker, worker
	another.ID = "worker:CCCCCCCCCCCCCCCCCCCCCCCCCCC="
	more.Perms |= kind.PermWrite
	stranger.ID = "stranger:BBBBBBBBBBBBBBBBBBBBBBBBBBB="
	sasl := kind.ACL{Scheme: "sasl", ID: "worker", Perms: worker.Perms}
	for name, c := range map[string]struct {
		to      kind.List
		changes bool
	}{
		"the same":                    {kind.List{worker, admin}, false},
		"another password":            {kind.List{admin, another}, false},
		"other permissions":           {kind.List{admin, more}, true},
		"another name":                {kind.List{admin, stranger}, true},
		"one entry fewer":             {alone, true},
		"one entry more":              {kind.List{admin, worker, stranger}, true},
		"a second password":           {kind.List{admin, worker, another}, true},
		"the name in another scheme":  {kind.List{admin, sasl}, true},
		"an entry without a password": {kind.List{admin, worker, sasl}, true},
	} {
		t.Run(name, func(t *testing.T) {
			tree := base()
			tree.Nodes[3].ACL = kind.List{admin, worker}
			m := masked(t, tree)
			tree.Nodes[3].ACL = c.to
			p := replan(t, m, tree)
			require.Equal(t, c.changes, slices.Contains(actions(p), "~ /locks/solo"), "%s", actions(p))
			require.Empty(t, p.Drifted)
			require.Len(t, uncompared(p), 1)
		})
	}
}

// The plan says it once for all identities, and only if an administrator would see more.
func TestAPlanSaysOnceForWhomPasswordsWereNotCompared(t *testing.T) {
	require.Empty(t, uncompared(replan(t, applied(t, base()), base())), "an administrator is shown all hashes")
	m := masked(t, base())
	p := replan(t, m, base())
	said := uncompared(p)
	require.Len(t, said, 1)
	require.Equal(t, problem.Warning, said[0].Severity)
	require.Contains(t, said[0].Detail, "hides the password hashes of digest:provisioner, digest:worker from this connection")
	require.Contains(t, said[0].Detail, "compared these entries by scheme and name")
	require.NotContains(t, said[0].Detail, "AAAA")
	require.Empty(t, uncompared(diff.Compare(m.read(t, testRoot, testStack), base(), plan.Options{Destroy: true, Identities: us})), "a destroy compares nothing")
}

// A reader is not shown a node's list, but its data. So a change of the data by hand is still drift.
func TestAReaderSeesThatDataWasChangedByHand(t *testing.T) {
	m := masked(t, base())
	pool := payloadAt(t, m, "/locks/pay/pool")
	tree := base()
	set("permits", 9)(tree.Nodes[2])
	pool.Params = tree.Nodes[2].Payload.Params
	data, err := pool.Encode()
	require.NoError(t, err)
	m.nodes["/locks/pay/pool"].data = data
	p := replan(t, m, base())
	require.Equal(t, []string{"~ /locks/pay/pool"}, actions(p))
	require.Len(t, p.Drifted, 1)
	require.Equal(t, "/locks/pay/pool", p.Drifted[0].Path)
	require.True(t, p.Changes[2].Drift)
}
