package serve

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
func inTime(t *testing.T, f func(t *testing.T, b *Board, p *pipes)) {
	synctest.Test(t, func(t *testing.T) {
		b := board(t, scene())
		p := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
		s := Server(Guard(b.Handler(), nil, nil))
		ended := make(chan error, 1)
		go func() { ended <- s.Serve(Limit(p, s)) }()
		f(t, b, p)
		b.Close()
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

func (b *Board) streaming() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.streams)
}

func TestAThousandStreamsAndNoMore(t *testing.T) {
	inTime(t, func(t *testing.T, b *Board, p *pipes) {
		readers := make([]*bufio.Reader, 1000)
		for i := range readers {
			c := p.dial()
			defer c.Close()
			readers[i] = request(t, c, "/events")
			resp, err := http.ReadResponse(readers[i], nil)
			require.NoError(t, err)
			require.Equal(t, "text/event-stream", resp.Header.Get("Content-Type"))
			readers[i] = bufio.NewReader(resp.Body)
		}
		next := func(want string) {
			for _, r := range readers {
				for line := ""; line != want; {
					var err error
					line, err = r.ReadString('\n')
					require.NoError(t, err)
				}
			}
		}
		next("data: 1\n")
		c := p.dial()
		defer c.Close()
		resp, err := http.ReadResponse(request(t, c, "/events"), nil)
		require.NoError(t, err)
		require.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
		require.NotEmpty(t, resp.Header.Get("Retry-After"))

		b.Saw("main", scene())
		next("data: 2\n")
		time.Sleep(pingEvery)
		next(": still here\n")
		b.Close()
		for _, r := range readers {
			_, err := io.Copy(io.Discard, r)
			require.NoError(t, err, "the end is one in good order")
		}
		synctest.Wait()
		require.Zero(t, b.streaming())
	})
}

// A reader that reads nothing holds up nobody, and is let go.
func TestASlowReader(t *testing.T) {
	inTime(t, func(t *testing.T, b *Board, p *pipes) {
		slow, quick := p.dial(), p.dial()
		defer slow.Close()
		defer quick.Close()
		request(t, slow, "/events")
		resp, err := http.ReadResponse(request(t, quick, "/events"), nil)
		require.NoError(t, err)
		r := bufio.NewReader(resp.Body)
		synctest.Wait()
		require.Equal(t, 2, b.streaming())
		for range 100 {
			b.Saw("main", scene())
		}
		for line := ""; line != "data: 101\n"; {
			line, err = r.ReadString('\n')
			require.NoError(t, err)
		}
		time.Sleep(writeFor + time.Second)
		synctest.Wait()
		require.Equal(t, 1, b.streaming())
	})
}

func TestHeadersThatDoNotEndAndHeadersThatAreTooLong(t *testing.T) {
	inTime(t, func(t *testing.T, _ *Board, p *pipes) {
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

// Whoever opened as many connections as are served, and asked for nothing, kept everybody else from the page.
func TestConnectionsThatAskForNothingMakeRoom(t *testing.T) {
	inTime(t, func(t *testing.T, b *Board, p *pipes) {
		streams := make([]net.Conn, 10)
		for i := range streams {
			streams[i] = p.dial()
			defer streams[i].Close()
			_, err := http.ReadResponse(request(t, streams[i], "/events"), nil)
			require.NoError(t, err)
		}
		// Some have asked before, some have not, and some have begun to.
		idle := make([]net.Conn, maxConnections-len(streams))
		for i := range idle {
			idle[i] = p.dial()
			defer idle[i].Close()
			switch i % 3 {
			case 0:
				page(t, idle[i], "/healthz")
			case 1:
				_, err := io.WriteString(idle[i], "GET / HTTP/1.1\r\n")
				require.NoError(t, err)
			}
			synctest.Wait()
		}
		for range 100 {
			c := p.dial()
			defer c.Close()
			page(t, c, "/")
		}
		synctest.Wait()
		for i, c := range idle {
			closed := c.SetReadDeadline(time.Now()) != nil // the other end is
			require.Equal(t, i < 100, closed, "the oldest make room: %d", i)
		}
		require.Equal(t, len(streams), b.streaming(), "who is served is let be")
	})
}

// Where all are in use, the next one is served when one of them ends, or comes to rest.
func TestConnectionsInUseAreCounted(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, slow net.Conn, r *bufio.Reader){
		"ends": func(t *testing.T, slow net.Conn, _ *bufio.Reader) { require.NoError(t, slow.Close()) },
		"comes to rest": func(t *testing.T, _ net.Conn, r *bufio.Reader) {
			resp, err := http.ReadResponse(r, nil)
			require.NoError(t, err)
			_, err = io.Copy(io.Discard, resp.Body)
			require.NoError(t, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inTime(t, func(t *testing.T, _ *Board, p *pipes) {
				slow := make([]net.Conn, maxConnections)
				readers := make([]*bufio.Reader, len(slow))
				for i := range slow {
					slow[i] = p.dial()
					defer slow[i].Close()
					readers[i] = request(t, slow[i], "/locks") // and reads nothing
				}
				synctest.Wait()
				next := p.dial()
				defer next.Close()
				asked := make(chan struct{})
				go func() {
					defer close(asked)
					page(t, next, "/healthz")
				}()
				synctest.Wait()
				select {
				case <-asked:
					require.Fail(t, "one too many was served")
				default:
				}
				start := time.Now()
				end(t, slow[7], readers[7])
				<-asked
				require.Less(t, time.Since(start), time.Second, "without waiting for others' time to be up") // in the bubble's time
			})
		})
	}
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
