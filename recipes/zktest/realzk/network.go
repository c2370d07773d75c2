//go:build linux

package realzk

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// insideMark marks the process that InNetwork started.
const insideMark = "LOCKTREE_TEST_INSIDE_NETWORK"

// Network is a switch of this process's own, with a host for every server started on it. The test itself is one more host. A test
// can lose the packets between any two hosts, which neither signals nor a proxy in front of one server can do.
//
// A Network is made of Linux namespaces of the test's own: no setting of the machine is changed, and the kernel removes the namespaces with
// the process. It needs the ip program, and a kernel that lets users make namespaces, or root.
type Network struct {
	tb TB

	mu    sync.Mutex
	hosts []*host
	here  *host // the test
}

// host is one place on the network.
type host struct {
	ip, mac string
	link    string // the end of the host's cable at the switch
	pid     int    // a process in the host's namespace; 0 means the test's own namespace
	device  string
	deaf    map[*host]bool // the packets that this host sends to these hosts are lost
}

// NetworkTB is what InNetwork needs of a test: a *testing.T.
type NetworkTB interface {
	TB
	Name() string
	Deadline() (time.Time, bool)
}

// InNetwork runs the calling top-level test once more, alone, in a process with namespaces of its own. There it returns the network. In the
// first process it passes on the output of the second, returns nil if the second passed, and fails the test if not. A caller that gets nil
// must return at once. A failed run with [Void] in its output is repeated, up to three runs in all.
func InNetwork(tb NetworkTB) *Network {
	tb.Helper()
	if os.Getenv(insideMark) != "" {
		return newNetwork(tb)
	}
	out, err := runAgain(tb, &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	})
	// An exit status is the test's own verdict; another error says that the test did not run.
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) && os.Getuid() == 0 {
		// No user namespaces: they are switched off, or we are in a chroot. Root needs none.
		out, err = runAgain(tb, &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS})
	}
	switch {
	case errors.As(err, &exit):
		tb.Fatalf("realzk: in a network of its own the test failed (%v):\n%s", err, out)
	case err != nil:
		tb.Fatalf("realzk: no namespaces for a network of the test's own: %v; where user namespaces are switched off, "+
			"set kernel.unprivileged_userns_clone=1 or run the tests as root", err)
	default:
		tb.Logf("in a network of its own:\n%s", out)
	}
	return nil
}

// runAgain runs a test in another process of this binary. It repeats a run that failed and is void, up to three runs in all.
func runAgain(tb NetworkTB, attr *syscall.SysProcAttr) ([]byte, error) {
	for run := 1; ; run++ {
		out, err := runOnce(tb, attr)
		if err == nil || run == 3 || !bytes.Contains(out, []byte(Void)) {
			return out, err
		}
		tb.Logf("this run was void, so there is another one:\n%s", out)
	}
}

// runOnce makes one run. A run that hangs prints its stacks and ends, before this process's own time is up.
func runOnce(tb NetworkTB, attr *syscall.SysProcAttr) ([]byte, error) {
	attr.Setpgid, attr.Pdeathsig = true, syscall.SIGKILL
	within := 10 * time.Minute
	if end, ok := tb.Deadline(); ok {
		within = min(within, max(time.Until(end)-30*time.Second, time.Second))
	}
	cmd := exec.Command("/proc/self/exe", "-test.run", "^"+tb.Name()+"$", "-test.v", "-test.timeout", within.String())
	cmd.Env = append(os.Environ(), insideMark+"=1", "PATH="+os.Getenv("PATH")+":/usr/sbin:/sbin") // Debian has the ip program in one of these
	cmd.SysProcAttr = attr
	return cmd.CombinedOutput()
}

func newNetwork(tb TB) *Network {
	tb.Helper()
	// The test's mounts stay in the test. In a chroot there may be no such mount, so the error is ignored.
	_ = syscall.Mount("none", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, "")
	n := &Network{tb: tb, here: &host{ip: "10.77.0.254", device: "switch"}}
	n.here.deaf = map[*host]bool{}
	n.must("ip", "link", "set", "lo", "up")
	n.must("ip", "link", "add", "switch", "type", "bridge")
	n.must("ip", "addr", "add", n.here.ip+"/24", "dev", "switch")
	n.must("ip", "link", "set", "switch", "up")
	return n
}

// must runs a program to its end.
func (n *Network) must(args ...string) {
	n.tb.Helper()
	if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
		n.tb.Fatalf("realzk: %s: %v: %s (the ip program is in the package iproute2)", strings.Join(args, " "), err, out)
	}
}

// add adds a host, which has no process yet.
func (n *Network) add() *host {
	n.mu.Lock()
	defer n.mu.Unlock()
	i := len(n.hosts) + 1
	h := &host{
		ip: fmt.Sprintf("10.77.0.%d", i), mac: fmt.Sprintf("02:00:00:00:00:%02x", i), link: fmt.Sprintf("cable%d", i),
		device: "eth0", deaf: map[*host]bool{},
	}
	n.hosts = append(n.hosts, h)
	return h
}

// attach connects the namespace of a process, and applies the losses that are in force.
func (n *Network) attach(h *host, pid int) {
	n.tb.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	// After a process has ended, the kernel removes its cable some time later.
	_ = exec.Command("ip", "link", "del", h.link).Run()
	h.pid = pid
	n.must("ip", "link", "add", h.link, "type", "veth", "peer", "name", h.device, "address", h.mac, "netns", fmt.Sprint(pid))
	n.must("ip", "link", "set", h.link, "master", "switch", "up")
	n.must(h.commandAt("ip", "link", "set", "lo", "up")...)
	n.must(h.commandAt("ip", "addr", "add", h.ip+"/24", "dev", h.device)...)
	n.must(h.commandAt("ip", "link", "set", h.device, "up")...)
	for _, from := range []*host{h, n.here} { // the switch forgets addresses when a cable is pulled
		for to := range from.deaf {
			n.lose(from, to, true)
		}
	}
}

// commandAt is the command line that runs a program at the host.
func (h *host) commandAt(args ...string) []string {
	if h.pid == 0 {
		return args
	}
	return append([]string{"nsenter", "-t", fmt.Sprint(h.pid), "-n"}, args...)
}

// Lose loses all packets from one server to another if lost is true, and ends the loss if lost is false. A nil server is the test itself.
// The packets vanish, and connections stay open: a packet that is sent again after the loss arrives.
func (n *Network) Lose(from, to *Server, lost bool) {
	n.tb.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	f, t := n.of(from), n.of(to)
	f.deaf[t] = lost
	if !lost {
		delete(f.deaf, t)
	}
	n.lose(f, t, lost)
}

// Part is Lose in both directions.
func (n *Network) Part(a, b *Server, parted bool) {
	n.tb.Helper()
	n.Lose(a, b, parted)
	n.Lose(b, a, parted)
}

func (n *Network) of(s *Server) *host {
	if s == nil {
		return n.here
	}
	return s.host
}

// lose makes the sender use a hardware address for the receiver that no host has: the switch floods the frame, and all hosts drop it. A
// route that refuses packets would not do, because the sender would get an error.
func (n *Network) lose(from, to *host, lost bool) {
	n.tb.Helper()
	if from.pid != 0 && syscall.Kill(from.pid, 0) != nil {
		return // attach applies the loss when the server starts again
	}
	if lost {
		n.must(from.commandAt("ip", "neigh", "replace", to.ip, "lladdr", "02:00:00:00:ff:ff", "nud", "permanent", "dev", from.device)...)
		return
	}
	n.must(from.commandAt("ip", "neigh", "del", to.ip, "dev", from.device)...)
}

// StartEnsemble is [StartEnsemble] with a host for each server. The servers' directories are in the file system of the test.
func (n *Network) StartEnsemble(servers int, opts Options) []*Server {
	n.tb.Helper()
	all := make([]*Server, servers)
	var peers []string
	for i := range all {
		all[i] = prepare(n.tb, opts)
		all[i].net, all[i].host = n, n.add()
		peers = append(peers, fmt.Sprintf("server.%d=%s:2888:3888", i+1, all[i].host.ip))
	}
	return run(all, peers, func(i int) (string, int) { return all[i].host.ip, 2181 })
}

// plug makes cmd start in a network namespace of its own, and wait there until begin is called. The namespace exists as soon as the process
// does. Its cable comes later, when attach has the process's id. Without the wait, ZooKeeper would bind its address before the cable is
// there.
func (h *host) plug(cmd *exec.Cmd) (begin func() error, err error) {
	cmd.Args = append([]string{"sh", "-c", `read -r _ && exec "$@"`, "sh"}, cmd.Args...)
	cmd.Path = "/bin/sh"
	cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWNET
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	return func() error {
		_, err := io.WriteString(in, "\n")
		return err
	}, nil
}
