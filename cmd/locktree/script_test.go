package main

import (
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/cmd/locktree/internal/help"
	"github.com/locktree/locktree/recipes/zktest"
	"github.com/locktree/locktree/recipes/zktest/effort"
	"github.com/locktree/locktree/recipes/zktest/realzk"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"locktree": main})
}

// superDigest is super:super, an identity that may do everything on the servers of these tests. The scripts' own hand needs it to see nodes
// that are closed to all others.
const superDigest = "super:gG7s8t3oDEtIqF6DM9LlI/R+9Ss="

// The scripts on the in-memory server, a fresh one for each. Those below "both"
// run on Apache ZooKeeper too.
func TestScript(t *testing.T) {
	effort.Daily(t)
	for _, dir := range []string{"../../testdata/script", "../../testdata/script/both"} {
		testscript.Run(t, params(dir, func(env *testscript.Env) string {
			server := zktest.New(zktest.WithSuperDigest(superDigest))
			env.Defer(server.Close)
			env.Values[serverKey{}] = &server
			return server.Addr()
		}))
	}
}

// The same scripts on Apache ZooKeeper, each in its own root. If ZooKeeper is not installed, this fails and says how to get it.
func TestScriptOnApacheZooKeeper(t *testing.T) {
	effort.Daily(t)
	t.Parallel()
	addr := realzk.Shared(t)
	// A group of its own: scripts are parallel and must be over before the server goes.
	t.Run("both", func(t *testing.T) {
		testscript.Run(t, params("../../testdata/script/both", func(*testscript.Env) string { return addr }))
	})
}

type serverKey struct{}

// base stands in every script's directory: where to connect, and an access list
// that lets the scripts look at everything.
const base = `locktree {
  stack = "shop"
}

variable "zk" {}

variable "root" {}

ensemble "main" {
  servers         = [var.zk]
  root            = var.root
  connect_timeout = "10s"
}
` + world

const world = `
principal "anyone" {
  scheme = "world"
}

acl "open" {
  allow_world = true
  grant {
    to    = [principal.anyone]
    allow = "admin"
  }
}
`

func params(dir string, start func(*testscript.Env) string) testscript.Params {
	return testscript.Params{
		Dir:                 dir,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       os.Getenv("GOLDEN") != "",
		Setup: func(env *testscript.Env) error {
			addr := start(env)
			name := strings.TrimPrefix(filepath.Base(env.WorkDir), "script-")
			env.Setenv("ZK", addr)
			env.Setenv("LOCKTREE_VAR_zk", addr)
			env.Setenv("ROOT", "/t-"+name)
			env.Setenv("LOCKTREE_VAR_root", "/t-"+name)
			env.Setenv("INDEX", "/t-"+name+"/.locktree/stacks/shop")
			if err := os.WriteFile(filepath.Join(env.WorkDir, "base.locktree.hcl"), []byte(base), 0o644); err != nil {
				return err
			}
			// Under the race detector a program sleeps for a second before it exits, to catch late races. Here this is off, because the
			// scripts run hundreds of commands of a few milliseconds.
			env.Setenv("GORACE", "atexit_sleep_ms=0")
			// This is the longest session timeout that the servers grant. A command outlives a machine that stops for half of it.
			env.Setenv("ZOOKEEPER_SESSION", "40")
			env.Setenv("DOWN", nobody)
			env.Setenv("HTTP", webServer(env))
			hand, err := newHand(addr)
			if err != nil {
				return err
			}
			env.Defer(hand.close)
			env.Values[handKey{}] = hand
			return nil
		},
		Cmds: allVerbs(),
	}
}

func allVerbs() map[string]func(*testscript.TestScript, bool, []string) {
	all := maps.Clone(scriptCommands)
	maps.Copy(all, scriptFaults)
	return all
}

// nobody is an address without a listener. A port that was free a moment ago may be in use by now. The system gives this one to no program
// that asks for any port.
const nobody = "127.0.0.1:1"

// webServer is a server that a wrong port number often leads to: it answers whatever it reads with an HTTP error.
func webServer(env *testscript.Env) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		env.T().Fatal(err)
	}
	env.Defer(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				if _, err := conn.Read(make([]byte, 512)); err == nil {
					fmt.Fprint(conn, "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n400 Bad Request")
				}
			}()
		}
	}()
	return l.Addr().String()
}

func eachCommand(f func(c *cobra.Command)) {
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			walk(sub)
		}
		f(c)
	}
	walk(appWith().rootCommand())
}

// The flags of one name must be of one sort everywhere: the normaliser decides
// by the name alone whether the next word is a value.
func TestFlagsOfOneNameAreOfOneSort(t *testing.T) {
	takesValue := map[string]bool{}
	eachCommand(func(c *cobra.Command) {
		c.InitDefaultHelpFlag()
		look := func(flag *pflag.Flag) {
			value := flag.NoOptDefVal == ""
			before, seen := takesValue[flag.Name]
			require.False(t, seen && before != value, "-%s of %s", flag.Name, c.Name())
			takesValue[flag.Name] = value
			require.Equal(t, []string{"--" + flag.Name}, help.Normalize(c.Root(), []string{"-" + flag.Name}))
		}
		c.Flags().VisitAll(look)
		c.PersistentFlags().VisitAll(look)
	})
	require.Greater(t, len(takesValue), 15)
}

func TestNormalizeArgs(t *testing.T) {
	root := appWith().rootCommand()
	for in, want := range map[string]string{
		"plan -out p -json":                  "plan --out p --json",
		"plan --out=p --json=false":          "plan --out=p --json=false",
		"-chdir=a plan -var -json=1":         "--chdir=a plan --var -json=1",
		"fmt -":                              "fmt -",
		"plan -h":                            "plan -h",
		"apply -auto-approve -- -json":       "apply --auto-approve -- -json",
		"plan -nonsense":                     "plan --nonsense",
		"plan -var x=1 -var-file f -out":     "plan --var x=1 --var-file f --out",
		"output -raw name":                   "output --raw name",
		"apply -lock-timeout 3s -input=true": "apply --lock-timeout 3s --input=true",
	} {
		require.Equal(t, want, strings.Join(help.Normalize(root, strings.Fields(in)), " "))
	}
}
