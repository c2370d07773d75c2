package harness

import (
	"context"
	"io"
	"net"
	"sync"
)

// A Cutter is the cable of one client: all connections that the client dials pass through the Cutter, which cuts them after a given byte.
type Cutter struct {
	Next func(ctx context.Context, network, address string) (net.Conn, error)

	mu     sync.Mutex
	armed  []Cut // the first cut waits for its byte, the others wait for their turn
	struck int
	refuse bool
	newest net.Conn
}

// Cut names one byte after which the connection is cut.
type Cut struct {
	Dir   Direction
	After int // the number of bytes that still pass in that direction; the next byte is lost, and the connection ends
}

type Direction int

const (
	ToServer Direction = iota
	ToClient
)

func (d Direction) String() string { return [...]string{"to the server", "to the client"}[d] }

// Dial is a Config.Dialer.
func (k *Cutter) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	k.mu.Lock()
	refuse := k.refuse
	k.mu.Unlock()
	if refuse {
		return nil, &net.OpError{Op: "dial", Net: network, Err: io.ErrClosedPipe}
	}
	conn, err := k.Next(ctx, network, address)
	if err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.newest = conn
	return &cutConn{conn, k}, nil
}

// HangUp ends the newest connection on the client's side.
func (k *Cutter) HangUp() {
	k.mu.Lock()
	defer k.mu.Unlock()
	_ = k.newest.Close()
}

// Arm schedules cuts, one after another, in place of those that were scheduled.
func (k *Cutter) Arm(cuts ...Cut) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.armed, k.struck = cuts, 0
}

// Struck says whether one of the cuts has struck.
func (k *Cutter) Struck() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.struck > 0
}

// Disarm drops the cuts that have not struck, and returns how many have struck.
func (k *Cutter) Disarm() (struck int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.armed = nil
	return k.struck
}

// SetRefuse makes dialling fail, or succeed again.
func (k *Cutter) SetRefuse(refuse bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.refuse = refuse
}

// pass says how many of n bytes may go, and whether the connection ends after them.
func (k *Cutter) pass(dir Direction, n int) (allowed int, end bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.armed) > 0 && k.armed[0].Dir == dir {
		if n >= k.armed[0].After {
			n, end = k.armed[0].After, true
			k.armed = k.armed[1:]
			k.struck++
		} else {
			k.armed[0].After -= n
		}
	}
	return n, end
}

type cutConn struct {
	net.Conn
	k *Cutter
}

func (c *cutConn) Write(p []byte) (int, error) {
	n, end := c.k.pass(ToServer, len(p))
	if !end {
		return c.Conn.Write(p)
	}
	if n > 0 {
		_, _ = c.Conn.Write(p[:n]) // the connection ends after this write in any case
	}
	_ = c.Conn.Close()
	return n, io.ErrClosedPipe
}

func (c *cutConn) Read(p []byte) (int, error) {
	got, err := c.Conn.Read(p)
	if got == 0 {
		return got, err
	}
	n, end := c.k.pass(ToClient, got)
	if !end {
		return got, err
	}
	_ = c.Conn.Close()
	if n == 0 {
		return 0, io.ErrUnexpectedEOF
	}
	return n, nil
}
