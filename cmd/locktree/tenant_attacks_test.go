package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/cmd/locktree/internal/exit"
	"github.com/locktree/locktree/recipes/direct"
	"github.com/locktree/locktree/recipes/zktest"
	"github.com/locktree/locktree/recipes/zktest/effort"
)

// tenant is a malicious team that has all rights in its namespace.
type tenant struct {
	t  *testing.T
	s  *direct.Session
	ns string // its namespace
}

func (a *tenant) create(path, data string, flags int32, list ...zk.ACL) {
	if list == nil {
		list = zk.WorldACL(zk.PermAll)
	}
	_, err := a.s.Create(a.t.Context(), a.ns+path, []byte(data), flags, list)
	require.NoError(a.t, err)
}

func (a *tenant) set(data string) {
	_, err := a.s.Set(a.t.Context(), a.ns, []byte(data), -1)
	require.NoError(a.t, err)
}

func (a *tenant) restrict(list ...zk.ACL) {
	_, err := a.s.SetACL(a.t.Context(), a.ns, list, -1)
	require.NoError(a.t, err)
}

func digestACL(who string, perms int32) zk.ACL {
	return zk.ACL{Perms: perms, Scheme: "digest", ID: zktest.DigestID(who + ":" + who)}
}

// sum is the sum in its namespace's mark. All sums of the stack begin like it.
func (a *tenant) sum() string {
	data, _, err := a.s.Get(a.t.Context(), a.ns)
	require.NoError(a.t, err)
	var m struct {
		Sum string `json:"sum"`
	}
	require.NoError(a.t, json.Unmarshal(data, &m))
	require.NotEmpty(a.t, m.Sum)
	return m.Sum
}

// mark is a declaration in the name of a stack.
func mark(typ, addr string, more ...any) string {
	m := map[string]any{"locktree": 1, "type": typ, "spec": map[string]any{"description": ""}, "state": "active", "gen": 1, "owner": map[string]any{"stack": "platform", "addr": addr}, "protect": false}
	if typ == "mutex" {
		m["spec"], m["child_acl"] = map[string]any{"description": "", "max_waiters": 0, "wire": "curator"}, [][]string{{"world", "anyone", "cdrwa"}}
	}
	for i := 0; i < len(more); i += 2 {
		m[more[i].(string)] = more[i+1]
	}
	text, _ := json.Marshal(m)
	return string(text)
}

var (
	mine     = digestACL("search", zk.PermAll)
	readable = []zk.ACL{mine, digestACL("platform", zk.PermRead)}
)

// lock makes a mutex in the platform's name.
func (a *tenant) lock(list []zk.ACL, more ...any) {
	a.create("/x", mark("mutex", "namespace.search.mutex.x", more...), 0, list...)
}

var attacks = map[string]func(a *tenant){
	"a lock in the platform's name":   func(a *tenant) { a.lock(nil) },
	"a protected one":                 func(a *tenant) { a.lock(nil, "protect", true) },
	"an address of another namespace": func(a *tenant) { a.create("/x", mark("namespace", "namespace.payments"), 0) },
	"the address of its own":          func(a *tenant) { a.create("/x", mark("namespace", "namespace.search"), 0) },
	"an unknown state": func(a *tenant) {
		a.create("/x", mark("mutex", "namespace.search.mutex.zz", "state", "parked", "to", "/locks/payments"), 0)
	},
	"a format of the future": func(a *tenant) {
		a.create("/x", `{"locktree":99,"type":"mutex","owner":{"stack":"platform","addr":"namespace.search.mutex.x"}}`, 0)
	},
	"an unknown type":         func(a *tenant) { a.create("/x", mark("foo", "namespace.search.foo.x"), 0) },
	"an address that is none": func(a *tenant) { a.create("/x", mark("mutex", "\x1b[31m\"; rm -rf"), 0) },
	"no address":              func(a *tenant) { a.create("/x", mark("mutex", ""), 0) },
	"a sum that it copied, with a list that is hidden": func(a *tenant) { a.lock(readable, "protect", true, "sum", a.sum()) },
	"a sum that it copied":                             func(a *tenant) { a.lock(nil, "protect", true, "sum", a.sum()) },
	"a megabyte":                                       func(a *tenant) { a.create("/x", strings.Repeat("x", 1_000_000), 0) },
	"a declaration of a megabyte":                      func(a *tenant) { a.lock(nil, "junk", strings.Repeat("x", 990_000)) },
	"a deep tree": func(a *tenant) {
		for i := range 300 {
			a.create(strings.Repeat("/d", i+1), "", 0)
		}
	},
	"a deep tree of namespaces": func(a *tenant) {
		for i := range 100 {
			a.create(strings.Repeat("/d", i+1), mark("namespace", "namespace.search"+strings.Repeat(".namespace.d", i+1)), 0)
		}
	},
	"a node that only it may read":                   func(a *tenant) { a.create("/x", "x", 0, mine) },
	"a lock in the platform's name only it may read": func(a *tenant) { a.lock([]zk.ACL{mine}) },
	"a namespace that others may not change":         func(a *tenant) { a.create("/x", mark("namespace", "namespace.search.namespace.x"), 0, readable...) },
	"a lock that others may not change":              func(a *tenant) { a.lock(readable) },
	"a semaphore whose parts others may not read": func(a *tenant) {
		a.create("/x", mark("semaphore", "namespace.search.semaphore.x", "spec", map[string]any{"permits": 1}), 0)
		a.create("/x/leases", "", 0, mine)
	},
	"a held lock": func(a *tenant) {
		a.lock(nil)
		a.create("/x/_c_aaaaaaaa-lock-0000000000", "", 0)
	},
	"an ephemeral node":                         func(a *tenant) { a.create("/x", mark("mutex", "namespace.search.mutex.x"), zk.FlagEphemeral) },
	"a draining lock":                           func(a *tenant) { a.lock(nil, "state", "draining") },
	"thousands of nodes":                        func(a *tenant) { a.many(3000, "") },
	"thousands of locks in the platform's name": func(a *tenant) { a.many(1000, mark("mutex", "namespace.search.mutex.x")) },
	"control characters in a name":              func(a *tenant) { a.create("/a\u202eb\u200b", "", 0) },
	"a root of its own":                         func(a *tenant) { a.create("/.locktree", "x", 0) },
	"a record in the platform's name":           func(a *tenant) { a.index("x", nil) },
	"a record of what the platform has": func(a *tenant) {
		a.index(`{"locktree":1,"apply":"x","res":{"namespace.payments":{"path":"/locks/payments","type":"namespace","gen":1}}}`, nil)
	},
	"a record that only it may read":             func(a *tenant) { a.index("x", []zk.ACL{mine}) },
	"a record and a lock in the platform's name": func(a *tenant) { a.index("x", nil); a.lock(nil) },
	"a root that only it may read":               func(a *tenant) { a.create("/.locktree", "", 0, mine) },
	"an apply lock in the platform's name": func(a *tenant) {
		a.create("/.locktree", "", 0)
		a.create("/.locktree/apply", "", 0)
		a.create("/.locktree/apply/platform", mark("mutex", "apply lock"), 0)
		a.create("/.locktree/apply/platform/_c_aaaaaaaa-lock-0000000000", "", 0)
	},
	"a container of locks": func(a *tenant) {
		a.create("/x", "", 0)
		a.create("/x/y", mark("mutex", "namespace.search.mutex.y"), 0)
	},

	"its namespace closed to the platform": func(a *tenant) { a.restrict(mine) },
	"its namespace closed but for reading": func(a *tenant) { a.restrict(readable...) },
	"its namespace a lock that is in use": func(a *tenant) {
		a.set(mark("mutex", "namespace.search"))
		a.create("/_c_aaaaaaaa-lock-0000000000", "", 0)
	},
	"its namespace a lock": func(a *tenant) { a.set(mark("mutex", "namespace.search")) },
	"its namespace of its own stack": func(a *tenant) {
		a.set(strings.ReplaceAll(mark("namespace", "namespace.search"), `"platform"`, `"search"`))
	},
	"its namespace under another's address":   func(a *tenant) { a.set(mark("namespace", "namespace.payments")) },
	"its namespace with junk for data":        func(a *tenant) { a.set("\xff\xfejunk") },
	"its namespace with no data":              func(a *tenant) { a.set("") },
	"its namespace with a megabyte":           func(a *tenant) { a.set(`{"locktree":1,` + strings.Repeat(" ", 1_000_000)) },
	"its namespace with a deep document":      func(a *tenant) { a.set(strings.Repeat("[", 500_000)) },
	"its namespace in an unknown state":       func(a *tenant) { a.set(mark("namespace", "namespace.search", "state", "parked")) },
	"its namespace protected":                 func(a *tenant) { a.set(mark("namespace", "namespace.search", "protect", true)) },
	"its namespace of a format of the future": func(a *tenant) { a.set(`{"locktree":99}`) },
}

func (a *tenant) many(n int, data string) {
	for i := 0; i < n; i += 100 {
		var ops []any
		for j := range 100 {
			ops = append(ops, &zk.CreateRequest{Path: fmt.Sprintf("%s/n%05d", a.ns, i+j), Data: []byte(data), Acl: zk.WorldACL(zk.PermAll)})
		}
		_, err := a.s.Multi(a.t.Context(), ops...)
		require.NoError(a.t, err)
	}
}

func (a *tenant) index(data string, list []zk.ACL) {
	a.create("/.locktree", "", 0)
	a.create("/.locktree/stacks", "", 0)
	a.create("/.locktree/stacks/platform", data, 0, list...)
}

// refusals are the commands that do what they can, and say that they could not do all of it.
var refusals = map[string][]string{
	"its namespace closed to the platform":    {"status", "show", "doctor"},
	"its namespace closed but for reading":    {"apply -auto-approve", "doctor"},
	"its namespace of a format of the future": {"status", "show"},
	"its namespace in an unknown state":       {"status", "show"},
	"its namespace protected":                 {"plan -destroy"}, // which an apply undoes
}

// platformLocks declares a namespace for each of two tenants.
var platformLocks = aclOf("payments", byPassword("platform", "payments"), byPassword(auditor), nil) + aclOf("search", byPassword("platform", "search"), byPassword(auditor), nil) +
	"namespace \"payments\" { acl = acl.payments }\nnamespace \"search\" { acl = acl.search }\n"

// A tenant that has all rights in a namespace of the platform could stop every command of the platform team.
func TestTenantCannotStopThePlatform(t *testing.T) {
	effort.Proof(t, effort.Unraced)
	for name, attack := range attacks {
		t.Run(name, func(t *testing.T) { platformGoesOn(t, name, attack) })
	}
	// A team that reads the stack's record was mistaken for one that applies.
	for _, name := range []string{"its namespace with junk for data", "a protected one"} {
		t.Run(name+", by a reader", func(t *testing.T) { platformGoesOn(t, name, attacks[name], "search") })
	}
}

func platformGoesOn(t *testing.T, name string, attack func(a *tenant), readers ...string) {
	o := newOffice(t)
	o.root = "/locks"
	tenants := byPassword("payments")[0].block() + byPassword(auditor)[0].block()
	if len(readers) == 0 {
		tenants += byPassword("search")[0].block() // otherwise it is declared among the readers
	}
	o.write("locks.locktree.hcl", stackOf("platform", []string{"platform"}, readers)+tenants+platformLocks+"mutex \"gone\" { acl = acl.users }\n")
	o.must(exit.OK, "platform", "apply", "-auto-approve")
	attack(&tenant{t, o.session("search"), "/locks/search"})
	super := o.superuser()
	_, err := super.Create(t.Context(), "/locks/legacy", nil, 0, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	command := func(line string) {
		t.Helper()
		code, text := o.as("platform", strings.Fields(line)...)
		if slices.Contains(refusals[name], line) {
			require.Equal(t, exit.Failed, code, "%s: %s", line, text)
			require.Contains(t, text, "/locks/search", line)
			return
		}
		require.Equal(t, exit.OK, code, "%s: %s", line, text)
	}
	for _, line := range []string{"status", "show", "output", "doctor", "plan", "plan -target=namespace.payments", "plan -destroy"} {
		command(line)
	}

	// One lock comes, one goes, and an access list changes.
	o.edit("locks.locktree.hcl", "mutex \"gone\"", "mutex \"new\"")
	o.edit("locks.locktree.hcl", "namespace \"payments\" { acl = acl.payments }", "namespace \"payments\" { acl = acl.users }")
	command("apply -auto-approve")
	o.write("more.locktree.hcl", "mutex \"legacy\" { acl = acl.users }\n")
	command("import -auto-approve mutex.legacy /locks/legacy")
	require.Equal(t, []string{"/locks/new", "/locks/legacy"}, o.there("/locks/new", "/locks/legacy", "/locks/gone"))
	list, _, err := super.GetACL(t.Context(), "/locks/payments")
	require.NoError(t, err)
	require.NotContains(t, fmt.Sprint(list), "payments:")

	theirs, _, err := super.Children(t.Context(), "/locks/search")
	require.NoError(t, err)
	command("destroy -auto-approve")
	require.Empty(t, o.there("/locks/new", "/locks/legacy", "/locks/payments"))
	if len(theirs) > 0 {
		left, _, err := super.Children(t.Context(), "/locks/search")
		require.NoError(t, err, "what the tenant has stays")
		require.ElementsMatch(t, theirs, left)
	}
}

func (o *office) there(paths ...string) (found []string) {
	for _, path := range paths {
		if _, ok := o.server.Get(path); ok {
			found = append(found, path)
		}
	}
	return found
}
