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
)

// program is one process of a server, in a folder of its own.
type program struct {
	s    *Scope
	dir  string
	cred *syscall.Credential // of who it runs as; nil: of who we are
	cmd  *exec.Cmd
	out  *bytes.Buffer
	done chan struct{}
}

// found is the first of the programs that is there, or the end of the start.
func found(s *Scope, pkg string, names ...string) string {
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
		if all, _ := filepath.Glob(name); len(all) > 0 {
			return all[len(all)-1]
		}
	}
	s.Fatalf("%s is not installed: apt-get install %s", filepath.Base(names[0]), pkg)
	return ""
}

// newProgram makes the folder. Databases refuse to run as root: for them it belongs to nobody.
func newProgram(s *Scope, asNobody bool) *program {
	dir := Must(os.MkdirTemp("", "compare-"))
	s.Cleanup(func() { _ = os.RemoveAll(dir) })
	p := &program{s: s, dir: dir}
	if asNobody && os.Getuid() == 0 {
		u := Must(user.Lookup("nobody"))
		uid, _ := strconv.ParseUint(u.Uid, 10, 32) // the system's own numbers
		gid, _ := strconv.ParseUint(u.Gid, 10, 32)
		p.cred = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		Check(os.Chown(dir, int(p.cred.Uid), int(p.cred.Gid)))
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

// run waits for a program that prepares the folder.
func (p *program) run(name string, args ...string) {
	if out, err := p.command(name, args...).CombinedOutput(); err != nil {
		p.s.Fatalf("%s: %v: %s", filepath.Base(name), err, last(string(out)))
	}
}

// start runs the server until the scope ends, and returns once ready says nil.
func (p *program) start(ready func() error, name string, args ...string) {
	p.cmd, p.out, p.done = p.command(name, args...), &bytes.Buffer{}, make(chan struct{})
	p.cmd.Stdout, p.cmd.Stderr = p.out, p.out
	if err := p.cmd.Start(); err != nil {
		p.s.Fatalf("start %s: %v", name, err)
	}
	go func() {
		_ = p.cmd.Wait()
		close(p.done)
	}()
	p.s.Cleanup(p.kill)
	end := time.Now().Add(time.Minute)
	for {
		err := ready()
		if err == nil {
			return
		}
		select {
		case <-p.done:
			p.s.Fatalf("%s ended instead of serving: %s", filepath.Base(name), last(p.out.String()))
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(end) {
			p.s.Fatalf("%s does not serve after a minute: %v", filepath.Base(name), err)
		}
	}
}

// kill ends the process and its workers, which are a group of their own.
func (p *program) kill() {
	_ = syscall.Kill(-p.pid(), syscall.SIGKILL)
	<-p.done
}

func (p *program) pid() int { return p.cmd.Process.Pid }

// versionOf is the first line of what a program says of its version.
func versionOf(name string) string {
	out, _ := exec.Command(name, "--version").Output()
	first, _, _ := strings.Cut(string(out), "\n")
	return first
}

func last(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-5):], " / ")
}

func loopback(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }
