// Package pipe dials through net.Pipe as if it were TCP.
package pipe

import (
	"context"
	"net"
	"time"
)

// Dial returns one end of a pipe, and calls serve with the other end. It first waits for a round trip (trip), which a TCP connection takes
// before its first byte. The errors are like net's own, so that clients that inspect them behave as over TCP.
func Dial(ctx context.Context, network, address string, trip time.Duration, serve func(net.Conn) error) (net.Conn, error) {
	fail := func(err error) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: network, Addr: dialAddress{network, address}, Err: err}
	}
	if ctx.Err() != nil {
		return fail(errDial{ctx.Err()})
	}
	if trip > 0 {
		start := time.Now()
		select {
		case <-time.After(trip):
		case <-ctx.Done():
		}
		// The clock decides: in fake time both channels may be ready at once, and a replay must not depend on select's choice.
		if time.Since(start) < trip {
			return fail(errDial{ctx.Err()})
		}
	}
	client, server := net.Pipe()
	if err := serve(server); err != nil {
		return fail(err)
	}
	return client, nil
}

// dialAddress is the address in a failed dial's error.
type dialAddress struct{ network, address string }

func (d dialAddress) Network() string { return d.network }
func (d dialAddress) String() string  { return d.address }

// errDial is the error of a dial that ended with its context, as net reports it.
type errDial struct{ cause error }

func (e errDial) Error() string {
	if e.Timeout() {
		return "i/o timeout"
	}
	return "operation was canceled"
}
func (e errDial) Unwrap() error   { return e.cause }
func (e errDial) Timeout() bool   { return e.cause == context.DeadlineExceeded }
func (e errDial) Temporary() bool { return e.Timeout() }
