package conformance

import (
	"fmt"
	"net"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	"github.com/locktree/locktree/recipes/zktest"
)

// goldenVersion begins the version of the recorded servers, which is also zktest's default.
const goldenVersion = "3.8."

var saysVersion = regexp.MustCompile(`Zookeeper version: (\d+\.\d+\.\d+)`)

// newReference is the server whose answers are expected of another.
func newReference(opts ...zktest.Option) *zktest.Server {
	return zktest.New(append(opts, zktest.WithReapInterval(24*time.Hour))...)
}

// sequences numbers the roots of sequences within the process, so that one server can be given many. The number has a fixed width: nothing
// a server answers may depend on it.
var sequences atomic.Int64

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

// firstDifference compares two transcripts and shows where they part, with the lines before it.
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
