package examples_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/examples"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/zktest"
	"github.com/locktree/locktree/recipes/zktest/realzk"
)

const recordedRun = "quickstart/RUN.md"

// The recorded run is what happens, on the in-memory server and on ZooKeeper
// itself: plan, apply, live resize, drift, a refused destroy.
func TestReadmeRecordedRun(t *testing.T) {
	t.Parallel()
	servers := map[string]func(*testing.T) string{
		"in memory":        func(t *testing.T) string { return zktest.Start(t).Addr() },
		"Apache ZooKeeper": func(t *testing.T) string { return realzk.Start(t, realzk.Options{}).Addr },
	}
	for name, start := range servers {
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(recordedRun)
			require.NoError(t, err)
			r := newRecorder(t, start(t))
			got := r.page(string(text))
			require.Greater(t, r.commands, 15, "the page's commands were not recognised")
			if *update {
				require.NoError(t, os.WriteFile(recordedRun, []byte(got), 0o644))
				return
			}
			require.Equal(t, string(text), got, "%s is out of date: make readme", recordedRun)
		})
	}
}

// recorder types the commands of a page into a shell and writes down what it
// shows. What programs in the background print comes out between, as on a
// terminal.
type recorder struct {
	*shell
	addr     string
	commands int
	early    []string // what programs printed while a command ran
}

func newRecorder(t *testing.T, addr string) *recorder {
	dir := t.TempDir()
	config, err := examples.Quickstart.ReadFile("quickstart/locks.locktree.hcl")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "locks.locktree.hcl"), config, 0o644))
	return &recorder{shell: newShell(t, dir, environ(addr)), addr: addr}
}

var (
	console = regexp.MustCompile("(?ms)((?:^<!-- [^\n]+ -->\n)*)^```console\n(.*?)^```$")
	comment = regexp.MustCompile(`(?m)^<!-- (by hand|then): (.+) -->$`)
)

// page is the page with the output of its commands as it is now.
//
//	<!-- by hand: set PATH OLD NEW -->    before the commands, somebody changes a node
//	<!-- by hand: delete PATH -->
//	<!-- then: LINE -->                   behind the last command a program in the background prints that
func (r *recorder) page(text string) string {
	return console.ReplaceAllStringFunc(text, func(block string) string {
		m := console.FindStringSubmatch(block)
		then := ""
		for _, c := range comment.FindAllStringSubmatch(m[1], -1) {
			if c[1] == "then" {
				then = c[2]
				continue
			}
			r.byHand(strings.Fields(c[2]))
		}
		var b strings.Builder
		b.WriteString(m[1] + "```console\n")
		for line := range strings.Lines(m[2]) {
			if command, ok := strings.CutPrefix(line, "$ "); ok {
				b.WriteString(line + r.run(strings.TrimSpace(command)))
			}
		}
		if then != "" {
			line := append(r.early, "")[0]
			if r.early = nil; line == "" {
				line = r.line()
			}
			require.Equal(r.t, then, line)
			b.WriteString(then + "\n")
		}
		b.WriteString("```")
		return b.String()
	})
}

// run types one command. A program started in the background says one line:
// that it has a permit, or that it waits.
func (r *recorder) run(command string) string {
	r.commands++
	r.send(command)
	open := map[string]bool{"command": true, "program": strings.HasSuffix(command, " &")}
	var b bytes.Buffer
	for open["command"] || open["program"] {
		switch line := r.line(); {
		case strings.HasPrefix(line, prompt):
			open["command"] = false
		case strings.HasPrefix(line, "worker-") && !open["program"]:
			r.early = append(r.early, line) // of a program in the background, between the command's own
		case strings.HasPrefix(line, "worker-"):
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

// steadyRun replaces what differs from run to run.
func steadyRun(addr, out string) string {
	out = steadyAt(addr, out)
	out = regexp.MustCompile(`\S+/\d+ \S+:\d+ +since \S+ \(\S+\) +`).ReplaceAllString(out, "host-a/4121 10.0.0.7:40822  since 2026-11-02T08:00:00Z (0s)  ")
	out = regexp.MustCompile(`(session 0x[0-9a-f]+) +(connected)`).ReplaceAllString(out, "$1  $2")
	out = regexp.MustCompile(`0x[0-9a-f]{6,}`).ReplaceAllString(out, "0x100002a5c340000")
	out = regexp.MustCompile(`token \d+`).ReplaceAllString(out, "token 12")
	return regexp.MustCompile(`(for|  )\s*(\d+[hm])*\d+s\b`).ReplaceAllString(out, "${1} 0s")
}

// byHand is somebody with another client.
func (r *recorder) byHand(args []string) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), hanging)
	defer cancel()
	c, err := recipes.Dial(ctx, recipes.Config{Servers: []string{r.addr}, ConnectTimeout: hanging, SessionTimeout: 40 * time.Second})
	require.NoError(r.t, err)
	defer c.Close()
	s, err := c.Session(ctx)
	require.NoError(r.t, err)
	switch args[0] {
	case "set":
		data, stat, err := s.Get(ctx, args[1])
		require.NoError(r.t, err)
		require.Contains(r.t, string(data), args[2])
		_, err = s.Set(ctx, args[1], bytes.Replace(data, []byte(args[2]), []byte(args[3]), 1), stat.Version)
		require.NoError(r.t, err)
	case "delete":
		require.NoError(r.t, s.Delete(ctx, args[1], -1))
	default:
		require.Fail(r.t, "no such deed", args[0])
	}
}
