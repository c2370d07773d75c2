package conformance

import (
	_ "embed"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/locktree/locktree/recipes/zktest"
)

// Run plays the whole suite against one server. It compares the written scenarios with ZooKeeper's recorded answers, then random sequences
// with zktest. The server must be new, have extended types and quota enforcement on, and not reap containers meanwhile.
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

// Random plays random sequences from three sessions against the server, and against a zktest server of its release with the given options.
// It fails with the shortest sequence that it finds with different answers. The number of sequences is rapid's, 100 unless -rapid.checks
// says otherwise.
//
// The server must be new, without other writes meanwhile, even by its own container reaper: zxids are compared exactly.
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

// as returns the options for a reference of the server's release.
func as(t *testing.T, dial Dial) []zktest.Option {
	t.Helper()
	answer := Word(t, dial, "srvr")
	m := saysVersion.FindStringSubmatch(answer)
	switch {
	case m == nil:
		t.Fatalf("the server does not say its version: %q", answer)
	case strings.HasPrefix(m[1], goldenVersion):
		return nil // as Debian builds it, whatever it says
	}
	return []zktest.Option{zktest.WithVersion(m[1])}
}

// golden is what Apache ZooKeeper 3.8.0 (Debian 3.8.0-11+deb12u2) answered to
// the scripts and the handshakes. "GOLDEN=1 go test -run Golden" asks it again.
//
//go:embed testdata/golden.txt
var golden string

// Scripted plays the suite's written scenarios and its handshakes against the server. It compares every reply and event with
// ZooKeeper's recorded one; for a server of another release, with that of zktest as that release. The server must be a new one,
// with extended types and quota enforcement on.
func Scripted(t *testing.T, dial Dial) {
	t.Helper()
	want := parseGolden(golden)
	if other := as(t, dial); other != nil {
		ref := newReference(append(other, zktest.WithExtendedTypes(), zktest.WithQuotaEnforcement())...)
		defer ref.Close()
		want = parseGolden(formatGolden(record(t, pipe(ref))))
	}
	compared := 0
	for _, part := range record(t, dial) {
		t.Run(part.name, func(t *testing.T) {
			same, diff := firstDifference(part.lines, want[part.name])
			compared += same
			if diff != "" {
				t.Fatal(diff)
			}
		})
	}
	t.Logf("%d replies and events compared in %d scenarios", compared, len(want))
}

// part is one scenario's transcript.
type part struct {
	name  string
	lines []string
}

// record plays all scenarios and handshakes.
func record(t *testing.T, dial Dial) []part {
	t.Helper()
	var parts []part
	for i, s := range scripts() {
		lines, err := play(dial, fmt.Sprintf("/g%02d", i), s.ops)
		if err != nil {
			t.Fatalf("%s: %v; the server had said:\n%s", s.name, err, strings.Join(lines, "\n"))
		}
		parts = append(parts, part{s.name, lines})
	}
	return append(parts, part{"handshakes", handshakes(t, dial)})
}

// The file has a line "# name" before each transcript; lines that continue an entry are indented deeper than the start of any entry.
func formatGolden(parts []part) string {
	var b strings.Builder
	for _, p := range parts {
		fmt.Fprintf(&b, "# %s\n", p.name)
		for _, l := range p.lines {
			fmt.Fprintf(&b, "%s\n", l)
		}
	}
	return b.String()
}

func parseGolden(text string) map[string][]string {
	parts := map[string][]string{}
	name := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		rest, heading := strings.CutPrefix(line, "# ")
		switch {
		case heading:
			name = rest
			parts[name] = nil
		case strings.HasPrefix(line, "      "):
			last := len(parts[name]) - 1
			parts[name][last] += "\n" + line
		default:
			parts[name] = append(parts[name], line)
		}
	}
	return parts
}
