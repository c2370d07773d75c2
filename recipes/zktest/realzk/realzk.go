//go:build linux

// Package realzk starts Apache ZooKeeper servers for tests. These servers are the oracle: tests compare zktest, and everything that was
// proven on zktest, with them. The package runs the jars of Debian's zookeeper package, or those that ZOOKEEPER_HOME names (see classPath),
// on loopback ports, in directories of their own. It ends every process that it starts by that process's id.
//
// When Java or ZooKeeper is not installed the test fails, naming the command that installs them. It never skips.
package realzk

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// TB is what a server needs of a test.
type TB interface {
	Helper()
	Cleanup(func())
	Fatalf(format string, args ...any)
	Logf(format string, args ...any)
	Failed() bool
}

// Options of a server; the zero value is ZooKeeper's own defaults.
type Options struct {
	// TickTime is ZooKeeper's tickTime, 2 s when zero.
	TickTime time.Duration
	// Config are further lines of zoo.cfg, such as "enforceQuota": "true". ZooKeeper turns a key it does not know into the system property
	// zookeeper.<key>.
	Config map[string]string
	// Properties are further Java system properties.
	Properties map[string]string
	// JVM are further options of the Java virtual machine. They override the options that this package sets for short-lived servers.
	JVM []string
	// Prepare, when not nil, is given the server's data directory and its class path before the first start, to put a snapshot there.
	Prepare func(dataDir, classPath string) error
	// HeapMiB bounds the server's Java heap, 192 when zero: 100,000 nodes with their requests need more.
	HeapMiB int
	// ReadyWithin bounds the time until the server serves; 0 = five minutes. A server that ends before that is noticed at once.
	ReadyWithin time.Duration
	// Debug is for [Server.Halt].
	Debug bool
}

// Server is one running ZooKeeper process. Its fields do not change while it runs; Restart changes Pid.
type Server struct {
	Addr string // host:port for clients, on the loopback interface or in a [Network]
	Dir  string // the directory of configuration, data and zookeeper.log; removed when the test ends
	Pid  int

	tb     TB
	opts   Options
	args   []string
	cmd    *exec.Cmd
	exited chan struct{}
	net    *Network // nil: the loopback interface
	host   *host
}

// Void is in the output of a test whose run proves nothing. In such a run the server has lost a write that it had confirmed, as some
// releases do under partitions.
const Void = "void: the server lost a commit"

const install = "apt-get install -y zookeeper default-jdk-headless libcurator-recipes-java python3-kazoo"

// Start runs a standalone server until the test ends and returns once it serves.
func Start(tb TB, opts Options) *Server {
	tb.Helper()
	return StartEnsemble(tb, 1, opts)[0]
}

// StartEnsemble runs n servers as one ensemble until the test ends and returns once all of them serve.
func StartEnsemble(tb TB, n int, opts Options) []*Server {
	tb.Helper()
	ports := FreePorts(tb, 3*n) // the test keeps them until the servers have ended
	all := make([]*Server, n)
	var peers []string
	for i := range all {
		all[i] = prepare(tb, opts)
		peers = append(peers, fmt.Sprintf("server.%d=127.0.0.1:%d:%d", i+1, ports[3*i+1], ports[3*i+2]))
	}
	return run(all, peers, func(i int) (string, int) { return "127.0.0.1", ports[3*i] })
}

// run starts servers at their addresses for clients, and returns once all of them serve. One server has no peers.
func run(all []*Server, peers []string, at func(i int) (ip string, port int)) []*Server {
	if len(all) == 1 {
		peers = nil
	}
	for i, s := range all {
		ip, port := at(i)
		s.write("data/myid", fmt.Sprint(i+1))
		s.configure(ip, port, peers)
	}
	for _, s := range all {
		s.start()
	}
	for _, s := range all {
		s.awaitReady()
	}
	return all
}

// Stop ends the process as an administrator would and waits for it. Sessions and data stay in Dir.
func (s *Server) Stop() { s.end(syscall.SIGTERM) }

// Kill ends the process as a crash would.
func (s *Server) Kill() { s.end(syscall.SIGKILL) }

// Restart starts the stopped or killed server again on the same port and data.
func (s *Server) Restart() {
	s.tb.Helper()
	s.RestartWithoutWaiting()
	s.awaitReady()
}

// RestartWithoutWaiting is Restart for a member of an ensemble that has no quorum yet.
func (s *Server) RestartWithoutWaiting() {
	s.tb.Helper()
	s.Stop()
	s.start()
}

// Pause stops the process where it stands (SIGSTOP) and returns when all its
// threads have stopped: it accepts connections and answers nothing.
func (s *Server) Pause() {
	s.signal(syscall.SIGSTOP)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	// The signal wakes one thread, which stops the others when it comes to run; until then they serve.
	for s.Running() && !s.isStopped() {
		<-tick.C
	}
}

// isStopped asks the kernel whether all threads have stopped. It does not reap the process.
func (s *Server) isStopped() bool {
	var info unix.Siginfo
	err := unix.Waitid(unix.P_PID, s.Pid, &info, unix.WSTOPPED|unix.WNOWAIT|unix.WNOHANG, nil)
	return err == nil && info.Signo != 0
}

// Resume lets a paused process go on.
func (s *Server) Resume() { s.signal(syscall.SIGCONT) }

// Running says whether the process is there, paused or not.
func (s *Server) Running() bool {
	select {
	case <-s.exited:
		return false
	default:
		return s.cmd != nil
	}
}

// Word sends a four-letter word and returns the answer, "" when there is none.
func (s *Server) Word(word string) string {
	c, err := net.DialTimeout("tcp", s.Addr, time.Second)
	if err != nil {
		return ""
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(5 * time.Second))
	io.WriteString(c, word)
	answer, _ := io.ReadAll(c)
	return string(answer)
}

// Log is what the server has written so far.
func (s *Server) Log() string {
	b, _ := os.ReadFile(filepath.Join(s.Dir, "zookeeper.log"))
	return string(b)
}

// prepare makes the server's directory and command line. It chooses no port: the configuration of every member has the ports of the
// ensemble.
func prepare(tb TB, opts Options) *Server {
	tb.Helper()
	java, err := exec.LookPath("java")
	if err != nil {
		tb.Fatalf("realzk: no java on the PATH, which this test needs; install it with: %s", install)
	}
	classes, err := classPath()
	if err != nil {
		tb.Fatalf("realzk: %v", err)
	}
	dir, err := os.MkdirTemp("", "realzk-")
	if err != nil {
		tb.Fatalf("realzk: no directory for the server: %v", err)
	}
	classes = append([]string{dir}, classes...) // the directory configures the log, so it comes before the distribution's own configuration
	s := &Server{Dir: dir, tb: tb, opts: opts}
	tb.Cleanup(func() {
		s.Kill() // the server ends before its directory is removed, because it would write into the directory again
		if tb.Failed() {
			tb.Logf("the last of %s/zookeeper.log:\n%s", dir, tail(s.Log(), 30))
		}
		os.RemoveAll(dir)
	})
	for name, text := range logConfigs {
		s.write(name, text)
	}
	// A small heap and the first compiler only: most of these servers live for seconds.
	heap := opts.HeapMiB
	if heap == 0 {
		heap = 192
	}
	s.args = []string{
		java, fmt.Sprintf("-Xmx%dm", heap), "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData",
		"-Dzookeeper.preAllocSize=1024", "-Djava.net.preferIPv4Stack=true",
		"-Dorg.slf4j.simpleLogger.showDateTime=true", "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
	}
	if opts.Debug {
		s.args = append(s.args, debugOption)
	}
	s.args = append(s.args, opts.JVM...)
	for k, v := range opts.Properties {
		s.args = append(s.args, "-D"+k+"="+v)
	}
	if opts.Prepare != nil {
		s.write("data/.keep", "")
		if err := opts.Prepare(filepath.Join(dir, "data"), strings.Join(classes, ":")); err != nil {
			tb.Fatalf("realzk: prepare %s: %v", dir, err)
		}
	}
	s.args = append(s.args, "-cp", strings.Join(classes, ":"),
		"org.apache.zookeeper.server.quorum.QuorumPeerMain", filepath.Join(dir, "zoo.cfg"))
	return s
}

func tail(text string, lines int) string {
	all := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// configure writes zoo.cfg for the given client port.
func (s *Server) configure(ip string, port int, peers []string) {
	tick := s.opts.TickTime
	if tick == 0 {
		tick = 2 * time.Second
	}
	s.Addr = fmt.Sprintf("%s:%d", ip, port)
	lines := []string{
		"dataDir=" + filepath.Join(s.Dir, "data"), "clientPortAddress=" + ip,
		fmt.Sprintf("clientPort=%d", port), fmt.Sprintf("tickTime=%d", tick.Milliseconds()),
		"initLimit=10", "syncLimit=5", "admin.enableServer=false", "4lw.commands.whitelist=*", "maxClientCnxns=0",
	}
	// A key of the caller's takes the place of ours.
	for k, v := range s.opts.Config {
		lines = slices.DeleteFunc(lines, func(l string) bool { return strings.HasPrefix(l, k+"=") })
		lines = append(lines, k+"="+v)
	}
	s.write("zoo.cfg", strings.Join(append(lines, peers...), "\n")+"\n")
}

func (s *Server) write(name, text string) {
	s.tb.Helper()
	path := filepath.Join(s.Dir, name)
	err := os.MkdirAll(filepath.Dir(path), 0o700)
	if err == nil {
		err = os.WriteFile(path, []byte(text), 0o600)
	}
	if err != nil {
		s.tb.Fatalf("realzk: %v", err)
	}
}

// start runs the server's process. This process dies with the test's own process, even if the test's process is killed.
func (s *Server) start() {
	s.tb.Helper()
	log, err := os.OpenFile(filepath.Join(s.Dir, "zookeeper.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		s.tb.Fatalf("realzk: %v", err)
	}
	defer log.Close()
	s.cmd = exec.Command(s.args[0], s.args[1:]...)
	s.cmd.Stdout, s.cmd.Stderr, s.cmd.Dir = log, log, s.Dir
	s.cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8") // otherwise Java words the error of a full disk in the user's language
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	begin := func() error { return nil }
	if s.host != nil {
		begin, err = s.host.plug(s.cmd)
	}
	if err = errors.Join(err, s.cmd.Start()); err != nil {
		s.tb.Fatalf("realzk: start %s: %v", s.args[0], err)
	}
	s.Pid = s.cmd.Process.Pid
	if s.host != nil {
		s.net.attach(s.host, s.Pid)
	}
	if err := begin(); err != nil {
		s.tb.Fatalf("realzk: start %s: %v", s.args[0], err)
	}
	// From its start a goroutine waits for each process: a dead process that nobody has waited for would still accept signals.
	exited := make(chan struct{})
	s.exited = exited
	go func(cmd *exec.Cmd) {
		cmd.Wait()
		close(exited)
	}(s.cmd)
}

// awaitReady polls, because a server that is starting has no other way to say that it serves.
func (s *Server) awaitReady() {
	s.tb.Helper()
	within := s.opts.ReadyWithin
	if within == 0 {
		within = 5 * time.Minute
	}
	deadline := time.After(within)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !strings.Contains(s.Word("srvr"), "Mode: ") {
		select {
		case <-s.exited:
			s.tb.Fatalf("realzk: ZooKeeper on %s exited instead of serving; its log ends:\n%s", s.Addr, tail(s.Log(), 20))
		case <-deadline:
			s.tb.Fatalf("realzk: ZooKeeper on %s does not serve after %v; its log ends:\n%s", s.Addr, within, tail(s.Log(), 20))
		case <-tick.C:
		}
	}
}

func (s *Server) signal(sig syscall.Signal) {
	if s.cmd != nil && s.Running() {
		s.cmd.Process.Signal(sig)
	}
}

// end sends the signal and waits up to 20 s. Then it kills the server, because Restart needs its port and its directory.
func (s *Server) end(sig syscall.Signal) {
	if s.cmd == nil {
		return
	}
	s.signal(syscall.SIGCONT) // a stopped process would not hear a SIGTERM
	s.signal(sig)
	select {
	case <-s.exited:
	case <-time.After(20 * time.Second):
		s.cmd.Process.Kill()
		<-s.exited
	}
}
