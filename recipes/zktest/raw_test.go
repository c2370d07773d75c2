package zktest

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/zktest/internal/release"
	"github.com/locktree/locktree/recipes/zktest/internal/store"
	"github.com/locktree/locktree/recipes/zktest/internal/wire"
)

// rawConn speaks the protocol byte by byte, for tests of details that a client library hides.
type rawConn struct {
	t testing.TB
	net.Conn
	xid int32
}

func rawDial(t testing.TB, v *view) *rawConn {
	t.Helper()
	c, err := v.dial("tcp", "raw", 0)
	require.NoError(t, err)
	return &rawConn{t: t, Conn: c}
}

// greet asks for a session.
func (c *rawConn) greet() {
	c.t.Helper()
	e := wire.NewEncoder()
	e.Int32(0)
	e.Int64(0)
	e.Int32(10_000)
	e.Int64(0)
	e.Buffer(nil)
	e.Bool(false)
	_, err := c.Write(e.Frame())
	require.NoError(c.t, err)
	c.frame()
}

func (c *rawConn) frame() []byte {
	c.t.Helper()
	var head [4]byte
	_, err := io.ReadFull(c, head[:])
	require.NoError(c.t, err)
	body := make([]byte, binary.BigEndian.Uint32(head[:]))
	_, err = io.ReadFull(c, body)
	require.NoError(c.t, err)
	return body
}

// send writes a request whose body f encodes.
func (c *rawConn) send(op int32, f func(*wire.Encoder)) {
	c.t.Helper()
	c.xid++
	e := wire.NewEncoder()
	e.Int32(c.xid)
	e.Int32(op)
	f(e)
	_, err := c.Write(e.Frame())
	require.NoError(c.t, err)
}

// header reads one frame down to its body.
func (c *rawConn) header() (xid int32, code wire.Code) {
	c.t.Helper()
	d := wire.NewDecoder(c.frame())
	xid, _, code = d.Int32(), d.Int64(), wire.Code(d.Int32())
	return xid, code
}

func (c *rawConn) answered(want wire.Code) {
	c.t.Helper()
	_, code := c.header()
	require.Equal(c.t, want, code)
}

func (c *rawConn) create(path string) {
	c.send(wire.OpCreate, func(e *wire.Encoder) {
		e.String(path)
		e.Buffer(nil)
		e.ACLs(store.OpenACL)
		e.Int32(0)
	})
}

func (c *rawConn) watch(path string) {
	c.send(wire.OpExists, func(e *wire.Encoder) {
		e.String(path)
		e.Bool(true)
	})
}

func rawBubble(t *testing.T, f func(t *testing.T, s *Server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := New()
		defer s.Close()
		f(t, s)
	})
}

func TestCutAtSendsExactlySoManyBytes(t *testing.T) {
	for n := range 30 {
		rawBubble(t, func(t *testing.T, s *Server) {
			c := rawDial(t, s.views[0])
			c.greet()
			s.Inject(On("create"), CutAt(n))
			c.create("/a")
			got, err := io.ReadAll(c)
			require.NoError(t, err)
			require.Len(t, got, min(n, 26))
			_, ok := s.Get("/a")
			require.True(t, ok)
		})
	}
}

func TestAClientThatDoesNotReadIsNotWaitedFor(t *testing.T) {
	rawBubble(t, func(t *testing.T, s *Server) {
		require.NoError(t, s.Create("/a", make([]byte, 1<<20)))
		mute, other := rawDial(t, s.views[0]), rawDial(t, s.views[0])
		mute.greet()
		other.greet()
		go func() {
			for range 100 {
				mute.xid++
				e := wire.NewEncoder()
				e.Int32(mute.xid)
				e.Int32(wire.OpGetData)
				e.String("/a")
				e.Bool(false)
				if _, err := mute.Write(e.Frame()); err != nil {
					return
				}
			}
		}()
		synctest.Wait()
		s.mu.Lock()
		for c := range s.conns {
			require.Less(t, c.out.Size(), softQueue+2<<20, "reading stops while replies pile up")
		}
		s.mu.Unlock()
		other.create("/b")
		other.answered(wire.CodeOK)
		mute.Close()
		time.Sleep(time.Second)
	})
}

func TestALoneCheckThatHoldsIsNeverAnswered(t *testing.T) {
	rawBubble(t, func(t *testing.T, s *Server) {
		c := rawDial(t, s.views[0])
		c.greet()
		for version, want := range map[int32]wire.Code{0: wire.CodeOK, 7: wire.CodeBadVersion} {
			c.send(wire.OpCheck, func(e *wire.Encoder) {
				e.String("/zookeeper")
				e.Int32(version)
			})
			check := c.xid
			c.watch("/zookeeper")
			xid, code := c.header()
			if want == wire.CodeOK {
				require.Equal(t, c.xid, xid, "the reply to the next request")
				continue
			}
			require.Equal(t, check, xid)
			require.Equal(t, want, code)
			c.header()
		}
	})
}

func TestAWatcherThatNeverReadsIsCutBeforeItsEventsFillTheMemory(t *testing.T) {
	rawBubble(t, func(t *testing.T, s *Server) {
		path := "/" + strings.Repeat("x", 64<<10)
		require.NoError(t, s.Create(path, nil))
		mute := rawDial(t, s.views[0])
		mute.greet()
		mute.send(wire.OpAddWatch, func(e *wire.Encoder) {
			e.String(path)
			e.Int32(0)
		})
		mute.answered(wire.CodeOK)
		for range maxQueue/(64<<10) + 10 {
			require.NoError(t, s.Set(path, nil))
		}
		synctest.Wait()
		s.mu.Lock()
		defer s.mu.Unlock()
		require.Empty(t, s.conns)
		require.Len(t, s.sessions, 1)
	})
}

func TestAServerOf39TellsWhichTransactionFiredAnEvent(t *testing.T) {
	for v, has := range map[string]bool{"3.8": false, "3.9.0": true, "3.9": true, "3.10.0": true} {
		parsed, err := release.Parse(v)
		require.NoError(t, err)
		require.Equal(t, has, parsed.EventsHaveZxids(), v)
	}
	for v, needs := range map[string]bool{"3.8.0": false, "3.8.3": false, "3.8.4": true, "3.8": true, "3.9.1": false, "3.9.2": true, "3.9": true} {
		parsed, err := release.Parse(v)
		require.NoError(t, err)
		require.Equal(t, needs, parsed.ExistsNeedsRead(), v)
	}
	for _, wrong := range []string{"", "3", "3.9.1.2", "x.9"} {
		_, err := release.Parse(wrong)
		require.Error(t, err, wrong)
	}
	require.Contains(t, New(WithVersion("3.9")).fourLetter("srvr"), "Zookeeper version: 3.9.5-zktest")
}

func TestAServerOf39HidesWhetherANodeExists(t *testing.T) {
	s := Start(t, WithVersion("3.9"))
	owner := connected(t, s)
	require.NoError(t, owner.AddAuth("digest", []byte("a:b")))
	_, err := owner.Create("/secret", nil, 0, zk.DigestACL(zk.PermAll, "a", "b"))
	require.NoError(t, err)
	_, _, err = connected(t, s).Exists("/secret")
	require.ErrorIs(t, err, zk.ErrNoAuth)
	there, _, err := connected(t, s).Exists("/none")
	require.NoError(t, err)
	require.False(t, there)
}

func connected(t *testing.T, s *Server) *zk.Conn {
	c, _, err := zk.Connect([]string{"127.0.0.1"}, 40*time.Second, zk.WithDialer(s.Dialer()), zk.WithLogInfo(false))
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// seedFrames returns meaningful frames.
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

// FuzzConnection checks that the server answers the next client, whatever follows a handshake. The connection ends when its client does.
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
				c.greet()
			}
			go io.Copy(io.Discard, c)
			c.Write(stream) // an error means that the server has hung up: fine
			c.Close()

			next := rawDial(t, s.views[0])
			next.SetDeadline(time.Now().Add(10 * time.Second))
			next.greet()
			next.watch("/zookeeper")
			_, code := next.header()
			require.Equal(t, wire.Code(wire.CodeOK), code)
			s.Dump()
			next.Close()
		})
	})
}

// FuzzTwoFrames checks that a request's answer is one well-formed frame with its xid, whatever came before it.
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

// askTwice sends a request and then a sync, and reads up to the sync's answer.
func askTwice(t *testing.T, s *Server, body, path []byte) {
	const second = 77_000_001
	c := rawDial(t, s.views[0])
	c.SetDeadline(time.Now().Add(10 * time.Second))
	c.greet()
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
