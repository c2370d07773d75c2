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

// Row is one system's line in the table of a workload: what its rounds have in common.
type Row struct {
	System  string
	Missing string // the reason, where there are no figures

	PerSecond, Requests, Events Spread
	Ratio                       Spread // how many times as fast locktree is, round by round; empty for locktree itself

	Errors, Overlaps int64
	First            string
}

// Spread is a median with the range around it. The zero value is of nothing.
type Spread struct {
	N                int
	Median, Min, Max float64
}

func spread(values []float64) Spread {
	values = slices.DeleteFunc(values, func(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) || v < 0 })
	if len(values) == 0 {
		return Spread{}
	}
	slices.Sort(values)
	n := len(values)
	return Spread{n, (values[(n-1)/2] + values[n/2]) / 2, values[0], values[n-1]}
}

// Rows are the lines of one workload, in the order of the systems.
func Rows(samples []bench.Sample, w bench.Workload, systems []drivers.System) (rows []Row) {
	ours := map[int]bench.Sample{}
	for _, s := range samples {
		if s.Workload == w.Name && s.System == drivers.Ours && s.Missing == "" {
			ours[s.Round] = s
		}
	}
	for _, system := range systems {
		var mine []bench.Sample
		row := Row{System: system.Name}
		for _, s := range samples {
			if s.Workload != w.Name || s.System != system.Name {
				continue
			}
			row.Errors, row.Overlaps = row.Errors+s.Errors, row.Overlaps+s.Overlaps
			row.First, row.Missing = cmp.Or(row.First, s.First), cmp.Or(s.Missing, row.Missing)
			if s.Missing == "" {
				mine = append(mine, s)
			}
		}
		if len(mine) == 0 && row.Missing == "" {
			continue // it is no part of this workload
		}
		row.PerSecond = over(mine, func(s bench.Sample) float64 { return s.PerSecond })
		row.Requests = over(mine, func(s bench.Sample) float64 { return s.Requests })
		row.Events = over(mine, func(s bench.Sample) float64 { return s.Events })
		if system.Name != drivers.Ours { // each sample is put beside the one of the same round
			row.Ratio = over(mine, func(s bench.Sample) float64 {
				if o, ok := ours[s.Round]; ok {
					return o.PerSecond / s.PerSecond
				}
				return math.NaN()
			})
		}
		rows = append(rows, row)
	}
	return rows
}

func over(samples []bench.Sample, f func(s bench.Sample) float64) Spread {
	var all []float64
	for _, s := range samples {
		all = append(all, f(s))
	}
	return spread(all)
}

// ratio is a median with its range, such as "1.31 (1.22–1.40)".
func (s Spread) ratio() string {
	switch s.N {
	case 0:
		return "–"
	case 1:
		return times(s.Median)
	}
	return fmt.Sprintf("%s (%s–%s)", times(s.Median), times(s.Min), times(s.Max))
}

// times keeps two digits of what is small.
func times(v float64) string {
	if v < 0.1 {
		return fmt.Sprintf("%.2g", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// count is a number per cycle.
func (s Spread) count() string {
	if s.N == 0 {
		return "–"
	}
	return fmt.Sprintf("%.2f", s.Median)
}

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

var page = template.Must(template.New("page").Funcs(template.FuncMap{"cell": cell, "ratio": Spread.ratio, "count": Spread.count}).Parse(pageText))

// Page writes the page.
func Page(w io.Writer, r *Report) error { return page.Execute(w, r) }

// ground is what a system ran on, for the page.
type ground struct {
	System, Client string
	bench.Ground
}

// Grounds are those of all systems.
func (r *Report) Grounds() (all []ground) {
	for _, s := range r.Systems {
		all = append(all, ground{s.Name, r.Results.Clients[s.Name], r.Results.Servers[s.Server]})
	}
	return all
}

// speed is what was measured of a workload, for the page.
type speed struct {
	Title, Away string
	Measured    []Row
	Notes       []string // what is not in the table, and what went wrong in what is
}

// Speeds are those of all workloads.
func (r *Report) Speeds() (all []speed) {
	for _, work := range r.Workloads {
		s := speed{Title: strings.ToUpper(work.Name[:1]) + work.Name[1:], Away: "loopback"}
		if work.RoundTrip > 0 {
			s.Away = fmt.Sprintf("loopback and %v", work.RoundTrip)
		}
		for _, row := range Rows(r.Results.Samples, work, r.Systems) {
			if row.PerSecond.N > 0 {
				s.Measured = append(s.Measured, row)
			}
			if row.Missing != "" {
				s.Notes = append(s.Notes, row.System+": "+row.Missing)
			}
			if row.Overlaps > 0 {
				s.Notes = append(s.Notes, fmt.Sprintf("**%s granted the lock %d times while somebody else held it**", row.System, row.Overlaps))
			}
			if row.Errors > 0 {
				s.Notes = append(s.Notes, fmt.Sprintf("%s: %d calls failed, the first with: %s", row.System, row.Errors, row.First))
			}
		}
		all = append(all, s)
	}
	return all
}

// Durable says where a lock of the system is when it has been granted.
func (r *Report) Durable(system string) string {
	for _, s := range r.Systems {
		if s.Name != system {
			continue
		}
		if s.Memory || strings.HasPrefix(r.Results.Servers[s.Server].Durability, "in ") {
			return "memory"
		}
		return "synchronised"
	}
	return ""
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
	CPU    string  `json:"cpu"`
	Cores  int     `json:"cores"`
	Kernel string  `json:"kernel"`
	Go     string  `json:"go"`
	Load   float64 `json:"load"` // processes that wanted a processor in the minute before the run
}

// Here describes this machine.
func Here() Machine {
	m := Machine{Cores: runtime.NumCPU(), Go: runtime.Version()}
	for line := range strings.Lines(read("/proc/cpuinfo")) {
		if name, ok := strings.CutPrefix(line, "model name"); ok {
			m.CPU = strings.TrimLeft(strings.TrimSpace(name), ": ")
			break
		}
	}
	release, _, _ := strings.Cut(strings.TrimSpace(read("/proc/sys/kernel/osrelease")), "-") // what follows is somebody's own name for it
	m.Kernel = release
	_, _ = fmt.Sscan(read("/proc/loadavg"), &m.Load) // 0 where it cannot be read
	return m
}

func read(name string) string {
	b, _ := os.ReadFile(name)
	return string(b)
}

// Busy says that the machine had something else to do.
func (m Machine) Busy() bool { return m.Load > 0.25*float64(m.Cores) }

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
