//go:build linux

package report

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/locktree/locktree/examples/compare/bench"
	"github.com/locktree/locktree/examples/compare/drivers"
)

// Read returns the report whose JSON is in a file: a page can be rendered in other words without another run.
func Read(name string) (*Report, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	r := &Report{}
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("%s is not the results.json of a run: %w", name, err)
	}
	if r.Results == nil {
		return nil, fmt.Errorf("%s is not the results.json of a run: it has no results", name)
	}
	r.Fit()
	return r, nil
}

// Fit names the systems and workloads of which there are samples, or why there are none.
func (r *Report) Fit() {
	has := func(match func(bench.Sample) bool) bool { return slices.ContainsFunc(r.Results.Samples, match) }
	r.Systems = slices.DeleteFunc(slices.Clone(drivers.All), func(s drivers.System) bool {
		return !has(func(of bench.Sample) bool { return of.System == s.Name })
	})
	r.Workloads = slices.DeleteFunc(slices.Clone(bench.Workloads), func(w bench.Workload) bool {
		return !has(func(of bench.Sample) bool { return of.Workload == w.Name })
	})
}

// WriteTo writes the page under a name below dir, and every sample beside it.
func (r *Report) WriteTo(dir, page string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := write(filepath.Join(dir, "results.json"), func(w io.Writer) error { JSON(w, r); return nil }); err != nil {
		return err
	}
	return r.Publish(filepath.Join(dir, page))
}

// Publish writes the page alone, which is what stands in the repository.
func (r *Report) Publish(name string) error {
	return write(name, func(w io.Writer) error { Page(w, r); return nil })
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
