//go:build linux

package apply_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/apply"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest/effort"
	"github.com/locktree/locktree/recipes/zktest/realzk"
)

// javaPeer is a process of Curator clients (testdata/interop), one command at a time.
type javaPeer struct {
	t  *testing.T
	mu sync.Mutex
	in io.Writer
	to *bufio.Scanner
	n  int
}

func startCurator(t *testing.T, address string) *javaPeer {
	classes := []string{t.TempDir()}
	for _, jar := range []string{"curator-recipes", "curator-framework", "curator-client", "zookeeper", "zookeeper-jute", "zookeeper-recipes-lock", "guava", "slf4j-api", "slf4j-simple"} {
		file := "/usr/share/java/" + jar + ".jar"
		_, err := os.Stat(file)
		require.NoError(t, err, ".ci/setup says what to install")
		classes = append(classes, file)
	}
	sources, err := filepath.Glob("../testdata/interop/java/*.java")
	require.NoError(t, err)
	path := strings.Join(classes, ":")
	out, err := exec.Command("javac", append([]string{"-J-XX:TieredStopAtLevel=1", "-J-XX:+UseSerialGC", "-proc:none", "-cp", path, "-d", classes[0]}, sources...)...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	cmd := exec.Command("java", "-Xmx96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData",
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", path, "Peer", address, "40000", "java")
	p := &javaPeer{t: t}
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = in.Close(); _ = cmd.Wait() }) // the end of its input ends it
	p.in, p.to = in, bufio.NewScanner(stdout)
	require.NoError(t, p.say("hello"))
	return p
}

// say sends a command and waits for its answer.
func (p *javaPeer) say(command string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.n++
	if _, err := fmt.Fprintf(p.in, "%d %s\n", p.n, command); err != nil {
		return err
	}
	for p.to.Scan() {
		if number, answer, _ := strings.Cut(p.to.Text(), " "); number == fmt.Sprint(p.n) {
			if !strings.HasPrefix(answer, "ok") {
				return fmt.Errorf("%s: %s", command, answer)
			}
			return nil
		}
	}
	return io.ErrUnexpectedEOF
}

// Curator's clients go on through the instant in which the container they made becomes a node that stays: none is refused, and
// none makes a second one.
func TestCuratorsContainerIsMadeAnewBetweenTwoOfItsHolders(t *testing.T) {
	effort.Proof(t, effort.Unraced)
	t.Parallel()
	server := realzk.Start(t, realzk.Options{Properties: map[string]string{"znode.container.checkIntervalMs": "1000"}})
	s := real(t, server.Addr, "/locks")
	java := startCurator(t, server.Addr)
	require.NoError(t, java.say("auth digest worker:w"))
	for _, one := range []string{"mutex", "semaphore"} {
		path := s.root + "/" + one
		open := "open " + one + " " + one + " " + path
		k := kind.Mutex
		if one == "semaphore" {
			open, k = open+" 1 1", kind.Semaphore
		}
		require.NoError(t, java.say(open))
		require.NoError(t, java.say("acquire "+one))
		node := declare("/"+one, k)
		if k == kind.Semaphore {
			set("permits", 1)(node)
		}
		tree := s.tree(node)
		tree.Intent.Imports = []plan.Import{{To: tree.Nodes[0].Addr, Path: path}}
		me := s.provisioner()
		x := executor(me)
		for { // the parts of a semaphore that are empty may be reaped behind a plan, and behind a transaction
			p := s.plan(me, tree)
			require.True(t, mayVanish(p), p.String())
			err := runPlan(t, x, p)
			if !errors.As(err, new(*apply.StaleError)) && !errors.As(err, new(*apply.ACLPhaseError)) {
				require.NoError(t, err)
				break
			}
		}
		made := make(chan error, 1)
		go func() { made <- x.applier().Remake(t.Context(), tree, tree.Nodes[0], patience) }()
		var err error
		for over := false; !over; { // they follow each other as closely as they can
			assert.NoError(t, java.say("release "+one))
			assert.NoError(t, java.say("acquire "+one))
			select {
			case err = <-made:
				over = true
			default:
			}
		}
		require.NoError(t, err)
		require.NoError(t, java.say("release "+one))

		// A container that is left at the same time is gone: so would ours be.
		require.NoError(t, java.say("open other-"+one+" mutex /other-"+one))
		require.NoError(t, java.say("acquire other-"+one))
		require.NoError(t, java.say("release other-"+one))
		session := s.session(me)
		require.Eventually(t, func() bool {
			stat, err := session.Exists(t.Context(), "/other-"+one)
			return err == nil && stat == nil
		}, patience, 10*time.Millisecond)
		now := s.plan(me, tree)
		require.False(t, mayVanish(now))
		require.False(t, now.HasChanges(), now.String())
	}
}
