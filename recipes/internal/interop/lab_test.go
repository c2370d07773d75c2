//go:build linux

// Package interop_test lets programs in other languages, and other Go libraries, contend for the locks of this library.
package interop_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/internal/harness"
	"github.com/locktree/locktree/recipes/internal/hostile"
	"github.com/locktree/locktree/recipes/internal/session"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest/realzk"
)

// pollEvery is the pause between two questions: it leaves the processor to the programs that are asked.
const pollEvery = 2 * time.Millisecond

// realLab is one real ZooKeeper, the programs of the other languages, and a connection to look at the tree with.
type realLab struct {
	t       *testing.T
	zk      *realzk.Server
	admin   *zk.Conn
	classes string // compiled Java, and its class path
	program string // compiled Go
	java    *peer
	python  *peer
	jvm     []string     // further options of Java programs
	sasl    recipes.SASL // how our clients log in

	mu             sync.Mutex
	locks, handles int
	events         map[string]chan string // by the path of the contender they are about
}

const (
	jars    = "/usr/share/java"
	interop = "../../../testdata/interop"
)

// newLab makes a laboratory with all programs.
func newLab(t *testing.T) *realLab {
	t.Helper()
	go func() { _, _ = javaProgram() }() // while the server starts
	l := bareLab(t)
	l.startPeers(t)
	return l
}

// startPeers starts the programs of the other languages.
func (l *realLab) startPeers(t *testing.T) {
	t.Helper()
	var err error
	l.classes, err = javaProgram()
	require.NoError(t, err)
	l.java = l.startJava(t, "java", livingSession, l.hear)
	l.python = l.startPython(t, "python", livingSession, l.hear)
}

// bareLab makes a laboratory without the programs of the other languages. If jvm has options of the server, they replace the properties.
func bareLab(t *testing.T, jvm ...string) *realLab {
	t.Helper()
	l := &realLab{t: t, events: map[string]chan string{}}
	options := realzk.Options{TickTime: 200 * time.Millisecond, Config: map[string]string{"minSessionTimeout": "1000", "maxSessionTimeout": "60000"}, JVM: jvm}
	if jvm == nil {
		// These tests do not crash the server. It must not remove nodes that Curator leaves, as it otherwise does within a minute, at
		// any moment.
		options.Properties = map[string]string{"zookeeper.forceSync": "no", "znode.container.checkIntervalMs": "86400000"}
	}
	l.zk = realzk.Start(t, options)
	l.connect(t)
	t.Cleanup(func() { l.admin.Close() })
	l.create(t, "/commits", nil)
	(&harness.Commits{Set: func(context.Context) (int32, error) {
		stat, err := l.admin.Set("/commits", nil, -1)
		if err != nil {
			return 0, err
		}
		return stat.Version, nil
	}}).Keep(t, 0) // one write now and one at the test's end are enough
	return l
}

func (l *realLab) connect(t *testing.T) {
	var err error
	l.admin, _, err = zk.Connect([]string{l.zk.Addr}, livingSession, zk.WithLogInfo(false))
	require.NoError(t, err)
}

// goBuild compiles a package of this repository, or of another version of it.
func goBuild(t *testing.T, root, out, pkg string, flags ...string) {
	t.Helper()
	build := exec.Command("go", append(append([]string{"build", "-o", out}, flags...), pkg)...)
	build.Dir = root
	text, err := build.CombinedOutput()
	require.NoError(t, err, "%s", text)
}

// readOnly dials the session of a program that only reads.
func (l *realLab) readOnly(t *testing.T) *session.Client {
	t.Helper()
	c, err := session.Dial(t.Context(), session.Config{Servers: []string{l.zk.Addr}, ReadOnly: true, ConnectTimeout: hostile.Patience, SessionTimeout: livingSession})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// javaProgram is the class path of the Java program, which is compiled once, into a folder that TestMain removes.
var (
	javaFolder  string
	javaProgram = sync.OnceValues(func() (string, error) { return compileJava(javaFolder) })
)

func TestMain(m *testing.M) {
	var err error
	if javaFolder, err = os.MkdirTemp("", "interop"); err != nil {
		panic(err)
	}
	code := m.Run()
	os.RemoveAll(javaFolder)
	os.Exit(code)
}

// compileJava compiles the Java program and more into a folder, and returns their class path.
func compileJava(dir string, more ...string) (string, error) {
	path := []string{dir}
	// Curator's classes refer to Guava, the logging facade and ZooKeeper's records.
	for _, jar := range []string{"curator-recipes", "curator-framework", "curator-client", "zookeeper", "zookeeper-jute", "zookeeper-recipes-lock", "guava", "slf4j-api", "slf4j-simple"} {
		file := filepath.Join(jars, jar+".jar")
		if _, err := os.Stat(file); err != nil {
			return "", fmt.Errorf("the Java program needs a library that is not installed; .ci/setup installs it: %w", err)
		}
		path = append(path, file)
	}
	classes := strings.Join(path, ":")
	sources, err := filepath.Glob(interop + "/java/*.java")
	if err != nil {
		return "", err
	}
	out, err := exec.Command("javac", slices.Concat([]string{"-J-XX:TieredStopAtLevel=1", "-J-XX:+UseSerialGC", "-proc:none", "-cp", classes, "-d", dir}, sources, more)...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("javac: %w\n%s", err, out)
	}
	return classes, nil
}

// startJava starts a process of Curator clients. The flags make it start in a second on a busy machine.
func (l *realLab) startJava(t *testing.T, id string, timeout time.Duration, event func(string)) *peer {
	t.Helper()
	return startPeer(t, id, exec.Command("java", append(slices.Clone(l.jvm), "-Xmx96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData",
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-Djava.net.preferIPv4Stack=true", "-cp", l.classes,
		"Peer", l.zk.Addr, fmt.Sprint(timeout.Milliseconds()), id)...), event)
}

// build makes the Go program for this run, under the race detector if this test is.
func (l *realLab) build(t *testing.T) {
	l.program = filepath.Join(t.TempDir(), "peer")
	var flags []string
	if info, ok := debug.ReadBuildInfo(); ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		flags = []string{"-race"}
	}
	goBuild(t, interop+"/go", l.program, ".", flags...)
}

// startGo starts a Go program that can be killed.
func (l *realLab) startGo(t *testing.T, id string, timeout time.Duration, event func(string)) *peer {
	t.Helper()
	return startPeer(t, id, exec.Command(l.program, l.zk.Addr, fmt.Sprint(timeout.Milliseconds()), id), event)
}

// startPython starts a process of kazoo clients, with the interpreter that Debian's kazoo belongs to.
func (l *realLab) startPython(t *testing.T, id string, timeout time.Duration, event func(string)) *peer {
	t.Helper()
	// ZooKeeper 3.8.0 may never answer a client that connects while it starts. The client kazoo waits for the answer for the session
	// timeout, divided by the number of addresses. So the one address is given three times: with one, the session would expire.
	servers := strings.Join(slices.Repeat([]string{l.zk.Addr}, 3), ",")
	cmd := exec.Command("/usr/bin/python3", "-B", interop+"/python/peer.py", servers, fmt.Sprint(timeout.Milliseconds()), id)
	return startPeer(t, id, cmd, event)
}

// goClient is a Go program as far as ZooKeeper can tell: a client with a session of its own.
func (l *realLab) goClient(t *testing.T, id string, observer func(recipes.Event), auth ...recipes.Auth) *recipes.Client {
	t.Helper()
	c, err := recipes.Dial(t.Context(), recipes.Config{Servers: []string{l.zk.Addr}, ID: id, SessionTimeout: livingSession,
		ConnectTimeout: hostile.Patience, Observer: observer, Auth: auth, SASL: l.sasl})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() }) // a busy server may take longer to confirm it than Close waits
	return c
}

// provision declares a lock the way apply does, and returns its path.
func (l *realLab) provision(t *testing.T, p kind.Params, childACL ...kind.ACL) string {
	t.Helper()
	l.mu.Lock()
	l.locks++
	path := fmt.Sprintf("/lock-%d-%s", l.locks, strings.NewReplacer("/", ".", "+", "", " ", "").Replace(t.Name()))
	l.mu.Unlock()
	payload := &kind.Payload{Params: p, Owner: kind.Owner{Stack: "interop", Addr: "test"}, ChildACL: childACL}
	data, err := payload.Encode()
	require.NoError(t, err)
	l.create(t, path, data)
	for _, c := range payload.Children() {
		l.create(t, kind.JoinPath(path, c), nil)
	}
	return path
}

func (l *realLab) create(t *testing.T, path string, data []byte) {
	t.Helper()
	_, err := l.admin.Create(path, data, 0, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
}

// contenders returns the children of dir in the order of their numbers.
func (l *realLab) contenders(t *testing.T, dir string) []string {
	t.Helper()
	children, _, err := l.admin.Children(dir)
	require.NoError(t, err)
	return inOrder(children)
}

func inOrder(children []string) []string {
	line, _ := kind.SortContenders(children)
	names := make([]string, len(line))
	for i, c := range line {
		names[i] = c.Name
	}
	return names
}

// awaitContenders returns the children of dir once there are n.
func (l *realLab) awaitContenders(t *testing.T, dir string, n int) []string {
	t.Helper()
	deadline := time.After(hostile.Patience)
	for {
		children, _, changed, err := l.admin.ChildrenW(dir)
		require.NoError(t, err)
		if len(children) == n {
			return inOrder(children)
		}
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("%s has %d children, not %d: %v", dir, len(children), n, children)
		}
	}
}

// awaitWatch returns once the server knows that the session watches the node: the session's owner has decided to wait for it. There is no
// event for that, so awaitWatch reads the server's table of watches again and again.
func (l *realLab) awaitWatch(t *testing.T, session, node string) {
	t.Helper()
	for deadline := time.Now().Add(hostile.Patience); ; time.Sleep(pollEvery) {
		watching := false
		for line := range strings.Lines(l.zk.Word("wchp")) {
			if !strings.HasPrefix(line, "\t") {
				watching = strings.TrimSpace(line) == node
			} else if watching && strings.TrimSpace(line) == session {
				return
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("session %s does not watch %s; the watches are:\n%s", session, node, l.zk.Word("wchp"))
		}
	}
}

// hear delivers what a peer says unasked: "revoked NODE".
func (l *realLab) hear(line string) {
	verb, node, _ := strings.Cut(line, " ")
	l.told(node) <- verb
}

// told returns the channel for the events about a contender.
func (l *realLab) told(node string) chan string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.events[node] == nil {
		l.events[node] = make(chan string, 8)
	}
	return l.events[node]
}
