//go:build linux

// Package report renders what was measured.
package report

import (
	"cmp"
	_ "embed"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"text/template"

	"github.com/locktree/locktree/examples/compare/bench"
	"github.com/locktree/locktree/examples/compare/claims"
	"github.com/locktree/locktree/examples/compare/drivers"
)

// Report is everything about one run.
type Report struct {
	Cores   int
	Kernel  string
	Go      string
	Load    float64 // processes that wanted a processor in the minute before the run
	Plan    bench.Plan
	Results *bench.Results
	Claims  claims.Results
}

// New returns a report about a run on this machine, still without results.
func New(plan bench.Plan) *Report {
	r := &Report{Plan: plan, Cores: runtime.NumCPU(), Go: runtime.Version()}
	release, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	r.Kernel, _, _ = strings.Cut(strings.TrimSpace(string(release)), "-") // the rest is a name that its builder chose
	load, _ := os.ReadFile("/proc/loadavg")
	_, _ = fmt.Sscan(string(load), &r.Load) // 0 where it cannot be read
	return r
}

// pageText is the page. Most of its figures also hold on other machines: counts, and ratios within one round. The samples have
// the rest.
//
//go:embed page.tmpl
var pageText string

var page = template.Must(template.New("page").Funcs(template.FuncMap{"cell": cell}).Parse(pageText))

// Page writes the page.
func Page(w io.Writer, r *Report) error { return page.Execute(w, r) }

// spread is a median and the range around it. The zero value means that there are no samples.
type spread struct {
	N                int
	Median, Min, Max float64
}

// spreadOf takes the numbers that are not negative: a negative number means unknown.
func spreadOf(all []float64) spread {
	all = slices.DeleteFunc(all, func(v float64) bool { return v < 0 })
	n := len(all)
	if n == 0 {
		return spread{}
	}
	slices.Sort(all)
	return spread{n, (all[(n-1)/2] + all[n/2]) / 2, all[0], all[n-1]}
}

// String has three digits of each, such as "1.31 (1.22–1.4)".
func (s spread) String() string {
	switch s.N {
	case 0:
		return "–"
	case 1:
		return fmt.Sprintf("%.3g", s.Median)
	}
	return fmt.Sprintf("%.3g (%.3g–%.3g)", s.Median, s.Min, s.Max)
}

// row is the line of one system in the table of a workload, over all rounds.
type row struct {
	System, Durable         string
	Ratio, Requests, Events spread // Ratio is locktree's speed in a round divided by this system's; empty for locktree itself
}

// Rows are those of a workload.
func (r *Report) Rows(work bench.Workload) (rows []row) {
	ours := r.Results.Samples[work.Name+"/"+drivers.Ours]
	for _, s := range r.Plan.Systems {
		var ratio, requests, events []float64
		for round, of := range r.Results.Samples[work.Name+"/"+s.Name] {
			if of.Missing != "" {
				continue
			}
			if s.Name != drivers.Ours && round < len(ours) && ours[round].Missing == "" {
				ratio = append(ratio, ours[round].PerSecond()/of.PerSecond())
			}
			requests, events = append(requests, of.Requests), append(events, of.Events)
		}
		durable := "synchronised"
		if s.Memory || strings.HasPrefix(r.Results.Servers[s.Server].Durability, "in ") {
			durable = "memory"
		}
		if requests != nil {
			rows = append(rows, row{s.Name, durable, spreadOf(ratio), spreadOf(requests), spreadOf(events)})
		}
	}
	return rows
}

// Notes name the systems that are missing from the table of a workload, and the failures of those in it.
func (r *Report) Notes(work bench.Workload) (notes []string) {
	for _, s := range r.Plan.Systems {
		missing, first, failed, overlaps := "", "", int64(0), int64(0)
		for _, of := range r.Results.Samples[work.Name+"/"+s.Name] {
			missing, first = cmp.Or(of.Missing, missing), cmp.Or(first, of.First)
			failed, overlaps = failed+of.Errors, overlaps+of.Overlaps
		}
		note := func(is bool, format string, args ...any) {
			if is {
				notes = append(notes, fmt.Sprintf(format, args...))
			}
		}
		note(missing != "", "%s: %s", s.Name, missing)
		note(overlaps > 0, "**%s granted the lock %d times while another client held it**", s.Name, overlaps)
		note(failed > 0, "%s: %d calls failed, the first with: %s", s.Name, failed, first)
	}
	return notes
}

// cell escapes a text for the cell of a table.
func cell(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > 300 {
		s = s[:300] + "…"
	}
	return strings.ReplaceAll(strings.ToValidUTF8(s, ""), "|", "\\|")
}
