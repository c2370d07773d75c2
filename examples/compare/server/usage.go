//go:build linux

package server

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// CPU is the processor time that a process has used, with all its threads, to the nanosecond.
func CPU(pid int) time.Duration {
	var t unix.Timespec
	// What clock_getcpuclockid(3) makes of a process id; the kernel's CPUCLOCK_SCHED is 2.
	if err := unix.ClockGettime(int32(^pid<<3|2), &t); err != nil {
		Check(fmt.Errorf("processor time of process %d: %w", pid, err))
	}
	return time.Duration(t.Nano())
}

// Usage is what a server has counted and used at a moment.
type Usage struct {
	At     time.Time
	Counts Counts
	CPU    time.Duration
}

// Use reads the counts first, so that answering is not in the time of a window that begins here.
func (s *Server) Use() (u Usage) {
	u.Counts, u.At = s.Counts(), time.Now()
	u.CPU = s.cpu()
	return u
}

// Since is what has been used since an earlier moment. Nothing of it is the cost of asking.
func (s *Server) Since(from Usage) (u Usage, took time.Duration) {
	u.CPU, u.At = s.cpu()-from.CPU, time.Now()
	u.Counts = s.Between(from.Counts, s.Counts())
	return u, u.At.Sub(from.At)
}

// Between is what was counted from one look at the counts to another, without the second look.
func (s *Server) Between(from, to Counts) Counts {
	c := Counts{to.Requests - from.Requests - s.asking, to.Events - from.Events}
	if to.Requests < 0 {
		c.Requests = -1
	}
	if to.Events < 0 {
		c.Events = -1
	}
	return c
}

func (s *Server) cpu() (sum time.Duration) {
	for _, pid := range s.pids() {
		sum += CPU(pid)
	}
	return sum
}

// Sync measures what it costs to make 512 bytes durable here: the median of a hundred.
func Sync() time.Duration {
	dir := Must(os.MkdirTemp("", "compare-"))
	defer os.RemoveAll(dir)
	f := Must(os.Create(filepath.Join(dir, "log")))
	defer f.Close()
	var took []time.Duration
	for range 100 {
		begin := time.Now()
		Must(f.Write(make([]byte, 512)))
		Check(f.Sync())
		took = append(took, time.Since(begin))
	}
	slices.Sort(took)
	return took[len(took)/2]
}

// What /proc/net/tcp says of a socket.
const (
	established = "01"
	listening   = "0A"
)

// sockets counts those of a process in one state whose local or remote port is one of the addresses'.
func sockets(pid int, state string, addrs []string) (n int) {
	ports := map[string]bool{}
	for _, addr := range addrs {
		_, port, _ := strings.Cut(addr, ":")
		number, _ := strconv.Atoi(port) // of a listener of ours
		ports[fmt.Sprintf("%04X", number)] = true
	}
	wanted := map[string]bool{}
	table, _ := os.ReadFile("/proc/net/tcp")
	for line := range strings.Lines(string(table)) {
		fields := strings.Fields(line) // number, local, remote, state, and the inode is the tenth
		if len(fields) < 10 || fields[3] != state {
			continue
		}
		_, local, _ := strings.Cut(fields[1], ":")
		_, remote, _ := strings.Cut(fields[2], ":")
		wanted["socket:["+fields[9]+"]"] = ports[local] || ports[remote]
	}
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	for _, file := range files {
		if to, err := os.Readlink(file); err == nil && wanted[to] {
			n++
		}
	}
	return n
}

// Connections counts those that a process has to any of the addresses.
func Connections(pid int, addrs []string) int { return sockets(pid, established, addrs) }

// listens says nil when the program accepts connections there: another that has the port would accept them too.
func (p *program) listens(addr string) func() error {
	return func() error {
		if sockets(p.pid(), listening, []string{addr}) == 0 {
			return fmt.Errorf("it does not listen on %s", addr)
		}
		return nil
	}
}
