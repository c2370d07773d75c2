package main

import (
	"html"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// servedPages is everything that serve answers to.
var servedPages = []string{
	"", "locks?show=all", "lock?ensemble=main&path=/t/pay/ledger", "lock?ensemble=main&path=" + ledgerPath, "waits", "drift", "doctor", "metrics", "api/v1/status", "healthz", "readyz", "nothing",
}

// pages asks for all of them, and fails when one shows a secret: in its headers, as it stands, or as a browser reads it.
func (c *canary) pages(s *served) (said string) {
	c.t.Helper()
	for _, path := range servedPages {
		resp, err := http.Get(s.url + path)
		require.NoError(c.t, err)
		var text strings.Builder
		require.NoError(c.t, resp.Header.Write(&text))
		require.NoError(c.t, resp.Write(&text))
		resp.Body.Close()
		require.Empty(c.t, leak(text.String()+html.UnescapeString(text.String()), shown), "%s shows a secret:\n%s", path, text.String())
		require.NotContains(c.t, text.String(), "panic", path)
		said += text.String()
	}
	return said
}

// No page shows the secret, with all that it shows seen, nor while it cannot see anything.
func TestNoPageShowsASecret(t *testing.T) {
	c := newCanary(t)
	c.prepare()
	c.hold("/t/pay/ledger")
	s := startServe(t, c.dir, c.env, "-drift-interval=1s")
	s.until("drift", "Plan: 0 to add, 1 to change, 0 to destroy.")
	s.until("doctor", "session timeout")
	s.until("locks", "1 held")
	require.Contains(t, c.pages(s), "/t/pay/ledger")
	c.server.RefuseDials(true)
	for _, x := range c.server.Sessions() {
		c.server.Expire(x.ID)
	}
	s.until("", "stale")
	s.until("doctor", `class="bad"`)
	c.pages(s)
	require.Empty(t, leak(s.said(), shown), s.said())
}

func TestNoPageShowsASecretThatIsWrong(t *testing.T) {
	for name, seen := range map[string][2]string{
		"wrong password": {"", `<span class="bad">`}, "no right to read": {"", `<span class="bad">`}, "no right to connect": {"", `<span class="bad">`},
		"damaged index": {"drift", "damaged"}, "damaged node": {"drift", "damaged"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCanary(t)
			c.prepare()
			canaryFailures[name].make(c)
			s := startServe(t, c.dir, c.env, "-drift-interval=1s")
			s.until(seen[0], seen[1])
			c.pages(s)
			require.Empty(t, leak(s.said(), shown), s.said())
		})
	}
}
