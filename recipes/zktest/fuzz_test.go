package zktest

import (
	"bytes"
	"encoding/binary"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/zktest/internal/store"
	"github.com/locktree/locktree/recipes/zktest/internal/wire"
)

// frames that mean something, as seeds.
func seedFrames() [][]byte {
	var seeds [][]byte
	for op := range wire.OpNames {
		for _, body := range [][]byte{nil, []byte("\x00\x00\x00\x02/a\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"), bytes.Repeat([]byte{0xff}, 40)} {
			e := wire.NewEncoder()
			e.Int32(1)
			e.Int32(op)
			seeds = append(seeds, append(e.Frame()[4:], body...))
		}
	}
	e := wire.NewEncoder()
	e.Int32(1)
	e.Int32(wire.OpMulti)
	for range 3 {
		e.MultiResult(wire.OpCreate)
		e.String("/a")
		e.Buffer(nil)
		e.ACLs(store.OpenACL)
		e.Int32(1)
	}
	e.MultiEnd()
	return append(seeds, e.Frame()[4:])
}

// FuzzConnection: whatever follows a handshake, the server answers the next client, and the connection ends when its client does.
func FuzzConnection(f *testing.F) {
	for _, s := range seedFrames() {
		f.Add(append(binary.BigEndian.AppendUint32(nil, uint32(len(s))), s...), true)
	}
	f.Add([]byte("ruokmntr"), false)
	f.Add([]byte("\x7f\xff\xff\xff"), false)
	f.Fuzz(func(t *testing.T, stream []byte, greeted bool) {
		synctest.Test(t, func(t *testing.T) {
			s := New(WithExtendedTypes(), WithQuotaEnforcement())
			defer s.Close()
			c := rawDial(t, s.views[0])
			c.SetDeadline(time.Now().Add(10 * time.Second))
			if greeted {
				c.greet(0, nil, false)
			}
			go io.Copy(io.Discard, c)
			c.Write(stream) // an error means that the server has hung up: fine
			c.Close()

			next := rawDial(t, s.views[0])
			next.SetDeadline(time.Now().Add(10 * time.Second))
			next.greet(0, nil, false)
			next.watch("/zookeeper")
			_, code := next.header()
			require.Equal(t, wire.Code(wire.CodeOK), code)
			s.Dump()
			next.Close()
		})
	})
}

// FuzzTwoFrames: the answer to a request is one well-formed frame with its xid, whatever came before it.
func FuzzTwoFrames(f *testing.F) {
	for _, s := range seedFrames() {
		f.Add(s, []byte("/a"))
	}
	f.Fuzz(func(t *testing.T, body []byte, path []byte) {
		if len(body) < 8 || int32(binary.BigEndian.Uint32(body[4:])) == wire.OpCloseSession {
			return // not a request that leaves the session open
		}
		synctest.Test(t, func(t *testing.T) {
			s := New()
			defer s.Close()
			askTwice(t, s, body, path)
		})
	})
}

// askTwice sends a request and a sync behind it, and reads up to the answer of that.
func askTwice(t *testing.T, s *Server, body, path []byte) {
	const second = 77_000_001
	c := rawDial(t, s.views[0])
	c.SetDeadline(time.Now().Add(10 * time.Second))
	c.greet(0, nil, false)
	if _, err := c.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)); err != nil {
		return
	}
	e := wire.NewEncoder()
	e.Int32(second)
	e.Int32(wire.OpSync)
	e.String(string(path))
	go c.Write(e.Frame())
	for {
		var head [4]byte
		if _, err := io.ReadFull(c, head[:]); err != nil {
			return // an unknown operation or a failed authentication ends the connection
		}
		n := binary.BigEndian.Uint32(head[:])
		require.LessOrEqual(t, n, uint32(len(body)+len(path)*6+4096))
		reply := make([]byte, n)
		_, err := io.ReadFull(c, reply)
		require.NoError(t, err)
		d := wire.NewDecoder(reply)
		xid, _, _ := d.Int32(), d.Int64(), d.Int32()
		require.False(t, d.Bad)
		if xid == second {
			return
		}
	}
}
