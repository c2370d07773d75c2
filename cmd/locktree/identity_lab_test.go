package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/direct"
	"github.com/locktree/locktree/recipes/zktest"
)

// office is a server with a stack that several people work on. Each has its name as password.
type office struct {
	folder
	addr   string
	server *zktest.Server // nil: Apache ZooKeeper
	hand   *hand
	root   string
	env    []string // added to that of every command
}

// These are the people of the configuration below; super is the servers' own, and nobodyIs gives no name.
const (
	super    = "super"
	boss     = "boss"     // an administrator
	auditor  = "auditor"  // a reader
	worker   = "app"      // a program that uses the locks
	stranger = "stranger" // in no configuration
	nobodyIs = ""
)

func newOffice(t *testing.T, opts ...zktest.Option) *office {
	server := zktest.Start(t, append(opts, zktest.WithSuperDigest(superDigest))...)
	return openOffice(t, server.Addr(), server, "/t")
}

func openOffice(t *testing.T, addr string, server *zktest.Server, root string) *office {
	h, err := newHand(addr)
	require.NoError(t, err)
	t.Cleanup(h.close)
	return &office{folder: newFolder(t), addr: addr, server: server, hand: h, root: root}
}

// elsewhere is the same server seen from another directory, with another root.
func (o *office) elsewhere(root string) *office {
	c := *o
	c.root, c.folder = root, newFolder(o.t)
	return &c
}

// principal is an identity in a configuration: its name there, and how the servers know it.
type principal struct{ name, scheme, id string }

func byPassword(names ...string) (out []principal) {
	for _, name := range names {
		out = append(out, principal{name, "digest", zktest.DigestID(name + ":" + name)})
	}
	return out
}

func (p principal) block() string {
	return fmt.Sprintf("principal %q {\n  scheme = %q\n  id = %q\n}\n", p.name, p.scheme, p.id)
}

func listOf(people []principal) string {
	list := make([]string, len(people))
	for i, p := range people {
		list[i] = "principal." + p.name
	}
	return "[" + strings.Join(list, ", ") + "]"
}

// stackOf is stackIn for people with passwords. The program has one, too.
func stackOf(name string, admins, readers []string) string {
	return stackIn(name, "", byPassword(admins...), byPassword(readers...), byPassword(worker))
}

// stackIn is the head of a configuration: the administrators and readers of the stack, and an access list that says the same and lets
// programs in. The text more goes into the ensemble block.
func stackIn(name, more string, admins, readers, programs []principal) string {
	text := fmt.Sprintf("locktree {\n  stack = %q\n}\nvariable \"zk\" {}\nvariable \"root\" {}\nensemble \"main\" {\n  servers = [var.zk]\n  root = var.root\n  connect_timeout = \"30s\"\n  admins = %s\n", name, listOf(admins))
	if len(readers) > 0 {
		text += "  readers = " + listOf(readers) + "\n"
	}
	text += more + "}\n" + aclOf("users", admins, readers, programs)
	people := slices.Concat(admins, readers, programs)
	slices.SortFunc(people, func(a, b principal) int { return strings.Compare(a.name, b.name) })
	for _, p := range slices.Compact(people) {
		text += p.block()
	}
	return text
}

func aclOf(name string, admins, readers, programs []principal) string {
	text := fmt.Sprintf("acl %q {\n", name)
	for _, grant := range []struct {
		to    []principal
		allow string
	}{{admins, "admin"}, {readers, "observe"}, {programs, "lock"}} {
		if len(grant.to) > 0 {
			text += fmt.Sprintf("  grant {\n    to = %s\n    allow = %q\n  }\n", listOf(grant.to), grant.allow)
		}
	}
	return text + "}\n"
}

// oneLock is in a namespace with the access list of stackIn.
const oneLock = "namespace \"pay\" {\n  acl = acl.users\n  mutex \"ledger\" {}\n}\n"

const someLocks = `namespace "pay" {
  acl = acl.users
  mutex "ledger" {}
  rwlock "books" {}
  semaphore "pool" { permits = 2 }
  election "boss" {}
}
output "ledger" {
  value = namespace.pay.mutex.ledger.path
}
`

// credential splits "name:password". A name alone is its own password.
func credential(who string) (user, password string) {
	user, password, other := strings.Cut(who, ":")
	if !other {
		password = user
	}
	return user, password
}

// as runs a command with the identity who. It may end with any code.
func (o *office) as(who string, args ...string) (code int, text string) {
	o.t.Helper()
	env := append([]string{"LOCKTREE_VAR_zk=" + o.addr, "LOCKTREE_VAR_root=" + o.root, "ZOOKEEPER_SESSION=40"}, o.env...)
	if who != nobodyIs {
		user, password := credential(who)
		env = append(env, "ZOOKEEPER_USERNAME="+user, "ZOOKEEPER_PASSWORD="+password)
	}
	var out paper
	ctx, cancel := context.WithTimeout(o.t.Context(), hanging)
	defer cancel()
	code = start(ctx, append([]string{"-chdir=" + o.dir}, args...), env, strings.NewReader(""), &out, &out)
	require.NoError(o.t, ctx.Err(), "%s %v hangs: %s", who, args, out.String())
	return code, out.String()
}

// must runs a command that has to end with a code.
func (o *office) must(code int, who string, args ...string) string {
	o.t.Helper()
	got, text := o.as(who, args...)
	require.Equal(o.t, code, got, "%s %v: %s", who, args, text)
	return text
}

// reads are the requests that change nothing, whoever sends them.
var reads = []string{"exists", "getData", "getACL", "getChildren", "getChildren2", "sync", "auth", "setWatches", "setWatches2", "closeSession"}

// writes counts and names the requests that the server has received and that could change something.
func (o *office) writes() (n int, which []string) {
	for op, times := range o.server.Counts().ByOp {
		if !slices.Contains(reads, op) {
			n, which = n+times, append(which, op)
		}
	}
	return n, which
}

// session is a session with the identity who, for requests that the tool would not send.
func (o *office) session(who string) *direct.Session {
	cfg := recipes.Config{Servers: []string{o.addr}, ConnectTimeout: 30 * time.Second, SessionTimeout: 40 * time.Second}
	if who != nobodyIs {
		user, password := credential(who)
		cfg.Auth = []recipes.Auth{{Scheme: "digest", Credentials: recipes.Secret(user + ":" + password)}}
	}
	c, err := recipes.Dial(o.t.Context(), cfg)
	require.NoError(o.t, err)
	o.t.Cleanup(func() { _ = c.Close() })
	s, err := c.Session(o.t.Context())
	require.NoError(o.t, err)
	return s
}

func (o *office) superuser() *direct.Session {
	s, err := o.hand.client.Session(o.t.Context())
	require.NoError(o.t, err)
	return s
}

// inventory is every node below path, with all of its stat and its list. Every write changes it.
func (o *office) inventory(path string) string {
	var b strings.Builder
	require.NoError(o.t, walk(o.t.Context(), o.superuser(), path, func(path string, data []byte, stat *zk.Stat, acl []zk.ACL) {
		fmt.Fprintf(&b, "%s %q %+v %v\n", path, data, *stat, acl)
	}))
	return b.String()
}

// nodes are the paths at and below path, itself first.
func (o *office) nodes(path string) (out []string) {
	require.NoError(o.t, walk(o.t.Context(), o.superuser(), path, func(path string, _ []byte, _ *zk.Stat, _ []zk.ACL) { out = append(out, path) }))
	return out
}
