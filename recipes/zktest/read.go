package zktest

import (
	"bufio"
	"crypto/tls"
	"io"

	"github.com/locktree/locktree/recipes/zktest/internal/store"
	"github.com/locktree/locktree/recipes/zktest/internal/wire"
	"github.com/locktree/locktree/recipes/zktest/internal/words"
)

// read is the reader goroutine: it cuts the stream into frames, asks the faults about each frame, and hands the frame on.
func (c *conn) read() {
	defer c.s.wg.Done()
	in := bufio.NewReader(c.nc)
	if c.identify() != nil { // TLS: the handshake failed
		c.deliver(inboundFrame{eof: true})
		return
	}
	for first := true; ; first = false {
		it, err := c.next(in, first)
		if err != nil {
			break
		}
		// The faults are asked here, while the server is not locked: a predicate may inspect the server.
		c.s.rules.apply(c, &it)
		if !c.deliver(it) || !c.waitRoom() {
			break
		}
		if it.word != "" {
			return // the answer to a four-letter word closes the connection
		}
	}
	c.deliver(inboundFrame{eof: true})
}

// next reads one frame. Any error ends the connection. A length beyond the limit ends it too, before memory is allocated for the frame.
func (c *conn) next(in *bufio.Reader, first bool) (inboundFrame, error) {
	var head [4]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return inboundFrame{}, err
	}
	// A four-letter word comes in place of a length. As a length, it would be more than a gigabyte.
	if first && words.Known(string(head[:])) {
		return inboundFrame{raw: 4, word: string(head[:])}, nil
	}
	body, err := wire.ReadBody(in, head, c.s.opts.maxFrame)
	if err != nil {
		return inboundFrame{}, err
	}
	it := inboundFrame{raw: len(body) + 4}
	if first {
		it.req, err = wire.DecodeConnect(body)
	} else {
		it.req, err = wire.DecodeRequest(body)
	}
	return it, err
}

// identify finishes the TLS handshake, and adds the identity of the client's certificate, if it has one.
func (c *conn) identify() error {
	t, ok := c.nc.(*tls.Conn)
	if !ok {
		return nil
	}
	if err := t.Handshake(); err != nil {
		return err
	}
	certs := t.ConnectionState().PeerCertificates
	if len(certs) == 0 {
		return nil
	}
	name, err := subject(certs[0].RawSubject)
	if err != nil {
		return err
	}
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	c.ids = append(c.ids, store.Identity{Scheme: "x509", ID: name})
	return nil
}
