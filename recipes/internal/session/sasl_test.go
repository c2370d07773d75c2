package session

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/internal/hostile"
	"github.com/locktree/locktree/recipes/internal/session/sasl"
	"github.com/locktree/locktree/recipes/internal/session/wire"
	"github.com/locktree/locktree/recipes/zktest"
)

// constant is a password that never changes.
func constant(p Secret) func() (Secret, error) { return func() (Secret, error) { return p, nil } }

// loggingIn logs in as ann.
func loggingIn(password func() (Secret, error)) func(*Config) {
	return func(cfg *Config) { cfg.SASL = sasl.DigestMD5("ann", password) }
}

// annOf returns the users of a server: ann, with the present password.
func annOf(password *atomic.Value) func(user string) string {
	return func(user string) string {
		if user != "ann" {
			return ""
		}
		return password.Load().(string)
	}
}

func passwordOf(text string) *atomic.Value {
	var v atomic.Value
	v.Store(text)
	return &v
}

var annOnly = []zk.ACL{{Perms: zk.PermAll, Scheme: "sasl", ID: "ann"}}

func TestEveryConnectionLogsIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		users := passwordOf(`pässt,"word"\`)
		srv := zktest.Start(t, zktest.WithSASL(annOf(users)), zktest.WithSASLRequired())
		file := passwordOf(`pässt,"word"\`)
		_, s := open(t, srv, loggingIn(func() (Secret, error) { return Secret(file.Load().(string)), nil }),
			func(cfg *Config) { cfg.Auth = []Auth{{"digest", "bob:b"}} })
		_, err := s.Create(t.Context(), "/a", nil, zk.FlagEphemeral, annOnly)
		require.NoError(t, err)
		_, err = s.Create(t.Context(), "/auth", nil, 0, []zk.ACL{{Perms: zk.PermAll, Scheme: "auth"}})
		require.NoError(t, err)
		list, _, err := s.GetACL(t.Context(), "/auth")
		require.NoError(t, err)
		require.Contains(t, list, annOnly[0])
		require.Contains(t, s.Identities(), Identity{"sasl", "ann"})
		require.Equal(t, "sasl:ann and digest:bob", s.Whoami())

		users.Store("another") // an open connection is not asked again; the next one reads the password again
		file.Store("another")
		for range 3 {
			before := s.Stats().Connections
			srv.Disconnect(s.ID())
			synctest.Wait()
			_, err = s.Set(t.Context(), "/a", nil, -1)
			require.NoError(t, err)
			require.Equal(t, before+1, s.Stats().Connections)
		}
		require.Equal(t, 8, srv.Counts().ByOp["sasl"], "two for each connection, and no request is sent before them")
	})
}

func TestALoginThatIsRefusedSaysWhatToLookAt(t *testing.T) {
	users := func(user string) string { return map[string]string{"ann": "right"}[user] }
	for name, c := range map[string]struct {
		server []zktest.Option
		login  sasl.Mechanism
		says   []string
	}{
		"a wrong password":           {[]zktest.Option{zktest.WithSASL(users)}, sasl.DigestMD5("ann", constant("wrong")), []string{"code -115", "check the password of ann"}},
		"a wrong one, on insistence": {[]zktest.Option{zktest.WithSASL(users), zktest.WithSASLRequired()}, sasl.DigestMD5("ann", constant("wrong")), []string{"code -124", "check the password of ann"}},
		"an unknown user":            {[]zktest.Option{zktest.WithSASL(users)}, sasl.DigestMD5("bob", constant("right")), []string{"code -115", "has that user"}},
		"a server without SASL":      {nil, sasl.DigestMD5("ann", constant("right")), []string{"no JAAS section Server"}},
		"no login at all":            {[]zktest.Option{zktest.WithSASL(users), zktest.WithSASLRequired()}, nil, []string{"code -124", "in Go set the field SASL", `auth block "sasl" or "kerberos"`}},
		"an empty password":          {[]zktest.Option{zktest.WithSASL(users)}, sasl.DigestMD5("ann", constant("")), []string{"the password of ann is empty"}},
		"a password that cannot be read": {nil, sasl.DigestMD5("ann", func() (Secret, error) { return "", errors.New("no such file") }),
			[]string{"the password of ann: no such file"}},
	} {
		runInBubble(t, name, func(t *testing.T) {
			srv := zktest.Start(t, c.server...)
			began := time.Now()
			cfg := Config{Servers: []string{"zk"}, Dialer: srv.DialContext, SASL: c.login}
			client, err := Dial(t.Context(), cfg)
			if err == nil { // the refusal comes with the first request, or ping
				s, _ := client.Session(t.Context())
				_, err = s.Exists(t.Context(), "/")
				_ = client.Close()
			}
			require.ErrorIs(t, err, ErrAuth)
			for _, part := range c.says {
				require.ErrorContains(t, err, part)
			}
			require.NotContains(t, err.Error(), "right")
			require.NotContains(t, err.Error(), "wrong\"")
			require.LessOrEqual(t, time.Since(began), time.Second, "it does not try until its time is up")
		})
	}
}

// While a password is replaced, servers learn of it one after the other.
func TestAServerThatRefusesDoesNotEndTheSessionWhileAnotherMayAccept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		users := passwordOf("old")
		srv := zktest.Start(t, zktest.WithSASL(annOf(users)), zktest.WithSASLRequired())
		c, s := open(t, srv, loggingIn(constant("old")))
		s.mustCreate(t, "/a", zk.FlagEphemeral)
		users.Store("new")
		srv.Disconnect(s.ID())
		time.Sleep(6 * time.Second)
		require.NoError(t, s.Err(), "12 s is how long the session may live")
		users.Store("old")
		_, err := s.Exists(t.Context(), "/a")
		require.NoError(t, err)
		require.Equal(t, StateActive, s.State())

		users.Store("new")
		srv.Disconnect(s.ID())
		<-s.Done()
		require.ErrorIs(t, s.Err(), ErrLost)
		require.ErrorContains(t, s.Err(), "check the password of ann")
		_, err = c.Session(t.Context())
		require.ErrorIs(t, err, ErrAuth)
		users.Store("old")
		c.mustSession(t) // the next session asks again
	})
	synctest.Test(t, func(t *testing.T) {
		strict := zktest.Start(t, zktest.WithSASL(func(string) string { return "new" }))
		good := zktest.Start(t, zktest.WithSASL(func(string) string { return "old" }))
		for range 20 { // in either order
			c, err := Dial(t.Context(), Config{Servers: []string{"strict", "good"}, SASL: sasl.DigestMD5("ann", constant("old")),
				Dialer: func(ctx context.Context, network, address string) (net.Conn, error) {
					if strings.HasPrefix(address, "strict") {
						return strict.DialContext(ctx, network, address)
					}
					return good.DialContext(ctx, network, address)
				}})
			require.NoError(t, err)
			require.NoError(t, c.Close())
		}
	})
}

// A server that insists on SASL takes no closeSession before the login.
func TestALostSessionIsClosedAfterALogin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Start(t, zktest.WithSASL(annOf(passwordOf("p"))), zktest.WithSASLRequired())
		c, lost := open(t, srv, loggingIn(constant("p")), func(cfg *Config) { cfg.Auth = []Auth{{"digest", "bob:b"}} })
		lost.mustCreate(t, "/mine", zk.FlagEphemeral)
		lost.mustHold(t, nil, "/mine")
		lost.lose(errors.New("enough"))
		s := c.mustSession(t)
		require.NoError(t, s.CloseLost(t.Context(), lost))
		require.Len(t, srv.Sessions(), 1)
	})
}

// scripted is a login whose steps a test writes.
type scripted struct {
	start func() error
	next  func([]byte) ([]byte, bool, error)
}

func (s scripted) Identity() string { return "ann" }

func (s scripted) Start(context.Context, string, string) (sasl.Exchange, error) {
	return sasl.Exchange{Next: s.next, Refused: "look at the keys"}, s.start()
}

func TestALoginThatCannotBeginIsTriedAgainUnlessAPersonMustAct(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Start(t)
		tries := 0
		login := scripted{func() error {
			if tries++; tries < 3 {
				return errors.New("the KDC is away")
			}
			return nil
		}, func([]byte) ([]byte, bool, error) { return nil, true, nil }}
		c, _ := open(t, srv, func(cfg *Config) { cfg.SASL = login })
		require.Equal(t, 3, tries)
		require.NoError(t, c.Close())
		login.start = func() error { return errors.New("the KDC is away") }
		began := time.Now()
		_, err := Dial(t.Context(), Config{Servers: []string{"zk"}, Dialer: srv.DialContext, SASL: login})
		require.ErrorIs(t, err, ErrUnreachable)
		require.ErrorContains(t, err, "zk:2181: SASL login: the KDC is away")
		require.Equal(t, 5*time.Second, time.Since(began))
		login.start = func() error { return fmt.Errorf("%w: no keytab", ErrAuth) }
		began = time.Now()
		_, err = Dial(t.Context(), Config{Servers: []string{"zk"}, Dialer: srv.DialContext, SASL: login})
		require.ErrorIs(t, err, ErrAuth)
		require.NotErrorIs(t, err, ErrLost)
		require.ErrorContains(t, err, "no keytab")
		require.Zero(t, time.Since(began))
	})
}

// An attempt ends in time with a clear error, whatever a server answers to a token.
func TestHostilePeerDuringLogin(t *testing.T) {
	reply := func(code int32, body ...byte) []byte {
		return hostile.Frame(hostile.Cat(hostile.Be32(0), hostile.Be64(1), hostile.Be32(code), body)...)
	}
	token := func(text string) []byte {
		return reply(0, hostile.Cat(hostile.Be32(int32(len(text))), []byte(text))...)
	}
	const challenge = `realm="zk-sasl-md5",nonce="abc",charset=utf-8,algorithm=md5-sess`
	say := func(answers ...[]byte) hostile.Script {
		return func(c net.Conn) {
			if hostile.ReadFrame(c) == nil {
				return
			}
			if _, err := c.Write(grantOf(7, 9000)); err != nil {
				return
			}
			for _, answer := range answers {
				if hostile.ReadFrame(c) == nil {
					return
				}
				if _, err := c.Write(answer); err != nil {
					return
				}
			}
			hostile.Silence(c)
		}
	}
	endless := func(answer []byte) hostile.Script {
		return say(bytes.Split(bytes.Repeat(append(answer, "|next|"...), 100), []byte("|next|"))...)
	}
	for name, c := range map[string]struct {
		peer hostile.Script
		says string
	}{
		"mute":                     {say(), "did not finish the login in the time allowed"},
		"mute after a challenge":   {say(token(challenge)), "did not finish the login in the time allowed"},
		"hangs up":                 {func(c net.Conn) { hostile.ReadFrame(c); _, _ = c.Write(grantOf(7, 9000)); hostile.ReadFrame(c) }, "the server closed the connection"},
		"cut short in the length":  {say([]byte{0, 0}), "did not finish the login in the time allowed"},
		"cut short in the token":   {say(token(challenge)[:40]), "did not finish the login in the time allowed"},
		"a token beyond the frame": {say(reply(0, hostile.Be32(99)...)), "malformed token"},
		"a negative token":         {say(reply(0, hostile.Be32(-7)...)), "malformed token"},
		"a huge answer":            {say(hostile.Be32(0x7fffffff)), "an answer of 2147483647 bytes"},
		"a negative answer":        {say(hostile.Be32(-1)), "an answer of -1 bytes"},
		"a short answer":           {say(hostile.Frame(1, 2, 3)), "an answer of 3 bytes"},
		"an answer to another xid": {say(hostile.Frame(hostile.Cat(hostile.Be32(9), hostile.Be64(1), hostile.Be32(0))...)), "an answer to something else"},
		"a watch event":            {say(hostile.Frame(hostile.Cat(hostile.Be32(wire.XidEvent), hostile.Be64(1), hostile.Be32(0))...)), "an answer to something else"},
		"no token":                 {say(reply(0, hostile.Be32(-1)...)), "no JAAS section Server"},
		"no body":                  {say(reply(0)), "no JAAS section Server"},
		"another mechanism":        {say(token("\x60\x82\x01\x00\x06\x09\x2a\x86\x48\x86\xf7\x12\x01\x02\x02")), "not a challenge of DIGEST-MD5"},
		"a quote without end":      {say(token(`realm="zk-sasl-md5,nonce=`)), "not a challenge of DIGEST-MD5"},
		"no nonce":                 {say(token(`realm="zk-sasl-md5"`)), "without a nonce"},
		"encryption only":          {say(token(challenge + `,qop="auth-int,auth-conf"`)), "only with protection"},
		"another algorithm":        {say(token(`nonce="a",algorithm=sha-256`)), `algorithm "sha-256"`},
		"no proof":                 {say(token(challenge), reply(0, hostile.Be32(-1)...)), "has not proven"},
		"a wrong proof":            {say(token(challenge), token("rspauth=ea40f60335c427b5527b84dbabcdfffd")), "proof that it knows the password of ann is wrong"},
		"challenges without end":   {endless(token(challenge)), "has not proven"},
		"an unexpected error":      {say(reply(-4)), "code -4"},
	} {
		runInBubble(t, name, func(t *testing.T) {
			p := &peers{scripts: map[string]hostile.Script{"bad:2181": c.peer}}
			began := time.Now()
			_, err := Dial(t.Context(), Config{Servers: []string{"bad"}, Dialer: p.dial, SASL: sasl.DigestMD5("ann", constant("p"))})
			require.Error(t, err)
			require.ErrorContains(t, err, "bad:2181: SASL login: ")
			require.ErrorContains(t, err, c.says)
			require.LessOrEqual(t, time.Since(began), 8*time.Second, "5 s of ConnectTimeout and 3 to clean up")
			p.wg.Wait()
		})
	}
	runInBubble(t, "a login without end", func(t *testing.T) {
		p := &peers{scripts: map[string]hostile.Script{"bad:2181": endless(token(challenge))}}
		login := scripted{func() error { return nil }, func([]byte) ([]byte, bool, error) { return []byte("more"), false, nil }}
		_, err := Dial(t.Context(), Config{Servers: []string{"bad"}, Dialer: p.dial, SASL: login})
		require.ErrorContains(t, err, "the server goes on after 8 answers")
		p.wg.Wait()
	})
}
