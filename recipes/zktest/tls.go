package zktest

import (
	"crypto/tls"
	"crypto/x509/pkix"
	"encoding/asn1"
	"net"
)

// WithTLS makes the server speak TLS on all its connections, TCP and pipe, like
// ZooKeeper's secureClientPort. It turns on the x509 scheme: a client that presents
// a certificate, for which cfg.ClientAuth asks, is authenticated by its subject.
func WithTLS(cfg *tls.Config) Option {
	return func(o *options) { o.tls, o.x509 = cfg, true }
}

// secure wraps an accepted connection, if there is a configuration.
func secure(nc net.Conn, cfg *tls.Config) net.Conn {
	if cfg == nil {
		return nc
	}
	return tls.Server(nc, cfg)
}

// certified finishes the TLS handshake, and returns the subject of the client's certificate, false if there is none.
func certified(nc net.Conn) (string, bool, error) {
	t, ok := nc.(*tls.Conn)
	if !ok {
		return "", false, nil
	}
	if err := t.Handshake(); err != nil {
		return "", false, err
	}
	certs := t.ConnectionState().PeerCertificates
	if len(certs) == 0 {
		return "", false, nil
	}
	name, err := subject(certs[0].RawSubject)
	return name, true, err
}

// subject renders a distinguished name as Java's X500Principal does: RFC 2253,
// the last part of the encoding first. Certificate.Subject.String changes the order
// of unusual names.
func subject(raw []byte) (string, error) {
	var rdns pkix.RDNSequence
	if _, err := asn1.Unmarshal(raw, &rdns); err != nil {
		return "", err
	}
	return rdns.String(), nil
}
