package zktest

import (
	"encoding/binary"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

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

// greet shakes hands and returns the session and whether it is read-only.
func (c *rawConn) greet(id int64, password []byte, readOnly bool) (int64, []byte, bool) {
	c.t.Helper()
	e := wire.NewEncoder()
	e.Int32(0)
	e.Int64(0)
	e.Int32(10_000)
	e.Int64(id)
	e.Buffer(password)
	e.Bool(readOnly)
	_, err := c.Write(e.Frame())
	require.NoError(c.t, err)
	d := wire.NewDecoder(c.frame())
	d.Int64()
	id, password = d.Int64(), d.Buffer()
	readOnly = d.Bool()
	require.False(c.t, d.Bad)
	return id, password, readOnly
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
			c.greet(0, nil, false)
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

func TestAReadOnlyServerServesReadersThatAskForIt(t *testing.T) {
	rawBubble(t, func(t *testing.T, s *Server) {
		require.NoError(t, s.Create("/a", nil))
		s.SetReadOnly(true)
		c := rawDial(t, s.views[0])
		id, _, readOnly := c.greet(0, nil, true)
		require.NotZero(t, id)
		require.True(t, readOnly)
		c.watch("/a")
		c.answered(wire.CodeOK)
		c.create("/b")
		c.answered(wire.CodeNotReadOnly)
		s.SetReadOnly(false)
		require.Empty(t, s.Sessions(), "a local session ends with read-only mode")
	})
}

func TestAClientThatDoesNotReadIsNotWaitedFor(t *testing.T) {
	rawBubble(t, func(t *testing.T, s *Server) {
		require.NoError(t, s.Create("/a", make([]byte, 1<<20)))
		mute, other := rawDial(t, s.views[0]), rawDial(t, s.views[0])
		mute.greet(0, nil, false)
		other.greet(0, nil, false)
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
		c.greet(0, nil, false)
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
		mute.greet(0, nil, false)
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
