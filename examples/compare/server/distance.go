//go:build linux

package server

import (
	"bytes"
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/locktree/locktree/examples/compare/lock"
)

// Distance puts servers a round trip away: it relays connections, and everything said on them comes half a round trip
// later. It counts what passes, without the pings of ZooKeeper's clients: a thousand idle sessions send a hundred a second.
type Distance struct {
	Addrs []string // in the place of the servers'
	Sent  Traffic  // by clients

	half   time.Duration
	ctx    context.Context
	relays sync.WaitGroup
	mu     sync.Mutex
	heard  []*Traffic // by connection, in the order in which they came: to its client
}

// Traffic is what passed in one direction.
type Traffic struct {
	Bytes  atomic.Int64
	Pieces atomic.Int64 // requests, where a client waits for the answer to each
	Pings  atomic.Int64 // which are in neither
}

// Heard are the bytes that each connection's client has been sent so far, the oldest first.
func (d *Distance) Heard() (all []int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, t := range d.heard {
		all = append(all, t.Bytes.Load())
	}
	return all
}

// Bytes are those in both directions.
func (d *Distance) Bytes() int64 {
	n := d.Sent.Bytes.Load()
	for _, heard := range d.Heard() {
		n += heard
	}
	return n
}

// Away starts the relays. They end with the scope.
func Away(s *Scope, servers []string, roundTrip time.Duration) (*Distance, error) {
	ctx, cancel := context.WithCancel(context.Background())
	d := &Distance{half: roundTrip / 2, ctx: ctx}
	s.Cleanup(func() {
		cancel()
		d.relays.Wait()
	})
	return d, lock.Try(func() {
		for _, server := range servers {
			l := lock.Must(net.Listen("tcp", "127.0.0.1:0"))
			context.AfterFunc(ctx, func() { _ = l.Close() })
			d.Addrs = append(d.Addrs, l.Addr().String())
			d.relays.Go(func() { d.accept(l, server) })
		}
	})
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
		heard := &Traffic{}
		d.mu.Lock()
		d.heard = append(d.heard, heard)
		d.mu.Unlock()
		d.relays.Go(func() { d.relay(client, to, &d.Sent) })
		d.relays.Go(func() { d.relay(to, client, heard) })
	}
}

// relay hands on what it reads when its time has come. Whichever way ends first ends both.
func (d *Distance) relay(from, to net.Conn, t *Traffic) {
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
			t.Pings.Add(1)
		} else if n > 0 {
			t.Bytes.Add(int64(n))
			t.Pieces.Add(1)
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
