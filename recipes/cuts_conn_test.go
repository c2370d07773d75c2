package recipes_test

import (
	"context"
	"io"
	"net"
	"sync"
)

// A cutter is the cable of one client: every connection it dials passes through it, and it is cut at a byte.
type cutter struct {
	next func(ctx context.Context, network, address string) (net.Conn, error)

	mu     sync.Mutex
	armed  []cut // the first is waiting for its byte, the others for their turn
	struck int
	refuse bool
	newest net.Conn
	passed [2]int // bytes since reset, by direction
}

// cut is one byte to cut behind.
type cut struct {
	dir   direction
	after int // bytes that still pass in that direction; what follows is lost, and the connection with it
}

type direction int

const (
	toServer direction = iota
	toClient
)

func (d direction) String() string { return [...]string{"to the server", "to the client"}[d] }

// dial is a Config.Dialer.
func (k *cutter) dial(ctx context.Context, network, address string) (net.Conn, error) {
	k.mu.Lock()
	refuse := k.refuse
	k.mu.Unlock()
	if refuse {
		return nil, &net.OpError{Op: "dial", Net: network, Err: io.ErrClosedPipe}
	}
	conn, err := k.next(ctx, network, address)
	if err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.newest = conn
	return &cutConn{conn, k}, nil
}

// hangUp ends the newest connection on the client's side.
func (k *cutter) hangUp() {
	k.mu.Lock()
	defer k.mu.Unlock()
	_ = k.newest.Close()
}

// arm schedules cuts, one after another, in place of those that were scheduled, and starts counting bytes anew.
func (k *cutter) arm(cuts ...cut) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.armed, k.struck, k.passed = cuts, 0, [2]int{}
}

// disarm drops what has not struck and returns how many have, and the bytes that passed.
func (k *cutter) disarm() (struck int, passed [2]int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.armed = nil
	return k.struck, k.passed
}

// setRefuse makes dialling fail, or succeed again.
func (k *cutter) setRefuse(refuse bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.refuse = refuse
}

// pass says how many of n bytes may go, and whether the connection ends behind them.
func (k *cutter) pass(dir direction, n int) (allowed int, end bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.armed) > 0 && k.armed[0].dir == dir {
		if n >= k.armed[0].after {
			n, end = k.armed[0].after, true
			k.armed = k.armed[1:]
			k.struck++
		} else {
			k.armed[0].after -= n
		}
	}
	k.passed[dir] += n
	return n, end
}

type cutConn struct {
	net.Conn
	k *cutter
}

func (c *cutConn) Write(p []byte) (int, error) {
	n, end := c.k.pass(toServer, len(p))
	if !end {
		return c.Conn.Write(p)
	}
	if n > 0 {
		_, _ = c.Conn.Write(p[:n]) // the connection ends with it either way
	}
	_ = c.Conn.Close()
	return n, io.ErrClosedPipe
}

func (c *cutConn) Read(p []byte) (int, error) {
	got, err := c.Conn.Read(p)
	if got == 0 {
		return got, err
	}
	n, end := c.k.pass(toClient, got)
	if !end {
		return got, err
	}
	_ = c.Conn.Close()
	if n == 0 {
		return 0, io.ErrUnexpectedEOF
	}
	return n, nil
}
