package conformance

import (
	"regexp"
	"strings"
	"testing"

	"github.com/locktree/locktree/recipes/zktest"
)

// goldenVersion begins the versions of the servers of which golden was recorded, and of which zktest is unless it is told otherwise.
const goldenVersion = "3.8."

var saysVersion = regexp.MustCompile(`Zookeeper version: (\d+\.\d+\.\d+)`)

// versionOf asks the server for its release.
func versionOf(t *testing.T, dial Dial) string {
	t.Helper()
	answer, err := Word(dial, "srvr")
	if err != nil {
		t.Fatalf("srvr: %v", err)
	}
	m := saysVersion.FindStringSubmatch(answer)
	if m == nil {
		t.Fatalf("the server does not say its version: %q", answer)
	}
	return m[1]
}

// as makes a reference of the server's release.
func as(t *testing.T, dial Dial) []zktest.Option {
	t.Helper()
	v := versionOf(t, dial)
	if strings.HasPrefix(v, goldenVersion) {
		return nil // as Debian builds it, whatever it says
	}
	return []zktest.Option{zktest.WithVersion(v)}
}
