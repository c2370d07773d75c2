package examples

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/zktest"
	"github.com/locktree/locktree/recipes/zktest/realzk"
)

const recordedRun = "quickstart/RUN.md"

// The recorded run is what happens, on the in-memory server and on ZooKeeper
// itself: plan, apply, live resize, drift, a refused destroy.
func TestReadmeRecordedRun(t *testing.T) {
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
	t        *testing.T
	addr     string
	stdin    io.Writer
	lines    chan string
	commands int
	last     string   // command
	early    []string // what programs printed while a command ran
}

// prompt is printed by the shell when a command is done.
const prompt = "@@done@@"

func newRecorder(t *testing.T, addr string) *recorder {
	bin, err := binary()
	require.NoError(t, err)
	dir := t.TempDir()
	config, err := Quickstart.ReadFile("quickstart/locks.locktree.hcl")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "locks.locktree.hcl"), config, 0o644))

	shell := exec.CommandContext(t.Context(), "bash", "--norc")
	shell.Dir = dir
	shell.Env = environ(addr, "PATH="+bin+":"+os.Getenv("PATH"))
	shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // so that its programs can be ended with it
	stdin, err := shell.StdinPipe()
	require.NoError(t, err)
	out, w, err := os.Pipe()
	require.NoError(t, err)
	shell.Stdout, shell.Stderr = w, w
	require.NoError(t, shell.Start())
	require.NoError(t, w.Close())
	r := &recorder{t: t, addr: addr, stdin: stdin, lines: make(chan string)}
	ended := make(chan struct{})
	go func() {
		defer close(r.lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			select {
			case r.lines <- s.Text():
			case <-ended:
			}
		}
	}()
	t.Cleanup(func() {
		close(ended)
		_ = syscall.Kill(-shell.Process.Pid, syscall.SIGKILL)
		_ = shell.Wait() // killed
		out.Close()
	})
	return r
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
	r.last = command
	_, err := fmt.Fprintf(r.stdin, "%s\n__code=$?; echo; echo %s; (exit $__code)\n", command, prompt)
	require.NoError(r.t, err)
	open := map[string]bool{"command": true, "program": strings.HasSuffix(command, " &")}
	var b bytes.Buffer
	for open["command"] || open["program"] {
		switch line := r.line(); {
		case line == prompt:
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

// line is the next line the shell shows.
func (r *recorder) line() string {
	select {
	case line, ok := <-r.lines:
		require.True(r.t, ok, "the shell has ended")
		return line
	case <-time.After(hanging):
		require.Fail(r.t, "the shell says nothing any more", "last command: %s", r.last)
		return ""
	}
}

// steadyRun replaces what differs from run to run.
func steadyRun(addr, out string) string {
	out = steadyAt(addr, out)
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
