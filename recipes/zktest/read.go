package zktest

import (
	"bufio"
	"encoding/binary"
	"io"
)

// read is the reader goroutine: it cuts the stream into frames, asks the faults
// about each, and hands it on.
func (c *conn) read() {
	defer c.s.wg.Done()
	in := bufio.NewReader(c.nc)
	if c.identify() != nil { // TLS: the handshake failed
		c.deliver(inbound{eof: true})
		return
	}
	for first := true; ; first = false {
		it, err := c.next(in, first)
		if err != nil {
			break
		}
		// Here, while the server is not locked: a predicate may inspect it.
		c.s.rules.apply(c, &it)
		if !c.deliver(it) || !c.waitRoom() {
			break
		}
		if it.word != "" {
			return // the answer to a four-letter word closes the connection
		}
	}
	c.deliver(inbound{eof: true})
}

// next reads one frame. Any error ends the connection. So does a length beyond the
// limit, before anything is allocated for it.
func (c *conn) next(in *bufio.Reader, first bool) (inbound, error) {
	var head [4]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return inbound{}, err
	}
	// A word comes in place of a length, which would be more than a gigabyte.
	if first && knownWord(string(head[:])) {
		return inbound{raw: 4, word: string(head[:])}, nil
	}
	n := int32(binary.BigEndian.Uint32(head[:]))
	if n < 0 || int(n) > c.s.opts.maxFrame {
		return inbound{}, errMalformed
	}
	body, err := readBody(in, int(n))
	if err != nil {
		return inbound{}, err
	}
	it := inbound{raw: len(body) + 4}
	if first {
		it.req, err = decodeConnect(body)
	} else {
		it.req, err = decodeRequest(body)
	}
	return it, err
}

// readBody allocates as the bytes arrive, not by the length announced.
func readBody(in io.Reader, n int) ([]byte, error) {
	const step = 64 << 10
	body := make([]byte, 0, min(n, step))
	for len(body) < n {
		have := len(body)
		body = append(body, make([]byte, min(n-have, step))...)
		if _, err := io.ReadFull(in, body[have:]); err != nil {
			return nil, err
		}
	}
	return body, nil
}
