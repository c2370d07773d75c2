package session

import (
	"bytes"
	"encoding/binary"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/internal/hostile"
	"github.com/locktree/locktree/recipes/internal/jute"
)

func TestRequestsAreWhatTheyShouldBe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []request
		serve := answering(7, 9000, func(r request) []byte {
			seen = append(seen, r)
			return hostile.Frame(hostile.Cat(hostile.Be32(r.xid), hostile.Be64(1), hostile.Be32(-101))...)
		})
		p := &peers{scripts: map[string]hostile.Script{"a:2181": serve}}
		c, err := Dial(t.Context(), Config{Servers: []string{"a"}, Dialer: p.dial})
		require.NoError(t, err)
		s, _ := c.Session(t.Context())
		ctx := t.Context()
		_, _, _ = s.Get(ctx, "/get")
		_, _, _, _ = s.GetW(ctx, "/getW")
		_, _, _, _ = s.ChildrenW(ctx, "/childrenW")
		_, _ = s.Create(ctx, "/create", []byte("data"), 3, openACL)
		_, _ = s.Exists(ctx, "/exists")
		_, _, _ = s.GetACL(ctx, "/getACL")
		_, _ = s.SetACL(ctx, "/setACL", openACL, 1)
		_, _ = s.Set(ctx, "/set", nil, 1)
		_ = s.Delete(ctx, "/delete", 1)
		_ = s.Sync(ctx, "/sync")
		_, _ = s.Multi(ctx, &zk.CheckVersionRequest{Path: "/multi"}, &zk.SetDataRequest{Path: "/b", Data: nil},
			&zk.CreateRequest{Path: "/c", Data: []byte("x"), Acl: append(openACL, openACL...)}, &zk.DeleteRequest{Path: "/d"},
			&zk.SetDataRequest{Path: "/e", Data: []byte("yy")})
		for i := range seen {
			seen[i].xid = 0
		}
		require.Equal(t, []request{
			{op: jute.OpGetData, path: "/get"}, {op: jute.OpGetData, path: "/getW", watch: true},
			{op: jute.OpGetChildren2, path: "/childrenW", watch: true}, {op: jute.OpCreate, path: "/create"},
			{op: jute.OpExists, path: "/exists"}, {op: jute.OpGetACL, path: "/getACL"}, {op: jute.OpSetACL, path: "/setACL"},
			{op: jute.OpSetData, path: "/set"}, {op: jute.OpDelete, path: "/delete"}, {op: jute.OpSync, path: "/sync"},
			{op: jute.OpMulti, path: "/multi", ops: 5},
		}, seen)
		require.NoError(t, c.Close())
		p.wg.Wait()
	})
}

// replies has a well-formed body for each operation.
func replies() map[int32][]byte {
	stat := make([]byte, statSize)
	text := func(s string) []byte { return hostile.Cat(hostile.Be32(int32(len(s))), []byte(s)) }
	acl := hostile.Cat(hostile.Be32(1), hostile.Be32(31), text("world"), text("anyone"))
	head := func(op int32, done byte) []byte { return hostile.Cat(hostile.Be32(op), []byte{done}, hostile.Be32(0)) }
	return map[int32][]byte{
		jute.OpCreate: text("/a"), jute.OpSync: text("/a"), jute.OpExists: stat, jute.OpSetData: stat, jute.OpSetACL: stat,
		jute.OpGetData: hostile.Cat(text("data"), stat), jute.OpGetACL: hostile.Cat(acl, stat),
		jute.OpGetChildren2: hostile.Cat(hostile.Be32(2), text("a"), text("bb"), stat),
		jute.OpMulti:        hostile.Cat(head(jute.OpCreate, 0), text("/a"), head(jute.OpSetData, 0), stat, head(jute.OpCheck, 0), head(jute.OpDelete, 0), head(jute.OpError, 0), hostile.Be32(-2), head(-1, 1)),
	}
}

func checkReply(r request, body []byte) (failed bool, err error) {
	var got reply
	err = got.decode(r.op, r.ops, body)
	return got.code != 0, err
}

// Every proper prefix of a reply, and every reply with one of its lengths changed beyond the frame, is refused.
func TestTruncatedRepliesAreRefused(t *testing.T) {
	for op, body := range replies() {
		r := request{op: op, ops: 5}
		_, err := checkReply(r, body)
		require.NoError(t, err, op)
		_, err = checkReply(r, append(bytes.Clone(body), 1, 2, 3))
		require.NoError(t, err, "a newer server may say more")
		end := len(body)
		if op == jute.OpMulti {
			end -= 8 // of the last header only the operation and the flag count
		}
		for n := range end {
			_, err := checkReply(r, body[:n])
			require.ErrorIs(t, err, ErrProtocol, "operation %d cut at %d", op, n)
		}
	}
	_, err := checkReply(request{op: jute.OpGetData}, hostile.Cat(hostile.Be32(-1), make([]byte, statSize)))
	require.NoError(t, err, "null data is legal")
}

func TestRolledBackTransactionIsNoCommit(t *testing.T) {
	head := func(op int32, done byte) []byte { return hostile.Cat(hostile.Be32(op), []byte{done}, hostile.Be32(0)) }
	for code, failed := range map[int32]bool{0: false, -2: true, -101: true} {
		got, err := checkReply(request{op: jute.OpMulti, ops: 1}, hostile.Cat(head(jute.OpError, 0), hostile.Be32(code), head(-1, 1)))
		require.NoError(t, err)
		require.Equal(t, failed, got)
	}
}

// FuzzReply feeds a whole client: a panic where it reads ends the process, so surviving is the test.
func FuzzReply(f *testing.F) {
	for op, body := range replies() {
		f.Add(op, body)
	}
	f.Add(jute.OpGetChildren2, hostile.Be32(-1))
	f.Fuzz(func(t *testing.T, op int32, body []byte) {
		r := request{op: op, ops: 5}
		if _, err := checkReply(r, body); err != nil {
			require.ErrorIs(t, err, ErrProtocol)
			return
		}
		synctest.Test(t, func(t *testing.T) {
			p := &peers{scripts: map[string]hostile.Script{"a:2181": answering(7, 9000, func(r request) []byte {
				return hostile.Frame(hostile.Cat(hostile.Be32(r.xid), hostile.Be64(1), hostile.Be32(0), body)...)
			})}}
			c, err := Dial(t.Context(), Config{Servers: []string{"a"}, Dialer: p.dial})
			require.NoError(t, err)
			s, _ := c.Session(t.Context())
			ask(t, s, op)
			_ = c.Close()
			p.wg.Wait()
		})
	})
}

// ask performs the operation; what it returns does not matter.
func ask(t *testing.T, s *Session, op int32) {
	ctx := t.Context()
	switch op {
	case jute.OpCreate:
		_, _ = s.Create(ctx, "/a", nil, 0, openACL)
	case jute.OpSync:
		_ = s.Sync(ctx, "/a")
	case jute.OpExists:
		_, _ = s.Exists(ctx, "/a")
	case jute.OpSetData:
		_, _ = s.Set(ctx, "/a", nil, -1)
	case jute.OpSetACL:
		_, _ = s.SetACL(ctx, "/a", openACL, -1)
	case jute.OpGetData:
		_, _, _ = s.Get(ctx, "/a")
	case jute.OpGetACL:
		_, _, _ = s.GetACL(ctx, "/a")
	case jute.OpGetChildren2:
		_, _, _ = s.Children(ctx, "/a")
	case jute.OpMulti:
		d := &zk.DeleteRequest{Path: "/a"}
		_, _ = s.Multi(ctx, d, d, d, d, d)
	}
}

// FuzzPeer is a server that says anything at all, from the first byte.
func FuzzPeer(f *testing.F) {
	f.Add([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
	f.Add(hostile.Cat(grantOf(7, 9000), hostile.Be32(4), hostile.Be32(-1)))
	f.Add(hostile.Cat(grantOf(7, 9000), hostile.Frame(hostile.Cat(hostile.Be32(-1), hostile.Be64(1), hostile.Be32(0), hostile.Be32(3), hostile.Be32(3), hostile.Be32(2), []byte("/a"))...)))
	f.Add(binary.BigEndian.AppendUint32(nil, maxReply))
	f.Fuzz(func(t *testing.T, b []byte) {
		synctest.Test(t, func(t *testing.T) {
			p := &peers{scripts: map[string]hostile.Script{"a:2181": hostile.Saying(b)}}
			c, err := Dial(t.Context(), Config{Servers: []string{"a"}, Dialer: p.dial, ConnectTimeout: time.Second})
			if err != nil {
				require.ErrorIs(t, err, ErrUnreachable)
			} else {
				_ = c.Close()
			}
			p.wg.Wait()
		})
	})
}
