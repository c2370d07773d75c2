//go:build linux

package ensemble_test

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/inspect/scan"
	"github.com/locktree/locktree/recipes/internal/hostile"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest/effort"
	"github.com/locktree/locktree/recipes/zktest/realzk"
)

// secureServer starts Apache ZooKeeper with a TLS port (Netty) that requires a client certificate issued by a.
func secureServer(t *testing.T, a *hostile.CA) (plain *realzk.Server, secure string) {
	t.Helper()
	dir := t.TempDir()
	server, _ := a.Issue(t, "localhost")
	key, err := x509.MarshalPKCS8PrivateKey(server.PrivateKey)
	require.NoError(t, err)
	store, trust := filepath.Join(dir, "server.pem"), filepath.Join(dir, "ca.pem")
	block := func(kind string, der []byte) []byte { return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}) }
	require.NoError(t, os.WriteFile(store, append(block("PRIVATE KEY", key), block("CERTIFICATE", server.Certificate[0])...), 0o600))
	require.NoError(t, os.WriteFile(trust, block("CERTIFICATE", a.Cert.Raw), 0o600))
	port := realzk.FreePorts(t, 1)[0]
	plain = realzk.Start(t, realzk.Options{TickTime: realTick, Config: map[string]string{
		"maxSessionTimeout": "60000",
		"secureClientPort":  fmt.Sprint(port), "secureClientPortAddress": "127.0.0.1",
		"serverCnxnFactory":     "org.apache.zookeeper.server.NettyServerCnxnFactory",
		"authProvider.x509":     "org.apache.zookeeper.server.auth.X509AuthenticationProvider",
		"ssl.keyStore.location": store, "ssl.trustStore.location": trust, "ssl.clientAuth": "need",
	}})
	return plain, net.JoinHostPort("localhost", fmt.Sprint(port))
}

// The recipes work over TLS with a real server, and a client without the right certificate gets no access.
func TestLocksWorkOverTLSWithARealServer(t *testing.T) {
	t.Parallel()
	a, stranger := hostile.Authority(t), hostile.Authority(t)
	plain, secure := secureServer(t, a)
	alice, _ := a.Issue(t, "alice")
	config := func(certificates ...tls.Certificate) recipes.Config {
		return recipes.Config{Servers: []string{secure}, SessionTimeout: busyTimeout, TLS: &tls.Config{RootCAs: a.Pool, Certificates: certificates}}
	}

	t.Run("a lock of its own subject", func(t *testing.T) {
		c := dial(t, config(alice))
		s := live(t, c)
		_, err := s.Create(t.Context(), "/tls", nil, 0, zk.AuthACL(zk.PermAll))
		require.NoError(t, err)
		l := held(t, c.Mutex("/tls", recipes.WithParams(kind.Mutex.New())).Lock)
		require.NotZero(t, l.Token())
		acl, _, err := s.GetACL(t.Context(), l.Node())
		require.NoError(t, err)
		require.Equal(t, "x509", acl[0].Scheme, "contenders inherit who may touch the lock")
		require.NoError(t, l.Unlock(t.Context()))
	})

	// A server lists only the connections of the port on which it is asked.
	t.Run("a holder at the other port is not away", func(t *testing.T) {
		holder := dial(t, config(alice))
		s := live(t, holder)
		_, err := s.Create(t.Context(), "/other", nil, 0, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		l := held(t, holder.Mutex("/other", recipes.WithParams(kind.Mutex.New())).Lock)
		page := dial(t, recipes.Config{Servers: []string{plain.Addr}, ReadOnly: true, SessionTimeout: busyTimeout})
		snap, err := scan.Look(t.Context(), page, scan.Options{Prefix: "/other"})
		require.NoError(t, err)
		require.Len(t, snap.Locks[0].Holders, 1)
		require.False(t, snap.Sessions[s.ID()].Away)
		require.Len(t, snap.Unasked, 1)
		require.Contains(t, snap.Unasked[0].Why, "or are at another port, with or without TLS")
		require.NoError(t, l.Unlock(t.Context()))
	})

	t.Run("the rest of the world is told why not", func(t *testing.T) {
		c := dial(t, recipes.Config{Servers: []string{plain.Addr}, SessionTimeout: busyTimeout})
		_, err := c.Mutex("/tls", recipes.WithParams(kind.Mutex.New())).Lock(t.Context())
		require.ErrorIs(t, err, zk.ErrNoAuth)
		require.ErrorContains(t, err, "world:anyone")
	})

	t.Run("a stranger's certificate", func(t *testing.T) {
		mallory, _ := stranger.Issue(t, "mallory")
		refused(t, config(mallory), "certificate")
	})
}

// The server and we must derive the same name from a certificate: an ACL with another name locks us out.
func TestRealServerSpellsSubjectsAsWeDo(t *testing.T) {
	t.Parallel()
	a := hostile.Authority(t)
	_, secure := secureServer(t, a)
	oid := func(n ...int) []int { return n }
	cn, o, ou, serial := oid(2, 5, 4, 3), oid(2, 5, 4, 10), oid(2, 5, 4, 11), oid(2, 5, 4, 5)
	one := func(id []int, v any) pkix.RelativeDistinguishedNameSET {
		return pkix.RelativeDistinguishedNameSET{{Type: id, Value: v}}
	}
	for name, subject := range map[string]pkix.RDNSequence{
		"usual":         {one(oid(2, 5, 4, 6), "DE"), one(o, "Acme"), one(ou, "ops"), one(cn, "alice")},
		"the other way": {one(cn, "alice"), one(ou, "ops"), one(o, "Acme")},
		"every name": {one(oid(2, 5, 4, 6), "DE"), one(oid(2, 5, 4, 8), "Hessen"), one(oid(2, 5, 4, 7), "Kassel"), one(oid(2, 5, 4, 9), "Ring 1"),
			one(oid(2, 5, 4, 17), "34117"), one(serial, "4711"), one(cn, "x")},
		"domain components": {one(oid(0, 9, 2342, 19200300, 100, 1, 25), "org"), one(oid(0, 9, 2342, 19200300, 100, 1, 25), "acme"),
			one(oid(0, 9, 2342, 19200300, 100, 1, 1), "alice")},
		"mail":            {one(oid(1, 2, 840, 113549, 1, 9, 1), "alice@acme.org"), one(cn, "alice")},
		"unknown":         {one(oid(1, 3, 6, 1, 4, 1, 99999, 1), "what"), one(cn, "alice")},
		"special signs":   {one(o, `Acme, Inc.; "the+best" <x> \ = #`), one(cn, "#alice")},
		"spaces":          {one(o, "  Acme  two  "), one(cn, " alice ")},
		"not ASCII":       {one(o, "Größe & Söhne"), one(cn, "алиса 愛麗絲")},
		"control":         {one(o, "a\x01b\tc\nd"), one(cn, "alice")},
		"several at once": {one(o, "Acme"), {{Type: ou, Value: "ops"}, {Type: cn, Value: "alice"}}},
		"empty value":     {one(o, ""), one(cn, "alice")},
		"spaces only":     {one(o, "   "), one(cn, "alice")},
		"nothing, zero":   {one(o, "a\x00b"), one(cn, "\r\n")},
		"other strings": {one(o, asn1.RawValue{Tag: asn1.TagT61String, Bytes: []byte("Gr\xf6\xdfe")}),
			one(ou, asn1.RawValue{Tag: asn1.TagBMPString, Bytes: []byte{0x41, 0x42, 0, 0x20}}),
			one(oid(0, 9, 2342, 19200300, 100, 1, 25), asn1.RawValue{Tag: asn1.TagIA5String, Bytes: []byte("acme")})},
		"title": {one(oid(2, 5, 4, 12), "Dr"), one(oid(2, 5, 4, 42), "Al"), one(oid(2, 5, 4, 4), "Ice"), one(cn, "alice")},
	} {
		t.Run(name, func(t *testing.T) {
			certificate := a.Reissue(t, subject)
			c := dial(t, recipes.Config{Servers: []string{secure}, SessionTimeout: busyTimeout,
				TLS: &tls.Config{RootCAs: a.Pool, Certificates: []tls.Certificate{certificate}}})
			s := live(t, c)
			path, err := s.Create(t.Context(), "/n-", nil, zk.FlagEphemeral|zk.FlagSequence, zk.AuthACL(zk.PermAll))
			require.NoError(t, err)
			acl, _, err := s.GetACL(t.Context(), path)
			require.NoError(t, err)
			var theirs []string
			for _, e := range acl {
				if e.Scheme == "x509" {
					theirs = append(theirs, e.ID)
				}
			}
			var ours []string
			for _, id := range c.Identities() {
				if id.Scheme == "x509" {
					ours = append(ours, id.ID)
				}
			}
			require.Equal(t, theirs, ours)
		})
	}
}

// refused requires that Dial gets no session, and says why.
func refused(t *testing.T, cfg recipes.Config, why string) {
	t.Helper()
	hostile.Refused(t, func(connectTimeout time.Duration) error {
		cfg.ConnectTimeout = connectTimeout
		c, err := recipes.Dial(t.Context(), cfg)
		if err == nil {
			_ = c.Close()
		}
		require.ErrorIs(t, err, recipes.ErrUnreachable)
		return err
	}, why)
}

// The servers of this test admit only certain schemes.
func TestRealServersThatEnforceASchemeSayWhatIsMissing(t *testing.T) {
	effort.Proof(t, effort.Raced)
	t.Parallel()
	at := realzk.Start(t, realzk.Options{TickTime: realTick, Config: map[string]string{"enforce.auth.enabled": "true", "enforce.auth.schemes": "digest", "maxSessionTimeout": "60000"}})
	cfg := recipes.Config{Servers: []string{at.Addr}, SessionTimeout: busyTimeout, ConnectTimeout: busyTimeout}
	c, err := recipes.Dial(t.Context(), cfg)
	require.NoError(t, err, "they look at the first request")
	defer c.Close()
	s := live(t, c)
	_, _, err = s.Get(t.Context(), "/")
	require.ErrorContains(t, err, "enforce.auth.schemes")
	<-s.Done()
	_, _, err = s.Get(t.Context(), "/")
	require.ErrorIs(t, err, recipes.ErrAuth)
	require.ErrorContains(t, err, "connected as world:anyone")

	cfg.Auth = []recipes.Auth{{Scheme: "digest", Credentials: "a:b"}}
	_, _, err = live(t, dial(t, cfg)).Get(t.Context(), "/")
	require.NoError(t, err)
}

// The scheme "ensemble", on a server that has it and on one that does not.
func TestRealServersOfAnotherNameAreNotTalkedTo(t *testing.T) {
	effort.Proof(t, effort.Raced)
	t.Parallel()
	stock := realzk.Start(t, realzk.Options{TickTime: realTick, Config: map[string]string{"maxSessionTimeout": "60000"}})
	with := realzk.Start(t, realzk.Options{TickTime: realTick, Config: map[string]string{"maxSessionTimeout": "60000"}, Properties: map[string]string{
		"zookeeper.authProvider.ensemble": "org.apache.zookeeper.server.auth.EnsembleAuthenticationProvider", "zookeeper.ensembleAuthName": "prod,prod2"}})
	cfg := func(addr, name string) recipes.Config {
		return recipes.Config{Servers: []string{addr}, SessionTimeout: busyTimeout, ConnectTimeout: busyTimeout, Auth: []recipes.Auth{{Scheme: "digest", Credentials: "a:b"}, {Scheme: "ensemble", Credentials: recipes.Secret(name)}}}
	}
	c := dial(t, cfg(with.Addr, "prod2"))
	s := live(t, c)
	_, _, err := s.Get(t.Context(), "/")
	require.NoError(t, err)
	require.Len(t, c.Identities(), 2, "it is no identity")

	_, err = recipes.Dial(t.Context(), cfg(with.Addr, "test"))
	require.ErrorIs(t, err, recipes.ErrUnreachable)
	require.ErrorContains(t, err, `it was asked whether it belongs to ensemble "test"`)

	_, err = recipes.Dial(t.Context(), cfg(stock.Addr, "prod"))
	require.ErrorIs(t, err, recipes.ErrAuth)
	require.ErrorContains(t, err, "do not know the scheme ensemble")
}
