//go:build linux

// Package foreign_test lets the clients of other languages loose on zktest: what
// they need of a ZooKeeper is more than what any Go client asks for.
package foreign_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/zktest"
	"github.com/locktree/locktree/recipes/zktest/realzk"
)

// run executes a client program against an address and returns its output.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute) // a hang; the programs have bounds of their own
	defer cancel()
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	require.NoError(t, err, "%s %s:\n%s", name, strings.Join(args, " "), out)
	return string(out)
}

// both runs a client against the server in memory and, to show that the program is right, against ZooKeeper.
func both(t *testing.T, client func(t *testing.T, address string)) {
	t.Run("in memory", func(t *testing.T) {
		s := zktest.Start(t)
		client(t, s.Addr())
		require.Empty(t, s.Sessions(), "every client has closed its session")
		t.Logf("the client sent %v", s.Counts().ByOp)
	})
	t.Run("ZooKeeper", func(t *testing.T) {
		client(t, realzk.Start(t, realzk.Options{}).Addr)
	})
}

func TestKazooContends(t *testing.T) {
	t.Parallel()
	python := "/usr/bin/python3" // the one Debian installs kazoo for
	if out, err := exec.Command(python, "-c", "import kazoo").CombinedOutput(); err != nil {
		t.Fatalf("kazoo is not there, which this test needs; install it with: apt-get install -y python3-kazoo\n%s", out)
	}
	both(t, func(t *testing.T, address string) {
		out := run(t, python, "testdata/contend.py", address)
		require.Equal(t, "ok lock\nok election\nok watch\nok transaction\n", out)
	})
}

func TestCuratorContends(t *testing.T) {
	t.Parallel()
	var classes []string
	for _, jar := range []string{
		"curator-recipes", "curator-framework", "curator-client", "zookeeper", "guava", "slf4j-api", "slf4j-nop", "netty-resolver",
	} {
		path := filepath.Join("/usr/share/java", jar+".jar")
		if _, err := os.Stat(path); err != nil {
			t.Fatalf("%s is not there, which this test needs; install it with: apt-get install -y libcurator-recipes-java default-jdk-headless", path)
		}
		classes = append(classes, path)
	}
	dir := t.TempDir()
	cp := strings.Join(classes, ":")
	run(t, "javac", "-J-XX:TieredStopAtLevel=1", "-J-XX:+UseSerialGC", "-d", dir, "-cp", cp, "testdata/Contend.java")
	both(t, func(t *testing.T, address string) {
		out := run(t, "java", "-XX:TieredStopAtLevel=1", "-Xmx128m", "-cp", fmt.Sprintf("%s:%s", dir, cp), "Contend", address)
		require.Equal(t, "ok lock\nok election\nok transaction\nok watch\n", out)
	})
}
