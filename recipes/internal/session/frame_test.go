package session

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/internal/hostile"
	"github.com/locktree/locktree/recipes/internal/session/wire"
	"github.com/locktree/locktree/recipes/zktest"
)

func TestRequestsAreWhatTheyShouldBe(t *testing.T) {
	inSession(t, func(t *testing.T, srv *zktest.Server, _ *Client, s *Session) {
		var seen []string
		srv.Inject(func(r zktest.Request) bool {
			seen = append(seen, r.Op+" "+strings.Join(r.Paths, " "))
			return false
		}, zktest.CutBefore)
		ctx := t.Context()
		_, _, _ = s.Get(ctx, "/get")
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
		require.Equal(t, []string{"getData /get", "getChildren2 /childrenW", "create /create", "exists /exists", "getACL /getACL",
			"setACL /setACL", "setData /set", "delete /delete", "sync /sync", "multi /multi /b /c /d /e"}, seen)
	})
}

// replies has a well-formed body for each operation.
func replies() map[int32][]byte {
	stat := make([]byte, statSize)
	text := func(s string) []byte { return hostile.Cat(hostile.Be32(int32(len(s))), []byte(s)) }
	acl := hostile.Cat(hostile.Be32(1), hostile.Be32(31), text("world"), text("anyone"))
	head := func(op int32, done byte) []byte { return hostile.Cat(hostile.Be32(op), []byte{done}, hostile.Be32(0)) }
	return map[int32][]byte{
		wire.OpCreate: text("/a"), wire.OpSync: text("/a"), wire.OpExists: stat, wire.OpSetData: stat, wire.OpSetACL: stat,
		wire.OpGetData: hostile.Cat(text("data"), stat), wire.OpGetACL: hostile.Cat(acl, stat),
		wire.OpGetChildren2: hostile.Cat(hostile.Be32(2), text("a"), text("bb"), stat),
		wire.OpMulti:        hostile.Cat(head(wire.OpCreate, 0), text("/a"), head(wire.OpSetData, 0), stat, head(wire.OpCheck, 0), head(wire.OpDelete, 0), head(wire.OpError, 0), hostile.Be32(-2), head(-1, 1)),
	}
}

func checkReply(op int32, ops int, body []byte) (failed bool, err error) {
	var got wire.Reply
	err = got.Decode(op, ops, body)
	return got.Code != 0, err
}

// Every proper prefix of a reply, and every reply with one of its lengths changed beyond the frame, is refused.
func TestTruncatedRepliesAreRefused(t *testing.T) {
	for op, body := range replies() {
		_, err := checkReply(op, 5, body)
		require.NoError(t, err, op)
		_, err = checkReply(op, 5, append(bytes.Clone(body), 1, 2, 3))
		require.NoError(t, err, "a newer server may say more")
		end := len(body)
		if op == wire.OpMulti {
			end -= 8 // of the last header only the operation and the flag count
		}
		for n := range end {
			_, err := checkReply(op, 5, body[:n])
			require.ErrorIs(t, err, ErrProtocol, "operation %d cut at %d", op, n)
		}
	}
	_, err := checkReply(wire.OpGetData, 0, hostile.Cat(hostile.Be32(-1), make([]byte, statSize)))
	require.NoError(t, err, "null data is legal")
}

func TestRolledBackTransactionIsNoCommit(t *testing.T) {
	head := func(op int32, done byte) []byte { return hostile.Cat(hostile.Be32(op), []byte{done}, hostile.Be32(0)) }
	for code, failed := range map[int32]bool{0: false, -2: true, -101: true} {
		got, err := checkReply(wire.OpMulti, 1, hostile.Cat(head(wire.OpError, 0), hostile.Be32(code), head(-1, 1)))
		require.NoError(t, err)
		require.Equal(t, failed, got)
	}
}

// FuzzReply feeds a whole client: a panic where it reads ends the process, so surviving is the test.
func FuzzReply(f *testing.F) {
	for op, body := range replies() {
		f.Add(op, body)
	}
	f.Add(wire.OpGetChildren2, hostile.Be32(-1))
	f.Fuzz(func(t *testing.T, op int32, body []byte) {
		if _, err := checkReply(op, 5, body); err != nil {
			require.ErrorIs(t, err, ErrProtocol)
			return
		}
		synctest.Test(t, func(t *testing.T) {
			_, s := meet(t, answering(7, 9000, func(r request) []byte {
				return hostile.Frame(hostile.Cat(hostile.Be32(r.xid), hostile.Be64(1), hostile.Be32(0), body)...)
			}))
			ask(t, s, op)
		})
	})
}

// ask performs the operation; what it returns does not matter.
func ask(t *testing.T, s *Session, op int32) {
	ctx := t.Context()
	switch op {
	case wire.OpCreate:
		_, _ = s.Create(ctx, "/a", nil, 0, openACL)
	case wire.OpSync:
		_ = s.Sync(ctx, "/a")
	case wire.OpExists:
		_, _ = s.Exists(ctx, "/a")
	case wire.OpSetData:
		_, _ = s.Set(ctx, "/a", nil, -1)
	case wire.OpSetACL:
		_, _ = s.SetACL(ctx, "/a", openACL, -1)
	case wire.OpGetData:
		_, _, _ = s.Get(ctx, "/a")
	case wire.OpGetACL:
		_, _, _ = s.GetACL(ctx, "/a")
	case wire.OpGetChildren2:
		_, _, _ = s.Children(ctx, "/a")
	case wire.OpMulti:
		d := &zk.DeleteRequest{Path: "/a"}
		_, _ = s.Multi(ctx, d, d, d, d, d)
	}
}

// FuzzPeer is a server that says anything at all, from the first byte.
func FuzzPeer(f *testing.F) {
	f.Add([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
	f.Add(hostile.Cat(grantOf(7, 9000), hostile.Be32(4), hostile.Be32(-1)))
	f.Add(hostile.Cat(grantOf(7, 9000), hostile.Frame(hostile.Cat(hostile.Be32(-1), hostile.Be64(1), hostile.Be32(0), hostile.Be32(3), hostile.Be32(3), hostile.Be32(2), []byte("/a"))...)))
	f.Add(binary.BigEndian.AppendUint32(nil, wire.MaxReply))
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
