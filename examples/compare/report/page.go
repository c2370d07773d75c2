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
	"time"

	"github.com/locktree/locktree/examples/compare/bench"
	"github.com/locktree/locktree/examples/compare/claims"
	"github.com/locktree/locktree/examples/compare/drivers"
)

// Row is one system's line in the table of a workload: what its rounds have in common.
type Row struct {
	System  string
	Missing string // the reason, where there are no figures

	PerSecond, Requests, Events Spread
	// Ratio says how many times as fast locktree is, round by round; of arrivals on a schedule, how many times as short
	// its median wait. Empty for locktree itself.
	Ratio, CPURatio, ServerRatio Spread
	// Tail is how many times as long the 99th percentile of its waits is.
	Tail Spread

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

// Rows are the lines of one workload, in the order of the systems. Their ratios are those of the system called of.
func Rows(samples []bench.Sample, w bench.Workload, systems []drivers.System, of string) (rows []Row) {
	ours := map[int]bench.Sample{}
	for _, s := range samples {
		if s.Workload == w.Name && s.System == of && s.Missing == "" {
			ours[s.Round] = s
		}
	}
	for _, system := range systems {
		var mine []bench.Sample
		row := Row{System: system.Name}
		for _, s := range samples {
			if s.Workload != w.Of(system) || s.System != system.Name {
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
		row.fill(mine)
		if system.Name != of {
			row.compare(mine, ours, w.Load.Rate > 0)
		}
		rows = append(rows, row)
	}
	return rows
}

func (r *Row) fill(mine []bench.Sample) {
	r.PerSecond = over(mine, func(s bench.Sample) float64 { return s.PerSecond })
	r.Requests = over(mine, func(s bench.Sample) float64 { return s.Requests })
	r.Events = over(mine, func(s bench.Sample) float64 { return s.Events })
}

// compare puts each sample beside the one of the same round.
func (r *Row) compare(mine []bench.Sample, ours map[int]bench.Sample, scheduled bool) {
	against := func(f func(s, o bench.Sample) float64) Spread {
		return over(mine, func(s bench.Sample) float64 {
			if o, ok := ours[s.Round]; ok {
				return f(s, o)
			}
			return math.NaN()
		})
	}
	r.Ratio = against(func(s, o bench.Sample) float64 {
		if scheduled {
			return float64(s.P50) / float64(o.P50)
		}
		return o.PerSecond / s.PerSecond
	})
	r.Tail = against(func(s, o bench.Sample) float64 { return float64(s.P99) / float64(o.P99) })
	r.CPURatio = against(func(s, o bench.Sample) float64 { return o.ClientCPU / s.ClientCPU })
	r.ServerRatio = against(func(s, o bench.Sample) float64 { return o.ServerCPU / s.ServerCPU })
}

func over(samples []bench.Sample, f func(s bench.Sample) float64) Spread {
	var all []float64
	for _, s := range samples {
		all = append(all, f(s))
	}
	return spread(all)
}

// ratio is a median with its range, such as "1.31 (1.22–1.40)".
func (s Spread) ratio() string { return s.ranged(times) }

func (s Spread) ranged(show func(float64) string) string {
	switch s.N {
	case 0:
		return "–"
	case 1:
		return show(s.Median)
	}
	return fmt.Sprintf("%s (%s–%s)", show(s.Median), show(s.Min), show(s.Max))
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
		g := ground{s.Name, r.Results.Clients[s.Name], r.Results.Servers[s.Server]}
		if s.Floor {
			g.System += " (no lock, but what is under one)"
		}
		all = append(all, g)
	}
	return all
}

// speed is what was measured of a workload, for the page.
type speed struct {
	Title, Away string
	Fewer       int // rounds than the run had, where it has not them all; else 0
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
		rounds := 0
		for _, row := range Rows(r.Results.Samples, work, r.Systems, drivers.Ours) {
			if row.PerSecond.N > 0 {
				s.Measured, rounds = append(s.Measured, row), max(rounds, row.PerSecond.N)
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
		if rounds < r.Results.Rounds {
			s.Fewer = rounds
		}
		if work.Instead != "" {
			s.Notes = append(s.Notes, "only locktree has this; the figures of the others are those without it")
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
		switch d := r.Results.Servers[s.Server].Durability; {
		case s.Memory || strings.HasPrefix(d, "in "):
			return "memory"
		case strings.Contains(d, "not synchronised"):
			return "written"
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
	CPU    string        `json:"cpu"`
	Cores  int           `json:"cores"`
	Kernel string        `json:"kernel"`
	Go     string        `json:"go"`
	Sync   time.Duration `json:"fsync_ns"` // of 512 bytes
	Load   float64       `json:"load"`     // processes that wanted a processor in the minute before the run
}

// Here describes this machine.
func Here(sync time.Duration) Machine {
	m := Machine{Cores: runtime.NumCPU(), Go: runtime.Version(), Sync: sync}
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
