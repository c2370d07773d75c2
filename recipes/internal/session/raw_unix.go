//go:build unix

package session

import (
	"net"
	"syscall"
)

// rawWriter writes to the socket of a plain TCP connection, as much as the socket takes without waiting. One goroutine uses it at a time.
type rawWriter struct {
	conn  syscall.RawConn
	write func(fd uintptr) bool // writes the bytes in w.out; newRawWriter makes this function once, so that w.now allocates nothing
	out   []byte
	n     int
}

// newRawWriter returns nil for other connections.
func newRawWriter(conn net.Conn) *rawWriter {
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return nil
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return nil
	}
	w := &rawWriter{conn: raw}
	w.write = func(fd uintptr) bool {
		w.n, _ = syscall.Write(int(fd), w.out)
		return true
	}
	return w
}

// now writes as much of b as the socket takes, and returns how many bytes. It ignores errors: the write of the rest meets them.
func (w *rawWriter) now(b []byte) int {
	w.out, w.n = b, 0
	_ = w.conn.Write(w.write)
	w.out = nil
	return max(w.n, 0)
}
