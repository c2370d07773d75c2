//go:build linux

package report

import (
	"io"
	"os"
	"path/filepath"
)

// WriteTo writes all there is below dir: the page under that name, with its charts, the page with absolute figures, and
// every sample.
func (r *Report) WriteTo(dir, page string) error {
	if err := r.publish(dir, page); err != nil {
		return err
	}
	if err := write(filepath.Join(dir, "results.md"), func(w io.Writer) error { Markdown(w, r); return nil }); err != nil {
		return err
	}
	return write(filepath.Join(dir, "results.json"), func(w io.Writer) error { JSON(w, r); return nil })
}

// Publish writes what stands in the repository.
func (r *Report) Publish(dir string) error { return r.publish(dir, "RESULTS.md") }

func (r *Report) publish(dir, page string) error {
	if err := os.MkdirAll(filepath.Join(dir, "charts"), 0o755); err != nil {
		return err
	}
	for _, c := range r.Charts() {
		if err := write(filepath.Join(dir, "charts", c.File), c.Write); err != nil {
			return err
		}
	}
	return write(filepath.Join(dir, page), func(w io.Writer) error { Page(w, r); return nil })
}

func write(name string, render func(io.Writer) error) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	if err := render(f); err != nil {
		_ = f.Close()
		return err
	}
	return f.Close()
}
