package config_test

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/config"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/zktest"
)

// The package's example dialled with servers, timeouts and identities, but without the encryption: passwords went over the network in
// clear.
func TestDialTakesAllThatTheEnsembleBlockSays(t *testing.T) {
	web := httptest.NewTLSServer(http.NotFoundHandler())
	defer web.Close()
	srv := zktest.Start(t, zktest.WithTLS(&tls.Config{Certificates: web.TLS.Certificates}))
	dir := t.TempDir()
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: web.Certificate().Raw})
	require.NoError(t, os.WriteFile(filepath.Join(dir, "ca.pem"), authority, 0o600))
	load := func(encryption string) *config.Ensemble {
		src := "locktree { stack = \"s\" }\nensemble \"main\" {\nservers = [\"" + srv.Addr() + "\"]\nsession_timeout = \"40s\"\nconnect_timeout = \"60s\"\n" + encryption + "\n" +
			"auth \"digest\" {\nusername = \"us\"\npassword = env(\"PASSWORD\")\n}\n}\n"
		require.NoError(t, os.WriteFile(filepath.Join(dir, "a.locktree.hcl"), []byte(src), 0o600))
		c, diags := config.Load(dir, config.Options{Environ: testEnviron})
		require.Empty(t, diags)
		return c.Ensembles[0]
	}
	client, err := load("tls { ca_file = \"ca.pem\" }").Dial(t.Context(), recipes.Config{ConnectTimeout: time.Nanosecond})
	require.NoError(t, err)
	defer client.Close()
	_, err = client.Session(t.Context())
	require.NoError(t, err)
	require.Equal(t, config.DigestID("us", "correct horse"), client.Identities()[1].ID)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = load("tls { ca_file = \"gone.pem\" }").Dial(ctx, recipes.Config{})
	var wrong *hcl.Diagnostic
	require.ErrorAs(t, err, &wrong, "nothing is dialled without it")
	require.Contains(t, wrong.Detail, "gone.pem")
	require.Equal(t, filepath.Join(dir, "a.locktree.hcl"), wrong.Subject.Filename)
}

// A device was read without end.
func TestAFileOfSecretsIsARegularFile(t *testing.T) {
	for _, tls := range []config.TLS{{CAFile: "/dev/zero"}, {CertFile: "/dev/zero", KeyFile: "/dev/null"}} {
		_, err := (&config.Ensemble{Servers: []string{"zk:1"}, TLS: &tls}).ClientConfig(recipes.Config{})
		require.ErrorContains(t, err, "/dev/zero: not a regular file")
	}
	login := &config.Ensemble{Servers: []string{"zk:1"}, Login: &config.Login{User: "u", PasswordFile: "/dev/zero"}}
	_, err := login.ClientConfig(recipes.Config{})
	require.ErrorContains(t, err, "/dev/zero: not a regular file")
	_, diags := loadText(strings.Replace(preamble, `password = env("PASSWORD")`, `password_file = "/dev/zero"`, 1), config.Options{})
	require.Contains(t, summaries(diags), "/dev/zero: not a regular file")
}

// The program sets only what the block leaves open.
func TestAClientIsConfiguredByTheEnsembleFirst(t *testing.T) {
	with := recipes.Config{Servers: []string{"other:1"}, SessionTimeout: time.Minute, Auth: []recipes.Auth{{Scheme: "digest", Credentials: "a:b"}}, TLS: &tls.Config{}, ReadOnly: true}
	cfg, err := (&config.Ensemble{}).ClientConfig(with)
	require.NoError(t, err)
	require.Equal(t, with, cfg)

	own := &config.Ensemble{Servers: []string{"zk:1"}, SessionTimeout: time.Second, Auth: []recipes.Auth{{Scheme: "digest", Credentials: "c:d"}}, TLS: &config.TLS{ServerName: "zk"}}
	cfg, err = own.ClientConfig(with)
	require.NoError(t, err)
	require.Equal(t, own.Servers, cfg.Servers)
	require.Equal(t, own.SessionTimeout, cfg.SessionTimeout)
	require.Equal(t, own.Auth, cfg.Auth)
	require.True(t, cfg.ReadOnly)
	secure, err := cfg.GetTLS()
	require.NoError(t, err)
	require.Equal(t, "zk", secure.ServerName)
	require.False(t, secure.InsecureSkipVerify)

	_, err = (&config.Ensemble{Name: "main"}).ClientConfig(recipes.Config{})
	require.ErrorContains(t, err, "ZOOKEEPER_SERVERS")
}

// An ensemble block can say the id, the auth_name and the DNS name of its ensemble.
func TestAnEnsembleSaysWhichItIs(t *testing.T) {
	load := func(args string) (*config.Ensemble, hcl.Diagnostics) {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "a.locktree.hcl"), []byte("locktree { stack = \"s\" }\nensemble \"main\" {\n"+args+"\n}\n"), 0o600))
		c, diags := config.Load(dir, config.Options{})
		if diags.HasErrors() {
			return nil, diags
		}
		return c.Ensembles[0], nil
	}
	const id = "0123456789abcdef0123456789abcdef"
	e, diags := load("servers = [\"dns-srv://_zookeeper._tcp.example.com\", \"[::1]:2181\"]\nid = \"" + id + "\"\nauth_name = \"prod\"")
	require.Empty(t, diags)
	require.Equal(t, id, e.Tree.EnsembleID)
	cfg, err := e.ClientConfig(recipes.Config{Auth: []recipes.Auth{{Scheme: "digest", Credentials: "a:b"}}})
	require.NoError(t, err)
	require.Equal(t, []recipes.Auth{{Scheme: "ensemble", Credentials: "prod"}, {Scheme: "digest", Credentials: "a:b"}}, cfg.Auth)

	_, diags = load(`id = "prod"`)
	require.ErrorContains(t, diags, "32 hexadecimal digits")
	for _, server := range []string{"dns-srv://", "dns-srv://a:1", "dns-srv://a/b"} {
		_, diags = load(`servers = ["` + server + `"]`)
		require.ErrorContains(t, diags, "dns-srv://_zookeeper._tcp.example.com", server)
	}
}
