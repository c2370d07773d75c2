package session

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/internal/hostile"
	"github.com/locktree/locktree/recipes/internal/seam"
	"github.com/locktree/locktree/recipes/internal/session/wire"
	"github.com/locktree/locktree/recipes/zktest"
)

// go-zookeeper panics on the 8-byte frame, allocates 1.2 GB for HTTP and waits for ever for a stalled handshake.
func TestHostilePeerDuringHandshake(t *testing.T) {
	random := make([]byte, 4096)
	source := rand.NewChaCha8([32]byte{1})
	_, _ = source.Read(random)
	random[0] |= 0x80
	for name, c := range map[string]struct {
		peer hostile.Script
		says string
	}{
		"mute, with TLS":    {hostile.Silence, "time allowed for one attempt"},
		"HTTP":              {hostile.Saying([]byte("HTTP/1.1 400 Bad Request\r\n\r\n")), "answers in HTTP"},
		"TLS alert":         {hostile.Saying([]byte{0x15, 0x03, 0x01, 0x00, 0x02, 0x02, 0x46}), "connect with TLS"},
		"random bytes":      {hostile.Saying(random), "frame length"},
		"8-byte frame":      {hostile.Saying(hostile.Cat(hostile.Be32(4), hostile.Be32(-1))), "frame length of 4"},
		"huge length":       {hostile.Saying(hostile.Be32(0x7fffffff)), "frame length of 2147483647"},
		"negative length":   {hostile.Saying(hostile.Be32(-1)), "frame length of -1"},
		"mute":              {hostile.Silence, "did not answer"},
		"stalled in length": {hostile.Saying([]byte{0, 0}), "did not answer"},
		"stalled in body":   {hostile.Saying(hostile.Cat(hostile.Be32(36), hostile.Be32(0))), "did not answer"},
		"hangs up":          {func(c net.Conn) { hostile.ReadFrame(c) }, "closed the connection"},
		"hangs up at once":  {func(net.Conn) {}, "closed the connection"},
		"password of -5":    {hostile.Saying(hostile.Frame(hostile.Cat(hostile.Be32(0), hostile.Be32(9000), hostile.Be64(7), hostile.Be32(-5))...)), "malformed answer"},
		"timeout of 0":      {hostile.Saying(grantOf(7, 0)), "timeout of 0 ms"},
		"negative timeout":  {hostile.Saying(grantOf(7, -4)), "timeout of -4 ms"},
		"session of 0":      {hostile.Saying(grantOf(0, 9000)), "session 0x0"},
	} {
		runInBubble(t, name, func(t *testing.T) {
			p := &peers{scripts: map[string]hostile.Script{"bad:2181": c.peer}}
			began := time.Now()
			cfg := Config{Servers: []string{"bad"}, Dialer: p.dial}
			if strings.Contains(name, "with TLS") {
				cfg.TLS = &tls.Config{}
			}
			_, err := Dial(t.Context(), cfg)
			require.ErrorIs(t, err, ErrUnreachable)
			require.ErrorContains(t, err, "bad:2181: ")
			require.ErrorContains(t, err, c.says)
			require.LessOrEqual(t, time.Since(began), 8*time.Second, "5 s of ConnectTimeout and 3 to clean up")
			p.wg.Wait()
		})
	}
}

// A server turns hostile once it has granted a session: it answers the listing of /a with the bytes that the function wrong makes.
func TestHostilePeerAfterHandshake(t *testing.T) {
	header := func(xid int32) []byte { return hostile.Cat(hostile.Be32(xid), hostile.Be64(9), hostile.Be32(0)) }
	for name, wrong := range map[string]func(xid int32) []byte{
		"8-byte frame":          func(int32) []byte { return hostile.Cat(hostile.Be32(4), hostile.Be32(-1)) },
		"length beyond maximum": func(int32) []byte { return hostile.Be32(wire.MaxReply + 1) },
		"negative vector":       func(xid int32) []byte { return hostile.Frame(hostile.Cat(header(xid), hostile.Be32(-1))...) },
		"vector beyond frame": func(xid int32) []byte {
			return hostile.Frame(hostile.Cat(header(xid), hostile.Be32(1<<28), make([]byte, 80))...)
		},
		"string beyond frame": func(xid int32) []byte {
			return hostile.Frame(hostile.Cat(header(xid), hostile.Be32(1), hostile.Be32(99), make([]byte, 80))...)
		},
		"negative string": func(xid int32) []byte {
			return hostile.Frame(hostile.Cat(header(xid), hostile.Be32(1), hostile.Be32(-1), make([]byte, 80))...)
		},
		"stat cut short": func(xid int32) []byte {
			return hostile.Frame(hostile.Cat(header(xid), hostile.Be32(0), make([]byte, statSize-1))...)
		},
		"nobody's xid":      func(xid int32) []byte { return hostile.Frame(header(xid + 77)...) },
		"xid of -3":         func(int32) []byte { return hostile.Frame(header(-3)...) },
		"pong without ping": func(int32) []byte { return hostile.Frame(header(wire.XidPing)...) },
		"event cut short": func(int32) []byte {
			return hostile.Frame(hostile.Cat(header(wire.XidEvent), hostile.Be32(3), hostile.Be32(3), hostile.Be32(50))...)
		},
		"event of nothing": func(int32) []byte { return hostile.Frame(header(wire.XidEvent)...) },
	} {
		runInBubble(t, name, func(t *testing.T) {
			p, s := meet(t, answering(7, 9000, func(r request) []byte { return wrong(r.xid) }))
			_, _, err := s.Children(t.Context(), "/a")
			if name == "length beyond maximum" {
				require.ErrorIs(t, err, ErrTooLarge)
				require.ErrorContains(t, err, "a reply of 16777217 bytes; this client reads up to 16777216 (Config.MaxReply)")
			} else {
				require.ErrorIs(t, err, ErrProtocol)
			}
			require.Equal(t, OutcomeUnknown, OutcomeOf(err))
			require.Equal(t, 1+maxRetries, p.dials, "each violation costs a connection, and the asking ends")
		})
	}
}

// Callers index a transaction's results by operation.
func TestHostilePeerAnswersTransactionShort(t *testing.T) {
	done := hostile.Cat(hostile.Be32(-1), []byte{1}, hostile.Be32(-1))
	for name, results := range map[string][]byte{
		"too few":      done,
		"too many":     hostile.Cat(hostile.Be32(wire.OpCheck), []byte{0}, hostile.Be32(0), hostile.Be32(wire.OpCheck), []byte{0}, hostile.Be32(0), done),
		"unknown type": hostile.Cat(hostile.Be32(15), []byte{0}, hostile.Be32(0), done),
		"without end":  hostile.Cat(hostile.Be32(wire.OpCheck), []byte{0}, hostile.Be32(0)),
	} {
		runInBubble(t, name, func(t *testing.T) {
			_, s := meet(t, answering(7, 9000, func(r request) []byte {
				return hostile.Frame(hostile.Cat(hostile.Be32(r.xid), hostile.Be64(9), hostile.Be32(0), results)...)
			}))
			before := s.Deadline()
			time.Sleep(time.Millisecond)
			err := s.Confirm(t.Context(), "/a")
			require.ErrorIs(t, err, ErrProtocol)
			require.Equal(t, OutcomeUnknown, OutcomeOf(err))
			require.Equal(t, before, s.Deadline(), "a malformed answer proves no commit")
		})
	}
}

func TestMemoryBoundedByWhatArrives(t *testing.T) {
	claim := hostile.Cat(hostile.Be32(wire.MaxReply), make([]byte, 100)) // 16 MB announced, 100 bytes sent, then silence
	synctest.Test(t, func(t *testing.T) {
		_, s := meet(t, answering(7, 9000, func(request) []byte { return claim }))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _, err := s.Children(t.Context(), "/a")
		require.ErrorContains(t, err, "of a frame's 16777216 bytes")
		runtime.ReadMemStats(&after)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(2<<20), "by four connections")
	})
}

// A frame that stalls half way must not hold the session longer than T/3.
func TestStalledFrameCostsThirdOfTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stall := answering(7, 9000, func(r request) []byte { return hostile.Cat(hostile.Be32(100), hostile.Be32(r.xid)) })
		_, s := meet(t, stall)
		began, changed := time.Now(), s.Changed()
		ctx := hostile.Within(t, 4*time.Second)
		go func() { _, _ = s.Exists(ctx, "/a") }()
		<-changed
		require.Equal(t, 3*time.Second, time.Since(began))
	})
}

// One mute server holds go-zookeeper for 6.67 session timeouts although the next one is healthy.
func TestMuteServerDoesNotCostTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hangUp func()
		gone, once := make(chan struct{}), false
		good := answering(7, 12000, func(r request) []byte { return nil })
		p := &peers{scripts: map[string]hostile.Script{"mute:2181": hostile.Silence, "mute2:2181": hostile.Silence, "good:2181": func(c net.Conn) {
			if !once {
				once, hangUp = true, func() { c.Close(); close(gone) }
			}
			good(c)
		}}}
		c, err := Dial(t.Context(), Config{Servers: []string{"mute,mute2,good"}, Dialer: p.dial, SessionTimeout: 12 * time.Second})
		require.NoError(t, err)
		s, _ := c.Session(t.Context())
		time.Sleep(time.Minute)
		began := time.Now()
		hangUp()
		<-gone
		synctest.Wait()
		require.Equal(t, StateSuspect, s.State())
		<-s.Changed()
		require.Equal(t, StateActive, s.State(), "found the good server again")
		require.LessOrEqual(t, time.Since(began), 4*time.Second, "T/3")
		require.NoError(t, c.Close())
		p.wg.Wait()
	})
}

// samuel/go-zookeeper: a host provider that never says retryStart made 850,411 dials in ten minutes.
func TestReconnectIsPaced(t *testing.T) {
	for name, peer := range map[string]hostile.Script{
		"refused":             nil,
		"hangs up":            func(net.Conn) {},
		"grants and hangs up": func(c net.Conn) { hostile.ReadFrame(c); _, _ = c.Write(grantOf(7, 40_000)) },
		"grants and misspeaks": func(c net.Conn) {
			hostile.ReadFrame(c)
			_, _ = c.Write(hostile.Cat(grantOf(7, 40_000), hostile.Be32(3)))
		},
	} {
		runInBubble(t, name, func(t *testing.T) {
			p := &peers{scripts: map[string]hostile.Script{}}
			if peer != nil {
				p.scripts["a:2181"], p.scripts["b:2181"] = peer, peer
			}
			var dials []time.Time
			dial := func(ctx context.Context, network, address string) (net.Conn, error) {
				dials = append(dials, time.Now())
				return p.dial(ctx, network, address)
			}
			c, err := newClient(Config{Servers: []string{"a", "b"}, Dialer: dial, ConnectTimeout: time.Minute}, seam.Seams{})
			require.NoError(t, err)
			s := newSession(c)
			go s.stayConnected()
			time.Sleep(30 * time.Second)
			s.lose(errors.New("enough"))
			<-s.joined
			pause := time.Second
			if s.ID() != 0 {
				pause = 40 * time.Second / 64
			}
			require.Zero(t, dials[1].Sub(dials[0]), "the other server is tried at once")
			require.GreaterOrEqual(t, dials[2].Sub(dials[1]), pause, "and then there is a pause")
			require.GreaterOrEqual(t, len(dials), 12, "it goes on trying")
			require.LessOrEqual(t, len(dials), 66, "two servers, at most one pass a second or a session timeout's 64th")
			c.end()
			p.wg.Wait()
		})
	}
}

func TestUnreachableNamesEveryServerAndCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &peers{scripts: map[string]hostile.Script{"mute:2181": hostile.Silence, "web:80": hostile.Saying([]byte("HTTP/1.1 404 Not Found\r\n\r\n"))}}
		_, err := Dial(t.Context(), Config{Servers: []string{"down", "mute", "web:80"}, Dialer: p.dial})
		require.ErrorIs(t, err, ErrUnreachable)
		for _, part := range []string{"no session within 5s", "down:2181: connection refused", "mute:2181: it accepted", "web:80: protocol violation: it answers in HTTP"} {
			require.ErrorContains(t, err, part)
		}
		p.wg.Wait()
	})
}

func TestDialObeysContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &peers{scripts: map[string]hostile.Script{"mute:2181": hostile.Silence}}
		ctx, cancel := context.WithTimeoutCause(t.Context(), 700*time.Millisecond, errors.New("the user left"))
		defer cancel()
		began := time.Now()
		_, err := Dial(ctx, Config{Servers: []string{"mute"}, Dialer: p.dial})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, ErrUnreachable)
		require.ErrorContains(t, err, "the user left")
		require.LessOrEqual(t, time.Since(began), 3700*time.Millisecond)
		p.wg.Wait()
	})
}

// Auth frames contain passwords, and handshakes contain session passwords.
func TestSecretsInNoErrorOrLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged bytes.Buffer
		p := &peers{scripts: map[string]hostile.Script{"bad:2181": answering(7, 9000, func(request) []byte { return hostile.Be32(5) })}}
		c, err := Dial(t.Context(), Config{
			Servers: []string{"bad"}, Dialer: p.dial, Logger: textLogger(&logged),
			Auth: []Auth{{"digest", "alice:hunter2"}},
		})
		require.NoError(t, err)
		s, _ := c.Session(t.Context())
		_, _, err = s.Get(t.Context(), "/a")
		require.Error(t, err)
		_ = c.Close() // an error when the peer is not back yet
		p.wg.Wait()
		require.Contains(t, logged.String(), "session closed")
		require.NotContains(t, logged.String(), "session lost", "a client that is closed has lost nothing")
		require.False(t, strings.Contains(logged.String()+err.Error(), "hunter2"))
	})
}

func TestALinkThatDiesWhileItIsGrantedIsForgotten(t *testing.T) { // the next grant closed a closed channel
	synctest.Test(t, func(t *testing.T) {
		var s *Session
		_, s = open(t, zktest.Start(t), func(c *Config) {
			c.Trace = func(e Event) { // in the midst of a grant, with the session's mutex held
				if e.Type == EventConnected && s.links <= 3 {
					l := s.link
					go l.fail(errSilent)
					for over := false; !over; runtime.Gosched() {
						l.mu.Lock()
						over = l.state == linkDead
						l.mu.Unlock()
					}
				}
			}
		})
		s.present().fail(errSilent)
		time.Sleep(10 * time.Second)
		s.mustRead(t, "/")
		require.Equal(t, StateActive, s.State())
		require.Equal(t, 4, s.Stats().Connections)
	})
}

// If a server loses a request and goes on, the caller would wait for ever: contexts need not end.
func TestAnAnswerOutOfOrderEndsTheConnection(t *testing.T) {
	for name, lose := range map[string]zktest.Fault{"request lost": zktest.DropRequest, "reply lost": zktest.LoseReply} {
		runInSession(t, name, func(t *testing.T, srv *zktest.Server, _ *Client, s *Session) {
			id := s.ID()
			rule := srv.Inject(zktest.Once(zktest.On("create")), lose)
			got := going(func() error { return errOf(s.Create(context.Background(), "/a", nil, 0, openACL)) })
			<-rule.Hit()
			time.Sleep(time.Second)
			require.Empty(t, got, "nothing tells yet that the answer will not come")
			s.mustRead(t, "/") // sent again on the next connection
			err := <-got
			require.Equal(t, OutcomeUnknown, OutcomeOf(err), "%v", err)
			require.Equal(t, id, s.ID())
		})
	}
}

// keeperGrant is how a ClickHouse Keeper answers a connect request.
func keeperGrant(version int32) []byte {
	return hostile.Frame(hostile.Cat(hostile.Be32(version), hostile.Be32(9000), hostile.Be64(7), hostile.Be32(16), make([]byte, 16))...)
}

func TestAKeeperIsRefusedAtTheHandshake(t *testing.T) {
	for name, c := range map[string]struct {
		version int32
		change  func(*Config)
	}{
		"that grants a session":  {0, func(*Config) {}},
		"without a leader":       {42, func(*Config) {}},
		"before a login by SASL": {0, loggingIn(func() (Secret, error) { return "p", nil })},
		"before an identity":     {0, func(cfg *Config) { cfg.Auth = []Auth{{"digest", "ann:p"}} }},
		"with hours to spare":    {0, func(cfg *Config) { cfg.ConnectTimeout = time.Hour }},
	} {
		runInBubble(t, name, func(t *testing.T) {
			keeper := hostile.Saying(keeperGrant(c.version))
			p := &peers{scripts: map[string]hostile.Script{"k1:2181": keeper, "k2:2181": keeper, "k3:2181": keeper}}
			cfg := Config{Servers: []string{"k1", "k2", "k3"}, Dialer: p.dial}
			c.change(&cfg)
			began := time.Now()
			_, err := Dial(t.Context(), cfg)
			require.ErrorIs(t, err, wire.ErrKeeper)
			require.NotErrorIs(t, err, ErrUnreachable)
			require.False(t, Retryable(err))
			at, _, _ := strings.Cut(strings.TrimPrefix(err.Error(), "recipes: "), ":2181")
			require.Contains(t, cfg.Servers, at)
			require.EqualError(t, err, "recipes: "+at+":2181 is a ClickHouse Keeper, whose sessions end with their connection, "+
				"so a lock there cannot survive a reconnect; locktree needs Apache ZooKeeper: name its servers instead")
			require.Zero(t, time.Since(began))
			p.wg.Wait()
			require.Equal(t, 1, p.dials)
		})
	}
}

// If an address leads to a Keeper for a while, a session that ZooKeeper has granted lives on.
func TestAGrantedSessionPassesAKeeperBy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var elsewhere atomic.Bool
		drop := make(chan struct{})
		p := &peers{scripts: map[string]hostile.Script{"zk:2181": func(c net.Conn) {
			if elsewhere.Load() {
				hostile.Saying(keeperGrant(0))(c)
				return
			}
			ended := make(chan struct{})
			defer close(ended)
			go func() {
				select {
				case <-drop:
					c.Close()
				case <-ended:
				}
			}()
			answering(7, 9000, nil)(c)
		}}}
		c, err := Dial(t.Context(), Config{Servers: []string{"zk"}, Dialer: p.dial})
		require.NoError(t, err)
		s := c.mustSession(t)
		elsewhere.Store(true)
		drop <- struct{}{}
		time.Sleep(time.Second)
		synctest.Wait()
		require.NoError(t, s.Err())
		require.Equal(t, StateSuspect, s.State())
		require.Contains(t, s.hosts.Report(), "zk:2181: a ClickHouse Keeper")
		elsewhere.Store(false)
		time.Sleep(2 * time.Second)
		require.Equal(t, StateActive, s.State())
		require.Equal(t, int64(7), s.ID())
		require.NoError(t, c.Close())
		p.wg.Wait()
	})
}

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

// replies returns a well-formed body for each operation.
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

// Every proper prefix of a reply is refused.
func TestTruncatedRepliesAreRefused(t *testing.T) {
	for op, body := range replies() {
		_, err := checkReply(op, 5, body)
		require.NoError(t, err, op)
		_, err = checkReply(op, 5, append(bytes.Clone(body), 1, 2, 3))
		require.NoError(t, err, "a newer server may say more")
		end := len(body)
		if op == wire.OpMulti {
			end -= 8 // only the operation and the flag of the last header count
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

// FuzzReply feeds a whole client. A panic while the client reads ends the process, so the test is that the client survives.
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
