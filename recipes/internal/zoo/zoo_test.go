package zoo_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/internal/harness"
	"github.com/locktree/locktree/recipes/zktest/effort"
)

// The bug zoo: files of testdata/zoo, each a small edit that makes the recipes wrong in a way that some client of
// ZooKeeper or etcd was, with the tests that notice. A test that passes with a wrong queue is no test. The edits reach
// the compiler through -overlay only, so production code has no switch for them and nothing wrong is ever built.
//
// A file is a txtar archive. Its comment has the lines
//
//	wrong: what the variant does
//	seen: where it was seen
//	caught: names of tests, each of which must fail with the variant and pass without
//	crash: why, if it ends the process in a goroutine that no test can fail by
//
// and its files come in pairs, "was in FUNCTION" and "is": code that stands exactly once in that function, and what replaces
// it. edit_test.go says how it is found.
const zooDir = "../../../testdata/zoo"

// recipesDir has the code that exhibits make wrong, and their tests.
const recipesDir = "../.."

// zooTimeout is the child's own. What it runs takes a second or two: only a variant that runs in circles counts as hung.
const zooTimeout = 10 * time.Minute

// variant is one exhibit.
type variant struct {
	name   string
	wrong  string
	seen   string
	caught []string
	crash  bool
	bodies map[*source][]insertion
}

// loadVariant reads an exhibit and finds the code that it edits; an error says which one does not fit any more.
func loadVariant(code []*source, file string) (*variant, error) {
	archive, err := txtar.ParseFile(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	v := &variant{name: strings.TrimSuffix(filepath.Base(file), ".txtar"), bodies: map[*source][]insertion{}}
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
	edits := map[*source][]edit{}
	for pair := range slices.Chunk(archive.Files, 2) {
		within, named := strings.CutPrefix(pair[0].Name, "was in ")
		if !named || pair[1].Name != "is" {
			return nil, fmt.Errorf(`%s: %q and %q are no pair of "was in FUNCTION" and "is"`, v.name, pair[0].Name, pair[1].Name)
		}
		e, err := locate(code, string(pair[0].Data), strings.TrimSuffix(string(pair[1].Data), "\n"), within)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", v.name, err)
		}
		edits[e.in] = append(edits[e.in], e)
	}
	for s, es := range edits {
		text, err := apply(s, es)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", v.name, err)
		}
		if v.bodies[s], err = variantOf(s, v.name, text); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// zoo builds test binaries, one for each package that has a test which notices something, and runs them.
type zoo struct {
	dir    string
	binary map[string]string // by name of a test
	pkg    map[string]string // whose directory a binary's tests run in

	mu    sync.Mutex
	table []string
}

// newZoo compiles everything: all exhibits in the places of the real code.
func newZoo(t *testing.T, all []*variant) *zoo {
	z := &zoo{dir: t.TempDir(), binary: map[string]string{}, pkg: map[string]string{}}
	bodies := map[*source][]insertion{}
	for _, v := range all {
		for s, ins := range v.bodies {
			bodies[s] = append(bodies[s], ins...)
		}
	}
	replace := map[string]string{}
	written := 0
	put := func(path, text string) {
		written++
		edited := filepath.Join(z.dir, fmt.Sprintf("%d.go", written))
		require.NoError(t, os.WriteFile(edited, []byte(text), 0o600))
		replace[path] = edited
	}
	for s, ins := range bodies {
		put(s.path, merged(s, ins))
		put(filepath.Join(filepath.Dir(s.path), "zoo_exhibit.go"), fmt.Sprintf("package %s\n\nimport \"os\"\n\nvar zooExhibit = os.Getenv(%q)\n",
			s.syntax.Name.Name, exhibitVariable))
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	require.NoError(t, err)
	config := filepath.Join(z.dir, "overlay.json")
	require.NoError(t, os.WriteFile(config, overlay, 0o600))
	for pkg, tests := range testsByPackage(t, recipesDir) {
		binary := filepath.Join(z.dir, strings.ReplaceAll(pkg, string(filepath.Separator), "_")+".test")
		for _, v := range all {
			for _, test := range v.caught {
				if slices.Contains(tests, test) {
					require.Contains(t, []string{"", binary}, z.binary[test], "two packages have a test of this name: %s", test)
					z.binary[test], z.pkg[binary] = binary, pkg
				}
			}
		}
		if z.pkg[binary] == "" {
			continue
		}
		out, err := exec.CommandContext(t.Context(), "nice", "-n", "10", "go", "test", "-c", "-vet=off", "-overlay", config, "-ldflags=-s -w", "-o", binary, pkg).CombinedOutput()
		require.NoError(t, err, "an exhibit does not compile:\n%s", out)
	}
	return z
}

// testsByPackage names the tests of each directory. zktest has exhibits of its own kind: the conformance suite.
func testsByPackage(t *testing.T, dir string) map[string][]string {
	tests := map[string][]string{}
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && d.Name() == "zktest" {
			return cmp.Or(err, fs.SkipDir)
		}
		if strings.HasSuffix(path, "_test.go") {
			b, err := os.ReadFile(path)
			require.NoError(t, err)
			for _, m := range declared.FindAllSubmatch(b, -1) {
				tests[filepath.Dir(path)] = append(tests[filepath.Dir(path)], string(m[1]))
			}
		}
		return nil
	}))
	return tests
}

// run runs named tests, and only those, in a process of their own, with one exhibit or, where that is empty, with none.
func (z *zoo) run(t *testing.T, binary, exhibit string, tests ...string) (out string, passed bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), zooTimeout+time.Minute)
	defer cancel()
	pattern := "^(" + strings.Join(tests, "|") + ")$"
	// Beside tests on real servers, in real time, the zoo is in no hurry.
	cmd := exec.CommandContext(ctx, "nice", "-n", "10", binary, "-test.run", pattern, "-test.skip", "^TestZoo", "-test.v", "-test.timeout", zooTimeout.String())
	cmd.Dir = z.pkg[binary]
	cmd.Env = append(os.Environ(), exhibitVariable+"="+exhibit, "TESTS=") // each test that is named, also one which is a proof under the race detector
	b, err := cmd.CombinedOutput()
	require.NoError(t, ctx.Err(), "the child did not even obey its own timeout")
	return string(b), err == nil
}

// howItFailed says what ended a failed run. A bubble whose test has failed may end in a deadlock of what the test left
// behind: the assertion counts.
func howItFailed(out string) string {
	switch {
	case strings.Contains(out, "Error Trace:"), strings.Contains(out, "replay: SIM_SEED="):
		return "assertion"
	case strings.Contains(out, "panic: "+harness.Hangs), strings.Contains(out, "panic: test timed out after"):
		return "hang"
	case strings.Contains(out, "panic: deadlock: "):
		return "deadlock"
	case strings.Contains(out, "panic: ") || strings.Contains(out, "fatal error: "):
		return "crash"
	case strings.Contains(out, "--- FAIL: "): // by testing.T.Error
		return "assertion"
	default:
		return "unknown"
	}
}

// exhibit requires that each of the variant's tests fails with it.
func (z *zoo) exhibit(t *testing.T, v *variant) {
	for _, test := range v.caught {
		start := time.Now()
		out, passed := z.run(t, z.binary[test], v.name, test)
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
	tests := map[string][]string{}
	for _, v := range all {
		for _, test := range v.caught {
			require.NotEmpty(t, z.binary[test], "%s names a test that does not exist: %s", v.name, test)
			tests[z.binary[test]] = append(tests[z.binary[test]], test)
		}
	}
	for binary, names := range tests {
		slices.Sort(names)
		names = slices.Compact(names)
		out, passed := z.run(t, binary, "", names...)
		require.True(t, passed, "tests that must notice wrong variants fail without one:\n%s", out)
		for _, test := range names {
			require.Contains(t, out, "--- PASS: "+test+" ")
		}
	}
}

func TestZooSaysWhichExhibitNoLongerFits(t *testing.T) {
	code, err := readSources(recipesDir)
	require.NoError(t, err)
	const head = "wrong: w\nseen: s\ncaught: TestX\n"
	for _, c := range []struct{ text, want string }{
		{head + "-- was in Unlock --\nno such text\n-- is --\n", "stands 0 times"},
		{head + "-- was in Unlock --\nreturn\n-- is --\n", "must be once"},
		{head + "-- was in noSuchFunction --\nreturn\n-- is --\n", "stands 0 times"},
		{head + "-- was in Unlock --\n// words\n-- is --\n", "no code"},
		{head + "-- was --\nreturn\n-- is --\n", "no pair"},
		{head + "-- was in Unlock --\nx\n-- was in Unlock --\n", "no pair"},
		{head + "-- was in JoinPath --\nfunc JoinPath(\n-- is --\nfunc JoinPath(x int, \n", "bodies of functions"},
		{head + "-- was in JoinPath --\nfunc JoinPath(\n-- is --\nfunc JoinPath)\n", "cannot be parsed"},
		{head, "pairs of was and is"},
		{"wrong: w\n", "needs wrong, seen, caught"},
		{"wrnog: w\n", "unknown line"},
	} {
		file := filepath.Join(t.TempDir(), "exhibit.txtar")
		require.NoError(t, os.WriteFile(file, []byte(c.text), 0o600))
		_, err := loadVariant(code, file)
		require.ErrorContains(t, err, c.want)
		require.ErrorContains(t, err, "exhibit")
	}
}

func TestZooFindsCodeThatWasMoved(t *testing.T) {
	const was = "if err := s.confirm(ctx, k.dir); err != nil && outcomeOf(err) == Unknown {\n\treturn false, kind.JoinPath(k.dir)"
	const is = "if err := s.confirm(ctx, k.dir); outcomeOf(err) == Unknown {"
	for _, c := range []struct{ file, code, edited string }{
		{"recipes", was + "}", is + "}"},
		{
			"session", "if err := s.Confirm(\n\tctx, // why\n\tk.dir); err != nil && OutcomeOf(err) == Unknown { return false, kind.JoinPath(k.dir) }",
			"if err := s.Confirm(ctx, k.dir); OutcomeOf(err) == Unknown { }",
		},
		{
			"kind", "if err := s.confirm(ctx, k.Dir); err != nil && recipes.OutcomeOf(err) == session.Unknown { return false, JoinPath(k.Dir) }",
			"if err := s.confirm(ctx, k.Dir); recipes.OutcomeOf(err) == session.Unknown { }",
		},
	} {
		var all []*source
		for _, pkg := range []string{"recipes", "session", "kind"} {
			s, err := parseSource(pkg+".go", "package "+pkg+"\n")
			if pkg == c.file {
				s, err = parseSource(pkg+".go", "package "+pkg+"\n\nfunc f() {\n"+c.code+"\n}\n")
			}
			require.NoError(t, err)
			all = append(all, s)
		}
		for _, s := range all {
			s.words = words(s.text, roomsOf(all))
		}
		e, err := locate(all, was, is, "f")
		require.NoError(t, err)
		text, err := apply(e.in, []edit{e})
		require.NoError(t, err)
		require.Equal(t, "package "+c.file+"\n\nfunc f() {\n"+c.edited+"\n}\n", text)
	}
}

func TestZoo(t *testing.T) {
	effort.Proof(t, effort.Unraced)
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(zooDir, "*.txtar"))
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(files), 20)
	code, err := readSources(recipesDir)
	require.NoError(t, err)
	start := time.Now()
	var all []*variant
	for _, file := range files {
		v, err := loadVariant(code, file)
		if err != nil {
			t.Error(err) // and the others are shown all the same
			continue
		}
		all = append(all, v)
	}
	z := newZoo(t, all)
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
