package zoo_test

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
)

// How an exhibit of the zoo finds the code that it makes wrong, and how all exhibits fit into one build.
//
// An exhibit names a function and no file: functions of this name are looked for in all production code of the recipes. Texts
// are compared token by token; line breaks, comments, package qualifiers and whether a name is exported make no difference.
// Functions can so be moved to another file or package, and be formatted anew, without an exhibit changing.
//
// All exhibits are in one test binary. A function that exhibits change has their bodies before its own, each behind a
// look at exhibitVariable: the process that is started with an exhibit's name runs that exhibit's code.

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

// roomsOf names the packages.
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

// cut is the text of a node.
func (s *source) cut(from, to token.Pos) string {
	return s.text[s.fset.Position(from).Offset:s.fset.Position(to).Offset]
}

// words splits Go code, or a piece of it, into what is compared.
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
				w.from = ws[n-2].from // recipes.Name, and Name within recipes
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

// locate finds the one place in a function of this name where the code stands that an exhibit replaces.
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

// variantOf compares a file with what an exhibit makes of it.
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

// body is the inside of a function, with labels that no other body has.
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

// merged is a file with all exhibits in it.
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
