//go:build unix

package session

import (
	"net"
	"syscall"
)

// rawConn returns the socket of a plain TCP connection, nil for other connections.
func rawConn(conn net.Conn) syscall.RawConn {
	if tcp, ok := conn.(*net.TCPConn); ok {
		if raw, err := tcp.SyscallConn(); err == nil {
			return raw
		}
	}
	return nil
}

// writeNow writes what the socket takes without waiting. It ignores errors: the goroutine that writes the rest will meet them.
func writeNow(raw syscall.RawConn, b []byte) (n int) {
	_ = raw.Write(func(fd uintptr) bool {
		n, _ = syscall.Write(int(fd), b)
		return true
	})
	return max(n, 0)
}
