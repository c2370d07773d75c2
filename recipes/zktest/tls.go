package zktest

import (
	"crypto/tls"
	"crypto/x509/pkix"
	"encoding/asn1"

	"github.com/locktree/locktree/recipes/zktest/internal/store"
)

// WithTLS makes the server speak TLS on all its connections, TCP and pipe, like ZooKeeper's secureClientPort. It turns on the
// x509 scheme: if cfg.ClientAuth asks for a certificate, a client that presents one is authenticated by its subject.
func WithTLS(cfg *tls.Config) Option {
	return func(o *options) { o.tls, o.x509 = cfg, true }
}

// identify finishes the TLS handshake, and adds the identity of the client's certificate, if it has one.
func (c *conn) identify() error {
	t, ok := c.nc.(*tls.Conn)
	if !ok {
		return nil
	}
	if err := t.Handshake(); err != nil {
		return err
	}
	certs := t.ConnectionState().PeerCertificates
	if len(certs) == 0 {
		return nil
	}
	name, err := subject(certs[0].RawSubject)
	if err != nil {
		return err
	}
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	c.ids = append(c.ids, store.Identity{Scheme: "x509", ID: name})
	return nil
}

// subject renders a distinguished name as Java's X500Principal does: RFC 2253, the last part of the encoding first.
// Certificate.Subject.String changes the order of unusual names.
func subject(raw []byte) (string, error) {
	var rdns pkix.RDNSequence
	if _, err := asn1.Unmarshal(raw, &rdns); err != nil {
		return "", err
	}
	return rdns.String(), nil
}
