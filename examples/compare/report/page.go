// Package report renders what was measured.
package report

import (
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
	"time"

	"github.com/locktree/locktree/examples/compare/bench"
	"github.com/locktree/locktree/examples/compare/claims"
	"github.com/locktree/locktree/examples/compare/drivers"
)

// Row is one system's line in the table of a workload: what its rounds have in common.
type Row struct {
	System  string
	Missing string // the reason, where there are no figures

	PerSecond, P50, P99                    Spread
	Requests, Events, ClientCPU, ServerCPU Spread
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
			row.First = cmp.Or(row.First, s.First)
			if s.Missing != "" {
				row.Missing = s.Missing
				continue
			}
			mine = append(mine, s)
		}
		if len(mine) == 0 && row.Missing == "" {
			continue // it is no part of this workload
		}
		row.fill(mine, ours, w.Load.Rate > 0)
		rows = append(rows, row)
	}
	return rows
}

func (r *Row) fill(mine []bench.Sample, ours map[int]bench.Sample, scheduled bool) {
	of := func(f func(s bench.Sample) float64) Spread {
		var all []float64
		for _, s := range mine {
			all = append(all, f(s))
		}
		return spread(all)
	}
	r.PerSecond = of(func(s bench.Sample) float64 { return s.PerSecond })
	r.P50 = of(func(s bench.Sample) float64 { return float64(s.P50) })
	r.P99 = of(func(s bench.Sample) float64 { return float64(s.P99) })
	r.Requests = of(func(s bench.Sample) float64 { return s.Requests })
	r.Events = of(func(s bench.Sample) float64 { return s.Events })
	r.ClientCPU = of(func(s bench.Sample) float64 { return s.ClientCPU })
	r.ServerCPU = of(func(s bench.Sample) float64 { return s.ServerCPU })
	if r.System == drivers.Ours {
		return
	}
	against := func(f func(s, o bench.Sample) float64) Spread {
		return of(func(s bench.Sample) float64 {
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

// whole is a median with its range, in whole numbers.
func (s Spread) whole() string {
	switch s.N {
	case 0:
		return "–"
	case 1:
		return fmt.Sprintf("%.0f", s.Median)
	}
	return fmt.Sprintf("%.0f (%.0f–%.0f)", s.Median, s.Min, s.Max)
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

// JSON writes every sample.
func JSON(w io.Writer, r *Report) {
	e := json.NewEncoder(w)
	_ = e.Encode(r) // of numbers and texts; the writer is a file, whose Close tells
}

// Page writes what carries over to other machines: ratios within one round, and counts. The samples have the rest.
func Page(w io.Writer, r *Report) {
	fmt.Fprint(w, "<!-- Written by `make compare`; do not edit. -->\n# Lock services compared\n\nWhat these figures say about what is said of lock services: [CLAIMS.md](CLAIMS.md).\n\n")
	r.Machine.write(w)
	fmt.Fprintf(w, "\nRounds: %d. In each, the systems take turns in a different order; a sample is %.2g s of a load that has warmed up.\n",
		r.Results.Rounds, r.Plan.Seconds)
	if r.Results.Rounds < 10 {
		fmt.Fprint(w, "\n**Fewer than ten: the speeds are rough. Counts are not.**\n\n")
	}
	fmt.Fprint(w, rules, "\n")
	fmt.Fprint(w, "\n## What ran\n\n")
	r.grounds(w)
	fmt.Fprint(w, "\n", notHere)
	fmt.Fprint(w, "\n## Speed\n")
	for _, work := range r.Workloads {
		rows := Rows(r.Results.Samples, work, r.Systems)
		away := "loopback"
		if work.RoundTrip > 0 {
			away = fmt.Sprintf("loopback and %v", work.RoundTrip)
		}
		fmt.Fprintf(w, "\n### %s\n\n", strings.ToUpper(work.Name[:1])+work.Name[1:])
		measured := func(r Row) bool { return r.PerSecond.N > 0 }
		if rounds := most(rows); rounds > 0 && rounds < r.Results.Rounds {
			fmt.Fprintf(w, "Rounds: %d.\n\n", rounds)
		}
		if slices.ContainsFunc(rows, measured) {
			r.table(w, rows, away)
		} else {
			fmt.Fprintln(w, "Nothing was measured.")
		}
		notes(w, rows, work)
	}
	fmt.Fprint(w, "\n## Experiments\n")
	r.Claims.Write(w)
}

// most is in how many rounds there were figures.
func most(rows []Row) (n int) {
	for _, row := range rows {
		n = max(n, row.PerSecond.N)
	}
	return n
}

func (r *Report) grounds(w io.Writer) {
	fmt.Fprint(w, "| system | client | runs on | a write is answered when it is |\n|---|---|---|---|\n")
	for _, s := range r.Systems {
		g := r.Results.Servers[s.Server]
		name := s.Name
		if s.Floor {
			name += " (no lock, but what is under one)"
		}
		if g.Missing != "" {
			fmt.Fprintf(w, "| %s | %s | not measured: %s | |\n", name, r.Results.Clients[s.Name], cell(g.Missing))
			continue
		}
		fmt.Fprintf(w, "| %s | %s | %s | %s |\n", name, r.Results.Clients[s.Name], cell(g.Version), g.Durability)
	}
}

func (r *Report) table(w io.Writer, rows []Row, away string) {
	fmt.Fprint(w, "| | durable | round trip | locktree is … times as fast | p99 of its waits, as a multiple of locktree's | requests a cycle | events a cycle | locktree's client uses … times the CPU | its server |\n")
	fmt.Fprint(w, "|---|---|---|---|---|---|---|---|---|\n")
	for _, row := range rows {
		if row.PerSecond.N == 0 {
			continue
		}
		fmt.Fprintf(w, "| %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", row.System, r.durable(row.System), away, row.Ratio.ratio(), row.Tail.ratio(),
			row.Requests.count(), row.Events.count(), row.CPURatio.ratio(), row.ServerRatio.ratio())
	}
}

// durable says where a lock of the system is when it has been granted.
func (r *Report) durable(system string) string {
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

// notes say what is not in the table, and what went wrong in what is.
func notes(w io.Writer, rows []Row, work bench.Workload) {
	var all []string
	for _, r := range rows {
		if r.Missing != "" {
			all = append(all, fmt.Sprintf("%s: %s", r.System, r.Missing))
		}
		if r.Overlaps > 0 && r.System != "" {
			all = append(all, fmt.Sprintf("**%s granted the lock %d times while somebody else held it**", r.System, r.Overlaps))
		}
		if r.Errors > 0 {
			all = append(all, fmt.Sprintf("%s: %d calls failed, the first with: %s", r.System, r.Errors, r.First))
		}
	}
	if work.Instead != "" {
		all = append(all, "only locktree has this; the figures of the others are those without it")
	}
	for _, n := range slices.Compact(all) {
		fmt.Fprintf(w, "\n- %s", cell(n))
	}
	if len(all) > 0 {
		fmt.Fprintln(w)
	}
}

// cell keeps a text within its cell.
func cell(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > 300 {
		s = strings.ToValidUTF8(s[:300], "") + "…"
	}
	return strings.ReplaceAll(s, "|", "\\|")
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

// busy: the figures are of a machine that had something else to do.
func (m Machine) busy() bool { return m.Load > 0.25*float64(m.Cores) }

func (m Machine) write(w io.Writer) {
	fmt.Fprintf(w, "%s, %d cores, Linux %s, %s. Synchronising 512 bytes to its disk takes %v (median).\n",
		cmp.Or(m.CPU, "Unknown processor"), m.Cores, m.Kernel, m.Go, m.Sync.Round(time.Microsecond))
	if m.busy() {
		fmt.Fprintf(w, "\n**On average, %.1f processes were runnable in the minute before this run: its speeds are rough. Do not quote them.**\n", m.Load)
	}
}

// rules say how to read the page, and notHere what it leaves out.
var (
	//go:embed rules.md
	rules string
	//go:embed nothere.md
	notHere string
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
