//go:build linux

// Package server starts and ends the servers that lock services need, on loopback, each with its own data folder.
package server

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/locktree/locktree/examples/compare/lock"
	"github.com/locktree/locktree/recipes/zktest/realzk"
)

// Counts are what a server has counted since it began; -1 if it does not count them.
type Counts struct {
	Requests int64 // from clients
	Events   int64 // sent to clients that watch
}

// Server is one running lock service, of one process or several.
type Server struct {
	Addrs      []string
	Version    string
	Durability string        // where a write is when the server answers
	Missing    string        // why it does not run; then the rest is empty
	Counts     func() Counts `json:"-"` // on an error it panics; lock.Try returns the error
	// FailOver kills a process of the service, and returns the addresses of its successor. On an error it panics; lock.Try
	// returns the error. It is nil if the service has no successor.
	FailOver func() []string `json:"-"`

	asking int64 // requests that Counts itself adds to the counts
}

// Between returns what was counted between two calls of Counts, without the requests of the second call.
func (s *Server) Between(from, to Counts) Counts {
	if to.Requests < 0 {
		return to
	}
	return Counts{to.Requests - from.Requests - s.asking, to.Events - from.Events}
}

// starter starts a server. The scope ends the server. members are those of a ZooKeeper ensemble.
type starter func(s *Scope, members int) *Server

var starters = map[string]starter{
	"zookeeper":   zooKeeper,
	"redis":       redis(1, "in memory", "--appendonly", "no"),
	"three-redis": redis(3, "in the memory of two of three servers", "--appendonly", "no"),
	"etcd":        etcd,
	"postgres":    postgres,
	"pgbouncer":   pgBouncer,
	"mariadb":     mariadb,
}

// Start starts a server, or says what is missing. The server ends with the scope. members is how many servers a ZooKeeper
// ensemble has; other services have as many servers as their name says.
func Start(s *Scope, name string, members int) (*Server, error) {
	start, ok := starters[name]
	if !ok {
		return nil, fmt.Errorf("no server is called %q", name)
	}
	return begin(s, func(s *Scope) *Server { return start(s, members) })
}

// begin calls the function start. If it fails, begin removes only what this call has made.
func begin(s *Scope, start func(*Scope) *Server) (started *Server, err error) {
	own := &Scope{}
	if err = lock.Try(func() { started = start(own) }); err != nil {
		own.failed = true
		own.Close()
		return nil, err
	}
	s.Cleanup(own.Close)
	return started, nil
}

// Scope ends what was started in it. Package realzk takes a Scope in place of a *testing.T. If a server does not start, the error
// contains the server's output.
type Scope struct {
	ends   []func()
	failed bool
}

// Close ends everything, the last one first.
func (s *Scope) Close() {
	for _, end := range slices.Backward(s.ends) {
		end()
	}
	s.ends = nil
}

func (s *Scope) Cleanup(end func())                { s.ends = append(s.ends, end) }
func (s *Scope) Fatalf(format string, args ...any) { lock.Check(fmt.Errorf(format, args...)) }
func (s *Scope) Helper()                           {}
func (s *Scope) Logf(string, ...any)               {}
func (s *Scope) Failed() bool                      { return s.failed }

// program is one process of a server, in a folder of its own.
type program struct {
	s    *Scope
	name string
	dir  string
	cred *syscall.Credential // the user that it runs as; nil is our own
	cmd  *exec.Cmd
	done chan struct{}
}

// newProgram finds a program of a package, and makes the folder. Databases refuse to run as root: their folder belongs to the
// user nobody.
func newProgram(s *Scope, asNobody bool, pkg, name string) *program {
	if all, _ := filepath.Glob(name); len(all) > 0 { // the pattern is well formed
		name = all[len(all)-1]
	}
	if _, err := exec.LookPath(name); err != nil {
		s.Fatalf("%s is not installed: apt-get install %s", filepath.Base(name), pkg)
	}
	p := &program{s: s, name: name, dir: lock.Must(os.MkdirTemp("", "compare-"))}
	s.Cleanup(func() { _ = os.RemoveAll(p.dir) })
	if asNobody && os.Getuid() == 0 {
		p.cred = &syscall.Credential{Uid: 65534, Gid: 65534} // nobody and nogroup
		lock.Check(os.Chown(p.dir, 65534, 65534))
	}
	return p
}

func (p *program) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Dir = p.dir
	cmd.Env = append(os.Environ(), "HOME="+p.dir, "TMPDIR="+p.dir, "LC_ALL=C.UTF-8")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL, Credential: p.cred}
	return cmd
}

// start runs the server until the scope ends. It calls the function ready until that succeeds, and then returns.
func (p *program) start(ready func(), args ...string) {
	var out bytes.Buffer
	p.cmd, p.done = p.command(p.name, args...), make(chan struct{})
	p.cmd.Stdout, p.cmd.Stderr = &out, &out
	lock.Check(p.cmd.Start())
	go func() {
		_ = p.cmd.Wait()
		close(p.done)
	}()
	p.s.Cleanup(p.kill)
	for end := time.Now().Add(time.Minute); ; {
		err := lock.Try(ready)
		if err == nil {
			return
		}
		select {
		case <-p.done:
			p.s.Fatalf("%s ended instead of serving: %s", filepath.Base(p.name), last(out.String()))
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(end) {
			p.s.Fatalf("%s does not serve after a minute: %v", filepath.Base(p.name), err)
		}
	}
}

// kill ends the process and its workers, which are a group of their own.
func (p *program) kill() {
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	<-p.done
}

// version is the first line of a program's version text.
func (p *program) version() string {
	out, _ := exec.Command(p.name, "--version").Output()
	first, _, _ := strings.Cut(string(out), "\n")
	return first
}

func last(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-5):], " / ")
}

// free returns free addresses on loopback, and their ports.
func free(s *Scope, n int) (addrs, ports []string) {
	for _, port := range realzk.FreePorts(s, n) {
		ports = append(ports, strconv.Itoa(port))
		addrs = append(addrs, fmt.Sprintf("127.0.0.1:%d", port))
	}
	return addrs, ports
}

// Distance puts servers a round trip away: it relays connections, and all bytes on them come half a round trip later.
// It counts the bytes.
type Distance struct {
	Addrs []string // for clients, instead of the servers' addresses
	Sent  Traffic  // what clients sent

	half   time.Duration
	ctx    context.Context
	relays sync.WaitGroup
	mu     sync.Mutex
	heard  []*Traffic // what was sent to each client, in the order of their connections
}

// Traffic is what passed in one direction.
type Traffic struct {
	Bytes  atomic.Int64 // without the pings of ZooKeeper's clients, of which a thousand idle sessions send a hundred a second
	Pieces atomic.Int64 // pieces that arrived: one for each request or ping if clients wait for every answer
	Pings  atomic.Int64
}

// Heard returns the bytes that were sent to the client of each connection so far, the oldest connection first.
func (d *Distance) Heard() (all []int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, t := range d.heard {
		all = append(all, t.Bytes.Load())
	}
	return all
}

// Bytes returns the bytes in both directions.
func (d *Distance) Bytes() int64 {
	n := d.Sent.Bytes.Load()
	for _, heard := range d.Heard() {
		n += heard
	}
	return n
}

// Away starts the relays. They end with the scope.
func Away(s *Scope, servers []string, roundTrip time.Duration) (*Distance, error) {
	ctx, cancel := context.WithCancel(context.Background())
	d := &Distance{half: roundTrip / 2, ctx: ctx}
	s.Cleanup(func() {
		cancel()
		d.relays.Wait()
	})
	return d, lock.Try(func() {
		for _, server := range servers {
			l := lock.Must(net.Listen("tcp", "127.0.0.1:0"))
			context.AfterFunc(ctx, func() { _ = l.Close() })
			d.Addrs = append(d.Addrs, l.Addr().String())
			d.relays.Go(func() { d.accept(l, server) })
		}
	})
}

func (d *Distance) accept(l net.Listener, server string) {
	for {
		client, err := l.Accept()
		if err != nil {
			return
		}
		to, err := net.Dial("tcp", server)
		if err != nil {
			_ = client.Close()
			continue
		}
		context.AfterFunc(d.ctx, func() { _, _ = client.Close(), to.Close() })
		heard := &Traffic{}
		d.mu.Lock()
		d.heard = append(d.heard, heard)
		d.mu.Unlock()
		d.relays.Go(func() { d.relay(client, to, &d.Sent) })
		d.relays.Go(func() { d.relay(to, client, heard) })
	}
}

// relay delays all that it reads, and passes it on. If one direction ends, it ends both.
func (d *Distance) relay(from, to net.Conn, t *Traffic) {
	type piece struct {
		due  time.Time
		text []byte
	}
	pieces := make(chan piece, 1024)
	var writer sync.WaitGroup
	writer.Go(func() {
		for p := range pieces {
			time.Sleep(time.Until(p.due))
			if _, err := to.Write(p.text); err != nil {
				_ = from.Close()
			}
		}
	})
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			t.Pieces.Add(1)
			if ping(buffer[:n]) {
				t.Pings.Add(1)
			} else {
				t.Bytes.Add(int64(n))
			}
			pieces <- piece{time.Now().Add(d.half), bytes.Clone(buffer[:n])}
		}
		if err != nil {
			break
		}
	}
	close(pieces)
	writer.Wait()
	_, _ = from.Close(), to.Close()
}

// ping says whether a piece is a ping of ZooKeeper, or its answer: one frame with the number -2, and nothing more.
func ping(b []byte) bool {
	return (len(b) == 12 && b[3] == 8 || len(b) == 20 && b[3] == 16) && bytes.Equal(b[4:8], []byte{0xff, 0xff, 0xff, 0xfe})
}
