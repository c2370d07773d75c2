package main

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/zktest"
)

// What anybody may write into names and data below a prefix is text on every page, in the metrics and in JSON.
func TestServeShowsHostileNodesAsText(t *testing.T) {
	const script = `<img src=x onerror=alert(1)>`
	srv := zktest.Start(t)
	c := dialTest(t, srv, script+"\x1b[2J\u202e")
	session, err := c.Session(t.Context())
	require.NoError(t, err)
	dirs := []string{"/" + script, "/\u202eevil\u2066", "/'\"&amp;`$(reboot)", "/x?path=y#z%00"}
	for _, dir := range dirs {
		require.NoError(t, srv.Create(dir, nil))
		for _, data := range []string{script, "a\x00b", "\xff\xfe", strings.Repeat("long", 100_000), `{"id":"</td><script>alert(2)</script>\u202e","host":"` + script + `","since":"9999-12-31T23:59:59Z"}`, `{"id":1e999}`, "null", "__REVOKE__"} {
			for _, name := range []string{script + "__lock__", "_c_c1b6c28f-8e12-4ab7-a6dc-1b4c9a35f8a1-lock-"} {
				_, err := session.Create(t.Context(), dir+"/"+name, []byte(data), zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
				require.NoError(t, err)
			}
		}
		require.NoError(t, srv.Create(dir+"/"+script, []byte(script)))
	}
	env := []string{"NO_COLOR=1", "ZOOKEEPER_SESSION=40", "ZOOKEEPER_SERVERS=" + srv.Addr()}
	s := startServe(t, t.TempDir(), env, "-servers="+srv.Addr(), "-drift-interval=10s")
	s.until("locks", "4 in use")
	s.until("doctor", "session timeout")
	for _, path := range []string{"", "locks", "locks?q=%3Cimg", "lock?ensemble=environment&path=%2F%3Cimg+src%3Dx+onerror%3Dalert%281%29%3E", "waits", "drift", "doctor", "metrics", "nothing/" + script} {
		_, page := s.get(path)
		require.True(t, utf8.ValidString(page), path)
		if path != "metrics" {
			require.NotContains(t, page, "<img", path)
			require.NotContains(t, page, "<script>", path)
		}
		for _, r := range page {
			require.True(t, r == '\n' || unicode.IsPrint(r), "%s: %q", path, r)
		}
	}
	_, page := s.get("locks?show=all")
	require.Contains(t, page, "&lt;img src=x onerror=alert(1)&gt;")
	_, status := s.get("api/v1/status")
	require.True(t, json.Valid([]byte(status)))
	require.Contains(t, s.until("lock?ensemble=environment&path=%2F%3Cimg+src%3Dx+onerror%3Dalert%281%29%3E", "Who holds it"), "&lt;img")
}
