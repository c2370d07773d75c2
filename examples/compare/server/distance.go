//go:build linux

package server

import (
	"bytes"
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Distance puts servers a round trip away: it relays connections, and everything said on them comes half a round trip
// later. It counts the bytes, without the pings of ZooKeeper's clients: a thousand idle sessions send a hundred a second.
type Distance struct {
	Addrs []string     // in the place of the servers'
	Bytes atomic.Int64 // in both directions
	Pings atomic.Int64 // of clients
	Sent  atomic.Int64 // pieces that clients sent, without pings: requests, where a client waits for the answer to each

	half   time.Duration
	ctx    context.Context
	relays sync.WaitGroup
	mu     sync.Mutex
	heard  []*atomic.Int64 // by connection, in the order in which they came: bytes to its client
}

// Heard are the bytes that each connection's client has been sent so far, the oldest first.
func (d *Distance) Heard() (all []int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, n := range d.heard {
		all = append(all, n.Load())
	}
	return all
}

// Away starts the relays. They end with the scope.
func Away(s *Scope, servers []string, roundTrip time.Duration) (*Distance, error) {
	ctx, cancel := context.WithCancel(context.Background())
	d := &Distance{half: roundTrip / 2, ctx: ctx}
	s.Cleanup(func() {
		cancel()
		d.relays.Wait()
	})
	for _, server := range servers {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		context.AfterFunc(ctx, func() { _ = l.Close() })
		d.Addrs = append(d.Addrs, l.Addr().String())
		d.relays.Go(func() { d.accept(l, server) })
	}
	return d, nil
}

func (d *Distance) accept(l net.Listener, server string) {
	for {
		client, err := l.Accept()
		if err != nil {
			return
		}
		to, err := net.Dial("tcp", server)
		if err != nil {
			_ = client.Close()
			continue
		}
		context.AfterFunc(d.ctx, func() { _, _ = client.Close(), to.Close() })
		heard := new(atomic.Int64)
		d.mu.Lock()
		d.heard = append(d.heard, heard)
		d.mu.Unlock()
		d.relays.Go(func() {
			d.relay(client, to, func(n int64) { d.Sent.Add(1) }, func() { d.Pings.Add(1) })
		})
		d.relays.Go(func() { d.relay(to, client, func(n int64) { heard.Add(n) }, func() {}) })
	}
}

// relay hands on what it reads when its time has come. Whichever way ends first ends both.
func (d *Distance) relay(from, to net.Conn, said func(n int64), pinged func()) {
	type piece struct {
		due  time.Time
		text []byte
	}
	pieces := make(chan piece, 1024)
	var writer sync.WaitGroup
	writer.Go(func() {
		for p := range pieces {
			time.Sleep(time.Until(p.due))
			if _, err := to.Write(p.text); err != nil {
				_ = from.Close()
			}
		}
	})
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if ping(buffer[:n]) {
			pinged()
		} else if n > 0 {
			d.Bytes.Add(int64(n))
			said(int64(n))
		}
		if n > 0 {
			pieces <- piece{time.Now().Add(d.half), bytes.Clone(buffer[:n])}
		}
		if err != nil {
			break
		}
	}
	close(pieces)
	writer.Wait()
	_, _ = from.Close(), to.Close()
}

// ping says whether a piece is a ping of ZooKeeper's, or the answer to one: a frame whose number is -2, and nothing more.
func ping(b []byte) bool {
	return (len(b) == 12 && b[3] == 8 || len(b) == 20 && b[3] == 16) && bytes.Equal(b[4:8], []byte{0xff, 0xff, 0xff, 0xfe})
}
