//go:build !unix

package session

import "net"

// rawWriter does not exist on these systems: a goroutine does all writing.
type rawWriter struct{}

func newRawWriter(net.Conn) *rawWriter { return nil }

func (*rawWriter) now([]byte) int { return 0 }
