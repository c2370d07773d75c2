package main

import (
	"cmp"
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/cmd/locktree/internal/exit"
	"github.com/locktree/locktree/cmd/locktree/internal/help"
	"github.com/locktree/locktree/recipes/zktest"
)

// core stands in every secret of these tests, and nowhere else. What follows it is
// there to be escaped: nobody may look for a secret in one spelling only.
const (
	core     = "CANARY7f3a"
	password = core + "right \"ü${1}\\"
	wrong    = core + "wrong \"ü${1}\\"
)

// shown are the texts that may stand in nothing a person or a program reads.
var shown = append(slices.Clone(stored), digestsOf("admin", "app", "user")...)

// stored are those that may stand in no file and no node either. Access lists have
// digests: that is how ZooKeeper knows who may do what.
var stored = func() []string {
	out := []string{core, strings.ToLower(core), hex.EncodeToString([]byte(core))}
	for i := range 3 { // wherever it begins in what was encoded
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

// canary is a configuration with secrets in it, and how to give them.
type canary struct {
	*bench
	env   []string
	stdin string          // of every command that reads the configuration, "" for its own
	args  []string        // behind every command that reads the configuration
	given map[string]bool // files the secret was put into by ourselves

	struck    atomic.Int64                       // how often the fault of [canary.forGood] struck the command that runs
	interrupt atomic.Pointer[context.CancelFunc] // of that command
}

// forGood is a fault that does not end. A command it has struck so often is interrupted: it would ask again for as long
// as it is let.
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

// A line is one command of the program; what stands before a bar is its standard
// input.
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

// helpLines show every topic of the help.
func helpLines() (out []string) {
	for _, c := range help.Topics() {
		out = append(out, "help "+c.Name())
	}
	return out
}

// canaryLoads are commands that read the configuration, each of which shows in its
// own way what is wrong with it.
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

// Every command of the program is among the lines.
func TestCanaryLinesNameEveryCommand(t *testing.T) {
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			walk(sub)
		}
		name := strings.TrimPrefix(c.CommandPath(), "locktree ")
		if c.HasSubCommands() || name == "demo" { // demo reads nothing of the user's
			return
		}
		require.True(t, slices.ContainsFunc(canaryLines, func(line string) bool {
			_, command, ok := strings.Cut(line, "|")
			if !ok {
				command = line
			}
			return command == name || strings.HasPrefix(command, name+" ") || !c.Runnable() && command == "help "+name
		}), "no line runs %q", name)
	}
	walk(appWith().rootCommand())
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

// edit changes the configuration.
func (c *canary) edit(old, new string) {
	c.folder.edit("locks.locktree.hcl", old, new)
}

// setenv replaces a variable of the environment.
func (c *canary) setenv(name, value string) {
	c.env = slices.DeleteFunc(c.env, func(e string) bool { return strings.HasPrefix(e, name+"=") })
	c.env = append(c.env, name+"="+value)
}

// give puts the secret into a file, which may have it then.
func (c *canary) give(name, text string) {
	c.write(name, text)
	c.given[name] = true
}

// quiet runs one command, and fails when it shows a secret. A negative code is any
// the program has.
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
		if strings.Contains(text, "locktree: waiting for ") { // for a lock nobody gives back
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

// readsConfiguration tells the commands that take -var and -var-file.
func readsConfiguration(args []string) bool {
	return !slices.Contains([]string{"version", "help", "completion", "init", "dev", "fmt", "__complete"}, args[0])
}

// all runs the commands and returns what they said.
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

// What finds nothing must be able to find something.
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
