package main

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/locktree/locktree/cmd/locktree/internal/view"
)

// formatter is one run of fmt.
type formatter struct {
	*app
	list, write, diff, check, recursive bool
	changed, broken                     bool
}

func fmtCommand(a *app) *cobra.Command {
	f := &formatter{app: a}
	c := &cobra.Command{
		Use:        "fmt [FILE | DIRECTORY | -]...",
		SuggestFor: []string{"format"},
		Short:      "Rewrite configuration files to the canonical style",
		Long: "fmt rewrites *.locktree.hcl and *.ltvars files in place and lists those it changed.\n" +
			"It lays them out, quotes labels and unwraps \"${x}\".\n" +
			"\"-\" formats standard input to standard output. Exit codes: 2 if a file does not parse\n" +
			"(it is left as it was), 3 with -check if a file would change.",
		RunE: func(_ *cobra.Command, args []string) error { return f.run(args) },
	}
	c.Flags().BoolVar(&f.list, "list", true, "list the files that changed")
	c.Flags().BoolVar(&f.write, "write", true, "write the files; -write=false only lists them")
	c.Flags().BoolVar(&f.diff, "diff", false, "show what changes")
	c.Flags().BoolVar(&f.check, "check", false, "write nothing; exit with 3 if a file would change")
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
		return exitWith(exitFmtRead)
	case f.check && f.changed:
		return exitWith(exitFmtDiff)
	}
	return nil
}

func (f *formatter) target(arg string) error {
	if arg == "-" {
		src, err := io.ReadAll(f.stdin)
		if err != nil {
			return view.Failf("Cannot read standard input", "%v.", err)
		}
		return f.standardInput(src)
	}
	info, err := os.Stat(f.path(arg))
	if err != nil {
		return &codeError{exitFmtRead, view.Failf("Nothing to format", "There is no file or directory at %s.", arg)}
	}
	if !info.IsDir() {
		if !formattable(arg) {
			return &codeError{exitFmtRead, view.Failf("Nothing to format", "%s is neither a *.locktree.hcl nor a *.ltvars file.", arg)}
		}
		return f.file(arg)
	}
	return filepath.WalkDir(f.path(arg), func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != f.path(arg) && (!f.recursive || strings.HasPrefix(d.Name(), ".")):
			return fs.SkipDir
		case d.IsDir() || !formattable(path):
			return nil
		}
		shown := path
		if rel, err := filepath.Rel(f.path("."), path); err == nil {
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
