//go:build linux

package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"github.com/locktree/locktree/examples/compare/bench"
	"github.com/locktree/locktree/examples/compare/drivers"
)

// target is what a figure of locktree should be. Nothing asserts it: times depend on the machine.
type target struct {
	workload string
	of       string // the system it is about; empty is drivers.Ours
	beside   string // who that is compared with, or empty
	name     string
	figure   func(Row) Spread
	want     float64
	atMost   bool // rather than at least
	alone    bool // with one ZooKeeper server, and not with three
}

var targets = []target{
	{workload: bench.Alone, beside: "curator", name: "cycles", figure: ratioOf, want: 1.15},
	{workload: bench.Many, beside: "curator", name: "cycles", figure: ratioOf, want: 1.2},
	{workload: bench.Many, beside: "go-zookeeper", name: "cycles", figure: ratioOf, want: 1.1, alone: true},
	{workload: bench.Crowded, beside: "curator", name: "cycles", figure: ratioOf, want: 1.2},
	{workload: bench.Contended, beside: "curator", name: "cycles", figure: ratioOf, want: 1.2},
	{workload: bench.Crowd, beside: "writes", name: "cycles, in serial writes", figure: ratioOf, want: 0.95},
	{workload: bench.Crowd, beside: "exchanges", name: "cycles, in serial exchanges", figure: ratioOf, want: 0.95},
	{workload: bench.HandedOn, name: "cycles a second", figure: func(r Row) Spread { return r.PerSecond }, want: 200_000},
	{workload: bench.HandedOn, name: "requests a cycle: a rotation's only", figure: func(r Row) Spread { return r.Requests }, want: 0.01, atMost: true},
	{workload: bench.Many, beside: "requests", name: "client CPU a cycle", figure: func(r Row) Spread { return r.CPURatio }, want: 1.2, atMost: true},
	{workload: bench.Contended, name: "requests a cycle", figure: func(r Row) Spread { return r.Requests }, want: 6, atMost: true},
	{workload: bench.Contended, name: "events a cycle", figure: func(r Row) Spread { return r.Events }, want: 2, atMost: true},
	{workload: bench.Stream, of: drivers.OurExchange, beside: "curator", name: "cycles", figure: ratioOf, want: 2},
	{workload: bench.Stream, of: drivers.OurKeys, beside: "curator", name: "cycles", figure: ratioOf, want: 0.75},
	{workload: bench.Stream, of: drivers.OurKeysReleased, beside: "curator", name: "cycles", figure: ratioOf, want: 1.3},
	{workload: bench.Stream, of: drivers.OurKeysKept, beside: "curator", name: "cycles", figure: ratioOf, want: 50},
	{workload: bench.Streams, of: drivers.OurRelease, beside: "curator", name: "cycles", figure: ratioOf, want: 1.3},
	{workload: bench.Streams, of: drivers.OurExchange, beside: "curator", name: "cycles", figure: ratioOf, want: 1.6},
}

func ratioOf(r Row) Spread { return r.Ratio }

func (t target) system() string { return cmp.Or(t.of, drivers.Ours) }

// Targeted says whether a target is about that workload of that system.
func Targeted(workload, system string) bool {
	return slices.ContainsFunc(targets, func(t target) bool {
		return t.workload == workload && (system == t.system() || system == t.beside)
	})
}

// Targets writes what the library is to reach, and what it has reached in this run.
func Targets(w io.Writer, r *Report) {
	fmt.Fprint(w, "\n## Targets\n\n| workload | of | | beside | target | measured: median and range | |\n|---|---|---|---|---|---|---|\n")
	for _, t := range targets {
		if t.alone && r.Plan.Members > 1 {
			continue
		}
		bound := "≥"
		if t.atMost {
			bound = "≤"
		}
		got := r.reached(t)
		verdict := "not measured in this run"
		switch {
		case got.N == 0:
		case t.atMost == (got.Median <= t.want) || got.Median == t.want:
			verdict = "reached"
		default:
			verdict = "missed"
		}
		fmt.Fprintf(w, "| %s | %s | %s | %s | %s %g | %s | %s |\n", t.workload, t.system(), t.name, t.beside, bound, t.want, got.figure(), verdict)
	}
}

// reached is the figure of a target: of the system's own row, or of the row of who it is beside.
func (r *Report) reached(t target) Spread {
	for _, work := range r.Workloads {
		if work.Name != t.workload {
			continue
		}
		for _, row := range Rows(r.Results.Samples, work, r.Systems, t.system()) {
			if row.System == cmp.Or(t.beside, t.system()) {
				return t.figure(row)
			}
		}
	}
	return Spread{}
}

// figure is a ratio, or a whole number where that is large.
func (s Spread) figure() string {
	if s.Median >= 1000 {
		return s.ranged(func(v float64) string { return fmt.Sprintf("%.0f", v) })
	}
	return s.ratio()
}
