package zktest

import (
	"crypto/tls"
	"crypto/x509/pkix"
	"encoding/asn1"
)

// WithTLS makes the server speak TLS on all its connections, TCP and pipe, like ZooKeeper's secureClientPort. It turns on the
// x509 scheme: if cfg.ClientAuth asks for a certificate, a client that presents one is authenticated by its subject.
func WithTLS(cfg *tls.Config) Option {
	return func(o *options) { o.tls, o.x509 = cfg, true }
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
