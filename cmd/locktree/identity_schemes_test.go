package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/cmd/locktree/internal/exit"
	"github.com/locktree/locktree/recipes/zktest"
)

// authority issues certificates into a directory, as the files NAME.pem and NAME.key, and NAME.both.pem for servers in Java.
type authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	a := &authority{t: t, dir: t.TempDir()}
	a.cert = &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	a.key, a.cert = a.issue("ca", pkix.Name{CommonName: "test authority"}, a.cert)
	return a
}

func (a *authority) path(name string) string { return filepath.Join(a.dir, name) }

func (a *authority) issue(name string, subject pkix.Name, template *x509.Certificate) (*ecdsa.PrivateKey, *x509.Certificate) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(a.t, err)
	template.Subject, template.SerialNumber, template.DNSNames = subject, big.NewInt(1), []string{"localhost"}
	template.NotBefore, template.NotAfter = time.Now().AddDate(-1, 0, 0), time.Now().AddDate(1, 0, 0)
	by, parent := a.key, a.cert
	if template.IsCA {
		by, parent = key, template
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), by)
	require.NoError(a.t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(a.t, err)
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(a.t, err)
	pems := func(kind string, der []byte) []byte { return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}) }
	for ending, text := range map[string][]byte{"pem": pems("CERTIFICATE", der), "key": pems("PRIVATE KEY", raw), "both.pem": append(pems("PRIVATE KEY", raw), pems("CERTIFICATE", der)...)} {
		require.NoError(a.t, os.WriteFile(a.path(name+"."+ending), text, 0o600))
	}
	return key, cert
}

func (a *authority) client(name string, subject pkix.Name) {
	a.issue(name, subject, &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
}

func (a *authority) server() *tls.Config {
	a.issue("server", pkix.Name{CommonName: "localhost"}, &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	pair, err := tls.LoadX509KeyPair(a.path("server.pem"), a.path("server.key"))
	require.NoError(a.t, err)
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert}
}

// byCertificate is a stack whose people have certificates: an administrator, a reader and a program.
var byCertificate = "variable \"ca\" {}\nvariable \"me\" {}\n" + oneLock + stackIn("shop",
	"  tls {\n    ca_file   = \"${var.ca}/ca.pem\"\n    cert_file = \"${var.ca}/${var.me}.pem\"\n    key_file  = \"${var.ca}/${var.me}.key\"\n  }\n",
	[]principal{{"sre", "x509", `CN=sre,OU=ops,O=Acme\, Inc.,C=DE`}}, []principal{{"auditor", "x509", "CN=auditor"}}, []principal{{"app", "x509", "CN=app"}})

// certificatesGrant checks that a client whose exact subject is granted rights is let in with those rights.
func certificatesGrant(t *testing.T, addr string, a *authority) {
	o := &office{folder: newFolder(t), addr: addr, root: "/certificates"}
	a.client("sre", pkix.Name{Country: []string{"DE"}, Organization: []string{"Acme, Inc."}, OrganizationalUnit: []string{"ops"}, CommonName: "sre"})
	for _, name := range []string{"auditor", "app", "stranger"} {
		a.client(name, pkix.Name{CommonName: name})
	}
	o.write("locks.locktree.hcl", byCertificate)
	as := func(who string, code int, says string, args ...string) {
		t.Helper()
		o.env = []string{"LOCKTREE_VAR_ca=" + a.dir, "LOCKTREE_VAR_me=" + who}
		text := o.must(code, nobodyIs, args...)
		require.Contains(t, text, says, "%s %v", who, args)
	}
	as("sre", exit.OK, "Apply complete!", "apply", "-auto-approve")
	as("sre", exit.OK, "No changes.", "plan", "-detailed-exitcode")
	as("sre", exit.OK, "holds   identity: we are x509:CN=sre,OU=ops,O=Acme\\, Inc.,C=DE, an administrator of this stack", "doctor")
	as("auditor", exit.OK, "No changes.", "plan", "-detailed-exitcode")
	as("auditor", exit.Own, "x509:CN=auditor", "exec", "/certificates/pay/ledger", "--", "true")
	as("app", exit.OK, "", "exec", "/certificates/pay/ledger", "--", "true")
	as("app", exit.Failed, "we do not have READ", "plan")
	as("stranger", exit.Failed, "x509:CN=stranger", "plan")
	as("stranger", exit.Own, "x509:CN=stranger", "exec", "/certificates/pay/ledger", "--", "true")
	as("auditor", exit.Failed, "x509:CN=auditor", "destroy", "-auto-approve")
	as("sre", exit.OK, "Destroy complete!", "destroy", "-auto-approve")

	// The forms that OpenSSL prints by default are refused. The error names the command that prints the accepted form.
	for _, form := range []string{"/C=DE/O=Acme, Inc./OU=ops/CN=sre", `C = DE, O = \"Acme, Inc.\", OU = ops, CN = sre`, `CN=sre, OU=ops, O=\"Acme, Inc.\", C=DE`} {
		o.write("locks.locktree.hcl", strings.Replace(byCertificate, `CN=sre,OU=ops,O=Acme\\, Inc.,C=DE`, form, 1))
		as("sre", exit.Failed, "openssl x509 -noout -subject -nameopt RFC2253", "validate")
	}
}

func TestCertificatesGrant(t *testing.T) {
	a := newAuthority(t)
	server := zktest.Start(t, zktest.WithTLS(a.server()))
	certificatesGrant(t, "localhost"+server.Addr()[strings.LastIndex(server.Addr(), ":"):], a)
}

// serversNames are principals of schemes in which only the servers know who we are: an address, a SASL name.
var serversNames = oneLock + strings.Replace(stackIn("shop", "", []principal{{"here", "ip", "127.0.0.1"}}, []principal{{"net", "ip", "127.0.0.0/8"}},
	[]principal{{"kafka", "sasl", "kafka/host.acme.org@ACME.ORG"}}), "acl \"users\" {\n", "acl \"users\" {\n  allow_lockout = true\n", 1)

// namesOfServers checks that a command asks the servers what only they can judge, and works where they grant it.
func namesOfServers(t *testing.T, o *office) {
	o.write("locks.locktree.hcl", serversNames)
	if o.server != nil { // it has no SASL, like servers that were not told about it
		require.Contains(t, o.must(exit.Failed, nobodyIs, "apply", "-auto-approve"), "the servers do not accept its access list")
		o.edit("locks.locktree.hcl", "sasl", "digest")
		o.edit("locks.locktree.hcl", "kafka/host.acme.org@ACME.ORG", zktest.DigestID("kafka:kafka"))
	}
	require.Contains(t, o.must(exit.OK, nobodyIs, "apply", "-auto-approve"), "Apply complete!")
	require.Contains(t, o.must(exit.OK, nobodyIs, "plan", "-detailed-exitcode"), "No changes.")
	require.Contains(t, o.must(exit.OK, nobodyIs, "doctor"), "unsure  identity: we are world:anyone; only the servers know whether we are also one of the administrators")
	o.must(exit.OK, nobodyIs, "destroy", "-auto-approve")
}

func TestNamesThatOnlyServersKnowGrant(t *testing.T) { namesOfServers(t, newOffice(t)) }

const saslAuth = "  auth \"sasl\" {\n    username = var.me\n    password = var.password\n  }\n"

var saslStack = "variable \"me\" {}\nvariable \"password\" {\n  sensitive = true\n}\n" + oneLock + principal{"new", "sasl", "new"}.block() +
	stackIn("shop", saslAuth, []principal{{"old", "sasl", "old"}}, nil, nil)

// saslOffice is a stack on a server that serves only clients that have logged in. as runs a command with the identity who.
func saslOffice(t *testing.T) (o *office, as func(who string, code int, says string, args ...string)) {
	server := zktest.Start(t, zktest.WithSASLRequired(), zktest.WithSASL(func(user string) string {
		return map[string]string{"old": "unsaid, old", "new": "unsaid, new"}[user]
	}))
	o = &office{folder: newFolder(t), addr: server.Addr(), server: server, root: "/t"}
	o.write("locks.locktree.hcl", saslStack)
	return o, func(who string, code int, says string, args ...string) {
		t.Helper()
		o.env = []string{"LOCKTREE_VAR_me=" + who, "LOCKTREE_VAR_password=unsaid, " + who}
		text := o.must(code, nobodyIs, args...)
		require.Contains(t, text, says, "%s %v", who, args)
		require.NotContains(t, text, "unsaid")
	}
}

// While an administrator is replaced, both are admitted, and at no moment is all access lost.
func TestAPrincipalOfSASLIsReplaced(t *testing.T) {
	o, as := saslOffice(t)
	as("old", exit.OK, "Apply complete!", "apply", "-auto-approve")
	as("old", exit.OK, "identity: we are sasl:old, an administrator of this stack", "doctor")
	as("new", exit.Failed, "The servers see this connection as sasl:new", "plan")
	o.edit("locks.locktree.hcl", "[principal.old]", "[principal.old, principal.new]")
	as("old", exit.OK, "Apply complete!", "apply", "-auto-approve")
	for _, who := range []string{"old", "new"} {
		as(who, exit.OK, "No changes.", "plan", "-detailed-exitcode")
	}
	o.edit("locks.locktree.hcl", "[principal.old, principal.new]", "[principal.new]")
	as("new", exit.OK, "Apply complete!", "apply", "-auto-approve")
	as("new", exit.OK, "No changes.", "plan", "-detailed-exitcode")
	as("old", exit.Failed, "The servers see this connection as sasl:old", "plan")
	as("new", exit.OK, "Destroy complete!", "destroy", "-auto-approve")
}

// A list that would lock us out is refused before anything is written, and a refused login names its user.
func TestAPrincipalOfSASLIsNotLockedOut(t *testing.T) {
	o, as := saslOffice(t)
	as("new", exit.Failed, "we are sasl:new, and the administrators declared in the ensemble block are sasl:old", "apply", "-auto-approve")
	o.edit("locks.locktree.hcl", "  admins = [principal.old]\n", "")
	as("new", exit.Failed, "Apply would lock itself out", "apply", "-auto-approve")
	as("new", exit.Failed, "Apply would lock itself out", "plan")
	_, there := o.server.Get("/t")
	require.False(t, there, "nothing was written")
	as("nobody", exit.Failed, "SASL login: authentication refused (code -124); check the password of nobody", "plan")
	as("nobody", exit.Failed, "check the password of nobody", "doctor")
}
