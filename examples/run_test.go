package examples_test

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// recorded is the page with recorded output, and with a program that a reader writes.
const recorded = "../docs/tutorial.md"

func TestReadmeRecordedRun(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, start func() string) {
		text, r := contents(t, recorded), newRecorder(t, start())
		got := r.page(text)
		require.Greater(t, r.commands, 15, "the page's commands were not recognised")
		if os.Getenv("GOLDEN") != "" {
			require.NoError(t, os.WriteFile(recorded, []byte(got), 0o644))
			return
		}
		require.Equal(t, text, got, "%s is out of date: make golden", recorded)
	})
}

// recorder types the commands of a page into a shell and records the output. The output of background programs comes in between, as on a
// terminal.
type recorder struct {
	*shell
	dir      string
	addr     string
	commands int
	early    []string // what programs printed while a command ran
}

func newRecorder(t *testing.T, addr string) *recorder {
	dir := t.TempDir()
	root, err := filepath.Abs("..")
	require.NoError(t, err)
	return &recorder{
		shell: newShell(t, dir, append(environ(addr), "CLONE="+root, "GOWORK=off", "GOPROXY=off", "GOSUMDB=off")), // nothing is downloaded
		dir:   dir, addr: addr,
	}
}

var (
	console = regexp.MustCompile("(?ms)((?:^<!-- [^\n]+ -->\n)*)^```(console|hcl|go)\n(.*?)^```$")
	printed = regexp.MustCompile(`^worker-\d (waits|works|has|gave)\b`)
	comment = regexp.MustCompile(`(?m)^<!-- (then|write): (.+) -->$`)
)

// page returns the page with the present output of its commands.
//
//	<!-- then: LINE -->                   after the last command, a background program prints LINE; several, in any order
//	<!-- write: PATH -->                  the block is written to a file
func (r *recorder) page(text string) string {
	return console.ReplaceAllStringFunc(text, func(block string) string {
		m := console.FindStringSubmatch(block)
		var then []string
		for _, c := range comment.FindAllStringSubmatch(m[1], -1) {
			switch c[1] {
			case "then":
				then = append(then, c[2])
			case "write":
				write(r.t, filepath.Join(r.dir, c[2]), m[3])
			}
		}
		if m[2] != "console" {
			return block
		}
		var b strings.Builder
		b.WriteString(m[1] + "```console\n")
		for line := range strings.Lines(m[3]) {
			if command, ok := strings.CutPrefix(line, "$ "); ok {
				b.WriteString(line + r.run(strings.TrimSpace(command)))
			}
		}
		for len(r.early) < len(then) {
			r.early = append(r.early, steadyRun(r.addr, r.line()))
		}
		require.ElementsMatch(r.t, then, r.early)
		r.early = nil
		for _, line := range then {
			b.WriteString(line + "\n")
		}
		b.WriteString("```")
		return b.String()
	})
}

// run types one command. A program started in the background prints one line: that it has a permit, or that it waits.
func (r *recorder) run(command string) string {
	r.commands++
	r.send(strings.ReplaceAll(command, "127.0.0.1:2181", r.addr))
	open := map[string]bool{"command": true, "program": strings.HasSuffix(command, " &")}
	var b bytes.Buffer
	for open["command"] || open["program"] {
		switch line := r.line(); {
		case strings.HasPrefix(line, prompt):
			open["command"] = false
		case printed.MatchString(line) && !open["program"]:
			r.early = append(r.early, steadyRun(r.addr, line)) // of a background program, between the command's own lines
		case printed.MatchString(line):
			open["program"] = false
			fallthrough
		default:
			b.WriteString(line + "\n")
		}
	}
	if out := strings.Trim(steadyRun(r.addr, b.String()), "\n"); out != "" {
		return out + "\n"
	}
	return ""
}

// steadyRun replaces text that differs from run to run.
func steadyRun(addr, out string) string {
	out = steadyAt(addr, out)
	out = regexp.MustCompile(`\S+/\d+ \S+:\d+ +since \S+ \(\S+\) +`).ReplaceAllString(out, "host-a/4121 10.0.0.7:40822  since 2026-11-02T08:00:00Z (0s)  ")
	out = regexp.MustCompile(`\S+/\d+, since [^\s,]+`).ReplaceAllString(out, "host-a/4121, since 2026-11-02T08:00:00Z")
	out = regexp.MustCompile(`(since 2026-11-02T08:00:00Z) \(\w+\)`).ReplaceAllString(out, "$1 (0s)")
	out = regexp.MustCompile(`(session 0x[0-9a-f]+) +(connected)`).ReplaceAllString(out, "$1  $2")
	out = regexp.MustCompile(`0x[0-9a-f]{6,}`).ReplaceAllString(out, "0x100002a5c340000")
	return regexp.MustCompile(`(for|  )\s*(\d+[hm])*\d+s\b`).ReplaceAllString(out, "${1} 0s")
}
