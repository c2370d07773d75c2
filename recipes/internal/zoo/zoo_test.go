package zoo_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
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
	"unicode"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/internal/harness"
	"github.com/locktree/locktree/recipes/zktest/effort"
)

// The bug zoo is the files of testdata/zoo. Each is a small edit that makes the recipes wrong as some client of ZooKeeper or etcd was,
// with the tests that notice. A test that passes with a wrong queue is no test. The edits reach the compiler through -overlay only, so
// production code has no switch for them, and no production build is wrong.
//
// A file is a txtar archive. Its comment has the lines
//
//	wrong: what the variant does
//	seen: where it was seen
//	caught: names of tests, each of which must fail with the variant and pass without
//	crash: why, if the variant ends the process in a goroutine that cannot fail a test
//
// and its files come in pairs, "was in FUNCTION" and "is": code that stands exactly once in that function, and its replacement. A
// comment below says how the code is found.
const zooDir = "../../../testdata/zoo"

// recipesDir has the code that exhibits make wrong, and their tests.
const recipesDir = "../.."

// zooTimeout is the child's own timeout. Its tests take a second or two: only a variant that runs in circles counts as hung.
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

// loadVariant reads an exhibit and finds the code that it edits. An error names the exhibit that no longer fits.
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

// zoo builds test binaries, one for each package with a test that notices an exhibit, and runs them.
type zoo struct {
	dir    string
	binary map[string]string // by name of a test
	pkg    map[string]string // by binary: the directory that its tests run in

	mu    sync.Mutex
	table []string
}

// newZoo compiles all exhibits, in the places of the real code.
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

// run runs only the named tests, in a process of their own, with one exhibit, or with none if exhibit is empty.
func (z *zoo) run(t *testing.T, binary, exhibit string, tests ...string) (out string, passed bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), zooTimeout+time.Minute)
	defer cancel()
	pattern := "^(" + strings.Join(tests, "|") + ")$"
	// The zoo is in no hurry. Beside it, tests on real servers run in real time.
	cmd := exec.CommandContext(ctx, "nice", "-n", "10", binary, "-test.run", pattern, "-test.skip", "^TestZoo", "-test.v", "-test.timeout", zooTimeout.String())
	cmd.Dir = z.pkg[binary]
	cmd.Env = append(os.Environ(), exhibitVariable+"="+exhibit, "TESTS=") // run each named test, even one that is a proof under the race detector
	b, err := cmd.CombinedOutput()
	require.NoError(t, ctx.Err(), "the child did not even obey its own timeout")
	return string(b), err == nil
}

// howItFailed says what ended a failed run. A bubble whose test has failed may end in a deadlock of goroutines that the test left behind:
// the assertion counts.
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
	require.GreaterOrEqual(t, len(files), 95)
	code, err := readSources(recipesDir)
	require.NoError(t, err)
	start := time.Now()
	var all []*variant
	for _, file := range files {
		v, err := loadVariant(code, file)
		if err != nil {
			t.Error(err) // the other exhibits are shown too
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

// The code below finds the code that an exhibit of the zoo makes wrong, and puts all exhibits into one build.
//
// An exhibit names a function and no file: the zoo looks for functions of this name in all production code of the recipes. It compares
// code token by token. Line breaks, comments, package qualifiers and the export of a name make no difference. So a function can move to
// another file or package, or get another format, and the exhibit stays as it is.
//
// Each test binary has all exhibits. A function that exhibits change has their bodies before its own, each behind a check of
// exhibitVariable. A process that is started with an exhibit's name runs that exhibit's code.

const exhibitVariable = "LOCKTREE_ZOO"

// source is a production file.
type source struct {
	path   string
	text   string
	syntax *ast.File
	fset   *token.FileSet
	words  []word
}

// word is a token, or a name with its package qualifier.
type word struct {
	norm     string // what is compared
	text     string // what is written
	from, to int    // byte offsets
}

// readSources reads the production code below a directory. No exhibit changes zktest, which is the server, or what only tests use.
func readSources(dir string) (all []*source, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{"zktest", "harness", "hostile", "testdata"}, d.Name()):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		s, err := parseSource(path, string(b))
		all = append(all, s)
		return err
	})
	rooms := roomsOf(all)
	for _, s := range all {
		s.words = words(s.text, rooms)
	}
	return all, err
}

// roomsOf returns the names of the packages.
func roomsOf(all []*source) map[string]bool {
	rooms := map[string]bool{}
	for _, s := range all {
		rooms[s.syntax.Name.Name] = true
	}
	return rooms
}

func parseSource(path, text string) (s *source, err error) {
	s = &source{text: text, fset: token.NewFileSet()}
	if s.path, err = filepath.Abs(path); err != nil {
		return nil, err
	}
	s.syntax, err = parser.ParseFile(s.fset, path, text, parser.SkipObjectResolution)
	return s, err
}

// cut returns the text of a node.
func (s *source) cut(from, to token.Pos) string {
	return s.text[s.fset.Position(from).Offset:s.fset.Position(to).Offset]
}

// words splits Go code, or a piece of it, into the words that are compared.
func words(text string, rooms map[string]bool) (ws []word) {
	fset := token.NewFileSet()
	file := fset.AddFile("", -1, len(text))
	var sc scanner.Scanner
	sc.Init(file, []byte(text), func(token.Position, string) {}, 0) // a piece may be anything
	for {
		pos, tok, lit := sc.Scan()
		if tok == token.EOF {
			return ws
		}
		if tok == token.SEMICOLON && lit == "\n" {
			continue // a line break, or the end of the text
		}
		if lit == "" {
			lit = tok.String()
		}
		w := word{norm: lit, text: lit, from: file.Offset(pos)}
		w.to = w.from + len(lit)
		if n := len(ws); tok == token.IDENT {
			first := []rune(lit)[0]
			w.norm = string(unicode.ToLower(first)) + strings.TrimPrefix(lit, string(first))
			if unicode.IsUpper(first) && n > 1 && ws[n-1].norm == "." && rooms[ws[n-2].text] && (n == 2 || ws[n-3].norm != ".") {
				w.from = ws[n-2].from // recipes.Name is Name within recipes
				w.text = text[w.from:w.to]
				ws = ws[:n-2]
			}
		}
		ws = append(ws, w)
	}
}

// edit is one replacement in one file.
type edit struct {
	in       *source
	from, to int
	is       string
}

// locate finds the code that an exhibit replaces. The code must stand at one place in a function of this name.
func locate(all []*source, was, is, within string) (e edit, err error) {
	rooms := roomsOf(all)
	wanted := words(was, rooms)
	if len(wanted) == 0 {
		return e, fmt.Errorf("no code in %q", was)
	}
	var at, elsewhere []string
	for _, s := range all {
		for i := range s.words {
			found := s.words[i:min(i+len(wanted), len(s.words))]
			if !slices.EqualFunc(found, wanted, func(a, b word) bool { return a.norm == b.norm }) {
				continue
			}
			name := s.function(found[0].from)
			where := fmt.Sprintf("%s (%s)", filepath.Base(s.path), name)
			if !strings.EqualFold(name, within) {
				elsewhere = append(elsewhere, where)
				continue
			}
			at = append(at, where)
			e = edit{s, found[0].from, found[len(found)-1].to, spelled(is, wanted, found, rooms)}
		}
	}
	if len(at) != 1 {
		return e, fmt.Errorf("the code to edit stands %d times in %s %v, must be once; where the code has changed, make the exhibit wrong in the new code in the same way; where it stands more than once, give more of it; elsewhere it stands in %v:\n%s",
			len(at), within, at, elsewhere, was)
	}
	return e, nil
}

// function names the function around an offset.
func (s *source) function(offset int) string {
	for _, d := range s.syntax.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && s.fset.Position(f.Pos()).Offset <= offset && offset < s.fset.Position(f.End()).Offset {
			return f.Name.Name
		}
	}
	return ""
}

// spelled writes the replacement with the names that the code has now: exported, or with their package.
func spelled(is string, wanted, found []word, rooms map[string]bool) string {
	now := map[string]string{}
	for i, w := range wanted {
		now[w.text] = found[i].text
	}
	for _, w := range slices.Backward(words(is, rooms)) {
		if text, ok := now[w.text]; ok {
			is = is[:w.from] + text + is[w.to:]
		}
	}
	return is
}

// apply makes the edits of one exhibit in one file.
func apply(s *source, edits []edit) (string, error) {
	slices.SortFunc(edits, func(a, b edit) int { return cmp.Compare(b.from, a.from) })
	text := s.text
	for i, e := range edits {
		if i > 0 && e.to > edits[i-1].from {
			return "", fmt.Errorf("edits of %s overlap", filepath.Base(s.path))
		}
		text = text[:e.from] + e.is + text[e.to:]
	}
	return text, nil
}

// insertion is an exhibit's body of a function, or a declaration of its own.
type insertion struct {
	at   int // byte offset in the source; the end for declarations
	text string
}

// variantOf compares a file with the text that an exhibit makes of it.
func variantOf(s *source, name, text string) (ins []insertion, err error) {
	edited, err := parseSource(s.path, text)
	if err != nil {
		return nil, fmt.Errorf("%s: what it makes of the code cannot be parsed: %w", name, err)
	}
	known := map[string]*ast.FuncDecl{}
	plain := map[string]bool{}
	for _, d := range s.syntax.Decls {
		if f, ok := d.(*ast.FuncDecl); ok {
			known[s.signature(f)] = f
		} else {
			plain[s.cut(d.Pos(), d.End())] = true
		}
	}
	for _, d := range edited.syntax.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok {
			if text := edited.cut(d.Pos(), d.End()); !plain[text] {
				ins = append(ins, insertion{len(s.text), "\n" + text + "\n"})
			}
			continue
		}
		was := known[edited.signature(f)]
		if was == nil {
			return nil, fmt.Errorf("%s: an exhibit changes bodies of functions, not what they take and return: %s", name, edited.signature(f))
		}
		body := edited.body(f, name)
		if edited.cut(f.Body.Pos(), f.Body.End()) == s.cut(was.Body.Pos(), was.Body.End()) {
			continue
		}
		if f.Type.Results == nil {
			body += "\nreturn\n"
		}
		back := s.fset.Position(was.Body.Lbrace + 1)
		ins = append(ins, insertion{back.Offset, fmt.Sprintf("\nif zooExhibit == %q {\n//line %s.txtar:1\n%s}\n/*line %s:%d:%d*/",
			name, name, body, filepath.Base(s.path), back.Line, back.Column)})
	}
	if len(edited.syntax.Decls) < len(s.syntax.Decls) || len(ins) == 0 {
		return nil, fmt.Errorf("%s: an exhibit changes the body of a function", name)
	}
	return ins, nil
}

func (s *source) signature(f *ast.FuncDecl) string { return s.cut(f.Pos(), f.Body.Lbrace) }

// body returns the inside of a function, with labels that no other body has.
func (s *source) body(f *ast.FuncDecl, name string) string {
	first := s.fset.Position(f.Body.Lbrace).Offset + 1
	text := s.text[first:s.fset.Position(f.Body.Rbrace).Offset]
	var labels []*ast.Ident
	ast.Inspect(f.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.LabeledStmt:
			labels = append(labels, n.Label)
		case *ast.BranchStmt:
			if n.Label != nil {
				labels = append(labels, n.Label)
			}
		}
		return true
	})
	slices.SortFunc(labels, func(a, b *ast.Ident) int { return cmp.Compare(b.Pos(), a.Pos()) })
	for _, l := range labels {
		end := s.fset.Position(l.End()).Offset - first
		text = text[:end] + "_" + name + text[end:]
	}
	return text
}

// merged returns a file with all exhibits in it.
func merged(s *source, ins []insertion) string {
	slices.SortStableFunc(ins, func(a, b insertion) int { return cmp.Compare(a.at, b.at) })
	var out bytes.Buffer
	at := 0
	for _, i := range ins {
		out.WriteString(s.text[at:i.at])
		out.WriteString(i.text)
		at = i.at
	}
	out.WriteString(s.text[at:])
	return out.String()
}
