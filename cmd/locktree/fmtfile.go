package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/hashicorp/hcl/v2"
	"github.com/rogpeppe/go-internal/diff"

	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/config"
)

func (f *formatter) file(name string) error {
	src, err := os.ReadFile(f.path(name))
	if err != nil {
		return &codeError{exitFmtRead, view.Failf("Cannot read "+name, "%v.", err)}
	}
	out, ok := f.format(src, name)
	if !ok || bytes.Equal(src, out) {
		return nil
	}
	f.changed = true
	if f.list {
		fmt.Fprintln(f.stdout, name)
	}
	if f.diff {
		f.showDiff(name, src, out)
	}
	if f.write {
		info, err := os.Stat(f.path(name))
		if err == nil {
			err = replaceFile(f.path(name), info.Mode().Perm(), func(w io.Writer) error { _, err := w.Write(out); return err })
		}
		if err != nil {
			return view.Failf("Cannot write "+name, "%v. The file is as it was.", err)
		}
	}
	return nil
}

// standardInput writes the formatted text, or what -check and -diff ask for.
func (f *formatter) standardInput(src []byte) error {
	out, ok := f.format(src, "<stdin>")
	if !ok {
		return nil
	}
	f.changed = f.changed || !bytes.Equal(src, out)
	switch {
	case f.diff:
		f.showDiff("<stdin>", src, out)
	case !f.check:
		_, _ = f.stdout.Write(out) // run reports an error
	}
	return nil
}

func (f *formatter) showDiff(name string, before, after []byte) {
	_, text, _ := bytes.Cut(diff.Diff("old/"+name, before, "new/"+name, after), []byte("\n")) // the first line repeats the names
	_, _ = f.stdout.Write(text)
}

func (f *formatter) format(src []byte, name string) ([]byte, bool) {
	out, diags := config.Format(src, name)
	if diags.HasErrors() {
		f.broken = true
		f.view().Diagnostics(diags, map[string]*hcl.File{name: {Bytes: src}})
		return nil, false
	}
	return out, true
}

// replaceFile swaps the content in one step: an editor, or a crash, sees the old text or the new one.
func replaceFile(path string, mode fs.FileMode, write func(io.Writer) error) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), ".locktree-*")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name()) // fails harmlessly once renamed
	if err := errors.Join(write(tmp), tmp.Chmod(mode), tmp.Close()); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), path)
}
