//go:build linux

package realzk

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
)

// FreePorts finds n free TCP ports of the loopback interface, and keeps them for the test. Mostly they are ports that the kernel never
// chooses by itself, for a client that connects or a listener on port 0. No other test that asks here gets them, in this process or another
// one. A program that asks the kernel for one of these ports by its number can have it.
func FreePorts(tb TB, n int) []int {
	tb.Helper()
	low, high := ephemeralPorts()
	var ports []int
	for tries := 0; len(ports) < n; tries++ {
		port := 10_000 + rand.IntN(1<<16-10_000)
		// On some machines the kernel gives away nearly all ports, and no others are left.
		if low <= port && port <= high && tries < 1000 {
			continue
		}
		if tries > 10_000 {
			tb.Fatalf("realzk: no free port on the loopback interface in %d tries", tries)
		}
		if kept, err := reservePort(port); err == nil {
			tb.Cleanup(func() { _ = kept.Close() })
			ports = append(ports, port)
		}
	}
	return ports
}

// reservePort marks a free port as taken with a socket in the abstract namespace, which goes with the process that made it.
func reservePort(port int) (mark net.Listener, err error) {
	if mark, err = net.Listen("unix", fmt.Sprintf("@realzk-port-%d", port)); err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		_ = mark.Close()
		return nil, err
	}
	return mark, l.Close()
}

// ephemeralPorts is the range of the ports that the kernel gives away.
func ephemeralPorts() (low, high int) {
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if n, _ := fmt.Sscan(string(text), &low, &high); err != nil || n != 2 {
		return 32768, 60999 // Linux's own
	}
	return low, high
}
