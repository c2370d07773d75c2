package syntax

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/json"

	"github.com/locktree/locktree/plan/explain"
)

const (
	nativeSuffix = ".locktree.hcl"
	jsonSuffix   = ".locktree.json"
)

// The limits report a wrong file, or a loop that declares more than an ensemble can hold, early and with a place. They do not make
// a foreign configuration safe to evaluate: it is its operator's own code (see SECURITY.md).
const (
	MaxFileBytes = 16 << 20 // 100,000 locks written out one by one are about 6 MiB; the limit also holds for file(): a file of 200,000 names fits
	maxFiles     = 1000
	MaxNodes     = 200_000 // nodes and modules, after expansion of for_each
	// MaxPathBytes bounds the path of each lock; see kind.ValidateName for the harm that long ephemeral paths do to a server.
	MaxPathBytes = 1024
)

// Sources reads and parses files and keeps what snippets need.
type Sources struct {
	FS    fs.FS
	Dir   string // what diagnostics call FS
	Files map[string]*hcl.File
	*Report
}

// The method In returns the files of a module.
func (s *Sources) In(fsys fs.FS, dir string) *Sources {
	return &Sources{FS: fsys, Dir: filepath.Join(s.Report.Dir, filepath.FromSlash(dir)), Files: s.Files, Report: s.Report}
}

// Display is the name of a file as diagnostics show it.
func (s *Sources) Display(name string) string { return filepath.Join(s.Dir, name) }

// Text is the source text of a range.
func (s *Sources) Text(r hcl.Range) []byte {
	if f := s.Files[r.Filename]; f != nil && r.End.Byte <= len(f.Bytes) {
		return f.Bytes[r.Start.Byte:r.End.Byte]
	}
	return nil
}

// List returns the configuration files in name order.
func (s *Sources) List() []string {
	out, ok := s.Ending(nativeSuffix, jsonSuffix)
	switch n := len(out); {
	case !ok:
	case n == 0:
		s.Errorf(FileStart(s.Dir), "No configuration files",
			`There is no *%s or *%s file in this directory. Run "locktree init" to write a first one, or name another directory with -chdir.`, nativeSuffix, jsonSuffix)
	case n > maxFiles:
		s.Errorf(FileStart(s.Dir), "Too many files", "The directory holds %d configuration files; at most %d are read.", n, maxFiles)
		return nil
	}
	return out
}

// Ending returns the files with one of two endings, in name order; false if the directory could not be read, which has been
// reported. Files that editors leave behind are left out: vim and emacs back up to "x~" and "#x#", which end differently, and
// write hidden files beside the original.
func (s *Sources) Ending(native, json string) (out []string, ok bool) {
	entries, err := fs.ReadDir(s.FS, ".")
	if err != nil {
		s.NoDirectory(s.Dir, err)
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

// Parse returns the body of a file. One with syntax errors still has a body: the sound rest of it.
func (s *Sources) Parse(name string) hcl.Body {
	shown := s.Display(name)
	src, err := ReadText(s.FS, name)
	if err != nil {
		s.Errorf(FileStart(shown), "Cannot read the file", "%s", explain.Sentence(PlainError(err)))
		return nil
	}
	isJSON := strings.HasSuffix(shown, ".json")
	s.Files[shown] = &hcl.File{Bytes: src, Nav: &navigator{src, shown, isJSON}}
	file, diags := ParseFile(src, shown, isJSON)
	s.Add(Causes(diags)...)
	if file == nil {
		return nil
	}
	return file.Body
}

// navigator names the block around an error, for snippets. It parses the file again, because all blocks of all files would take a
// large part of the memory that Load uses.
type navigator struct {
	src    []byte
	name   string
	isJSON bool
}

// ContextString is what hcl's writers of diagnostics look for.
func (n *navigator) ContextString(offset int) string {
	file, _ := ParseFile(n.src, n.name, n.isJSON)
	if file == nil {
		return ""
	}
	if nav, ok := file.Nav.(interface{ ContextString(int) string }); ok {
		return nav.ContextString(offset)
	}
	return ""
}

// ParseFile parses a file that checkTokens has accepted. In a JSON file with values of variables, strings are no templates.
func ParseFile(src []byte, shown string, isJSON bool) (*hcl.File, hcl.Diagnostics) {
	if isJSON {
		if at, summary, detail := CheckJSON(src, !strings.HasSuffix(shown, ".ltvars.json")); at >= 0 {
			return nil, hcl.Diagnostics{ErrorAt(positionOf(src, at, shown), summary, detail)}
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

// ParseExpression parses an expression from outside the files, or from a string of a JSON file.
func ParseExpression(src, from string, at hcl.Pos) (hclsyntax.Expression, hcl.Diagnostics) {
	tokens, _ := hclsyntax.LexExpression([]byte(src), from, at)
	if diags := checkTokens(tokens); len(diags) > 0 {
		return nil, diags
	}
	expr, diags := hclsyntax.ParseExpression([]byte(src), from, at)
	return expr, append(diags, repeatedKeys(expr)...)
}

// PlainError cuts the operation off a file error: "open x: no such file" says
// nothing more than "no such file" below a line that names x.
func PlainError(err error) string {
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		err = pathErr.Err
	}
	return err.Error()
}

// FileStart is the range of errors that concern a file or directory as a whole.
func FileStart(name string) hcl.Range {
	return hcl.Range{Filename: name, Start: hcl.InitialPos, End: hcl.InitialPos}
}

// NoDirectory reports a directory that cannot be read.
func (r *Report) NoDirectory(dir string, err error) {
	r.Errorf(FileStart(dir), "Cannot read the directory", "%s Name a directory that holds *%s files.", explain.Sentence(PlainError(err)), nativeSuffix)
}

// system is the machine's file system, under the names that programs use.
type system struct{}

func (system) Open(name string) (fs.File, error)     { return os.Open(name) }
func (system) Stat(name string) (fs.FileInfo, error) { return os.Stat(name) }

// ReadFile reads a file as a configuration is read: a regular one, of at most 16 MiB.
func ReadFile(name string) ([]byte, error) { return readFile(system{}, name) }

func readFile(fsys fs.FS, name string) ([]byte, error) {
	// This comes before the file is opened: opening a FIFO waits for a writer.
	if info, err := fs.Stat(fsys, name); err == nil && !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "open", Path: name, Err: errors.New("not a regular file, but a directory, a device or a pipe such as <(...): write the text to a file")}
	}
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	src, err := readAtMost(f)
	if errors.As(err, new(tooLarge)) {
		err = &fs.PathError{Op: "read", Path: name, Err: err}
	}
	return src, err
}

// tooLarge is the error of a file with more bytes than are read.
type tooLarge struct{}

func (tooLarge) Error() string {
	return fmt.Sprintf("the file is larger than %d MiB: split it", MaxFileBytes>>20)
}

// readAtMost reads a file up to the permitted size.
func readAtMost(r io.Reader) ([]byte, error) {
	src, err := io.ReadAll(io.LimitReader(r, MaxFileBytes+1))
	if err == nil && len(src) > MaxFileBytes {
		err = tooLarge{}
	}
	return src, err
}

// ReadText reads the text of a file.
func ReadText(fsys fs.FS, name string) ([]byte, error) {
	src, err := readFile(fsys, name)
	return plainText(src), err
}

// ReadTextFile is [ReadText] for a file of the machine, as programs name it.
func ReadTextFile(name string) ([]byte, error) { return ReadText(system{}, name) }

// ReadTextFrom is [ReadText] for a stream.
func ReadTextFrom(r io.Reader) ([]byte, error) {
	src, err := readAtMost(r)
	return plainText(src), err
}

// Directories are the directories of a configuration and its modules. Each is a root of its own, because a module may be beside
// the configuration. A root refuses symbolic links that lead out of it. A check of names could not find them.
type Directories struct {
	Dir   string
	roots []*os.Root
}

// Open opens a directory, by its path relative to that of the configuration.
func (d *Directories) Open(sub string) (fs.FS, error) {
	root, err := os.OpenRoot(filepath.Join(d.Dir, filepath.FromSlash(sub)))
	if err != nil {
		return nil, err
	}
	d.roots = append(d.roots, root)
	return root.FS(), nil
}

// Close closes all of them.
func (d *Directories) Close() {
	for _, r := range d.roots {
		_ = r.Close() // nothing was written
	}
}
