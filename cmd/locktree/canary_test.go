package main

import (
	"cmp"
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"html"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
	"github.com/zclconf/go-cty/cty"

	"github.com/locktree/locktree/cmd/locktree/internal/exit"
	"github.com/locktree/locktree/cmd/locktree/internal/help"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/zktest"
	"github.com/locktree/locktree/recipes/zktest/effort"
)

// core stands in every secret of these tests and in no other text. The characters behind it must be escaped, so a search for a secret must
// not rely on one spelling.
const (
	core     = "CANARY7f3a"
	password = core + "right \"ü${1}\\"
	wrong    = core + "wrong \"ü${1}\\"
)

// shown are the texts that no output for a person or a program may contain.
var shown = append(slices.Clone(stored), digestsOf("admin", "app", "user")...)

// stored are the texts that no file and no node may contain either. Access lists may contain digests: by them ZooKeeper knows who may do
// what.
var stored = func() []string {
	out := []string{core, strings.ToLower(core), hex.EncodeToString([]byte(core))}
	for i := range 3 { // at each offset of core, modulo 3
		text := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", i) + core))
		out = append(out, strings.TrimRight(text[(i*8+5)/6:], "=")[:len(core)])
	}
	for _, secret := range []string{password, wrong} {
		one, two := sha1.Sum([]byte(secret)), sha256.Sum256([]byte(secret))
		for _, sum := range [][]byte{one[:], two[:]} {
			out = append(out, hex.EncodeToString(sum), base64.StdEncoding.EncodeToString(sum))
		}
	}
	return out
}()

func digestsOf(users ...string) (out []string) {
	for _, user := range users {
		for _, secret := range []string{password, wrong} {
			sum := sha1.Sum([]byte(user + ":" + secret))
			out = append(out, base64.StdEncoding.EncodeToString(sum[:]))
		}
	}
	return out
}

// leak is the first of the texts found, "" when there is none.
func leak(text string, secrets []string) string {
	for _, s := range secrets {
		if strings.Contains(text, s) {
			return s
		}
	}
	return ""
}

// canary is a configuration with secrets in it, and the way to give them.
type canary struct {
	*bench
	env   []string
	stdin string          // for every command that reads the configuration; "" leaves each its own
	args  []string        // added to every command that reads the configuration
	given map[string]bool // files into which the test put the secret

	struck    atomic.Int64                       // how often the fault of [canary.forGood] struck the running command
	interrupt atomic.Pointer[context.CancelFunc] // interrupts that command
}

// forGood injects a fault that does not end. A command that it struck enough times is interrupted: it would ask again for ever.
func (c *canary) forGood(enough int64, match func(zktest.Request) bool, fault zktest.Fault) {
	c.server.Inject(func(r zktest.Request) bool {
		if !match(r) {
			return false
		}
		if c.struck.Add(1) >= enough {
			(*c.interrupt.Load())()
		}
		return true
	}, fault)
}

// secretive is the configuration: the password opens the connection, makes a
// digest, and is an output.
const secretive = `locktree {
  stack = "shop"
}
variable "zk" {}
variable "root" {}
variable "password" {
  type      = string
  sensitive = true
}
ensemble "main" {
  servers         = [var.zk]
  root            = var.root
  connect_timeout = "20s"
  admins          = [principal.admin]
  readers         = [principal.app]
  auth "digest" {
    username = "admin"
    password = var.password
  }
}
principal "app" {
  scheme = "digest"
  id     = digest("app", var.password)
}
principal "admin" {
  scheme = "digest"
  id     = digest("admin", var.password)
}
acl "users" {
  grant {
    to    = [principal.app]
    allow = "lock"
  }
  grant {
    to    = [principal.admin]
    allow = "admin"
  }
}
namespace "pay" {
  acl = acl.users
  mutex "ledger" {}
  semaphore "pool" { permits = 2 }
}
output "it" {
  value     = var.password
  sensitive = true
}
output "path" {
  value = namespace.pay.mutex.ledger.path
}
`

// canaryLines has a command of the program in each line. The text before a bar names its standard input in canaryInput.
var canaryLines = append(helpLines(), []string{
	"version", "version -json", "help -man=man", "completion bash", "completion zsh", "completion fish", "completion powershell",
	"init", "dev -listen=nonsense",
	"fmt -check", "mistake|fmt -",
	"validate", "validate -json", "validate -nonsense", "generate go",
	"__complete plan --target ", "__complete output ", "__complete show ",
	"show p", "show -concise p", "show -json p", "show nothing",
	"plan", "plan -json", "plan -concise", "plan -detailed-exitcode", "plan -destroy", "plan -destroy -drain=1s",
	"plan -json -replace=namespace.pay.mutex.ledger -target=namespace.pay", "plan -target=namespace.pay.mutex.*", "plan -target=namespace.pay.mutex.nothing", "plan -out=q", "plan -out=/nowhere/q",
	"show", "show -json", "status", "status -json", "status -detailed-exitcode", "status /t", "status -json /t/pay/ledger", "status nonsense",
	"status /t/pay/ledger -key=x", "exec -key=x /t/pay/ledger -- true", "history", "history -json", "revoke -auto-approve /t/pay/ledger", "no|break namespace.pay.mutex.ledger", "break -json -auto-approve -holder=x /t/pay/ledger", "apply -auto-approve -message=why",
	"status -watch -detailed-exitcode", "serve -listen=nonsense", "serve -listen=0.0.0.0:0", "serve -listen=127.0.0.1:nonsense", "doctor", "doctor -json", "doctor nonsense", "exec namespace.pay.mutex.ledger -- true", "exec -try /t/pay/ledger -- true", "exec /t/nothing -- true", "exec nothing", "exec -once /t/pay/ledger -- true", "once skip /t/pay/ledger x", "exec namespace.pay.mutex.ledger -- /nowhere/true",
	"output", "output -json", "output it", "output -raw it", "output -json it", "output path", "output nothing",
	"show namespace.pay.mutex.ledger", "show -json namespace.pay.mutex.ledger", "show mutex.nothing",
	"import -from=/t", "import -from=/t -kind=mutex -generate=g.locktree.hcl", "import -from=nonsense", "import mutex.nothing /t/x", "import -auto-approve namespace.pay.mutex.ledger /t/nowhere",
	"no|apply", "apply -input=false", "apply -json", "apply nothing", "apply p", "apply -json p", "apply -detailed-exitcode p", "apply -auto-approve -detailed-exitcode", "apply -auto-approve -json",
	"apply -auto-approve -replace=namespace.pay.mutex.ledger", "no|destroy", "destroy -auto-approve -json", "destroy -auto-approve -detailed-exitcode",
}...)

func helpLines() (out []string) {
	for _, c := range help.Topics() {
		out = append(out, "help "+c.Name())
	}
	return out
}

// canaryLoads are commands that read the configuration. Each shows in its own way what is wrong with it.
var canaryLoads = []string{
	"validate", "validate -json", "plan", "plan -json", "apply -auto-approve", "apply -json p", "destroy -auto-approve",
	"show", "status -json", "output", "import -from=/t", "import namespace.pay.mutex.ledger /t/x",
	"fmt -check", "__complete plan --target ", "__complete output ", "exec namespace.pay.mutex.ledger -- true", "doctor", "serve -listen=127.0.0.1:nonsense",
	"history", "revoke -auto-approve namespace.pay.mutex.ledger", "break -auto-approve namespace.pay.mutex.ledger",
}

var canaryInput = map[string]string{
	"":        "",
	"no":      "no\n",
	"mistake": "tonumber(var.password\n",
}

func TestCanaryLinesNameEveryCommand(t *testing.T) {
	eachCommand(func(c *cobra.Command) {
		name := strings.TrimPrefix(c.CommandPath(), "locktree ")
		if c.HasSubCommands() || name == "demo" { // demo reads nothing of the user's
			return
		}
		require.True(t, slices.ContainsFunc(canaryLines, func(line string) bool {
			command := line[strings.LastIndexByte(line, '|')+1:]
			return command == name || strings.HasPrefix(command, name+" ") || !c.Runnable() && command == "help "+name
		}), "no line runs %q", name)
	})
}

func newCanary(t *testing.T) *canary {
	c := &canary{bench: newBench(t, ""), given: map[string]bool{}}
	require.NoError(t, os.Remove(filepath.Join(c.dir, "base.locktree.hcl")))
	c.env = []string{"LOCKTREE_VAR_zk=" + c.server.Addr(), "LOCKTREE_VAR_root=/t", "LOCKTREE_VAR_password=" + password, "LOCKTREE_LOG=debug", "ZOOKEEPER_SESSION=40"}
	c.write("locks.locktree.hcl", secretive)
	return c
}

// prepare applies the configuration and saves a plan of a further change.
func (c *canary) prepare() {
	c.quiet(exit.OK, "", "apply", "-auto-approve")
	c.edit("permits = 2", "permits = 3")
	c.quiet(exit.OK, "", "plan", "-out=p")
}

func (c *canary) edit(old, new string) {
	c.folder.edit("locks.locktree.hcl", old, new)
}

func (c *canary) setenv(name, value string) {
	c.env = slices.DeleteFunc(c.env, func(e string) bool { return strings.HasPrefix(e, name+"=") })
	c.env = append(c.env, name+"="+value)
}

// give puts the secret into a file that may contain it.
func (c *canary) give(name, text string) {
	c.write(name, text)
	c.given[name] = true
}

// quiet runs one command, and fails if it shows a secret. A negative code accepts every exit code of the program.
func (c *canary) quiet(code int, stdin string, args ...string) string {
	c.t.Helper()
	var out paper
	line := append([]string{"-chdir=" + c.dir}, args...)
	if len(c.args) > 0 && readsConfiguration(args) {
		at := len(line)
		if dashes := slices.Index(line, "--"); dashes >= 0 {
			at = dashes
		}
		line = slices.Insert(line, at, c.args...)
		stdin = cmp.Or(c.stdin, stdin)
	}
	ctx, interrupt := context.WithCancel(c.t.Context())
	defer interrupt()
	c.struck.Store(0)
	c.interrupt.Store(&interrupt)
	out.heard = func(text string) {
		if strings.Contains(text, "locktree: waiting for ") { // for a lock that is never released
			interrupt()
		}
	}
	hangs := time.AfterFunc(hanging, interrupt)
	got := start(ctx, line, c.env, strings.NewReader(stdin), &out, &out)
	text := out.String()
	require.True(c.t, hangs.Stop(), "%v hangs: %s", args, text)
	require.Empty(c.t, leak(text, shown), "%v shows a secret:\n%s", args, text)
	require.NotContains(c.t, text, "panic", "%v", args)
	if code >= 0 {
		require.Equal(c.t, code, got, "%v: %s", args, text)
	}
	require.Contains(c.t, slices.Collect(maps.Keys(exitCodeSet)), got, "%v: %s", args, text)
	return text
}

var exitCodeSet = map[int]bool{exit.OK: true, exit.Failed: true, exit.Changes: true, exit.FmtDiff: true, exit.Stale: true, exit.Locked: true, exit.InUse: true,
	exit.Lost: true, exit.Conflict: true, exit.Own: true, exit.CannotRun: true, exit.NotFound: true}

// readsConfiguration reports whether a command takes -var and -var-file.
func readsConfiguration(args []string) bool {
	return !slices.Contains([]string{"version", "help", "completion", "init", "dev", "fmt", "__complete"}, args[0])
}

func (c *canary) all(lines []string) string {
	var said strings.Builder
	for _, line := range lines {
		input, command, ok := strings.Cut(line, "|")
		if !ok {
			input, command = "", line
		}
		said.WriteString(c.quiet(-1, canaryInput[input], strings.Split(command, " ")...))
	}
	c.clean()
	return said.String()
}

// clean looks for secrets in every file of the directory, and in the tree.
func (c *canary) clean() {
	err := filepath.WalkDir(c.dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || c.given[d.Name()] {
			return err
		}
		text, err := os.ReadFile(name)
		require.Empty(c.t, leak(string(text), stored), "%s has a secret", name)
		return err
	})
	require.NoError(c.t, err)
	require.Empty(c.t, leak(c.server.Dump(), stored), "the tree has a secret")
}

// The search for leaks must be able to find one.
func TestLeaksAreFound(t *testing.T) {
	digest := sha1.Sum([]byte("admin:" + wrong))
	for _, text := range []string{
		password, "x" + wrong + "x", strings.ToLower(password), hex.EncodeToString([]byte("y" + password)),
		base64.StdEncoding.EncodeToString([]byte(password)), base64.StdEncoding.EncodeToString([]byte("u:" + password)), base64.RawURLEncoding.EncodeToString([]byte("x" + password)),
		base64.StdEncoding.EncodeToString(digest[:]),
	} {
		require.NotEmpty(t, leak("before "+text+" after", shown), text)
	}
	require.Empty(t, leak("nothing at all, CANARY", shown))
	require.Empty(t, leak(base64.StdEncoding.EncodeToString(digest[:]), stored))
}

// codeAuthFailed is a code of the protocol that zktest does not name.
const codeAuthFailed zktest.Code = -115

// canaryWays are all ways to give a secret.
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

// No command shows the secret, or leaves it in a file or a node.
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

// canaryFailure is a failure after an apply and a saved plan. At least one command must print the text in the field say.
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

// unreachable names a server that does not answer, with a timeout so short that no command waits for it.
func (c *canary) unreachable(addr string) {
	c.setenv("LOCKTREE_VAR_zk", addr)
	c.edit(`connect_timeout = "20s"`, `connect_timeout = "50ms"`)
}

func (c *canary) payload(path string) []byte {
	n, ok := c.server.Get(path)
	require.True(c.t, ok)
	return n.Data
}

func (c *canary) hold(path string) {
	_, err := c.admin().Mutex(path).Lock(c.t.Context())
	require.NoError(c.t, err)
}

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

// canaryMistakes are mistakes in the configuration, beside a secret or with one: the old text and its replacement.
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

// servedPages is everything that serve answers to.
var servedPages = []string{
	"", "locks?show=all", "lock?ensemble=main&path=/t/pay/ledger", "lock?ensemble=main&path=" + ledgerPath, "waits", "drift", "doctor", "metrics", "api/v1/status", "healthz", "readyz", "nothing",
}

// pages requests all of them, and fails if one shows a secret: in its headers, in its source, or as a browser reads it.
func (c *canary) pages(s *served) (said string) {
	c.t.Helper()
	for _, path := range servedPages {
		resp, err := http.Get(s.url + path)
		require.NoError(c.t, err)
		var text strings.Builder
		require.NoError(c.t, resp.Header.Write(&text))
		require.NoError(c.t, resp.Write(&text))
		resp.Body.Close()
		require.Empty(c.t, leak(text.String()+html.UnescapeString(text.String()), shown), "%s shows a secret:\n%s", path, text.String())
		require.NotContains(c.t, text.String(), "panic", path)
		said += text.String()
	}
	return said
}

// No page shows the secret, neither with everything in view nor while it cannot read anything.
func TestNoPageShowsASecret(t *testing.T) {
	c := newCanary(t)
	c.prepare()
	c.hold("/t/pay/ledger")
	s := startServe(t, c.dir, c.env, "-drift-interval=1s")
	s.until("drift", "Plan: 0 to add, 1 to change, 0 to destroy.")
	s.until("doctor", "session timeout")
	s.until("locks", "1 held")
	require.Contains(t, c.pages(s), "/t/pay/ledger")
	c.server.RefuseDials(true)
	for _, x := range c.server.Sessions() {
		c.server.Expire(x.ID)
	}
	s.until("", "stale")
	s.until("doctor", `class="bad"`)
	c.pages(s)
	require.Empty(t, leak(s.said(), shown), s.said())
}

func TestNoPageShowsASecretThatIsWrong(t *testing.T) {
	for name, seen := range map[string][2]string{
		"wrong password": {"", `<span class="bad">`}, "no right to read": {"", `<span class="bad">`}, "no right to connect": {"", `<span class="bad">`},
		"damaged index": {"drift", "damaged"}, "damaged node": {"drift", "damaged"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCanary(t)
			c.prepare()
			canaryFailures[name].make(c)
			s := startServe(t, c.dir, c.env, "-drift-interval=1s")
			s.until(seen[0], seen[1])
			c.pages(s)
			require.Empty(t, leak(s.said(), shown), s.said())
		})
	}
}
