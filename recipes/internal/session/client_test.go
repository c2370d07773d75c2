package session

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/locktree/locktree/recipes/internal/hostile"
	"github.com/locktree/locktree/recipes/internal/seam"
	"github.com/locktree/locktree/recipes/internal/session/wire"
	"github.com/locktree/locktree/recipes/zktest"
)

func TestCloseRemovesNodesAtOnce(t *testing.T) {
	inSession(t, func(t *testing.T, srv *zktest.Server, c *Client, s *Session) {
		s.mustCreate(t, "/e", zk.FlagEphemeral)
		began := time.Now()
		require.NoError(t, c.Close())
		require.Zero(t, time.Since(began))
		require.Empty(t, srv.Sessions())
		_, there := srv.Get("/e")
		require.False(t, there)
		require.ErrorIs(t, s.Err(), ErrClosed)
		_, err := s.Create(t.Context(), "/f", nil, 0, openACL)
		require.ErrorIs(t, err, ErrClosed)
		_, err = c.Session(t.Context())
		require.ErrorIs(t, err, ErrClosed)
		require.NoError(t, c.Close(), "closing again")
	})
}

// Raw go-zookeeper drops a closeSession that does not fit into the queue, and the session pings on for 24 h, holding locks.
func TestCloseLeavesNoZombie(t *testing.T) {
	inSession(t, func(t *testing.T, srv *zktest.Server, c *Client, s *Session) {
		s.mustCreate(t, "/e", zk.FlagEphemeral)
		srv.Partition(0, zktest.Both)
		for range 100 { // more than the pipe takes
			go func() { _, _ = s.Set(t.Context(), "/e", make([]byte, 1000), -1) }()
		}
		synctest.Wait()
		began := time.Now()
		require.ErrorContains(t, c.Close(), "close not confirmed")
		require.LessOrEqual(t, time.Since(began), 3*time.Second)
		srv.Heal(0)
		srv.ResetCounts()
		time.Sleep(24 * time.Hour)
		require.Zero(t, srv.Counts().Pings)
		require.Empty(t, srv.Sessions())
	})
}

func TestCloseWhileDisconnectedSaysSo(t *testing.T) {
	inSession(t, func(t *testing.T, srv *zktest.Server, c *Client, _ *Session) {
		cutOff(srv)
		err := c.Close()
		require.ErrorContains(t, err, "close not confirmed")
		require.ErrorContains(t, err, "within 12s")
	})
}

// A busy server took seconds to end a session with 5,000 locks. Close said after a second that this was not confirmed.
func TestCloseWaitsForABusyServer(t *testing.T) {
	for name, test := range map[string]struct {
		busy      time.Duration
		held      bool
		gone      bool
		took      time.Duration
		confirmed bool
	}{
		"held, and the server is busy":         {busy: 5 * time.Second, held: true, took: 5 * time.Second, confirmed: true},
		"held, and the server hangs":           {busy: time.Hour, held: true, took: 8 * time.Second}, // 2T/3
		"held, and the server goes":            {busy: time.Hour, held: true, gone: true, took: time.Second},
		"nothing held, and the server is busy": {busy: 5 * time.Second, took: farewellTime},
	} {
		runInSession(t, name, func(t *testing.T, srv *zktest.Server, c *Client, s *Session) {
			s.mustCreate(t, "/mine", zk.FlagEphemeral)
			if test.held {
				s.mustHold(t, nil, "/mine")
			}
			srv.Inject(func(r zktest.Request) bool { return r.Op == "closeSession" }, zktest.Delay(test.busy))
			if test.gone {
				time.AfterFunc(time.Second, func() { srv.Disconnect(s.ID()) })
			}
			start := time.Now()
			err := c.Close()
			require.Equal(t, test.took, time.Since(start))
			require.Equal(t, test.confirmed, err == nil, err)
		})
	}
}

// Close stopped the timer that pings, and did not wait for it.
func TestCloseReturnsBehindAPingThatIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun, goOn := make(chan struct{}), make(chan struct{})
		c, err := newClient(Config{Servers: []string{"zk"}, Dialer: zktest.Start(t).DialContext}, seam.Seams{Slept: func() time.Duration {
			if strings.Contains(string(debug.Stack()), "(*link).ping") {
				close(begun)
				<-goOn
			}
			return 0
		}})
		require.NoError(t, err)
		c.dialled(t)
		<-begun
		closed := going(func() error { return c.Close() })
		time.Sleep(time.Minute)
		require.Empty(t, closed)
		close(goOn)
		require.NoError(t, <-closed)
	})
}

// Close took a refusal for the confirmation, while the session lived on, with all that it held.
func TestARefusedCloseIsNotConfirmed(t *testing.T) {
	for code, confirmed := range map[zktest.Code]bool{
		zktest.Code(wire.CodeSASLRequired): false, zktest.CodeSystemError: false, zktest.Code(wire.CodeSessionExpired): true,
	} {
		inSession(t, func(t *testing.T, srv *zktest.Server, c *Client, s *Session) {
			srv.Inject(zktest.On("closeSession"), zktest.Fail(code))
			err := c.Close()
			require.Equal(t, confirmed, s.Gone())
			if confirmed {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, "close not confirmed (zk:2181: the connection ended: it refused to end the session: ")
			require.ErrorContains(t, err, "within 12s")
		})
	}
}

// A second Close that waits on a mutex stops the time of a bubble, and so the first Close.
func TestConcurrentClosesAllWaitForTheEnd(t *testing.T) {
	inSession(t, func(t *testing.T, srv *zktest.Server, c *Client, s *Session) {
		srv.Partition(0, zktest.Both)
		errs := make(chan error, 5)
		for range cap(errs) {
			go func() {
				err := c.Close()
				<-s.joined
				errs <- err
			}()
		}
		failed := 0
		for range cap(errs) {
			if <-errs != nil {
				failed++
			}
		}
		require.Equal(t, 1, failed)
		srv.Heal(0)
	})
}

func TestCloseReturnsBehindTheLastWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var writing atomic.Int32
		over := make(chan struct{})
		p := &peers{scripts: map[string]hostile.Script{"zk:2181": func(c net.Conn) {
			hostile.ReadFrame(c)
			_, _ = c.Write(grantOf(7, 12_000))
			<-over // it reads nothing further
		}}}
		c, err := Dial(t.Context(), Config{Servers: []string{"zk"}, Dialer: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := p.dial(ctx, network, address)
			return writer{conn, func(b []byte) (int, error) {
				writing.Add(1)
				defer writing.Add(-1)
				n, err := conn.Write(b)
				if err != nil {
					time.Sleep(time.Second) // the client learns late of the end
				}
				return n, err
			}}, err
		}})
		require.NoError(t, err)
		require.Error(t, c.Close())
		require.Zero(t, writing.Load())
		close(over)
		p.wg.Wait()
	})
}

// A lost session is over at once, and then its holders are told. Close waits for that.
func TestCloseReturnsBehindTheCallsOfALoss(t *testing.T) {
	for name, lose := range map[string]func(*zktest.Server, *Session){
		"the deadline passes": func(srv *zktest.Server, _ *Session) { srv.Freeze() },
		"a server tells":      func(srv *zktest.Server, s *Session) { srv.Expire(s.ID()) },
		"there is no connection": func(srv *zktest.Server, s *Session) {
			cutOff(srv)
		},
	} {
		runInSession(t, name, func(t *testing.T, srv *zktest.Server, c *Client, s *Session) {
			s.mustCreate(t, "/mine", zk.FlagEphemeral)
			var told atomic.Bool
			_, err := s.Hold(t.Context(), func(error) {
				time.Sleep(time.Second)
				told.Store(true)
			}, "/mine")
			require.NoError(t, err)
			lose(srv, s)
			<-s.Done()
			require.NoError(t, c.Close())
			require.True(t, told.Load())
			srv.Thaw()
		})
	}
}

func TestCloseEndsDialling(t *testing.T) {
	inSession(t, func(t *testing.T, srv *zktest.Server, c *Client, s *Session) {
		srv.RefuseDials(true)
		srv.Expire(s.ID())
		<-s.Done()
		waiter := going(func() error { return errOf(c.Session(t.Context())) })
		time.Sleep(time.Minute)
		require.NoError(t, c.Close())
		require.ErrorIs(t, <-waiter, ErrClosed)
	})
}

// No error, log line or dump has a digest password, or the hash of one.
func TestNoAuthNamesTheMissingRightAndTheIdentity(t *testing.T) {
	inSessionWith(t, func(c *Config) { c.Auth = []Auth{{"digest", "alice:hunter2"}} }, func(t *testing.T, srv *zktest.Server, owner *Client, s *Session) {
		mine := zk.DigestACL(zk.PermAll, "alice", "hunter2")
		_, err := s.Create(t.Context(), "/a", nil, 0, mine)
		require.NoError(t, err)
		require.Equal(t, []Identity{{"world", "anyone"}, {"digest", mine[0].ID}}, owner.Newest().Identities())
		srv.Disconnect(s.ID())
		s.mustRead(t, "/a") // the identity is presented again after a reconnect

		_, wrong := open(t, srv, func(c *Config) { c.Auth = []Auth{{"digest", "alice:sesame"}} })
		_, nobody := open(t, srv)
		for want, err := range map[string]error{
			"get /a: permission denied: needs READ on /a; connected as digest:alice;":        errOf3(wrong.Get(t.Context(), "/a")),
			"create /a/b: permission denied: needs CREATE on /a; connected as digest:alice;": errOf(wrong.Create(t.Context(), "/a/b", nil, 0, openACL)),
			"set /a: permission denied: needs WRITE on /a; connected as world:anyone":        errOf(nobody.Set(t.Context(), "/a", nil, -1)),
			"multi /a/b: permission denied: needs CREATE on /a":                              errOf(nobody.Multi(t.Context(), &zk.CreateRequest{Path: "/a/b", Acl: openACL})),
		} {
			require.ErrorIs(t, err, zk.ErrNoAuth)
			require.ErrorContains(t, err, want)
			require.NotContains(t, err.Error(), "sesame")
			require.NotContains(t, err.Error(), strings.TrimPrefix(mine[0].ID, "alice:"))
		}
	})
}

func errOf3[A, B any](_ A, _ B, err error) error { return err }
func errOf[A any](_ A, err error) error          { return err }

func TestUnknownAuthSchemeFailsDial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Start(t)
		_, err := Dial(t.Context(), Config{Servers: []string{"zk"}, Dialer: srv.DialContext, Auth: []Auth{{"digest", "a:b"}, {"kerberos", "x"}}})
		require.ErrorIs(t, err, ErrAuth)
		require.ErrorContains(t, err, `scheme "kerberos"`)
	})
}

// go-zookeeper forgets an identity whose first answer was lost, and would go on without it.
func TestAuthIsProvenBeforeTheSessionIsHandedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Start(t)
		srv.Inject(func(r zktest.Request) bool { return r.Op == "auth" && r.N <= 2 }, zktest.CutBefore)
		_, s := open(t, srv, func(c *Config) { c.Auth = []Auth{{"digest", "a:b"}, {"digest", "a:b"}} })
		_, err := s.Create(t.Context(), "/a", nil, 0, zk.AuthACL(zk.PermAll))
		require.NoError(t, err)
		srv.ResetCounts()
		srv.Disconnect(s.ID())
		s.mustRead(t, "/a")
		require.Equal(t, 1, srv.Counts().ByOp["auth"], "each identity once")
	})
}

// Raw go-zookeeper reconnects for ever.
func TestAuthRefusedAfterReconnectLosesTheSession(t *testing.T) {
	inSessionWith(t, func(c *Config) { c.Auth = []Auth{{"digest", "a:b"}} }, func(t *testing.T, srv *zktest.Server, _ *Client, s *Session) {
		srv.Inject(zktest.On("auth"), zktest.Fail(-115)) // AuthFailed
		srv.Disconnect(s.ID())
		<-s.Done()
		require.ErrorIs(t, s.Err(), ErrAuth)
	})
}

func TestConfigMistakesAreNamed(t *testing.T) {
	for want, cfg := range map[string]Config{
		"Config.Servers is empty":   {},
		"empty name":                {Servers: []string{"a,,b"}},
		"without a scheme":          {Servers: []string{"zk://a:2181"}},
		`use "a:2181" and begin`:    {Servers: []string{"a:2181/app"}},
		"port from 1 to 65535":      {Servers: []string{"a:70000"}},
		"[address]:port for IPv6":   {Servers: []string{"::1:x:2"}},
		"user:password":             {Servers: []string{"a"}, Auth: []Auth{{"digest", "alice"}}},
		"has no scheme":             {Servers: []string{"a"}, Auth: []Auth{{"", "alice:x"}}},
		"log in by SASL instead":    {Servers: []string{"a"}, Auth: []Auth{{"sasl", "x"}}},
		"negative timeout":          {Servers: []string{"a"}, ConnectTimeout: -1},
		"counts it in milliseconds": {Servers: []string{"a"}, SessionTimeout: time.Microsecond},
		"session timeout 1000h":     {Servers: []string{"a"}, SessionTimeout: 1000 * time.Hour},
	} {
		_, err := Dial(t.Context(), cfg)
		require.ErrorContains(t, err, want)
	}
}

func TestSecretNeverPrints(t *testing.T) {
	auth := Auth{"digest", "alice:hunter2"}
	var out bytes.Buffer
	textLogger(&out).Info("x", "auth", auth, "secret", auth.Credentials)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d", "%T %[1]v"} {
		fmt.Fprintf(&out, verb, auth)
		fmt.Fprintf(&out, verb, auth.Credentials)
		fmt.Fprintf(&out, verb, &auth)
	}
	encoded, err := json.Marshal(Config{Auth: []Auth{auth}}.Auth)
	require.NoError(t, err)
	out.Write(encoded)
	out.WriteString(auth.Credentials.String())
	require.NotContains(t, out.String(), "hunter2")
	require.NotContains(t, out.String(), "68756e74657232") // %x
	require.Contains(t, out.String(), "(sensitive)")
}

// The documented limits of Secret stay true: encoding/json takes string keys as they are.
func TestSecretsLimitsAreAsDocumented(t *testing.T) {
	key, err := json.Marshal(map[Secret]int{"hunter2": 1})
	require.NoError(t, err)
	require.Contains(t, string(key), "hunter2")
	require.NotContains(t, fmt.Sprint(map[Secret]int{"hunter2": 1}), "hunter2")
	require.Contains(t, fmt.Sprint(struct{ hidden Secret }{"hunter2"}), "hunter2")
}

// Over TCP, in real time, nothing is left behind, in any order of closing.
func TestNothingLeaksOverTCP(t *testing.T) {
	defer hostile.NoneLeft(t, goleak.IgnoreCurrent())
	srv := zktest.New()
	defer srv.Close()
	for range 3 {
		c, err := Dial(t.Context(), Config{Servers: []string{srv.Addr()}, SessionTimeout: 40 * time.Second, ConnectTimeout: hostile.Patience})
		require.NoError(t, err)
		s := c.mustSession(t)
		b := s.Batch()
		made, list := b.Create(&zk.CreateRequest{Path: "/q-", Acl: openACL, Flags: 3}), b.List("/")
		require.NoError(t, b.Do(t.Context()))
		created := made.Created()[0]
		require.Contains(t, list.Names(), created[1:])
		release, err := s.hold(nil, created)
		require.NoError(t, err)
		w := s.watch(t, created)
		hostile.Closed(t, c)
		<-w.C()
		release()
	}
	ctx := hostile.Within(t, 50*time.Millisecond)
	srv.Freeze()
	_, err := Dial(ctx, Config{Servers: []string{srv.Addr()}})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	srv.Thaw()
	// The system hands out this port to no other program.
	refused(t, Config{Servers: []string{"127.0.0.1:1"}}, "connection refused")
}

func TestCancelledDialLeavesNoSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Start(t, zktest.WithLatency(100*time.Millisecond))
		for d := time.Duration(0); d < 700*time.Millisecond; d += 20 * time.Millisecond {
			ctx, cancel := context.WithTimeout(t.Context(), d)
			c, err := Dial(ctx, Config{Servers: []string{"zk"}, Dialer: srv.DialContext, Auth: []Auth{{"digest", "a:b"}}})
			cancel()
			if err == nil {
				require.NoError(t, c.Close())
				continue
			}
			require.True(t, errors.Is(err, context.DeadlineExceeded), err)
		}
		time.Sleep(time.Minute)
		require.Empty(t, srv.Sessions())
	})
}

// Chance decides which of the two is noticed first.
func TestADiallingThatFailsAsItsWaiterGivesUpHidesNoCause(t *testing.T) {
	c, err := newClient(Config{Servers: []string{"zk"}}, seam.Seams{})
	require.NoError(t, err)
	defer c.end()
	c.dialing = &dialling{done: make(chan struct{}), err: fmt.Errorf("%w: no session within 5s", ErrUnreachable)}
	close(c.dialing.done)
	enough := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(enough)
	for range 100 {
		_, err := c.Session(ctx)
		require.ErrorIs(t, err, ErrUnreachable)
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, enough)
	}
}

// A ping behind closeSession met the end of the connection, and Close reported that instead of the answer.
func TestAPingThatMeetsTheEndHidesNoAnswerToCloseSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Start(t)
		var closing atomic.Bool
		c, s := open(t, srv, through(srv, func(_ int, conn net.Conn) net.Conn {
			return writer{conn, func(b []byte) (int, error) {
				if closing.Load() {
					return 0, io.ErrClosedPipe
				}
				last := binary.BigEndian.Uint32(b[len(b)-4:])
				closing.Store(int32(last) == wire.OpCloseSession) //nolint:gosec // an operation may be negative
				return conn.Write(b)
			}}
		}))
		s.mustCreate(t, "/mine", zk.FlagEphemeral)
		_, err := s.Hold(t.Context(), nil, "/mine") // Close waits for the answer
		require.NoError(t, err)
		srv.Inject(func(r zktest.Request) bool { return r.Op == "closeSession" }, zktest.Delay(5*time.Second)) // a ping is due after T/3
		require.NoError(t, c.Close())
	})
}
