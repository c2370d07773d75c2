// Package hostile has what tests of sessions and of recipes put on the other end of a connection: frames, servers that break the
// protocol, certificates. It also has the waits of tests in real time. On a busy machine, seconds may pass before a goroutine of a test
// or a thread of a server runs. No test may depend on how soon they run.
package hostile

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/binary"
	"io"
	"math/big"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// Script is one hostile or broken server: it is called for each connection.
type Script func(net.Conn)

// Frame puts a length in front of a body.
func Frame(body ...byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
}

func Be32(n int32) []byte { return binary.BigEndian.AppendUint32(nil, uint32(n)) }

func Be64(n int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(n)) }

func Cat(parts ...[]byte) (all []byte) {
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

// ReadFrame reads one frame's body; nil at the end of the connection.
func ReadFrame(c net.Conn) []byte {
	var head [4]byte
	if _, err := io.ReadFull(c, head[:]); err != nil {
		return nil
	}
	body := make([]byte, binary.BigEndian.Uint32(head[:]))
	if _, err := io.ReadFull(c, body); err != nil {
		return nil
	}
	return body
}

// Silence reads and says nothing until the connection ends.
func Silence(c net.Conn) { _, _ = io.Copy(io.Discard, c) }

// Saying reads the connect request, writes b, and then writes nothing more.
func Saying(b []byte) Script {
	return func(c net.Conn) {
		if ReadFrame(c) == nil {
			return
		}
		if _, err := c.Write(b); err == nil {
			Silence(c)
		}
	}
}

// BubbleTime is a moment in the life of the certificates: a synctest bubble begins at that moment.
var BubbleTime = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// CA issues certificates for one test.
type CA struct {
	Key  *ecdsa.PrivateKey
	Cert *x509.Certificate
	Pool *x509.CertPool
}

func Authority(t *testing.T) *CA {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	a := &CA{Key: key, Pool: x509.NewCertPool()}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotBefore: BubbleTime.AddDate(-1, 0, 0), NotAfter: BubbleTime.AddDate(99, 0, 0),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	a.Cert, err = x509.ParseCertificate(der)
	require.NoError(t, err)
	a.Pool.AddCert(a.Cert)
	return a
}

func (a *CA) Issue(t *testing.T, host string) (tls.Certificate, *x509.Certificate) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), DNSNames: []string{host},
		Subject:   pkix.Name{Organization: []string{"Acme"}, OrganizationalUnit: []string{"ops"}, CommonName: host},
		NotBefore: BubbleTime.AddDate(-1, 0, 0), NotAfter: BubbleTime.AddDate(99, 0, 0),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if ip := net.ParseIP(host); ip != nil {
		template.DNSNames, template.IPAddresses = nil, []net.IP{ip}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.Cert, key.Public(), a.Key)
	require.NoError(t, err)
	leaf, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, leaf
}

// Reissue issues a client certificate with exactly the given subject.
func (a *CA) Reissue(t *testing.T, subject pkix.RDNSequence) tls.Certificate {
	t.Helper()
	raw, err := asn1.Marshal(subject)
	require.NoError(t, err)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(3), RawSubject: raw, NotBefore: BubbleTime, NotAfter: BubbleTime.AddDate(99, 0, 0),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.Cert, key.Public(), a.Key)
	require.NoError(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func Relay(to, from net.Conn) {
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

// Listen serves a script on loopback until the test ends: TLS alerts need a connection with buffers, which a pipe lacks.
func Listen(t *testing.T, serve Script) string {
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

// Patience bounds the wait for what must happen in the end, so that a failing test ends. No test may pass because this time has passed.
const Patience = 5 * time.Minute

// Within is a context that ends after d, or with the test.
func Within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// NoneLeft requires that all present goroutines end, except those that opts ignore. (goleak allows them 0.4 s.)
func NoneLeft(t *testing.T, opts ...goleak.Option) {
	t.Helper()
	err := goleak.Find(opts...)
	for deadline := time.Now().Add(Patience); err != nil && time.Now().Before(deadline); {
		err = goleak.Find(opts...)
	}
	require.NoError(t, err)
}

// Closed closes a client, and requires that its server has confirmed the end of the session, unless that took longer than Close waits.
func Closed(t *testing.T, c io.Closer) {
	t.Helper()
	const politely = 900 * time.Millisecond // less than Close waits
	began := time.Now()
	if err := c.Close(); time.Since(began) < politely {
		require.NoError(t, err)
	}
}

// Refused requires that dial fails, and says why. The text of the error describes the last attempt. If that attempt had no time left,
// Refused dials again with more time. It returns the error.
func Refused(t *testing.T, dial func(connectTimeout time.Duration) error, why string) error {
	t.Helper()
	for limit := time.Second; ; limit *= 2 {
		err := dial(limit)
		require.Error(t, err)
		if strings.Contains(err.Error(), why) {
			return err
		}
		require.Less(t, limit, time.Minute, "want %q: %v", why, err)
	}
}

// exchangeLimit is more than every exchange of these tests takes, a pause before a reconnect included.
const exchangeLimit = 3 * time.Second

// Soon returns what ch brings, or fails when that takes too long.
func Soon[T any](t *testing.T, ch <-chan T, what string) (v T) {
	t.Helper()
	select {
	case v = <-ch:
	case <-time.After(exchangeLimit):
		require.Fail(t, "nothing happened within "+exchangeLimit.String(), what)
	}
	return v
}
