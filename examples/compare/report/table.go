//go:build linux

// Package report renders what was measured.
package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/locktree/locktree/examples/compare/bench"
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
