package conformance

import (
	_ "embed"
	"fmt"
	"strings"
	"testing"

	"github.com/locktree/locktree/recipes/zktest"
)

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

// record plays everything Scripted knows.
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

// The file has a line "# name" before each transcript; lines that continue an entry are indented deeper than any entry begins.
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
