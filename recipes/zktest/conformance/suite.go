package conformance

import (
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/locktree/locktree/recipes/zktest"
)

// Run is the whole suite against one server: the written scenarios against what
// ZooKeeper answered to them, then random sequences against zktest. It takes a
// new server that has extended types and quota enforcement on and is not about
// to reap containers.
func Run(t *testing.T, dial Dial) {
	t.Helper()
	ref := newReference(append(as(t, dial), zktest.WithExtendedTypes(), zktest.WithQuotaEnforcement())...)
	defer ref.Close()
	t.Run("scripted", func(t *testing.T) {
		Scripted(t, dial)
		record(t, pipe(ref)) // so that both have the same past
	})
	t.Run("random", func(t *testing.T) { random(t, dial, ref) })
}

// newReference is the server whose answers are expected of another.
func newReference(opts ...zktest.Option) *zktest.Server {
	return zktest.New(append(opts, zktest.WithReapInterval(24*time.Hour))...)
}

// sequences numbers the roots of sequences within the process, so that one
// server can be given many. The number has a fixed width: nothing a server
// answers may depend on it.
var sequences atomic.Int64

// Random plays randomly generated sequences from three sessions against the
// server and against a zktest server of its release started with the given options, and fails
// with the shortest sequence it finds that the two answer differently. The
// number of sequences is rapid's, 100 unless -rapid.checks says otherwise.
//
// It must be a new server, and nothing else may write to it meanwhile, not even its own reaper of
// containers: zxids are compared exactly.
func Random(t *testing.T, dial Dial, reference ...zktest.Option) {
	t.Helper()
	ref := newReference(append(as(t, dial), reference...)...)
	defer ref.Close()
	random(t, dial, ref)
}

func random(t *testing.T, dial Dial, ref *zktest.Server) {
	t.Helper()
	compared, played := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		ops := genSequence(t)
		n, err := Compare(dial, pipe(ref), ops)
		compared, played = compared+n, played+1
		if err != nil {
			t.Fatal(err)
		}
	})
	t.Logf("%d replies and events compared in %d random sequences", compared, played)
}

// Compare plays one sequence against two servers. It returns how many replies
// and events were the same and an error that shows the first that was not.
func Compare(got, want Dial, ops []Op) (int, error) {
	root := fmt.Sprintf("/q%08d", sequences.Add(1))
	a, errA := play(got, root, ops)
	b, errB := play(want, root, ops)
	n, diff := firstDifference(a, b)
	switch {
	case errA != nil:
		return n, fmt.Errorf("the server under test: %w; it had said:\n%s", errA, strings.Join(a, "\n"))
	case errB != nil:
		return n, fmt.Errorf("the reference: %w; it had said:\n%s", errB, strings.Join(b, "\n"))
	case diff != "":
		return n, fmt.Errorf("%s", diff)
	}
	return n, nil
}

// firstDifference compares two transcripts and shows where they part, with what
// led there.
func firstDifference(got, want []string) (same int, diff string) {
	for i := range max(len(got), len(want)) {
		g, w := "(nothing more)", "(nothing more)"
		if i < len(got) {
			g = got[i]
		}
		if i < len(want) {
			w = want[i]
		}
		if g != w {
			return i, fmt.Sprintf("after\n%s\nthe server said\n   %s\nand the reference\n   %s",
				strings.Join(got[max(0, i-12):min(i, len(got))], "\n"), g, w)
		}
	}
	return len(got), ""
}

func pipe(s *zktest.Server) Dial {
	return func() (net.Conn, error) { return s.Dialer()("tcp", "zktest", time.Second) }
}

// TCP dials an address.
func TCP(addr string) Dial {
	return func() (net.Conn, error) { return net.DialTimeout("tcp", addr, patience) }
}
