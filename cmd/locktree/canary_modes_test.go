package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/stretchr/testify/require"
	"github.com/zclconf/go-cty/cty"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/zktest"
	"github.com/locktree/locktree/recipes/zktest/effort"
)

// codeAuthFailed is a code of the protocol for which zktest has no name.
const codeAuthFailed zktest.Code = -115

// Every way to give a secret.
var canaryWays = map[string]func(*canary){
	"environment": func(*canary) {},
	"function env": func(c *canary) {
		c.edit("variable \"password\" {\n  type      = string\n", "variable \"password\" {\n  default   = \"\"\n  type      = string\n")
		c.edit("password = var.password", `password = env("SECRET")`)
		c.setenv("LOCKTREE_VAR_password", "")
		c.setenv("SECRET", password)
		c.edit(`digest("app", var.password)`, `digest("app", env("SECRET"))`)
		c.edit(`digest("admin", var.password)`, `digest("admin", env("SECRET"))`)
	},
	"function file": func(c *canary) {
		c.give("secret", password)
		c.setenv("LOCKTREE_VAR_password", "")
		c.edit("password = var.password", `password = file("secret")`)
		c.edit(`digest("app", var.password)`, `digest("app", sensitive(file("secret")))`)
		c.edit(`digest("admin", var.password)`, `digest("admin", sensitive(file("${path.module}/secret")))`)
	},
	"values read by themselves": func(c *canary) {
		c.setenv("LOCKTREE_VAR_password", "")
		c.give("secret.auto.ltvars", "password = "+quotedHCL(password)+"\n")
	},
	"values in JSON": func(c *canary) {
		c.setenv("LOCKTREE_VAR_password", "")
		c.give("secret.auto.ltvars.json", fmt.Sprintf("{\"password\": %q}", strings.ReplaceAll(password, "${", "$${")))
	},
	"file of values": func(c *canary) {
		c.setenv("LOCKTREE_VAR_password", "")
		c.give("values", "password = "+quotedHCL(password)+"\n")
		c.args = []string{"-var-file=values"}
	},
	"standard input": func(c *canary) {
		c.setenv("LOCKTREE_VAR_password", "")
		c.stdin = "password = " + quotedHCL(password) + "\n"
		c.args = []string{"-var-file=-"}
	},
	"command line": func(c *canary) {
		c.setenv("LOCKTREE_VAR_password", "")
		c.args = []string{"-var=password=" + password}
	},
	"variables of the client": func(c *canary) {
		c.edit("  auth \"digest\" {\n    username = \"admin\"\n    password = var.password\n  }\n", "")
		c.setenv("ZOOKEEPER_USERNAME", "admin")
		c.setenv("ZOOKEEPER_PASSWORD", password)
	},
}

func quotedHCL(text string) string {
	return string(hclwrite.TokensForValue(cty.StringVal(text)).Bytes())
}

// No command shows the secret, however it was given, and none leaves it anywhere.
func TestNoCommandShowsASecretHoweverItIsGiven(t *testing.T) {
	effort.Daily(t)
	for name, give := range canaryWays {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCanary(t)
			give(c)
			c.prepare()
			said := c.all(canaryLines)
			for _, want := range []string{"Apply complete!", "Destroy complete!", "(sensitive value)", "digest:app:cdr", `msg=`} {
				require.True(t, strings.Contains(said, want), "the commands did not work, which proves nothing: %s", want)
			}
		})
	}
}

// A failure, after a configuration was applied and a plan saved, and what at least
// one of the commands has to say of it.
type canaryFailure struct {
	make func(*canary)
	say  string
}

var canaryFailures = map[string]canaryFailure{
	"wrong password":     {func(c *canary) { c.setenv("LOCKTREE_VAR_password", wrong) }, "assword first"},
	"no password":        {func(c *canary) { c.setenv("LOCKTREE_VAR_password", "") }, "assword"},
	"refused connection": {func(c *canary) { c.unreachable(nobody) }, "connection refused"},
	"no such host":       {func(c *canary) { c.unreachable("no-such-host.invalid:2181") }, "Cannot reach ZooKeeper"},
	"mute server": {func(c *canary) {
		c.unreachable(c.server.Addr())
		c.server.Freeze()
	}, "Cannot reach ZooKeeper"},
	"reads cut for good":  {func(c *canary) { c.forGood(1, zktest.On("getData"), zktest.CutBefore) }, "Error: Interrupted"},
	"transaction cut":     {func(c *canary) { c.server.Inject(zktest.Once(zktest.On("multi")), zktest.DropReply) }, "Apply complete!"},
	"system error":        {func(c *canary) { c.forGood(20, zktest.On("getData"), zktest.Fail(zktest.CodeSystemError)) }, "server error: system error"},
	"no right to read":    {func(c *canary) { c.server.Inject(zktest.On("getData"), zktest.Fail(zktest.CodeNoAuth)) }, "digest:admin"},
	"no right to write":   {func(c *canary) { c.server.Inject(zktest.On("multi"), zktest.Fail(zktest.CodeNoAuth)) }, "digest:admin"},
	"no right to connect": {func(c *canary) { c.server.Inject(zktest.On("auth"), zktest.Fail(codeAuthFailed)) }, "refused the authentication"},
	"stale plan": {func(c *canary) {
		require.NoError(c.t, c.server.Set("/t/pay/ledger", c.payload("/t/pay/ledger")))
	}, "Saved plan is stale"},
	"damaged node":     {func(c *canary) { require.NoError(c.t, c.server.Set("/t/pay/ledger", []byte(`{"locktree":1,`))) }, "Node is damaged"},
	"newer node":       {func(c *canary) { require.NoError(c.t, c.server.Set("/t/pay/ledger", []byte(`{"locktree":9}`))) }, "newer"},
	"foreign node":     {func(c *canary) { require.NoError(c.t, c.server.Set("/t/pay/ledger", []byte("theirs"))) }, "Path is taken"},
	"damaged index":    {func(c *canary) { require.NoError(c.t, c.server.Set("/t/.locktree/stacks/shop", []byte("x"))) }, "Record is damaged"},
	"lock in use":      {func(c *canary) { c.hold("/t/pay/ledger") }, "Lock is in use"},
	"apply under way":  {func(c *canary) { c.hold("/t/.locktree/apply/shop") }, "Error acquiring the apply lock"},
	"another stack":    {func(c *canary) { c.edit(`stack = "shop"`, `stack = "other"`) }, "of another stack"},
	"another ensemble": {func(c *canary) { c.edit(`ensemble "main"`, `ensemble "spare"`) }, `ensemble "main"`},
	"another root":     {func(c *canary) { c.setenv("LOCKTREE_VAR_root", "/u") }, "below /t; the configuration now says /u"},
	"damaged plan":     {func(c *canary) { c.write("p", `{"locktree_plan":1,"sum":"x"}`) }, "plan file"},
	"no configuration": {func(c *canary) { c.write("locks.locktree.hcl", "") }, "Error: No stack"},
	"neither":          {func(c *canary) { c.edit("[principal.admin]\n  readers         = [principal.app]", "[principal.app]") }, "neither an administrator"},
	"reader": {func(c *canary) {
		c.edit("[principal.admin]\n  readers         = [principal.app]", "[principal.app]\n  readers         = [principal.admin]")
	}, "and may plan and look"},
	"rotation": {func(c *canary) {
		c.edit("admins          = [principal.admin]", "admins          = [principal.admin, principal.app]")
	}, "digest:app:cdrwa"},
	"rights by hand": {func(c *canary) {
		session, err := c.admin().Session(c.t.Context())
		require.NoError(c.t, err)
		for _, path := range []string{"/t/pay", "/t/.locktree/apply/shop", "/t/.locktree", "/t"} {
			_, err := session.SetACL(c.t.Context(), path, append(zk.DigestACL(zk.PermRead, "admin", password), zk.DigestACL(zk.PermAll, "app", password)...), -1)
			require.NoError(c.t, err)
		}
	}, "and lack"},
	"locked out": {func(c *canary) { c.edit("  grant {\n    to    = [principal.admin]\n    allow = \"admin\"\n  }\n", "") }, "allow_lockout"},
}

// unreachable names a server that will not answer, so that nobody waits for it.
func (c *canary) unreachable(addr string) {
	c.setenv("LOCKTREE_VAR_zk", addr)
	c.edit(`connect_timeout = "20s"`, `connect_timeout = "50ms"`)
}

func (c *canary) payload(path string) []byte {
	n, ok := c.server.Get(path)
	require.True(c.t, ok)
	return n.Data
}

// hold is a program that holds a lock.
func (c *canary) hold(path string) {
	_, err := c.admin().Mutex(path).Lock(c.t.Context())
	require.NoError(c.t, err)
}

// admin is a client with the credential of the configuration.
func (c *canary) admin() *recipes.Client {
	return dialTest(c.t, c.server, "", recipes.Auth{Scheme: "digest", Credentials: recipes.Secret("admin:" + password)})
}

func TestNoCommandShowsASecretWhateverFails(t *testing.T) {
	effort.Proof(t, effort.Unraced)
	for name, f := range canaryFailures {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCanary(t)
			c.prepare()
			f.make(c)
			said := c.all(canaryLines)
			require.True(t, strings.Contains(said, f.say), "the failure did not happen")
		})
	}
}

// Mistakes in the configuration, beside a secret or with one: the old text, and
// what stands there instead.
var canaryMistakes = [][2]string{
	{"password = var.password", "password = var.password + 1"},
	{"password = var.password", "passwort = var.password"},
	{"password = var.password", "password = var.pasword"},
	{"password = var.password", "password = [var.password]"},
	{"password = var.password", "password = { a = var.password }"},
	{"password = var.password", "password = \"x${var.password\""},
	{"password = var.password", "password = var.password }"},
	{"password = var.password", "password = tonumber(var.password)"},
	{"password = var.password", "password = var.password.x"},
	{"password = var.password", "password = { a = 1 }[var.password]"},
	{"password = var.password", "password = file(var.password)"},
	{"password = var.password", "password = jsondecode(var.password)"},
	{"password = var.password", "password = format(\"%d\", var.password)"},
	{"password = var.password", "password = regex(var.password, \"x\")"},
	{"password = var.password", "password = nonsensitive(var.password) + 1"},
	{"password = var.password", "password = local.a\n  }\n}\nlocals {\n  a = \"${var.password}${local.b}\"\n  b = local.a\n}\nlocals {\n  c = {\n"},
	{"username = \"admin\"", "username = var.password"},
	{"auth \"digest\" {", "auth \"sasl\" {"},
	{"servers         = [var.zk]", "servers = [var.password]"},
	{"servers         = [var.zk]", "servers = var.password"},
	{"root            = var.root", "root = var.password"},
	{"root            = var.root", "root = \"/${var.password}\""},
	{"connect_timeout = \"20s\"", "connect_timeout = var.password"},
	{"connect_timeout = \"20s\"", "tls {\n    ca_file = var.password\n  }"},
	{"connect_timeout = \"20s\"", "tls {\n    cert_file = \"/${var.password}\"\n    key_file = var.password\n  }"},
	{"stack = \"shop\"", "stack = var.password"},
	{"stack = \"shop\"", "required_version = var.password\n  stack = \"shop\""},
	{"id     = digest(\"app\", var.password)", "id = var.password"},
	{"id     = digest(\"app\", var.password)", "id = \"app:${var.password}\""},
	{"scheme = \"digest\"\n  id     = digest(\"app\", var.password)", "scheme = var.password\n  id = \"x\""},
	{"id     = digest(\"app\", var.password)", "id = \"CN=${var.password}, O=b\""},
	{"scheme = \"digest\"\n  id     = digest(\"app\", var.password)", "scheme = \"x509\"\n  id = \"CN=${var.password}, O=b\""},
	{"scheme = \"digest\"\n  id     = digest(\"app\", var.password)", "scheme = \"sasl\"\n  id = \"${var.password}@b@c\""},
	{"scheme = \"digest\"\n  id     = digest(\"app\", var.password)", "scheme = \"ip\"\n  id = var.password"},
	{"scheme = \"digest\"\n  id     = digest(\"app\", var.password)", "scheme = \"auth\"\n  id = var.password"},
	{"admins          = [principal.admin]", "admins = var.password"},
	{"admins          = [principal.admin]", "admins = [var.password]"},
	{"readers         = [principal.app]", "readers = [{ name = \"x\", scheme = \"digest\", id = var.password }]"},
	{"admins          = [principal.admin]", "admins = []"},
	{"allow = \"lock\"", "allow = var.password"},
	{"to    = [principal.app]", "to = [var.password]"},
	{"permits = 2", "permits = var.password"},
	{"permits = 2", "permits = length(var.password)"},
	{"mutex \"ledger\" {}", "mutex \"ledger\" { name = var.password }"},
	{"mutex \"ledger\" {}", "mutex \"ledger\" { description = \"of ${var.password}\" }"},
	{"mutex \"ledger\" {}", "mutex \"ledger\" { for_each = toset([var.password]) }"},
	{"mutex \"ledger\" {}", "mutex \"ledger\" { for_each = { (var.password) = 1 } }"},
	{"mutex \"ledger\" {}", "mutex \"ledger\" {\n    lifecycle {\n      prevent_destroy = var.password\n    }\n  }"},
	{"mutex \"ledger\" {}", "mutex \"ledger\" {\n    dynamic \"lifecycle\" {\n      for_each = var.password\n      content {}\n    }\n  }"},
	{"acl = acl.users", "acl = var.password"},
	{"  sensitive = true\n}\noutput \"path\"", "}\noutput \"path\""},
	{"value = namespace.pay.mutex.ledger.path", "value = { (var.password) = namespace.pay.mutex.ledger.path }"},
	{"type      = string", "type = number"},
	{"type      = string", "type = object({ a = string })"},
	{"type      = string", "type = list(map(number))"},
	{"type      = string", "type = string\n  validation {\n    condition = length(var.password) > 100\n    error_message = \"Got ${var.password}.\"\n  }"},
	{"type      = string", "type = string\n  validation {\n    condition = tonumber(var.password) > 100\n    error_message = \"Too short.\"\n  }"},
	{"output \"path\" {", "check \"it\" {\n  assert {\n    condition = var.password == \"x\"\n    error_message = \"Is ${var.password}.\"\n  }\n}\noutput \"path\" {"},
	{"output \"path\" {", "check \"it\" {\n  assert {\n    condition = var.password + 1\n    error_message = \"Is wrong.\"\n  }\n}\noutput \"path\" {"},
	{"output \"path\" {", "import {\n  to = namespace.pay.mutex.ledger\n  path = var.password\n}\noutput \"path\" {"},
	{"output \"path\" {", "module \"m\" {\n  source = var.password\n}\noutput \"path\" {"},
	{"output \"path\" {", "module \"m\" {\n  source = \"./m\"\n  given = var.password\n}\noutput \"path\" {"},
}

func TestNoCommandShowsASecretBesideAMistake(t *testing.T) {
	effort.Proof(t, effort.Unraced)
	for i, m := range canaryMistakes {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			c := newCanary(t)
			require.NoError(t, os.Mkdir(filepath.Join(c.dir, "m"), 0o700))
			c.write("m/m.locktree.hcl", "variable \"given\" {\n  type = number\n}\noutput \"shown\" {\n  value = var.given\n}\n")
			c.prepare()
			c.edit(strings.Replace(m[0], "permits = 2", "permits = 3", 1), m[1])
			require.Regexp(t, "Error: |Warning: ", c.quiet(-1, "", "plan"), "it is no mistake: %s", m[1])
			c.all(canaryLoads)
		})
	}
}
