package apply_test

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/apply"
	"github.com/locktree/locktree/apply/checkup"
	"github.com/locktree/locktree/apply/failure"
	"github.com/locktree/locktree/apply/internal/wire"
	"github.com/locktree/locktree/apply/read"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/explain"
	"github.com/locktree/locktree/plan/problem"
	"github.com/locktree/locktree/plan/record"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/inspect"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
	"github.com/locktree/locktree/recipes/zktest/effort"
)

func TestForeignNodesInTheWayAreFoundAtEveryDepth(t *testing.T) {
	s, c := provisioned(t)
	require.NoError(t, s.server.Create("/locks/pay/ledger", []byte("theirs")))
	s.shut(c)
	p := s.plan(c, s.shop())
	var paths []string
	for _, q := range p.Problems {
		require.Equal(t, problem.Foreign, q.Code)
		paths = append(paths, q.Path)
	}
	require.Equal(t, []string{"/locks/pay", "/locks/pay/ledger"}, paths)
}

// shut takes away the rights that a root made by hand gives to everybody.
func (s *site) shut(c *recipes.Client) {
	s.setByHand(c, s.root, admin)
}

func TestForeignNeighboursAreNeitherReadNorListed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := provisioned(t)
		for i := range 50 {
			require.NoError(t, s.server.Create(fmt.Sprintf("/locks/kafka/brokers/%d", i), nil))
		}
		s.shut(c)
		s.apply(c, s.shop())
		s.server.ResetCounts()
		p := s.plan(c, s.shop())
		require.False(t, p.HasChanges())
		require.Empty(t, p.Problems)
		require.Less(t, s.server.Counts().Total, 40, "%v", s.server.Counts().ByOp)
	})
}

func TestUsageTellsHoldersWaitersAndJunk(t *testing.T) {
	s, c := shopped(t)
	w := s.dial("worker:w")
	lease := s.takes(w.Mutex("/locks/pay/ledger").Lock)
	granted := time.UnixMilli(1_800_000_000_000)
	contenders := map[string][]byte{
		"/locks/pay/ledger/_c_5f0c3a9e-0000-0000-0000-000000000000-lock-0000000007": []byte("java@host"),
		"/locks/pay/ledger/_c_5f0c3a9e-0000-0000-0000-000000000001-lock-0000000008": kind.Holder{ID: "later", Held: &granted}.Encode(),
		"/locks/pay/pool/leases/_c_1-lease-0000000000":                              []byte("\x00binary"),
	}
	for path, data := range contenders {
		require.NoError(t, s.server.Create(path, data))
	}
	require.NoError(t, s.server.Create("/locks/pay/ledger/README", nil))
	require.NoError(t, s.server.Create("/locks/pay/pool/junk", nil))

	live := s.read(c, s.shop())
	u := live.Find("/locks/pay/ledger").Live.Usage
	require.Len(t, u.Holders, 1)
	require.Equal(t, "worker", u.Holders[0].ID)
	require.Equal(t, lease.Token(), u.Holders[0].Token)
	require.Equal(t, s.session(w).ID(), u.Holders[0].Session)
	require.False(t, u.Holders[0].Since.IsZero())
	require.Zero(t, u.Holders[0].Held, "it did not wait")
	require.Len(t, u.Waiters, 2)
	require.Equal(t, "java@host", u.Waiters[0].ID)
	require.Equal(t, granted.UnixMilli(), u.Waiters[1].Held.UnixMilli(), "its place decides, and not what it says")
	require.Equal(t, []string{"README"}, u.Junk)
	u = live.Find("/locks/pay/pool").Live.Usage
	require.Equal(t, []string{"junk"}, u.Junk)
	require.Equal(t, "/locks/pay/pool/leases/_c_1-lease-0000000000", u.Holders[0].Path)
	require.Empty(t, u.Holders[0].ID, "unprintable")

	// Junk keeps a lock from being deleted, as a contender does.
	require.NoError(t, lease.Unlock(t.Context()))
	for path := range contenders {
		require.NoError(t, s.server.Delete(path))
	}
	s.wroteNothing(c, func() {
		used := errorAs[*failure.InUseError](t, s.destroy(c, s.shop()))
		require.ErrorContains(t, used, "foreign child junk")
		require.Equal(t, 1, used.Others)
	})
}

// The limit was lowered to 10 while 100 permits were held. They were reported as "32 held, 68 waiting". Only 32 contenders were read, and
// the place of the others does not tell under which limit they came.
func TestPermitsStayHeldWhenTheLimitIsLowered(t *testing.T) {
	for _, clients := range []int{1, 4} {
		s, c := provisioned(t)
		tree := s.shop()
		set("permits", 100)(tree.Nodes[4])
		s.apply(c, tree)
		for range clients {
			_, err := s.dial("worker:w").Semaphore("/locks/pay/pool").Acquire(t.Context(), 100/clients)
			require.NoError(t, err)
		}
		for _, limit := range []int{100, 10} {
			set("permits", limit)(tree.Nodes[4])
			s.apply(c, tree)
			live := s.read(c, tree)
			u := live.Find("/locks/pay/pool").Live.Usage
			require.Len(t, u.Holders, 100)
			require.Empty(t, u.Waiters)
			require.Len(t, kind.PerClient(u.Holders), clients)
			in, err := inspect.Lock(t.Context(), c, "/locks/pay/pool")
			require.NoError(t, err)
			require.Len(t, in.Holders, 100, "as inspect judges")
		}
	}
}

// Curator's clients do not say under which limit they came. A client without a place in the gate (the semaphore's node "locks") was granted
// its permit. Formerly, the last contender that is read seemed to have a permit, because its place in the gate was not read.
func TestForeignPermitsStayHeldWhenTheLimitIsLowered(t *testing.T) {
	s, c := provisioned(t)
	java, late, tree := s.dial(""), s.dial(""), s.shop()
	contender := func(c *recipes.Client, at string) {
		_, err := s.session(c).Create(t.Context(), "/locks/pay/pool/"+at, []byte("java"), zk.FlagEphemeral, wire.ToZK(everybody))
		require.NoError(t, err)
	}
	limit := func(permits int) {
		set("permits", permits)(tree.Nodes[4])
		s.apply(c, tree)
		for _, dir := range []string{"leases", "locks"} { // each apply closes them again
			s.setByHand(c, "/locks/pay/pool/"+dir, everybody...)
		}
	}
	judged := func(holders, waiters int) {
		t.Helper()
		u := s.read(c, tree).Find("/locks/pay/pool").Live.Usage
		require.Equal(t, []int{holders, waiters}, []int{len(u.Holders), len(u.Waiters)})
	}
	const many = read.MaxDescribed - 1
	limit(many)
	for i := range many {
		contender(java, fmt.Sprintf("leases/_c_a-lease-%010d", i))
	}
	limit(1)
	judged(many, 0)
	contender(late, "locks/_c_b-lock-0000000000")
	contender(late, "leases/_c_b-lease-0000000099")
	judged(many, 2)
	limit(many)
	judged(many, 2)
}

func TestUsageSaysHowManyPermitsAreHeldAndWaitedFor(t *testing.T) {
	s, c := shopped(t)
	lease, err := s.dial("worker:w").Semaphore("/locks/pay/pool").Acquire(t.Context(), 2)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, err := s.dial("worker:w").Semaphore("/locks/pay/pool").Acquire(ctx, 3)
		ended <- err
	}()
	usage := func() *kind.Usage { return s.read(c, s.shop()).Find("/locks/pay/pool").Live.Usage }
	require.Eventually(t, func() bool { return len(usage().Waiters) > 0 && len(usage().Holders) == 2 }, time.Minute, 10*time.Millisecond)
	require.Equal(t, []int{1, 1}, []int{usage().Holders[0].Permits, usage().Holders[1].Permits})
	require.Eventually(t, func() bool { return len(usage().Waiters) == 1 && usage().Waiters[0].Permits == 3 }, time.Minute, 10*time.Millisecond)
	cancel()
	require.Error(t, <-ended)
	require.NoError(t, lease.Unlock(t.Context()))
}

// Servers from 3.8.4 and 3.9.2 on tell a client nothing about a node that it may not read, not even that it exists. Every plan failed
// because of one such node anywhere in the root, whichever program owned it. The first apply failed because of one above the root.
func TestServersThatHideUnreadableNodesAreTakenAtTheirWord(t *testing.T) {
	s := inMemory(t)
	s.root = "/platform/locks"
	owner, c := s.dial("other:o"), s.provisioner()
	theirs := wire.ToZK(kind.List{{Scheme: "digest", ID: digest("other:o"), Perms: kind.PermAll}})
	hidden := []string{"/platform", "/platform/locks/kafka", "/platform/locks/solo"}
	for _, path := range []string{"/platform", "/platform/locks", "/platform/locks/kafka", "/platform/locks/solo"} {
		acl := theirs
		if path == "/platform/locks" {
			acl = append(wire.ToZK(kind.List{admin}), theirs...)
		}
		_, err := s.session(owner).Create(t.Context(), path, nil, 0, acl)
		require.NoError(t, err)
	}
	s.server.Inject(func(r zktest.Request) bool {
		return r.Op == "exists" && slices.Contains(hidden, r.Path)
	}, zktest.Fail(zktest.CodeNoAuth))

	p := s.plan(c, s.shop())
	require.Len(t, p.Problems, 1)
	require.Equal(t, problem.Unreadable, p.Problems[0].Code)
	require.Equal(t, "/platform/locks/solo", p.Problems[0].Path)

	others := plan.Options{Targets: []string{"pay"}}
	p = s.resaved(s.plan(c, s.shop(), others))
	s.runs(c, p)
	require.False(t, s.plan(c, s.shop(), others).HasChanges())
}

// At the path of a planned lock, another program created a node that those servers hide. The error was about a password that might be
// wrong.
func TestHiddenNodeMadeSinceThePlanIsAChange(t *testing.T) {
	s, c := provisioned(t)
	s.apply(c, s.tree(declare("/pay", kind.Namespace)))
	p := s.plan(c, s.shop())
	path := s.root + "/solo"
	require.NoError(t, s.server.Create(path, nil))
	s.server.Inject(func(r zktest.Request) bool { return r.Op == "exists" && r.Path == path }, zktest.Fail(zktest.CodeNoAuth))
	_, err := executor(c).Run(t.Context(), p)
	e := errorAs[*failure.StaleError](t, err)
	require.Len(t, e.Differences, 1)
	require.Equal(t, "solo.election ("+path+"): created", e.Differences[0].String())
}

// No plan mentioned an undeclared node of ours that an edit by hand had damaged, or that a newer version had written.
func TestUndeclaredNodeThatCannotBeUnderstoodIsNamed(t *testing.T) {
	owner := func(stack string) string { return `"owner":{"stack":"` + stack + `","addr":"pay.ledger.mutex"}` }
	for data, want := range map[string]struct {
		code  problem.Code
		whose string
	}{
		`{"locktree":99,` + owner(stack) + `}`:                             {problem.Newer, "It says that it is this stack's pay.ledger.mutex, but"},
		`{"locktree":1,"type":"gate",` + owner(stack) + `}`:                {problem.Newer, "It says that"},
		`{"locktree":1,"type":"mutex","gen":"x",` + owner(stack) + `}`:     {problem.Damaged, "It says that"},
		`{"locktree":1,"type":"mutex","state":"odd",` + owner(stack) + `}`: {problem.Newer, "It says that"},
		`{"locktree":1,"type":"mutex"`:                                     {problem.Damaged, "It may be this stack's, but"},
		`{"locktree":99,` + owner("other") + `}`:                           {},
		`{"locktree":99,` + owner("") + `}`:                                {},
		"readme":                                                           {},
	} {
		for _, lent := range []bool{false, true} {
			s := inMemory(t)
			c := s.as(oldKey)
			tree := s.administered(may([]string{oldKey}, nil))
			if lent {
				tree.Find(s.root + "/pay").ACL = append(tree.Find(s.root+"/pay").ACL, allOf("tenant:x"))
			}
			s.apply(c, tree)
			require.NoError(t, s.server.Set(s.root+"/pay/ledger", []byte(data)))
			s.sentences(s.plan(c, tree))
			tree.Nodes = slices.DeleteFunc(tree.Nodes, func(n *plan.Node) bool { return n.Path == s.root+"/pay/ledger" })
			p := s.resaved(s.plan(c, tree))
			require.False(t, p.HasChanges())
			s.sentences(p)
			said := slices.DeleteFunc(p.Problems, func(q plan.Problem) bool { return q.Path != s.root+"/pay/ledger" })
			if want.code == "" || lent {
				require.Empty(t, said, data)
				continue
			}
			require.Len(t, said, 1, data)
			require.Equal(t, []any{problem.Warning, want.code}, []any{said[0].Severity, said[0].Code}, data)
			require.Contains(t, said[0].Detail, "/pay/ledger is not declared, and its mark cannot be understood: ")
			require.Contains(t, said[0].Detail, want.whose)
			require.NoError(t, s.server.Set(record.IndexPath(s.root, stack), []byte(`{"locktree":1,"apply":"","res":7}`)))
			s.sentences(s.plan(c, tree))
		}
	}
}

var packageName = regexp.MustCompile(`\b(recipes|kind|plan|apply|zk|json): `)

// sentences asserts that the problems of a plan are whole sentences, which name no package of this program.
func (s *site) sentences(p *plan.Plan) {
	s.t.Helper()
	for _, q := range p.Problems {
		require.NotRegexp(s.t, packageName, q.Detail)
		require.Regexp(s.t, `^\S.*\.$`, q.Detail)
		require.NotContains(s.t, q.Detail, " .")
	}
}

// A plan could fill a namespace until no client could list it. After its apply no command worked, destroy included. Names of 250 bytes
// reach that length with 66,000 nodes; longer ones, as here, with fewer.
func TestNamespaceThatIsTooLongToListIsRefusedAndCanBeDestroyed(t *testing.T) {
	effort.Proof(t, effort.Unraced)
	s, c := provisioned(t)
	tree := s.tree(declare("/wide", kind.Namespace))
	s.apply(c, tree)
	name := func(i int) string { return fmt.Sprintf("/wide/%s%06d", strings.Repeat("n", 9990), i) }
	const many = 16<<20/10_000 + 1
	for i := range many {
		require.NoError(t, s.server.Create(s.root+name(i), nil)) // by another program
	}
	_, err := read.Tree(t.Context(), s.session(c), tree)
	x := explain.Of(err)
	require.Equal(t, "Could not read a node", x.Summary)
	require.Contains(t, x.Detail, "bytes; this client reads up to 16777216 (Config.MaxReply)")
	require.Contains(t, x.Next, "The limit of a reply is this program's, not the servers'.")

	s.config.MaxReply = 32 << 20
	reader := s.provisioner()
	p := s.plan(reader, tree)
	require.False(t, p.HasChanges())

	more := s.tree(declare("/wide", kind.Namespace), declare("/wide/lock", kind.Mutex))
	p = s.plan(reader, more)
	require.False(t, p.Applyable())
	require.Equal(t, problem.Listing, p.Problems[0].Code)
	require.Equal(t, plan.Addr("wide.namespace"), p.Problems[0].Addr, "with its place")
	require.Contains(t, p.Problems[0].Detail, fmt.Sprintf("/locks/wide would have %d nodes", many+1))
	tree.Nodes = append(tree.Nodes, s.tree(declare("/solo", kind.Mutex)).Nodes...)
	s.apply(reader, tree)
	require.NoError(t, s.destroy(reader, tree))
	require.Nil(t, s.node(reader, "/solo"))
}

// The same server names led to another ensemble, and the stack was planned there from scratch, as if nothing of it existed.
func TestAnEnsembleWithAnotherIDIsRefusedBeforeAnythingElseIsRead(t *testing.T) {
	s, c := provisioned(t)
	want := s.tree(declare("/ledger", kind.Mutex))
	s.apply(c, want)
	mark, ok := s.server.Get(record.ScaffoldPath(s.root))
	require.True(t, ok)
	id := record.MarkedAs(mark.Data)
	require.True(t, record.IsEnsembleID(id), "the first apply draws one: %q", mark.Data)

	pinned := *want
	pinned.EnsembleID = id
	_, err := read.Tree(t.Context(), s.session(c), &pinned)
	require.NoError(t, err)
	s.apply(c, s.tree(declare("/ledger", kind.Mutex), declare("/another", kind.Mutex)))
	again, _ := s.server.Get(record.ScaffoldPath(s.root))
	require.Equal(t, mark.Data, again.Data, "and no later one another")

	other := pinned
	other.EnsembleID = "0123456789abcdef0123456789abcdef"
	c = s.provisioner()
	_, err = read.Tree(t.Context(), s.session(c), &other)
	wrong := errorAs[*failure.WrongEnsembleError](t, err)
	require.Equal(t, id, wrong.Got)
	_, err = apply.Begin(t.Context(), c, &other, apply.Options{})
	require.ErrorAs(t, err, &wrong)
	require.ErrorContains(t, err, id)
	_, err = checkup.Stack(t.Context(), c, &other, 10)
	require.ErrorAs(t, err, &wrong)
	require.Equal(t, map[string]int{"auth": 1, "getData": 3}, s.server.SessionCounts(s.session(c).ID()).ByOp, "the id, by each of them")

	empty := inMemory(t) // where no apply has been
	_, err = read.Tree(t.Context(), empty.session(empty.provisioner()), &pinned)
	require.ErrorAs(t, err, &wrong)
	require.True(t, wrong.Absent)
	require.ErrorContains(t, err, "no apply was here, or its nodes were deleted")
}

// Another program may have made the node of the id. If the root has administrators, the list of that node is their set, so the plan pins
// the node.
func TestAnEnsembleThatHasNoIDGetsOneWithTheNextApply(t *testing.T) {
	for name, admins := range map[string][]string{"nobody is named": nil, "another change": {oldKey}, "administrators are replaced": {oldKey, newKey}} {
		t.Run(name, func(t *testing.T) {
			s := inMemory(t)
			c, path := s.as(oldKey), record.ScaffoldPath(s.root)
			first, next := s.administered(may([]string{oldKey}, []string{ciKey})), s.administered(may(admins, []string{ciKey}))
			if admins == nil {
				first, next = s.shop(), s.shop()
			}
			s.apply(c, first)
			require.NoError(t, s.server.Set(path, nil))
			pinned := *first
			pinned.EnsembleID = "0123456789abcdef0123456789abcdef"
			_, err := read.Tree(t.Context(), s.session(c), &pinned)
			require.ErrorContains(t, err, "another program made it")

			set("description", name)(next.Nodes[1])
			s.apply(c, next)
			mark, _ := s.server.Get(path)
			require.NotEmpty(t, record.MarkedAs(mark.Data))
			require.False(t, s.plan(c, next).HasChanges())
			found, err := checkup.Stack(t.Context(), c, next, 10)
			require.NoError(t, err)
			require.Contains(t, found.Locks[0].What, record.MarkedAs(mark.Data))
		})
	}
}
