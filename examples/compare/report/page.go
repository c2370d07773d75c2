//go:build linux

// Package report renders what was measured.
package report

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
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
	Machine   Machine          `json:"machine"`
	Plan      Plan             `json:"plan"`
	Results   *bench.Results   `json:"results"`
	Claims    claims.Results   `json:"claims"`
	Systems   []drivers.System `json:"-"`
	Workloads []bench.Workload `json:"-"`
}

// Plan is how the samples were taken.
type Plan struct {
	Seconds float64 `json:"seconds_of_a_sample"`
	Members int     `json:"zookeeper_servers"`
	Quick   bool    `json:"quick"`
}

// pageText is the page, of what carries over to other machines: ratios within one round, and counts. The samples have the rest.
//
//go:embed page.md
var pageText string

var page = template.Must(template.New("page").Funcs(template.FuncMap{"cell": cell}).Parse(pageText))

// Page writes the page.
func Page(w io.Writer, r *Report) error { return page.Execute(w, r) }

// row is one system's line in the table of a workload: what its rounds have in common.
type row struct {
	System, Durable  string
	Requests, Events spread
	Ratio            spread // how many times as fast locktree is, round by round; empty for locktree itself
}

// spread is a median with the range around it. The zero value is of nothing.
type spread struct {
	N                int
	Median, Min, Max float64
}

// over is of what can be said of samples, which is a number that is not negative.
func over(samples []bench.Sample, f func(bench.Sample) float64) spread {
	var all []float64
	for _, s := range samples {
		if v := f(s); v >= 0 && !math.IsInf(v, 0) {
			all = append(all, v)
		}
	}
	if len(all) == 0 {
		return spread{}
	}
	slices.Sort(all)
	n := len(all)
	return spread{n, (all[(n-1)/2] + all[n/2]) / 2, all[0], all[n-1]}
}

// Times is a ratio, such as "1.31 (1.22–1.40)", with two digits of what is small.
func (s spread) Times() string {
	show := func(v float64) string {
		if v < 0.1 {
			return fmt.Sprintf("%.2g", v)
		}
		return fmt.Sprintf("%.2f", v)
	}
	switch s.N {
	case 0:
		return "–"
	case 1:
		return show(s.Median)
	}
	return fmt.Sprintf("%s (%s–%s)", show(s.Median), show(s.Min), show(s.Max))
}

// Count is a number per cycle.
func (s spread) Count() string {
	if s.N == 0 {
		return "–"
	}
	return fmt.Sprintf("%.2f", s.Median)
}

// speed is what was measured of a workload.
type speed struct {
	Title, Away string
	Rows        []row
	Notes       []string // what is not in the table, and what went wrong in what is
}

// Speeds are those of all workloads, each with the systems in their order.
func (r *Report) Speeds() (all []speed) {
	for _, work := range r.Workloads {
		s := speed{Title: strings.ToUpper(work.Name[:1]) + work.Name[1:], Away: "loopback"}
		if work.RoundTrip > 0 {
			s.Away = fmt.Sprintf("loopback and %v", work.RoundTrip)
		}
		ours := map[int]float64{}
		for _, system := range r.Systems {
			s.add(r, work, system, ours)
		}
		all = append(all, s)
	}
	return all
}

// add adds a system. Each of its samples is put beside the one of the same round in ours, which the first system fills.
func (s *speed) add(r *Report, work bench.Workload, system drivers.System, ours map[int]float64) {
	var mine []bench.Sample
	var failed, overlaps int64
	missing, first := "", ""
	for _, of := range r.Results.Samples {
		if of.Workload != work.Name || of.System != system.Name {
			continue
		}
		failed, overlaps = failed+of.Errors, overlaps+of.Overlaps
		first, missing = cmp.Or(first, of.First), cmp.Or(of.Missing, missing)
		if of.Missing == "" {
			mine = append(mine, of)
		}
	}
	out := row{System: system.Name, Durable: r.durable(system), Requests: over(mine, func(of bench.Sample) float64 { return of.Requests }),
		Events: over(mine, func(of bench.Sample) float64 { return of.Events })}
	if system.Name != drivers.Ours {
		out.Ratio = over(mine, func(of bench.Sample) float64 { return cmp.Or(ours[of.Round], -1) / of.PerSecond })
	} else {
		for _, of := range mine {
			ours[of.Round] = of.PerSecond
		}
	}
	note := func(is bool, format string, args ...any) {
		if is {
			s.Notes = append(s.Notes, fmt.Sprintf(format, args...))
		}
	}
	if len(mine) > 0 {
		s.Rows = append(s.Rows, out)
	}
	note(missing != "", "%s: %s", system.Name, missing)
	note(overlaps > 0, "**%s granted the lock %d times while another client held it**", system.Name, overlaps)
	note(failed > 0, "%s: %d calls failed, the first with: %s", system.Name, failed, first)
}

// durable says where a lock of the system is when it has been granted.
func (r *Report) durable(s drivers.System) string {
	if s.Memory || strings.HasPrefix(r.Results.Servers[s.Server].Durability, "in ") {
		return "memory"
	}
	return "synchronised"
}

// cell keeps a text within its cell.
func cell(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > 300 {
		s = s[:300] + "…"
	}
	return strings.ReplaceAll(strings.ToValidUTF8(s, ""), "|", "\\|")
}

// Machine is where the figures were taken, and what else it was doing.
type Machine struct {
	Cores  int     `json:"cores"`
	Kernel string  `json:"kernel"`
	Go     string  `json:"go"`
	Load   float64 `json:"load"` // processes that wanted a processor in the minute before the run
}

// Here describes this machine.
func Here() Machine {
	m := Machine{Cores: runtime.NumCPU(), Go: runtime.Version()}
	release, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	m.Kernel, _, _ = strings.Cut(strings.TrimSpace(string(release)), "-") // what follows is its builder's own name for it
	load, _ := os.ReadFile("/proc/loadavg")
	_, _ = fmt.Sscan(string(load), &m.Load) // 0 where it cannot be read
	return m
}

// Busy says that the machine had something else to do.
func (m Machine) Busy() bool { return m.Load > 0.25*float64(m.Cores) }

// WriteTo writes the page to a folder, and every sample beside it.
func (r *Report) WriteTo(dir string) error {
	samples, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return cmp.Or(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, "results.json"), samples, 0o644), r.Publish(filepath.Join(dir, "page.md")))
}

// Publish writes the page alone, which is what stands in the repository.
func (r *Report) Publish(name string) error {
	var b bytes.Buffer
	if err := Page(&b, r); err != nil {
		return err
	}
	return os.WriteFile(name, b.Bytes(), 0o644)
}
