package zktest_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/zktest"
)

// certificate makes a self-signed certificate for name and a pool that trusts it.
func certificate(t *testing.T, name pkix.Name) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: name, DNSNames: []string{name.CommonName},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	leaf, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

func TestACertificatesSubjectIsAnX509Identity(t *testing.T) {
	server, trustServer := certificate(t, pkix.Name{CommonName: "zk"})
	alice, trustAlice := certificate(t, pkix.Name{CommonName: "alice", Organization: []string{"Acme"}})
	s := zktest.Start(t, zktest.WithTLS(&tls.Config{
		Certificates: []tls.Certificate{server}, ClientCAs: trustAlice, ClientAuth: tls.VerifyClientCertIfGiven,
	}))
	connect := func(certs ...tls.Certificate) *zk.Conn {
		c, events, err := zk.Connect([]string{s.Addr()}, 40*time.Second, zk.WithLogInfo(false), zk.WithLogger(quiet{}),
			zk.WithDialer(func(network, address string, timeout time.Duration) (net.Conn, error) {
				return tls.DialWithDialer(&net.Dialer{Timeout: timeout}, network, address,
					&tls.Config{ServerName: "zk", RootCAs: trustServer, Certificates: certs})
			}))
		require.NoError(t, err)
		t.Cleanup(func() {
			c.Close()
			for range events {
			}
		})
		return c
	}
	c := connect(alice)
	_, err := c.Create("/a", nil, 0, zk.AuthACL(zk.PermAll))
	require.NoError(t, err)
	n, _ := s.Get("/a")
	require.Equal(t, []zktest.ACL{{Perms: zk.PermAll, Scheme: "x509", ID: "CN=alice,O=Acme"}}, n.ACL)
	_, err = c.Set("/a", nil, -1)
	require.NoError(t, err)
	_, err = c.SetACL("/a", []zk.ACL{{Perms: zk.PermAll, Scheme: "x509", ID: "no name"}}, -1)
	require.ErrorIs(t, err, zk.ErrInvalidACL)
	_, err = c.SetACL("/a", []zk.ACL{{Perms: zk.PermRead, Scheme: "x509", ID: `CN=a,O=Acme\, Inc.`}, {Perms: zk.PermAll, Scheme: "x509", ID: "CN=alice,O=Acme"}}, -1)
	require.NoError(t, err, "a comma that is escaped begins no new part")
	_, err = connect().Set("/a", nil, -1)
	require.ErrorIs(t, err, zk.ErrNoAuth)
}
