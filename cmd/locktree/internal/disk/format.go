package disk

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/locktree/locktree/cmd/locktree/internal/exit"
	"github.com/locktree/locktree/cmd/locktree/internal/stack"
	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/config"
)

// Formatter rewrites configuration files to the canonical style.
type Formatter struct {
	Loader                              *stack.Loader
	Out                                 io.Writer
	List, Write, Check, Diff, Recursive bool // flags of fmt

	changed, broken bool
}

// Run formats files, directories, and standard input for "-".
func (f *Formatter) Run(args []string) error {
	if len(args) == 0 {
		args = []string{"."}
	}
	f.Write = f.Write && !f.Check
	for _, arg := range args {
		if err := f.target(arg); err != nil {
			return err
		}
	}
	switch {
	case f.broken:
		return exit.With(exit.FmtRead)
	case f.Check && f.changed:
		return exit.With(exit.FmtDiff)
	}
	return nil
}

func (f *Formatter) target(arg string) error {
	if arg == "-" {
		src, err := io.ReadAll(io.LimitReader(f.Loader.Stdin, 32<<20)) // Format refuses more than 16 MiB
		if err != nil {
			return view.Failf("Cannot read standard input", "%v.", err)
		}
		f.standardInput(src)
		return nil
	}
	info, err := os.Stat(f.Loader.Path(arg))
	if err != nil {
		return exit.Wrap(exit.FmtRead, view.Failf("Nothing to format", "There is no file or directory at %s.", arg))
	}
	if !info.IsDir() {
		if !formattable(arg) {
			return exit.Wrap(exit.FmtRead, view.Failf("Nothing to format", "%s is no *.locktree.hcl or *.ltvars file.", arg))
		}
		return f.file(arg)
	}
	return filepath.WalkDir(f.Loader.Path(arg), func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != f.Loader.Path(arg) && (!f.Recursive || strings.HasPrefix(d.Name(), ".")):
			return fs.SkipDir
		case d.IsDir() || !formattable(path):
			return nil
		}
		shown := path
		if rel, err := filepath.Rel(f.Loader.Path("."), path); err == nil {
			shown = rel
		}
		return f.file(shown)
	})
}

// formattable excludes JSON files, which have no canonical style, backups of editors, and dot files.
func formattable(path string) bool {
	base := filepath.Base(path)
	return !strings.HasPrefix(base, ".") && (strings.HasSuffix(base, ".locktree.hcl") || strings.HasSuffix(base, ".ltvars"))
}

func (f *Formatter) file(name string) error {
	src, err := config.ReadFile(f.Loader.Path(name))
	if err != nil {
		return exit.Wrap(exit.FmtRead, view.Failf("Cannot read the file", "%v.", err))
	}
	out, ok := f.format(src, name)
	if !ok || bytes.Equal(src, out) {
		return nil
	}
	f.changed = true
	if f.List {
		fmt.Fprintln(f.Out, view.Line(name))
	}
	if f.Diff {
		f.printDiff(name, src, out)
	}
	if f.Write {
		info, err := os.Stat(f.Loader.Path(name))
		if err == nil {
			err = Replace(f.Loader.Path(name), info.Mode().Perm(), func(w io.Writer) error { _, err := w.Write(out); return err })
		}
		if err != nil {
			return view.Failf("Cannot write "+name, "%v. The file is as it was.", err)
		}
	}
	return nil
}

// standardInput writes the formatted text; -check only compares.
func (f *Formatter) standardInput(src []byte) {
	out, ok := f.format(src, "<stdin>")
	differs := ok && !bytes.Equal(src, out)
	f.changed = f.changed || differs
	switch {
	case f.Diff && differs:
		f.printDiff("<stdin>", src, out)
	case ok && !f.Check && !f.Diff:
		_, _ = f.Out.Write(out) // screen.Screen reports an error of this write
	}
}

// printDiff prints the lines that change, each with up to three lines around it. Formatting adds no line and removes none.
func (f *Formatter) printDiff(name string, before, after []byte) {
	was, is := strings.SplitAfter(string(before), "\n"), strings.SplitAfter(string(after), "\n")
	fmt.Fprintf(f.Out, "--- old/%s\n+++ new/%[1]s\n", view.Clean(name))
	const around = 3
	line := func(mark, text string) { fmt.Fprintf(f.Out, "%s%s\n", mark, strings.TrimRight(text, "\r\n")) }
	for at := 0; at < len(was); at++ {
		if was[at] == is[at] {
			continue
		}
		last := at
		for next := at; next < len(was) && next <= last+2*around; next++ {
			if was[next] != is[next] {
				last = next
			}
		}
		from, to := max(at-around, 0), min(last+around+1, len(was))
		if was[to-1] == "" { // there is no line after the last line feed
			to--
		}
		fmt.Fprintf(f.Out, "@@ -%d,%d +%d,%d @@\n", from+1, to-from, from+1, to-from)
		for i := from; i < to; {
			end := i
			for end < to && was[end] != is[end] {
				end++
			}
			for _, text := range was[i:end] {
				line("-", text)
			}
			for _, text := range is[i:end] {
				line("+", text)
			}
			if i = end; i < to {
				line(" ", was[i])
				i++
			}
		}
		at = last
	}
}

func (f *Formatter) format(src []byte, name string) ([]byte, bool) {
	out, diags := config.Format(src, name)
	if diags.HasErrors() {
		f.broken = true
		f.Loader.Screen.Diagnostics(diags, map[string]*hcl.File{name: {Bytes: src}})
		return nil, false
	}
	return out, true
}
