package recipes

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"math/big"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/zktest"
)

// bubbleTime is a moment in the life of the certificates: a synctest bubble begins on it.
var bubbleTime = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// ca issues certificates for one test.
type ca struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	pool *x509.CertPool
}

func authority(t *testing.T) *ca {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	a := &ca{key: key, pool: x509.NewCertPool()}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotBefore: bubbleTime.AddDate(-1, 0, 0), NotAfter: bubbleTime.AddDate(99, 0, 0),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	a.cert, err = x509.ParseCertificate(der)
	require.NoError(t, err)
	a.pool.AddCert(a.cert)
	return a
}

func (a *ca) issue(t *testing.T, host string) (tls.Certificate, *x509.Certificate) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), DNSNames: []string{host},
		Subject:   pkix.Name{Organization: []string{"Acme"}, OrganizationalUnit: []string{"ops"}, CommonName: host},
		NotBefore: bubbleTime.AddDate(-1, 0, 0), NotAfter: bubbleTime.AddDate(99, 0, 0),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	require.NoError(t, err)
	leaf, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, leaf
}

// terminate puts TLS in front of an in-memory server, as a sidecar does.
func terminate(srv *zktest.Server, config *tls.Config) script {
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
			relay(plain, secure)
			plain.Close()
		}()
		relay(secure, plain)
		secure.Close()
		plain.Close()
		<-done
	}
}

func relay(to, from net.Conn) {
	b := make([]byte, 4096)
	for {
		n, err := from.Read(b)
		if n > 0 {
			if _, err := to.Write(b[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// Mutual TLS, the server's certificate verified against the name in Servers; and every way to get it wrong.
func TestTLSVerifiesTheNameInServers(t *testing.T) {
	good, other := authority(t), authority(t)
	server, _ := good.issue(t, "zk1")
	client, _ := good.issue(t, "app")
	stranger, _ := other.issue(t, "app")
	srv := zktest.Start(t)
	secure := listen(t, terminate(srv, &tls.Config{Certificates: []tls.Certificate{server}, ClientCAs: good.pool, ClientAuth: tls.RequireAndVerifyClientCert}))
	plain := srv.Addr()
	for name, c := range map[string]struct {
		host   string
		config *tls.Config
		fails  string
	}{
		"right":             {"zk1", &tls.Config{RootCAs: good.pool, Certificates: []tls.Certificate{client}}, ""},
		"wrong name":        {"zk2", &tls.Config{RootCAs: good.pool, Certificates: []tls.Certificate{client}}, "valid for zk1, not zk2"},
		"name given":        {"zk2", &tls.Config{RootCAs: good.pool, Certificates: []tls.Certificate{client}, ServerName: "zk1"}, ""},
		"unknown authority": {"zk1", &tls.Config{RootCAs: other.pool, Certificates: []tls.Certificate{client}}, "unknown authority"},
		"no client's":       {"zk1", &tls.Config{RootCAs: good.pool}, "certificate required"},
		"foreign client's":  {"zk1", &tls.Config{RootCAs: good.pool, Certificates: []tls.Certificate{stranger}}, "certificate"},
		"expired":           {"zk1", &tls.Config{RootCAs: good.pool, Certificates: []tls.Certificate{client}, Time: func() time.Time { return bubbleTime.AddDate(100, 0, 0) }}, "expired"},
		"not a TLS port":    {"plain", &tls.Config{RootCAs: good.pool}, "TLS handshake"},
		"TLS port":          {"zk1", nil, "TLS"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dial := func(ctx context.Context, network, address string) (net.Conn, error) {
				if address == "plain:2181" {
					address = plain
				} else {
					address = secure
				}
				return (&net.Dialer{}).DialContext(ctx, network, address)
			}
			cfg := Config{Servers: []string{c.host}, Dialer: dial, TLS: c.config, SessionTimeout: 40 * time.Second, ConnectTimeout: patience}
			if c.fails != "" {
				refused(t, cfg, c.fails)
				return
			}
			client, err := Dial(t.Context(), cfg)
			require.NoError(t, err)
			s, _ := client.Session(t.Context())
			s.mustCreate(t, "/a-", zk.FlagEphemeralSequential)
			srv.Disconnect(s.ID())
			_, _, err = s.Get(t.Context(), "/")
			require.NoError(t, err)
			closed(t, client)
		})
	}
}

// listen serves a script on loopback until the test ends: TLS alerts need a connection with buffers, which a pipe
// lacks.
func listen(t *testing.T, serve script) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				serve(c)
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		wg.Wait()
	})
	return l.Addr().String()
}

// A TLS handshake that stalls is bounded like any other.
func TestStalledTLSHandshakeIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &peers{scripts: map[string]script{"zk:2181": silence}}
		began := time.Now()
		_, err := Dial(context.Background(), Config{Servers: []string{"zk"}, Dialer: p.dial, TLS: &tls.Config{}})
		require.ErrorIs(t, err, ErrUnreachable)
		require.ErrorContains(t, err, "time allowed for one attempt")
		require.LessOrEqual(t, time.Since(began), 8*time.Second)
		p.wg.Wait()
	})
}

// tls.Conn.Close waits up to five seconds for a peer that does not read; State must not.
func TestDeadTLSPeerDoesNotHoldUpItsMourners(t *testing.T) {
	a := authority(t)
	server, _ := a.issue(t, "zk")
	synctest.Test(t, func(t *testing.T) {
		stuck := make(chan struct{})
		p := &peers{scripts: map[string]script{"zk:2181": func(c net.Conn) {
			secure := tls.Server(c, &tls.Config{Certificates: []tls.Certificate{server}})
			readFrame(secure)
			_, _ = secure.Write(grantOf(7, 9000))
			<-stuck
		}}}
		c, err := Dial(t.Context(), Config{Servers: []string{"zk"}, Dialer: p.dial, TLS: &tls.Config{RootCAs: a.pool}})
		require.NoError(t, err)
		s, _ := c.Session(t.Context())
		time.Sleep(time.Second)
		began := time.Now()
		s.guard.kill(errSilent)
		require.Equal(t, Suspect, s.State())
		require.Zero(t, time.Since(began))
		close(stuck)
		_ = c.Close()
		p.wg.Wait()
	})
}

// ZooKeeper prints the subject in reverse order of encoding; pkix.Name prints it in an order of its own. An ACL with
// the wrong one was accepted by a server and locked its owner out.
func TestSubjectIsSpelledAsZooKeeperDoes(t *testing.T) {
	certificate, leaf := authority(t).issue(t, "alice")
	got := identities(nil, &tls.Config{Certificates: []tls.Certificate{certificate}})
	require.Equal(t, []Identity{{"world", "anyone"}, {"x509", "CN=alice,OU=ops,O=Acme"}}, got)
	require.Equal(t, pkix.RDNSequence(leaf.Subject.ToRDNSequence()).String(), got[1].ID, "this one happens to agree")

	// Encoded CN first, as openssl -subj /CN=alice/OU=ops/O=Acme does: the order turns round, pkix.Name's does not.
	odd := reissue(t, pkix.RDNSequence{
		{{Type: []int{2, 5, 4, 3}, Value: "alice"}}, {{Type: []int{2, 5, 4, 11}, Value: "ops"}}, {{Type: []int{2, 5, 4, 10}, Value: "Acme"}},
	})
	subject, err := subjectOf(odd)
	require.NoError(t, err)
	require.Equal(t, "O=Acme,OU=ops,CN=alice", subject)

	// As Apache ZooKeeper 3.8.0 on Java 17 spelled them: see TestRealServerSpellsSubjectsAsWeDo.
	odd = reissue(t, pkix.RDNSequence{
		{{Type: []int{0, 9, 2342, 19200300, 100, 1, 25}, Value: "acme"}}, {{Type: []int{0, 9, 2342, 19200300, 100, 1, 1}, Value: "al"}},
		{{Type: []int{2, 5, 4, 5}, Value: "4711"}}, {{Type: []int{2, 5, 4, 10}, Value: "  Acme, = #1 "}},
	})
	subject, err = subjectOf(odd)
	require.NoError(t, err)
	require.Equal(t, `O=\ \ Acme\, \= \#1\ ,2.5.4.5=#130434373131,UID=al,DC=acme`, subject)
}

func reissue(t *testing.T, subject pkix.RDNSequence) tls.Certificate {
	return authority(t).reissue(t, subject)
}

// reissue issues a client certificate with a subject as it is given.
func (a *ca) reissue(t *testing.T, subject pkix.RDNSequence) tls.Certificate {
	t.Helper()
	raw, err := asn1.Marshal(subject)
	require.NoError(t, err)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(3), RawSubject: raw, NotBefore: bubbleTime, NotAfter: bubbleTime.AddDate(99, 0, 0),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	require.NoError(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}
