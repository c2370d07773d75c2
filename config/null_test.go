package config_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/config"
)

// A required argument that was null failed without a message: the principal was dropped, with it
// the access list of the lock, and the plan gave the lock away to whoever applied it.
func TestNullIsNoValueForARequiredArgument(t *testing.T) {
	const (
		variable = "variable \"none\" { default = null }\n"
		settings = "locktree { stack = \"s\" }\n"
		ensemble = "ensemble \"main\" { servers = [\"zk:2181\"] }\n"
		who      = "principal \"p\" {\n  scheme = \"sasl\"\n  id     = \"p\"\n}\n"
	)
	list := func(allow string) string {
		return "acl \"a\" {\n  grant {\n    to    = [principal.p]\n    allow = " + allow + "\n  }\n}\nmutex \"m\" { acl = acl.a }\n"
	}
	auth := func(user, password string) string {
		return "ensemble \"main\" {\n  servers = [\"zk:2181\"]\n  auth \"digest\" {\n    username = " + user +
			"\n    password = " + password + "\n  }\n}\nmutex \"m\" {}\n"
	}
	for name, c := range map[string]struct{ src, want string }{
		"stack":     {"locktree { stack = var.none }\n" + auth(`"us"`, `"secret"`), "stack is null"},
		"scheme":    {settings + ensemble + "principal \"p\" {\n  scheme = var.none\n  id     = \"p\"\n}\n" + list(`"admin"`), "scheme is null"},
		"id":        {settings + ensemble + "principal \"p\" {\n  scheme = \"sasl\"\n  id     = var.none\n}\n" + list(`"admin"`), "needs an id"},
		"allow":     {settings + ensemble + who + list("var.none"), "allow is null"},
		"username":  {settings + auth("var.none", `"secret"`), "username is null"},
		"password":  {settings + auth(`"us"`, "var.none"), "password is null"},
		"path":      {settings + auth(`"us"`, `"secret"`) + "import {\n  to   = mutex.m\n  path = var.none\n}\n", "path is null"},
		"condition": {settings + "variable \"v\" {\n  default = 1\n  validation {\n    condition     = var.none\n    error_message = \"no\"\n  }\n}\n", "condition is null"},
	} {
		t.Run(name, func(t *testing.T) {
			_, diags := loadText(variable+c.src, config.Options{})
			require.Contains(t, summaries(diags), c.want)
			require.Len(t, diags.Errs(), 1)
		})
	}
}

// Where an argument has a default, null is that.
func TestNullIsTheDefaultOfAnOptionalArgument(t *testing.T) {
	c := mustLoad(t, `
principal "all" {
  scheme = "world"
  id     = null
}
acl "open" {
  allow_world = true
  grant {
    to    = [principal.all]
    allow = "lock"
  }
}
mutex "m" { acl = acl.open }
removed {
  from = mutex.gone
  lifecycle { destroy = null }
}
`)
	require.Equal(t, "anyone", c.Ensembles[0].Tree.Nodes[0].ACL[0].ID)
	require.True(t, c.Ensembles[0].Tree.Intent.Removals[0].Destroy)
}

func TestNullServersAreThoseOfTheEnvironment(t *testing.T) {
	c, diags := loadText("locktree { stack = \"s\" }\nensemble \"main\" { servers = null }\n", config.Options{Environ: []string{"ZOOKEEPER_SERVERS=zk:2181"}})
	require.False(t, diags.HasErrors(), "%v", diags)
	require.Equal(t, []string{"zk:2181"}, c.Ensembles[0].Servers)
}

func TestNullIsNoHalfOfACertificate(t *testing.T) {
	_, diags := loadText("locktree { stack = \"s\" }\nensemble \"main\" {\n  servers = [\"zk:2181\"]\n  tls {\n    cert_file = null\n    key_file  = \"k\"\n  }\n}\n", config.Options{})
	require.Contains(t, summaries(diags), "Half a certificate")
}

// Null beside another argument of its kind was "two passwords", and a principal that is null one that logs in. The name of no file was
// an empty password.
func TestNullIsNoSecondIdentityAndNoFileNoPassword(t *testing.T) {
	for auth, want := range map[string]string{
		`"sasl" { username = "u", password = null, password_file = "/p" }`:          "",
		`"sasl" { username = "u", password = null, password_file = null }`:          "password is null",
		`"sasl" { username = "u", password_file = null }`:                           "set password, or password_file",
		`"sasl" { username = "u", password_file = "" }`:                             "names no file",
		`"digest" { username = "u", password_file = "" }`:                           "names no file",
		`"kerberos" { keytab = null, ccache = "/c" }`:                               "",
		`"kerberos" { ccache = "/c", server_principal = "zk/h@R", service = null }`: "",
		`"kerberos" { keytab = "/k", principal = null }`:                            "set principal to the one that logs in",
	} {
		text := strings.NewReplacer("{ ", "{\n    ", ", ", "\n    ", " }", "\n  }").Replace(auth)
		_, diags := loadText("locktree { stack = \"s\" }\nensemble \"main\" {\n  servers = [\"zk:2181\"]\n  admins = [principal.p]\n  auth "+text+"\n}\nprincipal \"p\" {\n  scheme = \"sasl\"\n  id = \"p\"\n}\n", config.Options{})
		if want == "" {
			require.Empty(t, diags.Errs(), auth)
			continue
		}
		require.Len(t, diags.Errs(), 1, "%s: %s", auth, summaries(diags))
		require.Contains(t, summaries(diags), want, auth)
	}
}
