package session

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"log/slog"
	"maps"
	"math/big"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/internal/hostile"
	"github.com/locktree/locktree/recipes/internal/session/servers"
	"github.com/locktree/locktree/recipes/zktest"
)

// terminate puts TLS in front of an in-memory server, as a sidecar does.
func terminate(srv *zktest.Server, config *tls.Config) hostile.Script {
	return func(c net.Conn) {
		secure := tls.Server(c, config)
		if secure.Handshake() != nil {
			return
		}
		plain, err := srv.Dialer()("pipe", "", time.Second)
		if err != nil {
			return
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			hostile.Relay(plain, secure)
			plain.Close()
		}()
		hostile.Relay(secure, plain)
		secure.Close()
		plain.Close()
		<-done
	}
}

// to dials one address, whatever the server's name.
func to(addr string) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, addr)
	}
}

// TLS is mutual, and the server's certificate is verified against the name in Servers. The cases have every way to get that wrong.
func TestTLSVerifiesTheNameInServers(t *testing.T) {
	good, other := hostile.Authority(t), hostile.Authority(t)
	server, _ := good.Issue(t, "zk1")
	client, _ := good.Issue(t, "app")
	stranger, _ := other.Issue(t, "app")
	srv := zktest.Start(t)
	secure := hostile.Listen(t, terminate(srv, &tls.Config{Certificates: []tls.Certificate{server}, ClientCAs: good.Pool, ClientAuth: tls.RequireAndVerifyClientCert}))
	plain := srv.Addr()
	for name, c := range map[string]struct {
		host   string
		config *tls.Config
		fails  string
	}{
		"right":             {"zk1", &tls.Config{RootCAs: good.Pool, Certificates: []tls.Certificate{client}}, ""},
		"wrong name":        {"zk2", &tls.Config{RootCAs: good.Pool, Certificates: []tls.Certificate{client}}, "valid for zk1, not zk2"},
		"name given":        {"zk2", &tls.Config{RootCAs: good.Pool, Certificates: []tls.Certificate{client}, ServerName: "zk1"}, ""},
		"unknown authority": {"zk1", &tls.Config{RootCAs: other.Pool, Certificates: []tls.Certificate{client}}, "unknown authority"},
		"no client's":       {"zk1", &tls.Config{RootCAs: good.Pool}, "certificate required"},
		"foreign client's":  {"zk1", &tls.Config{RootCAs: good.Pool, Certificates: []tls.Certificate{stranger}}, "certificate"},
		"expired":           {"zk1", &tls.Config{RootCAs: good.Pool, Certificates: []tls.Certificate{client}, Time: func() time.Time { return hostile.BubbleTime.AddDate(100, 0, 0) }}, "expired"},
		"not a TLS port":    {"plain", &tls.Config{RootCAs: good.Pool}, "TLS handshake"},
		"TLS port":          {"zk1", nil, "TLS"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := secure
			if c.host == "plain" {
				at = plain
			}
			cfg := Config{Servers: []string{c.host}, Dialer: to(at), TLS: c.config, SessionTimeout: 40 * time.Second, ConnectTimeout: hostile.Patience}
			if c.fails != "" {
				refused(t, cfg, c.fails)
				return
			}
			client, err := Dial(t.Context(), cfg)
			require.NoError(t, err)
			s, _ := client.Session(t.Context())
			s.mustCreate(t, "/a-", zk.FlagEphemeralSequential)
			srv.Disconnect(s.ID())
			s.mustRead(t, "/")
			hostile.Closed(t, client)
		})
	}
}

// A program kept the authorities that it began with. When the servers' certificates moved to another authority, it could not connect again
// and lost its session. A server may be named by its address, which package tls does not pass to VerifyConnection.
func TestAuthoritiesAndCertificatesAreThoseOfTheNewestConnection(t *testing.T) {
	for _, host := range []string{"zk1", "127.0.0.1"} {
		t.Run(host, func(t *testing.T) {
			t.Parallel()
			old, fresh := hostile.Authority(t), hostile.Authority(t)
			var serves, trusts atomic.Pointer[hostile.CA]
			serves.Store(old)
			trusts.Store(old)
			certificates := map[*hostile.CA]tls.Certificate{}
			ours := map[*hostile.CA]tls.Certificate{old: old.Reissue(t, named("first")), fresh: fresh.Reissue(t, named("second"))}
			for _, a := range []*hostile.CA{old, fresh} {
				certificates[a], _ = a.Issue(t, host)
			}
			srv := zktest.Start(t)
			secure := hostile.Listen(t, terminate(srv, &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
				a := serves.Load()
				return &tls.Config{Certificates: []tls.Certificate{certificates[a]}, ClientCAs: a.Pool, ClientAuth: tls.RequireAndVerifyClientCert}, nil
			}}))
			client, err := Dial(t.Context(), Config{Servers: []string{host}, SessionTimeout: 40 * time.Second, ConnectTimeout: hostile.Patience,
				Dialer: to(secure),
				GetTLS: func() (*tls.Config, error) {
					a := trusts.Load()
					return &tls.Config{RootCAs: a.Pool, Certificates: []tls.Certificate{ours[a]}}, nil
				}})
			require.NoError(t, err)
			s := client.mustSession(t)
			require.Contains(t, s.Identities(), Identity{"x509", "CN=first"})
			node := s.mustCreate(t, "/a-", zk.FlagEphemeralSequential)

			serves.Store(fresh)
			srv.Disconnect(s.ID())
			require.Eventually(t, func() bool { return strings.Contains(s.hosts.Report(), "unknown authority") }, hostile.Patience, time.Millisecond,
				"whoever did not follow the servers is refused as before")
			trusts.Store(fresh)
			s.mustRead(t, node)
			require.Contains(t, s.Identities(), Identity{"x509", "CN=second"})
			hostile.Closed(t, client)
		})
	}
}

func named(name string) pkix.RDNSequence {
	return pkix.RDNSequence{{{Type: []int{2, 5, 4, 3}, Value: name}}}
}

// A client that asks for encryption makes no connection without it.
func TestNoTLSConfigurationIsNoConnection(t *testing.T) {
	_, err := Dial(t.Context(), Config{Servers: []string{"zk"}, TLS: &tls.Config{}, GetTLS: func() (*tls.Config, error) { return nil, nil }})
	require.ErrorContains(t, err, "both TLS and GetTLS")
	for text, get := range map[string]func() (*tls.Config, error){
		"GetTLS returned no configuration": func() (*tls.Config, error) { return nil, nil },
		"the files are gone":               func() (*tls.Config, error) { return nil, errors.New("the files are gone") },
	} {
		refused(t, Config{Servers: []string{"zk"}, GetTLS: get, Dialer: func(context.Context, string, string) (net.Conn, error) {
			t.Error("it was dialled")
			return nil, io.EOF
		}}, text)
	}
}

// expired issues a certificate of a that has expired.
func expired(t *testing.T, a *hostile.CA, name string, since time.Time) tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{SerialNumber: big.NewInt(4), Subject: pkix.Name{CommonName: name}, NotBefore: since.AddDate(-1, 0, 0),
		NotAfter: since, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, a.Cert, key.Public(), a.Key)
	require.NoError(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// recorder is a log of why connections failed.
type recorder func(text string)

func (recorder) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }
func (r recorder) WithAttrs([]slog.Attr) slog.Handler             { return r }
func (r recorder) WithGroup(string) slog.Handler                  { return r }
func (r recorder) Handle(_ context.Context, record slog.Record) error {
	record.Attrs(func(a slog.Attr) bool {
		if a.Key == "cause" && record.Message == "no connection" {
			r(a.Value.String())
		}
		return true
	})
	return nil
}

// The servers refused an expired certificate of ours. The error said "remote error: tls: expired certificate", or "it closed the
// connection", but not whose certificate had expired, nor since when.
func TestOurCertificateThatExpiredIsNamed(t *testing.T) {
	a := hostile.Authority(t)
	server, _ := a.Issue(t, "zk1")
	old := expired(t, a, "locktree-page", time.Date(2026, 3, 1, 9, 30, 0, 0, time.UTC))
	srv := zktest.Start(t)
	alerts := hostile.Listen(t, terminate(srv, &tls.Config{Certificates: []tls.Certificate{server}, ClientCAs: a.Pool, ClientAuth: tls.RequireAndVerifyClientCert}))
	// Netty closes some connections without an alert.
	silent := hostile.Listen(t, func(c net.Conn) {
		secure := tls.Server(c, &tls.Config{Certificates: []tls.Certificate{server}, ClientAuth: tls.RequireAnyClientCert})
		_ = secure.Handshake()
		hostile.ReadFrame(secure)
	})
	// A server that does not ask for a certificate refuses none.
	unasked := hostile.Listen(t, func(c net.Conn) {
		secure := tls.Server(c, &tls.Config{Certificates: []tls.Certificate{server}})
		_ = secure.Handshake()
		hostile.ReadFrame(secure)
	})
	const says = "zk1:2181: our certificate, of CN=locktree-page, expired on 2026-03-01T09:30:00Z: "
	for name, c := range map[string]struct {
		at     string
		config *tls.Config
		says   string
	}{
		"an alert":         {alerts, &tls.Config{Certificates: []tls.Certificate{old}}, says},
		"a closed one":     {silent, &tls.Config{Certificates: []tls.Certificate{old}}, says},
		"TLS 1.2":          {alerts, &tls.Config{Certificates: []tls.Certificate{old}, MaxVersion: tls.VersionTLS12}, says},
		"chosen on asking": {alerts, &tls.Config{GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &old, nil }}, says},
		"not asked for":    {unasked, &tls.Config{Certificates: []tls.Certificate{old}}, "zk1:2181: it closed the connection instead of answering"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.config.RootCAs = a.Pool
			var mu sync.Mutex
			logged := map[string]int{}
			refused(t, Config{Servers: []string{"zk1"}, TLS: c.config, Logger: slog.New(recorder(func(text string) {
				mu.Lock()
				defer mu.Unlock()
				logged[text]++
			})), Dialer: to(c.at)}, c.says)
			mu.Lock()
			defer mu.Unlock()
			maps.DeleteFunc(logged, func(text string, _ int) bool { return strings.Contains(text, "in the time allowed") }) // too slow
			require.NotEmpty(t, logged)
			for text := range logged {
				require.Contains(t, text, c.says[len("zk1:2181: "):])
			}
		})
	}
}

// A server that only another server has named gets four-letter words, but nothing that tells who we are.
func TestAServerThatWasNotListedGetsNoClientCertificate(t *testing.T) {
	a := hostile.Authority(t)
	server, _ := a.Issue(t, "zk1")
	client, _ := a.Issue(t, "app")
	srv := zktest.Start(t)
	var shown atomic.Int64
	config := &tls.Config{Certificates: []tls.Certificate{server}, ClientAuth: tls.RequestClientCert, VerifyConnection: func(s tls.ConnectionState) error {
		shown.Add(int64(len(s.PeerCertificates)))
		return nil
	}}
	addr := hostile.Listen(t, terminate(srv, config))
	c, err := Dial(t.Context(), Config{Servers: []string{"zk1"}, TLS: &tls.Config{RootCAs: a.Pool, Certificates: []tls.Certificate{client}}, ReadOnly: true,
		ConnectTimeout: hostile.Patience, SessionTimeout: 40 * time.Second,
		Dialer: to(addr)})
	require.NoError(t, err)
	defer c.Close()
	s := c.mustSession(t)
	ask := func(at servers.Server) string {
		var answer []byte
		require.NoError(t, s.Aside(t.Context(), at, []byte("ruok"), func(r io.Reader) (err error) {
			answer, err = io.ReadAll(r)
			return err
		}))
		return string(answer)
	}
	before := shown.Load()
	require.Equal(t, "imok", ask(servers.Server{Name: "zk1:2999", Addr: "zk1:2999", Told: true}))
	require.Equal(t, before, shown.Load())
	require.Equal(t, "imok", ask(s.Servers()[0]))
	require.Equal(t, before+1, shown.Load(), "one that is listed does")
}

// tls.Conn.Close waits up to five seconds for a peer that does not read; State must not.
func TestDeadTLSPeerDoesNotHoldUpItsMourners(t *testing.T) {
	a := hostile.Authority(t)
	server, _ := a.Issue(t, "zk")
	synctest.Test(t, func(t *testing.T) {
		stuck := make(chan struct{})
		p := &peers{scripts: map[string]hostile.Script{"zk:2181": func(c net.Conn) {
			secure := tls.Server(c, &tls.Config{Certificates: []tls.Certificate{server}})
			hostile.ReadFrame(secure)
			_, _ = secure.Write(grantOf(7, 9000))
			<-stuck
		}}}
		c, err := Dial(t.Context(), Config{Servers: []string{"zk"}, Dialer: p.dial, TLS: &tls.Config{RootCAs: a.Pool}})
		require.NoError(t, err)
		s, _ := c.Session(t.Context())
		time.Sleep(time.Second)
		began := time.Now()
		s.present().fail(errSilent)
		require.Equal(t, StateSuspect, s.State())
		require.Zero(t, time.Since(began))
		close(stuck)
		_ = c.Close()
		p.wg.Wait()
	})
}

// doctor and the page know the certificates of the handshake, even one that a program chooses when asked.
func TestASessionKnowsTheCertificatesOfItsConnection(t *testing.T) {
	a := hostile.Authority(t)
	server, leaf := a.Issue(t, "zk1")
	client, ours := a.Issue(t, "app")
	srv := zktest.Start(t)
	secure := hostile.Listen(t, terminate(srv, &tls.Config{Certificates: []tls.Certificate{server}, ClientCAs: a.Pool, ClientAuth: tls.RequireAndVerifyClientCert}))
	c, err := Dial(t.Context(), Config{Servers: []string{"zk1"}, SessionTimeout: 40 * time.Second, ConnectTimeout: hostile.Patience,
		TLS:    &tls.Config{RootCAs: a.Pool, GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &client, nil }},
		Dialer: to(secure)})
	require.NoError(t, err)
	s := c.mustSession(t)
	require.Equal(t, []Certificate{
		{true, ours.Subject.String(), ours.NotAfter}, {false, leaf.Subject.String(), leaf.NotAfter}, {false, a.Cert.Subject.String(), a.Cert.NotAfter},
	}, s.Certificates())
	hostile.Closed(t, c)
	require.Empty(t, s.Certificates())
}
