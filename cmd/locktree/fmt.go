package main

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/spf13/cobra"

	"github.com/locktree/locktree/cmd/locktree/internal/disk"
	"github.com/locktree/locktree/cmd/locktree/internal/exit"
	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/config"
)

// formatter is one run of fmt.
type formatter struct {
	*app
	list, write, check, diff, recursive bool
	changed, broken                     bool
}

func fmtCommand(a *app) *cobra.Command {
	f := &formatter{app: a}
	c := &cobra.Command{
		Use:        "fmt [FILE | DIRECTORY | -]...",
		SuggestFor: []string{"format"},
		Short:      "Rewrite configuration files to the canonical style",
		Long: "fmt rewrites *.locktree.hcl and *.ltvars files in place and lists those it\n" +
			"changed.\n" +
			"\"-\" formats standard input to standard output. Exit codes: 2 if a file does not parse\n" +
			"(it is left as it was), 3 with -check if a file would change.",
		RunE: func(_ *cobra.Command, args []string) error { return f.run(args) },
	}
	c.Flags().BoolVar(&f.list, "list", true, "list the files that changed")
	c.Flags().BoolVar(&f.write, "write", true, "write the files; -write=false only lists them")
	c.Flags().BoolVar(&f.check, "check", false, "write nothing; exit with 3 if a file would change")
	c.Flags().BoolVar(&f.diff, "diff", false, "print what changes, as diff -u does")
	c.Flags().BoolVar(&f.recursive, "recursive", false, "include the directories below")
	return c
}

func (f *formatter) run(args []string) error {
	if len(args) == 0 {
		args = []string{"."}
	}
	f.write = f.write && !f.check
	for _, arg := range args {
		if err := f.target(arg); err != nil {
			return err
		}
	}
	switch {
	case f.broken:
		return exit.With(exit.FmtRead)
	case f.check && f.changed:
		return exit.With(exit.FmtDiff)
	}
	return nil
}

func (f *formatter) target(arg string) error {
	if arg == "-" {
		src, err := io.ReadAll(io.LimitReader(f.Stdin, 32<<20)) // Format refuses less
		if err != nil {
			return view.Failf("Cannot read standard input", "%v.", err)
		}
		f.standardInput(src)
		return nil
	}
	info, err := os.Stat(f.loader().Path(arg))
	if err != nil {
		return exit.Wrap(exit.FmtRead, view.Failf("Nothing to format", "There is no file or directory at %s.", arg))
	}
	if !info.IsDir() {
		if !formattable(arg) {
			return exit.Wrap(exit.FmtRead, view.Failf("Nothing to format", "%s is no *.locktree.hcl or *.ltvars file.", arg))
		}
		return f.file(arg)
	}
	return filepath.WalkDir(f.loader().Path(arg), func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != f.loader().Path(arg) && (!f.recursive || strings.HasPrefix(d.Name(), ".")):
			return fs.SkipDir
		case d.IsDir() || !formattable(path):
			return nil
		}
		shown := path
		if rel, err := filepath.Rel(f.loader().Path("."), path); err == nil {
			shown = rel
		}
		return f.file(shown)
	})
}

// formattable: JSON files have no style of ours, and editors' backups and dot
// files are nobody's configuration.
func formattable(path string) bool {
	base := filepath.Base(path)
	return !strings.HasPrefix(base, ".") && (strings.HasSuffix(base, ".locktree.hcl") || strings.HasSuffix(base, ".ltvars"))
}

func (f *formatter) file(name string) error {
	src, err := config.ReadFile(f.loader().Path(name))
	if err != nil {
		return exit.Wrap(exit.FmtRead, view.Failf("Cannot read the file", "%v.", err))
	}
	out, ok := f.format(src, name)
	if !ok || bytes.Equal(src, out) {
		return nil
	}
	f.changed = true
	if f.list {
		fmt.Fprintln(f.Stdout, view.Line(name))
	}
	if f.diff {
		f.printDiff(name, src, out)
	}
	if f.write {
		info, err := os.Stat(f.loader().Path(name))
		if err == nil {
			err = disk.Replace(f.loader().Path(name), info.Mode().Perm(), func(w io.Writer) error { _, err := w.Write(out); return err })
		}
		if err != nil {
			return view.Failf("Cannot write "+name, "%v. The file is as it was.", err)
		}
	}
	return nil
}

// standardInput writes the formatted text; -check only compares.
func (f *formatter) standardInput(src []byte) {
	out, ok := f.format(src, "<stdin>")
	differs := ok && !bytes.Equal(src, out)
	f.changed = f.changed || differs
	switch {
	case f.diff && differs:
		f.printDiff("<stdin>", src, out)
	case ok && !f.check && !f.diff:
		_, _ = f.Stdout.Write(out) // run reports an error
	}
}

// printDiff prints the lines that change, each with up to three lines around it. Formatting adds no line and removes none.
func (f *formatter) printDiff(name string, before, after []byte) {
	was, is := strings.SplitAfter(string(before), "\n"), strings.SplitAfter(string(after), "\n")
	fmt.Fprintf(f.Stdout, "--- old/%s\n+++ new/%s\n", name, name)
	const around = 3
	line := func(mark, text string) { fmt.Fprintf(f.Stdout, "%s%s\n", mark, strings.TrimRight(text, "\r\n")) }
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
		if was[to-1] == "" { // behind the last line end
			to--
		}
		fmt.Fprintf(f.Stdout, "@@ -%d,%d +%d,%d @@\n", from+1, to-from, from+1, to-from)
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

func (f *formatter) format(src []byte, name string) ([]byte, bool) {
	out, diags := config.Format(src, name)
	if diags.HasErrors() {
		f.broken = true
		f.View().Diagnostics(diags, map[string]*hcl.File{name: {Bytes: src}})
		return nil, false
	}
	return out, true
}
