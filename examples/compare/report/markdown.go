//go:build linux

package report

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

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
	Rounds  int     `json:"rounds"`
	Seconds float64 `json:"seconds_of_a_sample"`
	Members int     `json:"zookeeper_servers"`
	Quick   bool    `json:"quick"`
}

// JSON writes every sample.
func JSON(w io.Writer, r *Report) {
	e := json.NewEncoder(w)
	_ = e.Encode(r) // of numbers and texts; the writer is a file, whose Close tells
}

// Markdown writes the page with all figures: what they are on this machine, in this hour.
func Markdown(w io.Writer, r *Report) { r.page(w, true) }

// Page writes what carries over to other machines, which is what may be published: ratios within one round, and counts.
func Page(w io.Writer, r *Report) { r.page(w, false) }

func (r *Report) page(w io.Writer, absolute bool) {
	fmt.Fprint(w, "# Lock services compared\n\n")
	r.Machine.write(w)
	fmt.Fprintf(w, "\nRounds: %d, in which the systems take turns in another order each time; a sample is %.2g s of a load that has warmed up.\n",
		r.Plan.Rounds, r.Plan.Seconds)
	fmt.Fprint(w, strings.TrimSpace(rules), "\n\n")
	r.grounds(w)
	for _, work := range r.Workloads {
		rows := Rows(r.Results.Samples, work, r.Systems)
		fmt.Fprintf(w, "\n## %s\n\n", strings.ToUpper(work.Name[:1])+work.Name[1:])
		measured := func(r Row) bool { return r.PerSecond.N > 0 }
		switch {
		case !slices.ContainsFunc(rows, measured):
			fmt.Fprintln(w, "Nothing was measured.")
		case absolute:
			full(w, rows)
		default:
			relative(w, rows)
		}
		notes(w, rows, work)
	}
	r.Claims.Write(w)
}

const rules = `
A cycle is a lock acquired and released.
A wait lasts from the start of an acquisition to its grant, or from when it was due where arrivals are on a schedule.
The server counts requests and events; the kernel counts the processor time of the processes.
*locktree is … times as fast* compares the cycles of one round, or the median waits where arrivals are on a schedule: the
median of all rounds and the range. locktree is asked for the fencing token of every grant; most others have none.
Clients, servers and what injects round trips share the processors of one machine.
`

func (r *Report) grounds(w io.Writer) {
	fmt.Fprint(w, "| system | runs on | a write is answered when it is |\n|---|---|---|\n")
	for _, s := range r.Systems {
		g := r.Results.Servers[s.Server]
		name := s.Name
		if s.Floor {
			name += " (no lock, but what is under one)"
		}
		if g.Missing != "" {
			fmt.Fprintf(w, "| %s | not measured: %s | |\n", name, cell(g.Missing))
			continue
		}
		fmt.Fprintf(w, "| %s | %s | %s |\n", name, cell(g.Version), g.Durability)
	}
}

func full(w io.Writer, rows []Row) {
	fmt.Fprint(w, "| | cycles/s | wait p50 | p99 | requests a cycle | events a cycle | client CPU µs | server CPU µs | locktree is … times as fast |\n")
	fmt.Fprint(w, "|---|---|---|---|---|---|---|---|---|\n")
	for _, r := range rows {
		if r.PerSecond.N == 0 {
			continue
		}
		fmt.Fprintf(w, "| %s | %s | %s | %s | %s | %s | %.0f | %.0f | %s |\n", r.System, r.PerSecond.whole(), r.P50.duration(), r.P99.duration(),
			r.Requests.count(), r.Events.count(), r.ClientCPU.Median, r.ServerCPU.Median, r.Ratio.ratio())
	}
}

func relative(w io.Writer, rows []Row) {
	fmt.Fprint(w, "| | locktree is … times as fast | requests a cycle | events a cycle | locktree's client uses … times the CPU | its server |\n")
	fmt.Fprint(w, "|---|---|---|---|---|---|\n")
	for _, r := range rows {
		if r.PerSecond.N == 0 {
			continue
		}
		fmt.Fprintf(w, "| %s | %s | %s | %s | %s | %s |\n", r.System, r.Ratio.ratio(), r.Requests.count(), r.Events.count(),
			r.CPURatio.ratio(), r.ServerRatio.ratio())
	}
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
		all = append(all, "only locktree has this; of the others the figures are those without it")
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
