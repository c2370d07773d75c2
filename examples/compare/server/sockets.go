//go:build linux

package server

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

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
