package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// member is a file of an archive.
type member struct {
	name string
	mode int64
	from string // the file with its contents
}

// members returns the members of an archive for a platform: the binary, and what belongs to it.
func (r *release) members(t target) ([]member, error) {
	program := r.program(t)
	all := []member{{filepath.Base(program), 0o755, program}}
	for _, name := range []string{"LICENSE", "README.md", "CHANGELOG.md"} {
		all = append(all, member{name, 0o644, filepath.Join(r.root, name)})
	}
	for _, dir := range []string{"completions", "man"} {
		files, err := os.ReadDir(filepath.Join(r.work, dir)) // sorted
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			all = append(all, member{dir + "/" + f.Name(), 0o644, filepath.Join(r.work, dir, f.Name())})
		}
	}
	return all, nil
}

// archive writes a .tar.gz, and a .zip for Windows.
func (r *release) archive(t target) error {
	members, err := r.members(t)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	if t.os == "windows" {
		if err := r.zip(&out, members); err != nil {
			return err
		}
		return r.write(r.name(t, ".zip"), out.Bytes())
	}
	z := gzip.NewWriter(&out)
	if err := r.tar(z, members); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	return r.write(r.name(t, ".tar.gz"), out.Bytes())
}

func (r *release) tar(to io.Writer, members []member) error {
	w := tar.NewWriter(to)
	for _, m := range members {
		content, err := os.ReadFile(m.from)
		if err != nil {
			return err
		}
		if err := w.WriteHeader(tarHeader(m.name, m.mode, len(content), r.time)); err != nil {
			return err
		}
		if _, err := w.Write(content); err != nil {
			return err
		}
	}
	return w.Close()
}

func tarHeader(name string, mode int64, size int, at time.Time) *tar.Header {
	return &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: int64(size), ModTime: at, Format: tar.FormatUSTAR}
}

func (r *release) zip(to io.Writer, members []member) error {
	w := zip.NewWriter(to)
	for _, m := range members {
		content, err := os.ReadFile(m.from)
		if err != nil {
			return err
		}
		header := &zip.FileHeader{Name: m.name, Method: zip.Deflate, Modified: r.time}
		header.SetMode(os.FileMode(m.mode))
		file, err := w.CreateHeader(header)
		if err != nil {
			return err
		}
		if _, err := file.Write(content); err != nil {
			return err
		}
	}
	return w.Close()
}

// checksums writes SHA256SUMS, for sha256sum -c.
func (r *release) checksums() error {
	files, err := os.ReadDir(r.out) // sorted
	if err != nil {
		return err
	}
	var sums strings.Builder
	for _, f := range files {
		content, err := os.ReadFile(filepath.Join(r.out, f.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(content), f.Name())
	}
	return r.write(filepath.Join(r.out, "SHA256SUMS"), []byte(sums.String()))
}
