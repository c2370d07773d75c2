package apply_test

import (
	"bytes"
	"context"
	"crypto/sha1"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/apply"
	"github.com/locktree/locktree/apply/event"
	"github.com/locktree/locktree/apply/history"
	"github.com/locktree/locktree/apply/internal/wire"
	"github.com/locktree/locktree/apply/read"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/diff"
	"github.com/locktree/locktree/plan/record"
	"github.com/locktree/locktree/plan/saved"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/direct"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
)

// site is a place to apply to: a server, real or in memory, and a root of the test's own.
type site struct {
	t      testing.TB
	config recipes.Config
	root   string
	server *zktest.Server // nil when real
	asked  *atomic.Pointer[asked]
	seed   uint64 // for what a scene draws
}

// inMemory is a server of the test's own. In a synctest bubble it lives in fake time.
func inMemory(t testing.TB, opts ...zktest.Option) *site {
	srv := zktest.New(opts...)
	t.Cleanup(srv.Close)
	s := &site{t: t, root: "/locks", server: srv, asked: &atomic.Pointer[asked]{}, config: recipes.Config{
		Servers: []string{"zk"}, SessionTimeout: 10 * time.Second, Dialer: srv.DialContext,
	}}
	if time.Now().Year() > 2000 { // not in a bubble, where time begins in 2000
		s.config.SessionTimeout, s.config.ConnectTimeout = unhurried, patience
	}
	return s
}

// real is a server in a process of its own; each test has a root there.
func real(t testing.TB, address, root string) *site {
	return &site{t: t, root: root, asked: &atomic.Pointer[asked]{}, config: recipes.Config{Servers: []string{address}, SessionTimeout: unhurried, ConnectTimeout: patience}}
}

const stack = "shop"

// unhurried is the longest session timeout that servers grant: a session survives a machine that stops for seconds.
const unhurried = 40 * time.Second

func digest(userPassword string) string {
	user, _, _ := strings.Cut(userPassword, ":")
	h := sha1.Sum([]byte(userPassword))
	return user + ":" + base64.StdEncoding.EncodeToString(h[:])
}

var (
	admin  = kind.ACL{Scheme: "digest", ID: digest("provisioner:secret"), Perms: kind.PermAll}
	worker = kind.ACL{Scheme: "digest", ID: digest("worker:w"), Perms: kind.PermCreate | kind.PermRead | kind.PermDelete}
	reads  = kind.ACL{Scheme: "digest", ID: worker.ID, Perms: kind.PermRead} // in a namespace
	crew   = kind.ACL{Scheme: "digest", ID: digest("worker:w"), Perms: kind.PermCreate | kind.PermRead | kind.PermWrite | kind.PermDelete}
)

// dial connects as who ("user:password"), or without credentials if who is empty.
func (s *site) dial(who string) *recipes.Client {
	s.t.Helper()
	cfg := s.config
	if who != "" {
		cfg.Auth = []recipes.Auth{{Scheme: "digest", Credentials: recipes.Secret(who)}}
		cfg.ID = strings.SplitN(who, ":", 2)[0]
	}
	return s.connect(cfg)
}

func (s *site) connect(cfg recipes.Config) *recipes.Client {
	s.t.Helper()
	c, err := recipes.Dial(s.t.Context(), cfg)
	require.NoError(s.t, err)
	s.t.Cleanup(func() { _ = c.Close() })
	return c
}

func (s *site) provisioner() *recipes.Client { return s.dial("provisioner:secret") }

func (s *site) session(c *recipes.Client) *direct.Session {
	s.t.Helper()
	session, err := c.Session(s.t.Context())
	require.NoError(s.t, err)
	return session
}

// tree declares nodes below the root.
func (s *site) tree(nodes ...*plan.Node) *plan.Tree {
	tree := &plan.Tree{Ensemble: "main", Root: s.root, Stack: stack}
	for _, n := range nodes {
		c, p := *n, *n.Payload
		c.Path, c.Payload = s.root+n.Path, &p
		tree.Nodes = append(tree.Nodes, &c)
	}
	slices.SortFunc(tree.Nodes, func(a, b *plan.Node) int { return strings.Compare(a.Path, b.Path) })
	return tree
}

func declare(path string, k *kind.Kind, change ...func(*plan.Node)) *plan.Node {
	addr := strings.ReplaceAll(strings.TrimPrefix(path, "/"), "/", ".") + "." + k.Name
	n := &plan.Node{
		Path: path, Addr: plan.Addr(addr), Origin: "locks.locktree.hcl:1", ACL: kind.List{admin, worker},
		Payload: &kind.Payload{Params: k.New(), Owner: kind.Owner{Stack: stack, Addr: addr}, ChildACL: kind.List{admin, crew}},
	}
	if k.Container {
		n.ACL = kind.List{admin, reads}
	}
	for _, f := range change {
		f(n)
	}
	return n
}

func set(name string, v any) func(*plan.Node) {
	return func(n *plan.Node) {
		for _, f := range n.Payload.Params.Fields() {
			if f.Name == name {
				must(f.Set(v))
				return
			}
		}
		panic("no parameter " + name)
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func adminOnly(n *plan.Node) { n.ACL = kind.List{admin} }

// shop is a tree with a mutex, a rwlock, a semaphore and an election, in and outside of namespaces.
func (s *site) shop(change ...func(*plan.Node)) *plan.Tree {
	return s.tree(
		declare("/pay", kind.Namespace),
		declare("/pay/batch", kind.Namespace),
		declare("/pay/batch/nightly", kind.RWLock),
		declare("/pay/ledger", kind.Mutex, change...),
		declare("/pay/pool", kind.Semaphore, set("permits", 3)),
		declare("/solo", kind.Election),
	)
}

// shopNodes declares the nodes of shop, for trees with more nodes.
func (s *site) shopNodes(change ...func(*plan.Node)) []*plan.Node {
	nodes := s.shop(change...).Nodes
	for _, n := range nodes {
		n.Path = strings.TrimPrefix(n.Path, s.root)
	}
	return nodes
}

func identities(c *recipes.Client) kind.List { return c.Identities() }

func (s *site) plan(c *recipes.Client, tree *plan.Tree, opts ...plan.Options) *plan.Plan {
	s.t.Helper()
	o := plan.Options{}
	if len(opts) > 0 {
		o = opts[0]
	}
	o.Identities, o.AllowMassDestroy = identities(c), true // the guard has tests in package diff
	live := s.read(c, tree)
	q := &saved.Question{Stack: tree.Stack, Ensembles: []diff.Ensemble{{Current: live, Desired: tree, Identities: o.Identities}}, Options: o}
	q.Options.Identities = nil
	p := q.Answer()[0]
	s.asked.Store(&asked{p, q})
	if tree.Intent.Access == nil { // most trees of these tests declare no administrators, and each plan says so
		p.Problems = slices.DeleteFunc(p.Problems, func(q plan.Problem) bool { return q.Summary == "No administrators are declared" })
	}
	return p
}

// asked is a plan and the question that it answers.
type asked struct {
	answer   *plan.Plan
	question *saved.Question
}

// resaved returns the plan that the site made last, as a file brings it back.
func (s *site) resaved(p *plan.Plan) *plan.Plan {
	s.t.Helper()
	last := s.asked.Load()
	require.Same(s.t, p, last.answer)
	data := s.saved(last.question)
	f, err := saved.Decode(bytes.NewReader(data), "test")
	require.NoError(s.t, err)
	return f.Plans[0]
}

// saved returns the file of a question.
func (s *site) saved(q *saved.Question) []byte {
	var file bytes.Buffer
	require.NoError(s.t, q.Encode(&file, "test", q.Answer()))
	return file.Bytes()
}

// index returns the stack's record.
func (s *site) index(c *recipes.Client) *record.Record {
	s.t.Helper()
	head, err := read.HeadAt(s.t.Context(), s.session(c), record.IndexPath(s.root, stack))
	require.NoError(s.t, err)
	return head.Index
}

// events records what an apply reports.
type events []event.Event

func (e *events) add(ev event.Event) { *e = append(*e, ev) }

// applying is an Applier whose options a test can still change, and the Run that it begins.
type applying struct {
	apply.Options
	client *recipes.Client
	run    *apply.Run // from Lock until Run or Unlock
}

func executor(c *recipes.Client, told ...func(event.Event)) *applying {
	x := &applying{client: c, Options: apply.Options{Operation: "apply", Author: history.Author{Who: "me@here", Version: "test"}}}
	for _, f := range told {
		x.Events = f
	}
	return x
}

// applier returns the Applier of the Run that holds the lock, or a new one that takes it.
func (x *applying) applier() *apply.Applier {
	if x.run != nil {
		return x.run.Applier
	}
	return apply.New(x.client, x.Options)
}

// Lock begins a Run, which holds the apply lock.
func (x *applying) Lock(ctx context.Context, tree *plan.Tree) (context.Context, error) {
	o := x.Options
	o.Events = func(e event.Event) {
		if x.Events != nil {
			x.Events(e)
		}
	}
	run, err := apply.Begin(ctx, x.client, tree, o)
	if err != nil {
		return ctx, err
	}
	x.run = run
	return run.Context(), nil
}

func (x *applying) Unlock() {
	if x.run != nil {
		x.run.Close()
	}
}

func (x *applying) Run(ctx context.Context, p *plan.Plan) (*event.Result, error) {
	applier := x.applier()
	x.run = nil
	return applier.Apply(ctx, p)
}

func (s *site) apply(c *recipes.Client, tree *plan.Tree, opts ...plan.Options) *event.Result {
	s.t.Helper()
	p := s.plan(c, tree, opts...)
	require.True(s.t, p.Applyable(), "%s", p)
	return s.runs(c, p)
}

func (s *site) destroy(c *recipes.Client, tree *plan.Tree) error {
	s.t.Helper()
	_, err := executor(c).Run(s.t.Context(), s.plan(c, tree, plan.Options{Destroy: true}))
	return err
}

// dump returns the root and everything below it, with data, versions and access lists. A refusal must change none of it. The apply lock's
// contenders are left out.
func (s *site) dump(c *recipes.Client) map[string]string {
	s.t.Helper()
	out := map[string]string{}
	s.dumpNode(s.session(c), s.root, out)
	return out
}

// unchanged runs f and asserts that it wrote nothing.
func (s *site) unchanged(c *recipes.Client, f func()) {
	s.t.Helper()
	before := s.dump(c)
	f()
	require.Equal(s.t, before, s.dump(c), "something was written")
}

// wroteNothing also checks the requests of c: it sent no write, not even one that changes nothing.
func (s *site) wroteNothing(c *recipes.Client, f func()) {
	s.t.Helper()
	s.server.ResetCounts()
	s.unchanged(c, f)
	for op, n := range s.server.SessionCounts(s.session(c).ID()).ByOp { // only those of c: clients with locks send heartbeats
		require.Contains(s.t, []string{"exists", "getData", "getACL", "getChildren", "getChildren2", "sync"}, op, "%d requests", n)
	}
}

const mutexName = "_c_01234567-89ab-cdef-0123-456789abcdef-lock-"

// contend has a client of another library queue for a lock, and returns the client's node.
func (s *site) contend(c *recipes.Client, path string, acl kind.List) string {
	s.t.Helper()
	return s.stand(c, s.root+path+"/"+mutexName, acl)
}

// stand creates the node of a contender, and returns its path.
func (s *site) stand(c *recipes.Client, name string, acl kind.List) string {
	s.t.Helper()
	at, err := s.session(c).Create(s.t.Context(), name, []byte{}, zk.FlagEphemeral|zk.FlagSequence, wire.ToZK(acl))
	require.NoError(s.t, err)
	return at
}

// leaves deletes the node of a contender.
func (s *site) leaves(c *recipes.Client, at string) {
	s.t.Helper()
	require.NoError(s.t, s.session(c).Delete(s.t.Context(), at, -1))
}

// list returns the access list of a node.
func (s *site) list(c *recipes.Client, path string) kind.List {
	s.t.Helper()
	acl, _, err := s.session(c).GetACL(s.t.Context(), path)
	require.NoError(s.t, err, path)
	return wire.FromZK(acl)
}

// provisioned returns a server in memory, and a client that may do everything there.
func provisioned(t testing.TB, opts ...zktest.Option) (*site, *recipes.Client) {
	s := inMemory(t, opts...)
	return s, s.provisioner()
}

// read returns the tree that the ensemble has.
func (s *site) read(c *recipes.Client, tree *plan.Tree) *plan.Tree {
	s.t.Helper()
	live, err := read.Tree(s.t.Context(), s.session(c), tree)
	require.NoError(s.t, err)
	return live
}

// shopped returns a server in memory to which the shop is applied, and the client that did it.
func shopped(t testing.TB) (*site, *recipes.Client) {
	s, c := provisioned(t)
	s.apply(c, s.shop())
	return s, c
}

// on handles events of one type.
func on[E event.Event](f func(E)) func(event.Event) {
	return func(e event.Event) {
		if e, ok := e.(E); ok {
			f(e)
		}
	}
}

// errorAs asserts that an error is of a type.
func errorAs[E error](t testing.TB, err error, args ...any) (e E) {
	t.Helper()
	require.ErrorAs(t, err, &e, args...)
	return e
}

// succeeds runs an apply that must succeed.
func (s *site) succeeds(x *applying, p *plan.Plan) *event.Result {
	s.t.Helper()
	res, err := x.Run(s.t.Context(), p)
	require.NoError(s.t, err)
	return res
}

// runs applies a plan.
func (s *site) runs(c *recipes.Client, p *plan.Plan) *event.Result {
	s.t.Helper()
	return s.succeeds(executor(c), p)
}

// takes has a program take a lock.
func (s *site) takes(lock func(context.Context) (*recipes.Lease, error)) *recipes.Lease {
	s.t.Helper()
	lease, err := lock(s.t.Context())
	require.NoError(s.t, err)
	return lease
}

// locks has a program lock a mutex.
func (s *site) locks(who, path string) *recipes.Lease {
	s.t.Helper()
	return s.takes(s.dial(who).Mutex(path).Lock)
}

// children returns the names of a node's children.
func (s *site) children(c *recipes.Client, path string) []string {
	s.t.Helper()
	names, _, err := s.session(c).Children(s.t.Context(), path)
	require.NoError(s.t, err)
	return names
}

// create creates a persistent node by hand.
func (s *site) create(c *recipes.Client, path, data string, acl ...kind.ACL) {
	s.t.Helper()
	_, err := s.session(c).Create(s.t.Context(), path, []byte(data), 0, wire.ToZK(acl))
	require.NoError(s.t, err)
}

// payload returns the payload of one of our nodes.
func (s *site) payload(path string) *kind.Payload {
	s.t.Helper()
	n, _ := s.server.Get(path)
	payload, err := kind.Decode(n.Data)
	require.NoError(s.t, err)
	return payload
}

// protect changes the data of a node by hand: it protects the node.
func (s *site) protect(path string) {
	s.t.Helper()
	p := s.payload(s.root + path)
	p.Protect = true
	data, err := p.Encode()
	require.NoError(s.t, err)
	require.NoError(s.t, s.server.Set(s.root+path, data))
}

func (s *site) dumpNode(session *direct.Session, path string, out map[string]string) {
	s.t.Helper()
	stat, err := session.Exists(s.t.Context(), path)
	require.NoError(s.t, err)
	if stat == nil {
		return
	}
	data, _, err := session.Get(s.t.Context(), path)
	require.NoError(s.t, err)
	acl, _, err := session.GetACL(s.t.Context(), path)
	require.NoError(s.t, err)
	out[path] = fmt.Sprintf("czxid %d version %d aversion %d %s %v", stat.Czxid, stat.Version, stat.Aversion, data, acl)
	names, _, err := session.Children(s.t.Context(), path)
	require.NoError(s.t, err)
	for _, name := range names {
		child := kind.JoinPath(path, name)
		// Contenders of the apply lock come and go with a refused apply.
		if !strings.HasPrefix(child, record.LockPath(s.root, stack)+"/") {
			s.dumpNode(session, child, out)
		}
	}
}
