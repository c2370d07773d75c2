package page

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/netutil"
)

// pipes is a listener without a network.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}
func (p *pipes) Close() error   { close(p.done); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

func (p *pipes) dial() net.Conn {
	client, server := net.Pipe()
	p.conns <- server
	return client
}

// inTime runs a server in a bubble.
func inTime(t *testing.T, f func(t *testing.T, p *pipes)) {
	synctest.Test(t, func(t *testing.T) {
		b := boardOf(t, scene())
		p := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
		s, door := newServer(b.handler()), &Door{}
		ended := make(chan error, 1)
		go func() { ended <- door.serve(netutil.LimitListener(p, maxConnections), s, nil, func(string) {}) }()
		f(t, p)
		require.NoError(t, s.Shutdown(context.Background()))
		require.ErrorIs(t, <-ended, http.ErrServerClosed)
	})
}

func request(t *testing.T, c net.Conn, path string) *bufio.Reader {
	t.Helper()
	_, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path)
	require.NoError(t, err)
	return bufio.NewReader(c)
}

func TestHeadersThatDoNotEndAndHeadersThatAreTooLong(t *testing.T) {
	inTime(t, func(t *testing.T, p *pipes) {
		start := time.Now()
		c := p.dial()
		defer c.Close()
		_, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
		require.NoError(t, err)
		_, err = c.Read(make([]byte, 1))
		require.Error(t, err)
		require.LessOrEqual(t, time.Since(start), 6*time.Second) // in the bubble's time

		long := p.dial()
		defer long.Close()
		go func() {
			_, _ = io.WriteString(long, "GET / HTTP/1.1\r\nHost: localhost\r\nX-Long: "+strings.Repeat("x", 1<<20)+"\r\n\r\n")
		}()
		resp, err := http.ReadResponse(bufio.NewReader(long), nil)
		require.NoError(t, err)
		require.Equal(t, http.StatusRequestHeaderFieldsTooLarge, resp.StatusCode)
		long.Close()
	})
}

// A client that opened as many connections as are served, and asked for nothing, kept all others from the page for a minute.
func TestConnectionsThatAskForNothingEndSoon(t *testing.T) {
	inTime(t, func(t *testing.T, p *pipes) {
		idle := make([]net.Conn, maxConnections)
		for i := range idle { // some have asked before, some have not, and some have begun to
			idle[i] = p.dial()
			defer idle[i].Close()
			switch i % 3 {
			case 0:
				page(t, idle[i], "/healthz")
			case 1:
				_, err := io.WriteString(idle[i], "GET / HTTP/1.1\r\n")
				require.NoError(t, err)
			}
		}
		start := time.Now()
		for range 100 {
			c := p.dial()
			defer c.Close()
			page(t, c, "/")
		}
		require.Less(t, time.Since(start), 11*time.Second) // in the bubble's time
	})
}

// The next connection is served when one of those in use ends.
func TestConnectionsInUseAreCounted(t *testing.T) {
	inTime(t, func(t *testing.T, p *pipes) {
		slow := make([]net.Conn, maxConnections)
		for i := range slow {
			slow[i] = p.dial()
			defer slow[i].Close()
			request(t, slow[i], "/locks") // and reads nothing
		}
		synctest.Wait()
		asked := make(chan struct{})
		go func() {
			defer close(asked)
			next := p.dial()
			defer next.Close()
			page(t, next, "/healthz")
		}()
		synctest.Wait()
		select {
		case <-asked:
			require.Fail(t, "one too many was served")
		default:
		}
		start := time.Now()
		require.NoError(t, slow[7].Close())
		<-asked
		require.Less(t, time.Since(start), time.Second, "without waiting for others' time to be up") // in the bubble's time
	})
}

// page asks for one and reads it.
func page(t *testing.T, c net.Conn, path string) {
	t.Helper()
	resp, err := http.ReadResponse(request(t, c, path), nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, resp.StatusCode)
	_, err = io.Copy(io.Discard, resp.Body)
	require.NoError(t, err)
}
