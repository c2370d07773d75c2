//go:build linux

package server

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Distance puts servers a round trip away: it relays connections, and everything said on them comes half a round trip
// later. It counts the bytes.
type Distance struct {
	Addrs    []string // in the place of the servers'
	ToServer atomic.Int64
	ToClient atomic.Int64
	// Pings are those of ZooKeeper's clients, which are in none of the above, nor are their answers: a thousand idle sessions send a hundred a second.
	Pings atomic.Int64
	Sent  atomic.Int64 // pieces that clients sent, pings among them: requests, where a client waits for the answer to each

	listeners []net.Listener
	half      time.Duration
	relays    sync.WaitGroup

	mu     sync.Mutex
	open   map[net.Conn]bool
	events []int64 // by connection, in the order in which they came: of ZooKeeper, to its client
	closed bool
}

// Events are the watch events that ZooKeeper has sent on each connection so far, the oldest first.
func (d *Distance) Events() []int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.events)
}

// Away starts the relays. They end with the scope.
func Away(s *Scope, servers []string, roundTrip time.Duration) (*Distance, error) {
	d := &Distance{half: roundTrip / 2, open: map[net.Conn]bool{}}
	s.Cleanup(d.close)
	for _, server := range servers {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		d.listeners = append(d.listeners, l)
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
		d.mu.Lock()
		number := len(d.events)
		d.events = append(d.events, 0)
		d.open[client], d.open[to] = true, true
		if d.closed {
			_, _ = client.Close(), to.Close()
		}
		d.mu.Unlock()
		d.relays.Go(func() { d.relay(client, to, &d.ToServer, nil) })
		var seen frames
		d.relays.Go(func() {
			d.relay(to, client, &d.ToClient, func(text []byte) {
				if n := seen.events(text); n > 0 {
					d.mu.Lock()
					d.events[number] += n
					d.mu.Unlock()
				}
			})
		})
	}
}

// relay hands on what it reads when its time has come. Whichever way ends first ends both.
func (d *Distance) relay(from, to net.Conn, counted *atomic.Int64, look func([]byte)) {
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
			if counted == &d.ToServer {
				d.Pings.Add(1)
			}
		} else {
			counted.Add(int64(n))
		}
		if n > 0 && counted == &d.ToServer {
			d.Sent.Add(1)
		}
		if look != nil {
			look(buffer[:n])
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
	for _, c := range []io.Closer{from, to} {
		_ = c.Close()
	}
	d.mu.Lock()
	delete(d.open, from)
	delete(d.open, to)
	d.mu.Unlock()
}

// frames reads what ZooKeeper says on a connection. What another server says it takes for frames without sense.
type frames struct {
	head []byte // of a frame, as far as it has come: its length and its number
	rest int    // of a frame whose head has come
}

// events counts the watch events that begin in a piece: frames whose number is -1.
func (f *frames) events(piece []byte) (n int64) {
	for len(piece) > 0 {
		if skip := min(f.rest, len(piece)); skip > 0 {
			f.rest, piece = f.rest-skip, piece[skip:]
			continue
		}
		part := min(8-len(f.head), len(piece))
		f.head, piece = append(f.head, piece[:part]...), piece[part:]
		if len(f.head) < 8 {
			continue
		}
		if int32(binary.BigEndian.Uint32(f.head[4:])) == -1 {
			n++
		}
		f.rest, f.head = int(int32(binary.BigEndian.Uint32(f.head)))-4, f.head[:0]
	}
	return n
}

// ping says whether a piece is a ping of ZooKeeper's, or the answer to one: a frame whose number is -2, and nothing else.
func ping(b []byte) bool {
	return (len(b) == 12 && b[3] == 8 || len(b) == 20 && b[3] == 16) && bytes.Equal(b[4:8], []byte{0xff, 0xff, 0xff, 0xfe})
}

func (d *Distance) close() {
	for _, l := range d.listeners {
		_ = l.Close()
	}
	d.mu.Lock()
	d.closed = true
	for c := range d.open {
		_ = c.Close()
	}
	d.mu.Unlock()
	d.relays.Wait()
}
