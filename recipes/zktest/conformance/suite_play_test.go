package conformance

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/locktree/locktree/recipes/zktest"
)

// Run is the whole suite against one server: the written scenarios against what ZooKeeper answered to them, then random sequences against
// zktest. It takes a new server that has extended types and quota enforcement on and is not about to reap containers.
func Run(t *testing.T, dial Dial) {
	t.Helper()
	ref := newReference(append(as(t, dial), zktest.WithExtendedTypes(), zktest.WithQuotaEnforcement())...)
	defer ref.Close()
	t.Run("scripted", func(t *testing.T) {
		Scripted(t, dial)
		record(t, pipe(ref)) // so that both have the same past
	})
	t.Run("random", func(t *testing.T) { random(t, dial, pipe(ref)) })
}

// Random plays random sequences from three sessions against the server, and against a zktest server of its release with the given
// options. It fails with the shortest sequence it finds that the two answer differently. The number of sequences is rapid's, 100
// unless -rapid.checks says otherwise.
//
// It must be a new server without other writes meanwhile, even of its own reaper of containers: zxids are compared exactly.
func Random(t *testing.T, dial Dial, reference ...zktest.Option) {
	t.Helper()
	ref := newReference(append(as(t, dial), reference...)...)
	defer ref.Close()
	random(t, dial, pipe(ref))
}

func random(t *testing.T, dial, reference Dial) {
	t.Helper()
	compared, played := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		ops := genSequence(t)
		n, err := Compare(dial, reference, ops)
		compared, played = compared+n, played+1
		if err != nil {
			t.Fatal(err)
		}
	})
	t.Logf("%d replies and events compared in %d random sequences", compared, played)
}

// as makes a reference of the server's release.
func as(t *testing.T, dial Dial) []zktest.Option {
	t.Helper()
	answer, err := Word(dial, "srvr")
	if err != nil {
		t.Fatalf("srvr: %v", err)
	}
	m := saysVersion.FindStringSubmatch(answer)
	switch {
	case m == nil:
		t.Fatalf("the server does not say its version: %q", answer)
	case strings.HasPrefix(m[1], goldenVersion):
		return nil // as Debian builds it, whatever it says
	}
	return []zktest.Option{zktest.WithVersion(m[1])}
}
