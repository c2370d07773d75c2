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
	fmt.Fprint(w, strings.TrimSpace(rules), "\n\n")
	fmt.Fprint(w, "\n## What ran\n\n")
	r.grounds(w)
	fmt.Fprintf(w, "\n%s\n", notHere)
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
