package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// system is the machine's file system, under the names that programs use.
type system struct{}

func (system) Open(name string) (fs.File, error)     { return os.Open(name) }
func (system) Stat(name string) (fs.FileInfo, error) { return os.Stat(name) }

// ReadFile reads a file as a configuration is read: a regular one, of at most 16 MiB.
func ReadFile(name string) ([]byte, error) { return readFile(system{}, name) }

func readFile(fsys fs.FS, name string) ([]byte, error) {
	// Asked before the file is opened: opening a FIFO waits for a writer.
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
	return fmt.Sprintf("the file is larger than %d MiB: split it", maxFileBytes>>20)
}

func readAtMost(r io.Reader) ([]byte, error) {
	src, err := io.ReadAll(io.LimitReader(r, maxFileBytes+1))
	if err == nil && len(src) > maxFileBytes {
		err = tooLarge{}
	}
	return src, err
}

// readText reads the text of a file.
func readText(fsys fs.FS, name string) ([]byte, error) {
	src, err := readFile(fsys, name)
	return plainText(src), err
}
