package zktest

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/locktree/locktree/recipes/zktest/internal/pipe"
)

// Addr is the server's TCP address, host:port on the loopback interface. The first call starts listening on a free port. Like httptest, it
// panics when it cannot listen.
func (s *Server) Addr() string {
	s.mu.Lock()
	addr := s.addr
	s.mu.Unlock()
	if addr != "" {
		return addr
	}
	addr, err := s.Listen("127.0.0.1:0")
	if err != nil {
		panic(fmt.Sprintf("zktest: cannot listen on the loopback interface: %v", err))
	}
	return addr
}

// Listen serves TCP on addr and returns the address bound, which matters for port 0. A program may call Listen for several addresses;
// [Server.Addr] returns the first one.
func (s *Server) Listen(addr string) (string, error) {
	l, err := s.listen(addr, s.views[0])
	if err != nil {
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.addr == "" {
		s.addr = l.Addr().String()
	}
	return l.Addr().String(), nil
}

func (s *Server) listen(addr string, v *view) (net.Listener, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("zktest: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		l.Close()
		return nil, fmt.Errorf("zktest: listen on %s: the server is closed", addr)
	}
	// mu is held and the server is not closed, so Close has yet to come, and will close l.
	s.listeners = append(s.listeners, l)
	s.wg.Add(1)
	go s.accept(l, v)
	return l, nil
}

func (s *Server) accept(l net.Listener, v *view) {
	defer s.wg.Done()
	for {
		nc, err := l.Accept()
		if err != nil {
			return
		}
		if err := s.serve(nc, v); err != nil {
			if t, ok := nc.(*net.TCPConn); ok {
				t.SetLinger(0) // an open port cannot refuse a connection, so it resets the connection
			}
			nc.Close()
		}
	}
}

// Dialer returns a function for zk.WithDialer that connects to the server through net.Pipe, whatever the address. So the server
// works in a testing/synctest bubble, where sockets cannot be used.
func (s *Server) Dialer() func(network, address string, timeout time.Duration) (net.Conn, error) {
	return s.views[0].dial
}

// DialContext is [Server.Dialer] for clients that dial with a context, as [net.Dialer.DialContext] does. It fits recipes.Config.Dialer.
func (s *Server) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	return s.views[0].dialContext(ctx, network, address)
}

// dial is Dialer's function. A timeout that is not positive means no timeout.
func (v *view) dial(network, address string, timeout time.Duration) (net.Conn, error) {
	ctx := context.Background()
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	return v.dialContext(ctx, network, address)
}

func (v *view) dialContext(ctx context.Context, network, address string) (net.Conn, error) {
	return pipe.Dial(ctx, network, address, 2*v.s.opts.latency, func(nc net.Conn) error { return v.s.serve(nc, v) })
}

// serve adopts an established connection.
func (s *Server) serve(nc net.Conn, v *view) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.refusing {
		return errRefused
	}
	c := newConn(s, v, nc)
	s.conns[c] = struct{}{}
	s.counts.Connections++
	s.wg.Add(2)
	go c.read()
	go func() {
		defer s.wg.Done()
		c.out.Run()
	}()
	return nil
}
