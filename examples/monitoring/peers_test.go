//go:build linux

package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	interop = "../../testdata/interop" // its README.md describes the programs' commands
	jars    = "/usr/share/java"
)

// peer is a Curator or kazoo program, driven line by line.
type peer struct {
	t   *testing.T
	id  string
	cmd *exec.Cmd
	in  io.Writer

	mu      sync.Mutex
	last    int
	answers map[string]chan string
}

// compileCurator compiles the Java program, and returns its class path.
func compileCurator(t *testing.T) string {
	classes := []string{t.TempDir()}
	for _, jar := range []string{"curator-recipes", "curator-framework", "curator-client", "zookeeper", "zookeeper-jute", "zookeeper-recipes-lock", "guava", "slf4j-api", "slf4j-simple"} {
		classes = append(classes, filepath.Join(jars, jar+".jar"))
	}
	path := strings.Join(classes, ":")
	sources, err := filepath.Glob(interop + "/java/*.java")
	require.NoError(t, err)
	args := append([]string{"-proc:none", "-cp", path, "-d", classes[0]}, sources...)
	out, err := exec.CommandContext(t.Context(), "javac", args...).CombinedOutput()
	require.NoError(t, err, "Debian's packages default-jdk-headless and libcurator-recipes-java have what it needs: %s", out)
	return path
}

func curator(t *testing.T, classes, servers, id string, session time.Duration) *peer {
	return startPeer(t, id, exec.Command("java", "-Xmx64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData",
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=off", "-Djava.net.preferIPv4Stack=true", "-cp", classes, "Peer", servers, fmt.Sprint(session.Milliseconds()), id))
}

func kazoo(t *testing.T, servers, id string, session time.Duration) *peer {
	cmd := exec.Command("/usr/bin/python3", "-B", interop+"/python/peer.py", servers, fmt.Sprint(session.Milliseconds()), id)
	return startPeer(t, id, cmd)
}

func startPeer(t *testing.T, id string, cmd *exec.Cmd) *peer {
	p := &peer{t: t, id: id, cmd: cmd, answers: map[string]chan string{}}
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	p.in, err = cmd.StdinPipe()
	require.NoError(t, err)
	start(t, cmd, "Debian's packages default-jdk-headless and python3-kazoo have what it needs")
	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			number, rest, _ := strings.Cut(lines.Text(), " ")
			p.mu.Lock()
			answer := p.answers[number]
			p.mu.Unlock()
			if answer != nil {
				answer <- rest
			}
		}
	}()
	return p
}

// ask sends a command. Its answer may take any time.
func (p *peer) ask(words ...string) <-chan string {
	answer := make(chan string, 1)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last++
	p.answers[strconv.Itoa(p.last)] = answer
	_, err := fmt.Fprintf(p.in, "%d %s\n", p.last, strings.Join(words, " "))
	require.NoError(p.t, err, "%s: %v", p.id, words)
	return answer
}

// must waits for a command to be done, and returns what follows "ok".
func (p *peer) must(words ...string) string {
	select {
	case answer := <-p.ask(words...):
		rest, ok := strings.CutPrefix(answer, "ok")
		require.True(p.t, ok, "%s: %v: %s", p.id, words, answer)
		return strings.TrimSpace(rest)
	case <-time.After(hanging):
		require.Fail(p.t, "no answer", "%s: %v", p.id, words)
		return ""
	}
}

// holds takes a lock for good, and returns its node.
func (p *peer) holds(recipe, path string) string {
	p.must("open", path, recipe, path)
	return p.must("acquire", path)
}

// waits queues for a lock.
func (p *peer) waits(recipe, path string) <-chan string {
	p.must("open", path, recipe, path)
	return p.ask("acquire", path)
}

// network is one Go program's way to the servers.
type network struct {
	mu    sync.Mutex
	state networkState
	conns []*wire
}

type networkState int

const (
	up      networkState = iota
	lossy                // packets vanish, and connections stay open
	refused              // connections are closed, and new ones fail
)

// wire is a connection of a network.
type wire struct {
	net.Conn
	of *network
}

func (n *network) now() networkState {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.state
}

func (n *network) set(s networkState) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.state = s; s == refused {
		for _, c := range n.conns {
			_ = c.Conn.Close()
		}
	}
}

func (n *network) dial(ctx context.Context, proto, address string) (net.Conn, error) {
	switch n.now() {
	case refused:
		return nil, fmt.Errorf("no way to %s", address)
	case lossy:
		<-ctx.Done()
		return nil, ctx.Err()
	}
	c, err := (&net.Dialer{}).DialContext(ctx, proto, address)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	w := &wire{c, n}
	n.conns = append(n.conns, w)
	return w, nil
}

func (w *wire) Write(p []byte) (int, error) {
	if w.of.now() == lossy {
		return len(p), nil
	}
	return w.Conn.Write(p)
}

func (w *wire) Read(p []byte) (int, error) {
	for {
		n, err := w.Conn.Read(p)
		if err != nil || w.of.now() != lossy {
			return n, err
		}
	}
}

// Close does not reach the servers while packets vanish.
func (w *wire) Close() error {
	if w.of.now() == lossy {
		return w.SetDeadline(time.Now())
	}
	return w.Conn.Close()
}
