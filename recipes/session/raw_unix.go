//go:build unix

package session

import (
	"net"
	"syscall"
)

// rawConn gives access to the socket below a connection, nil where there is something in between.
func rawConn(conn net.Conn) syscall.RawConn {
	if tcp, ok := conn.(*net.TCPConn); ok {
		if raw, err := tcp.SyscallConn(); err == nil {
			return raw
		}
	}
	return nil
}

// writeNow writes what the socket takes without waiting. Errors are for whoever writes the rest.
func writeNow(raw syscall.RawConn, b []byte) (n int) {
	_ = raw.Write(func(fd uintptr) bool {
		n, _ = syscall.Write(int(fd), b)
		return true
	})
	return max(n, 0)
}
