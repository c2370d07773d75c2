//go:build linux

package server

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/locktree/locktree/examples/compare/lock"
	"github.com/locktree/locktree/recipes/zktest/realzk"
)

// program is one process of a server, in a folder of its own.
type program struct {
	s    *Scope
	name string
	dir  string
	cred *syscall.Credential // of who it runs as; nil: of who we are
	cmd  *exec.Cmd
	done chan struct{}
}

// newProgram finds a program of a package, and makes the folder. Databases refuse to run as root: for them it belongs to nobody.
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
		u := lock.Must(user.Lookup("nobody"))
		uid, _ := strconv.ParseUint(u.Uid, 10, 32) // the system's own numbers
		gid, _ := strconv.ParseUint(u.Gid, 10, 32)
		p.cred = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		lock.Check(os.Chown(p.dir, int(uid), int(gid)))
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

// start runs the server until the scope ends, and returns once ready does not fail.
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

// version is the first line of what a program says of its version.
func (p *program) version() string {
	out, _ := exec.Command(p.name, "--version").Output()
	first, _, _ := strings.Cut(string(out), "\n")
	return first
}

func last(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-5):], " / ")
}

// free are addresses on loopback, and the ports of them.
func free(s *Scope, n int) (addrs, ports []string) {
	for _, port := range realzk.FreePorts(s, n) {
		ports = append(ports, strconv.Itoa(port))
		addrs = append(addrs, fmt.Sprintf("127.0.0.1:%d", port))
	}
	return addrs, ports
}
