// Package disk writes what commands leave on disk. It also formats configuration files, and keeps generated code up to date.
//
// Replace writes a file whole or not at all: a reader, or a crash, meets the old content or the new one.
//
//	err := disk.Replace(path, 0o600, func(w io.Writer) error { ... })
package disk

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Create writes a file that does not exist yet.
func Create(name string, mode os.FileMode, content []byte) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Close())
}

// Replace writes a file in one step. It writes through a symbolic link.
func Replace(path string, mode fs.FileMode, write func(io.Writer) error) error {
	path = target(path)
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

// target returns the path that a symbolic link names, even if no file is there yet. A rename onto the link would replace the link.
func target(path string) string {
	if file, err := filepath.EvalSymlinks(path); err == nil {
		return file
	}
	to, err := os.Readlink(path)
	switch {
	case err != nil:
		return path
	case filepath.IsAbs(to):
		return to
	}
	return filepath.Join(filepath.Dir(path), to)
}
