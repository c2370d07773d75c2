package recipes

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/require"
)

// The bug zoo: files of ../testdata/zoo, each a small edit that makes this package wrong in a way that some client of
// ZooKeeper or etcd was, with the tests that notice. A test that passes with a wrong queue is no test. The edits reach
// the compiler through -overlay only, so production code has no switch for them and nothing wrong is ever built.
//
// A file is a txtar archive. Its comment has the lines
//
//	wrong: what the variant does
//	seen: where it was seen
//	caught: names of tests, each of which must fail with the variant and pass without
//
// and its files come in pairs, "recipes/x.go: was" and "recipes/x.go: is": a text that stands exactly once in that
// file, and what replaces it.
const zooDir = "../testdata/zoo"

// zooTimeout is the child's own. What it runs takes a second or two: only a variant that runs in circles counts as hung.
const zooTimeout = 5 * time.Minute

// variant is one exhibit.
type variant struct {
	name   string
	wrong  string
	seen   string
	caught []string
	crash  bool              // it brings the process down: a panic in go-zookeeper's goroutines, which no test can fail by
	files  map[string]string // by real path: edited contents
}

// loadVariant reads an exhibit and applies its edits; an error says which one does not fit any more.
func loadVariant(file string) (*variant, error) {
	archive, err := txtar.ParseFile(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	v := &variant{name: strings.TrimSuffix(filepath.Base(file), ".txtar"), files: map[string]string{}}
	for line := range strings.Lines(string(archive.Comment)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch key {
		case "wrong":
			v.wrong = value
		case "seen":
			v.seen = value
		case "caught":
			v.caught = append(v.caught, strings.Fields(value)...)
		case "crash":
			v.crash = true
		default:
			return nil, fmt.Errorf("%s: unknown line %q", v.name, line)
		}
	}
	if v.wrong == "" || v.seen == "" || len(v.caught) == 0 || len(archive.Files) == 0 || len(archive.Files)%2 != 0 {
		return nil, fmt.Errorf("%s: an exhibit needs wrong, seen, caught, and pairs of was and is", v.name)
	}
	for pair := range slices.Chunk(archive.Files, 2) {
		if err := v.edit(pair[0], pair[1]); err != nil {
			return nil, err
		}
	}
	return v, nil
}

func (v *variant) edit(was, is txtar.File) error {
	name, ok := strings.CutSuffix(was.Name, ": was")
	if !ok || is.Name != name+": is" {
		return fmt.Errorf("%s: %q and %q are no pair", v.name, was.Name, is.Name)
	}
	path, err := filepath.Abs(filepath.Join("..", name))
	if err != nil {
		return err
	}
	text, edited := v.files[path]
	if !edited {
		b, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("%s: %w", v.name, err)
		}
		text = string(b)
	}
	old := strings.TrimSuffix(string(was.Data), "\n")
	if n := strings.Count(text, old); n != 1 {
		return fmt.Errorf("%s: the text to edit stands %d times in %s, must be once; the code has changed: make the exhibit wrong in the new code in the same way:\n%s",
			v.name, n, name, old)
	}
	v.files[path] = strings.Replace(text, old, strings.TrimSuffix(string(is.Data), "\n"), 1)
	return nil
}

// zoo builds and runs test binaries.
type zoo struct {
	t     *testing.T
	dir   string
	blank []string // test files left out: those of the external test package take time and notice nothing in fake time

	mu    sync.Mutex
	table []string
}

func newZoo(t *testing.T) *zoo {
	z := &zoo{t: t, dir: t.TempDir()}
	files, err := filepath.Glob("*_test.go")
	require.NoError(t, err)
	for _, f := range files {
		b, err := os.ReadFile(f)
		require.NoError(t, err)
		if strings.Contains(string(b), "\npackage recipes_test\n") || strings.HasPrefix(string(b), "package recipes_test\n") {
			path, err := filepath.Abs(f)
			require.NoError(t, err)
			z.blank = append(z.blank, path)
		}
	}
	return z
}

// build compiles the package's tests with the edited files in the place of the real ones.
func (z *zoo) build(t *testing.T, name string, files map[string]string) (binary string) {
	t.Helper()
	replace := map[string]string{}
	for _, path := range z.blank {
		replace[path] = ""
	}
	for path, text := range files {
		edited := filepath.Join(z.dir, name+"-"+filepath.Base(path))
		require.NoError(t, os.WriteFile(edited, []byte(text), 0o600))
		replace[path] = edited
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	require.NoError(t, err)
	config := filepath.Join(z.dir, name+".json")
	require.NoError(t, os.WriteFile(config, overlay, 0o600))
	binary = filepath.Join(z.dir, name+".test")
	// Without optimisation and symbols: it is compiled once for each exhibit, and runs in fake time.
	out, err := exec.CommandContext(t.Context(), "nice", "-n", "10", "go", "test", "-c", "-vet=off", "-overlay", config, "-gcflags=-N -l", "-ldflags=-s -w", "-o", binary, ".").CombinedOutput()
	require.NoError(t, err, "%s does not compile:\n%s", name, out)
	return binary
}

// run runs named tests, and only those, in a process of their own.
func (z *zoo) run(t *testing.T, binary string, tests ...string) (out string, passed bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), zooTimeout+time.Minute)
	defer cancel()
	pattern := "^(" + strings.Join(tests, "|") + ")$"
	// Beside tests on real servers, in real time, the zoo is in no hurry.
	cmd := exec.CommandContext(ctx, "nice", "-n", "10", binary, "-test.run", pattern, "-test.skip", "^TestZoo", "-test.v", "-test.timeout", zooTimeout.String())
	b, err := cmd.CombinedOutput()
	require.NoError(t, ctx.Err(), "the child did not even obey its own timeout")
	return string(b), err == nil
}

// howItFailed says what ended a failed run. A bubble whose test has failed may end in a deadlock of what the test left
// behind: the assertion counts.
func howItFailed(out string) string {
	switch {
	case strings.Contains(out, "Error Trace:"):
		return "assertion"
	case strings.Contains(out, "panic: test timed out after"):
		return "hang"
	case strings.Contains(out, "panic: deadlock: "):
		return "deadlock"
	case strings.Contains(out, "panic: ") || strings.Contains(out, "fatal error: "):
		return "crash"
	default:
		return "unknown"
	}
}

// exhibit requires that each of the variant's tests fails with it.
func (z *zoo) exhibit(t *testing.T, v *variant) {
	binary := z.build(t, v.name, v.files)
	defer os.Remove(binary)
	for _, test := range v.caught {
		start := time.Now()
		out, passed := z.run(t, binary, test)
		require.False(t, passed, "nobody noticed that %s (%s): %s passes\n%s", v.wrong, v.seen, test, out)
		how := howItFailed(out)
		if how == "crash" && !v.crash || how == "unknown" {
			require.Failf(t, "not caught by a test", "%s ended in %s:\n%s", test, how, out)
		}
		z.mu.Lock()
		z.table = append(z.table, fmt.Sprintf("%-36s %-75s %-9s %5.1f s", v.name, test, how, time.Since(start).Seconds()))
		z.mu.Unlock()
	}
}

// control requires that the tests pass on the right code: one that fails anyway catches nothing.
func (z *zoo) control(t *testing.T, all []*variant) {
	var tests []string
	for _, v := range all {
		tests = append(tests, v.caught...)
	}
	slices.Sort(tests)
	tests = slices.Compact(tests)
	out, passed := z.run(t, z.build(t, "control", nil), tests...)
	require.True(t, passed, "tests that must notice wrong variants fail without one:\n%s", out)
	for _, test := range tests {
		require.Contains(t, out, "--- PASS: "+test+" ", "an exhibit names a test that does not exist")
	}
}

func TestZooSaysWhichExhibitNoLongerFits(t *testing.T) {
	const head = "wrong: w\nseen: s\ncaught: TestX\n"
	for _, c := range []struct{ text, want string }{
		{head + "-- recipes/queue.go: was --\nno such text\n-- recipes/queue.go: is --\n", "stands 0 times in recipes/queue.go"},
		{head + "-- recipes/queue.go: was --\nreturn\n-- recipes/queue.go: is --\n", "times in recipes/queue.go, must be once"},
		{head + "-- recipes/none.go: was --\nx\n-- recipes/none.go: is --\n", "none.go"},
		{head + "-- recipes/queue.go: was --\nx\n-- recipes/local.go: is --\n", "no pair"},
		{head, "pairs of was and is"},
		{"wrong: w\n", "needs wrong, seen, caught"},
		{"wrnog: w\n", "unknown line"},
	} {
		file := filepath.Join(t.TempDir(), "exhibit.txtar")
		require.NoError(t, os.WriteFile(file, []byte(c.text), 0o600))
		_, err := loadVariant(file)
		require.ErrorContains(t, err, c.want)
		require.ErrorContains(t, err, "exhibit")
	}
}

func TestZoo(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(zooDir, "*.txtar"))
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(files), 20)
	z := newZoo(t)
	start := time.Now()
	var all []*variant
	for _, file := range files {
		v, err := loadVariant(file)
		if err != nil {
			t.Error(err) // and the others are shown all the same
			continue
		}
		all = append(all, v)
	}
	t.Cleanup(func() {
		slices.SortFunc(z.table, cmp.Compare)
		t.Logf("%d variants, %.0f s\n%s", len(all), time.Since(start).Seconds(), strings.Join(z.table, "\n"))
	})
	t.Run("control", func(t *testing.T) {
		t.Parallel()
		z.control(t, all)
	})
	for _, v := range all {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			z.exhibit(t, v)
		})
	}
}
