package config

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/json"

	"github.com/locktree/locktree/plan"
)

const (
	nativeSuffix = ".locktree.hcl"
	jsonSuffix   = ".locktree.json"
)

// sources reads and parses files and keeps what snippets need.
type sources struct {
	fsys  fs.FS
	dir   string // what fsys is called in diagnostics
	files map[string]*hcl.File
	*report
}

// in are the files of a module.
func (s *sources) in(fsys fs.FS, dir string) *sources {
	return &sources{fsys: fsys, dir: filepath.Join(s.report.dir, filepath.FromSlash(dir)), files: s.files, report: s.report}
}

// display is the name of a file as diagnostics show it.
func (s *sources) display(name string) string { return filepath.Join(s.dir, name) }

// text is the source text of a range.
func (s *sources) text(r hcl.Range) []byte {
	if f := s.files[r.Filename]; f != nil && r.End.Byte <= len(f.Bytes) {
		return f.Bytes[r.Start.Byte:r.End.Byte]
	}
	return nil
}

// list returns the configuration files in name order.
func (s *sources) list() []string {
	out, ok := s.ending(nativeSuffix, jsonSuffix)
	switch n := len(out); {
	case !ok:
	case n == 0:
		s.errorf(fileStart(s.dir), "No configuration files",
			`There is no *%s or *%s file in this directory. Run "locktree init" to write a first one, or name another directory with -chdir.`, nativeSuffix, jsonSuffix)
	case n > maxFiles:
		s.errorf(fileStart(s.dir), "Too many files", "The directory holds %d configuration files; at most %d are read.", n, maxFiles)
		return nil
	}
	return out
}

// ending returns the files with one of two endings, in name order; false if the directory could not be read, which has been
// reported. Files that editors leave behind are left out: vim and emacs back up to "x~" and "#x#", which end differently, and
// write hidden files beside the original.
func (s *sources) ending(native, json string) (out []string, ok bool) {
	entries, err := fs.ReadDir(s.fsys, ".")
	if err != nil {
		s.noDirectory(s.dir, err)
		return nil, false
	}
	for _, e := range entries { // sorted
		name := e.Name()
		if !e.IsDir() && !strings.HasPrefix(name, ".") && !strings.HasPrefix(name, "#") && (strings.HasSuffix(name, native) || strings.HasSuffix(name, json)) {
			out = append(out, name)
		}
	}
	return out, true
}

// parse returns the body of a file. One with syntax errors still has a body: the sound rest of it.
func (s *sources) parse(name string) hcl.Body {
	shown := s.display(name)
	src, err := readText(s.fsys, name)
	if err != nil {
		s.errorf(fileStart(shown), "Cannot read the file", "%s", plan.Sentence(plainError(err)))
		return nil
	}
	isJSON := strings.HasSuffix(shown, ".json")
	s.files[shown] = &hcl.File{Bytes: src, Nav: &navigator{src, shown, isJSON}}
	file, diags := parseFile(src, shown, isJSON)
	s.add(causes(diags)...)
	if file == nil {
		return nil
	}
	return file.Body
}

// navigator names the block around an error, for snippets. It parses the file again: keeping all blocks of all files
// for it would be a large part of what Load needs.
type navigator struct {
	src    []byte
	name   string
	isJSON bool
}

// ContextString is what hcl's writers of diagnostics look for.
func (n *navigator) ContextString(offset int) string {
	file, _ := parseFile(n.src, n.name, n.isJSON)
	if file == nil {
		return ""
	}
	if nav, ok := file.Nav.(interface{ ContextString(int) string }); ok {
		return nav.ContextString(offset)
	}
	return ""
}

// parseFile parses what checkTokens lets through. In JSON, the strings of variables are no templates.
func parseFile(src []byte, shown string, isJSON bool) (*hcl.File, hcl.Diagnostics) {
	if isJSON {
		if at, summary, detail := checkJSON(src, !strings.HasSuffix(shown, ".ltvars.json")); at >= 0 {
			return nil, hcl.Diagnostics{errorAt(positionOf(src, at, shown), summary, detail)}
		}
		return json.Parse(src, shown)
	}
	tokens, _ := hclsyntax.LexConfig(src, shown, hcl.InitialPos)
	if diags := checkTokens(tokens); len(diags) > 0 {
		return nil, diags
	}
	file, diags := hclsyntax.ParseConfig(src, shown, hcl.InitialPos)
	return file, append(diags, repeatedKeys(file.Body.(*hclsyntax.Body))...)
}

// parseExpression is parseFile for an expression that is in no file, or in a string of JSON.
func parseExpression(src, from string, at hcl.Pos) (hclsyntax.Expression, hcl.Diagnostics) {
	tokens, _ := hclsyntax.LexExpression([]byte(src), from, at)
	if diags := checkTokens(tokens); len(diags) > 0 {
		return nil, diags
	}
	expr, diags := hclsyntax.ParseExpression([]byte(src), from, at)
	return expr, append(diags, repeatedKeys(expr)...)
}

// plainError cuts the operation off a file error: "open x: no such file" says
// nothing more than "no such file" below a line that names x.
func plainError(err error) string {
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		err = pathErr.Err
	}
	return err.Error()
}

// fileStart is the range of errors that concern a file or directory as a whole.
func fileStart(name string) hcl.Range {
	return hcl.Range{Filename: name, Start: hcl.InitialPos, End: hcl.InitialPos}
}
