//go:build linux

package apply_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// peer is a process of clients of another library (testdata/interop), one command at a time.
type peer struct {
	t  *testing.T
	mu sync.Mutex
	in io.Writer
	to *bufio.Scanner
	n  int
}

func startCurator(t *testing.T, address string) *peer {
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
	return startPeer(t, exec.Command("java", "-Xmx96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData",
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", path, "Peer", address, "40000", "java"))
}

func startKazoo(t *testing.T, address string) *peer {
	cmd := exec.Command("/usr/bin/python3", "-B", "../testdata/interop/python/peer.py", address, "40000", "python")
	return startPeer(t, cmd)
}

func startPeer(t *testing.T, cmd *exec.Cmd) *peer {
	p := &peer{t: t}
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
func (p *peer) say(command string) error {
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
