//go:build linux

package bench

import (
	"time"

	"github.com/locktree/locktree/examples/compare/lock"
)

// Sample is one workload of one system in one round.
type Sample struct {
	Round    int    `json:"round"`
	Workload string `json:"workload"`
	System   string `json:"system"`

	// Missing says why there is nothing below it.
	Missing string `json:"missing,omitempty"`

	Seconds   float64 `json:"seconds"`
	Cycles    int64   `json:"cycles"`
	PerSecond float64 `json:"cycles_per_second"`
	// P50 and P99 are of the time from the intended start of an acquisition to its grant, in microseconds.
	P50 int64 `json:"p50_us"`
	P99 int64 `json:"p99_us"`
	// Per cycle; -1 where the server does not count it.
	Requests  float64 `json:"requests_per_cycle"`
	Events    float64 `json:"events_per_cycle"`
	ClientCPU float64 `json:"client_cpu_us_per_cycle"`
	ServerCPU float64 `json:"server_cpu_us_per_cycle"`

	Errors   int64      `json:"errors,omitempty"`
	Overlaps int64      `json:"double_grants,omitempty"`
	First    string     `json:"first_error,omitempty"`
	Waits    [][2]int64 `json:"waits_us"` // microseconds and how often
}

// fill computes the figures. Server and client were not looked at in the same instants, so what they used is taken by
// its rate.
func (s *Sample) fill(r lock.Result, requests, events int64, serverCPU, serverTook, clientCPU, clientTook time.Duration) {
	s.Seconds, s.Cycles, s.Errors, s.Overlaps, s.First = r.Window.Seconds(), r.Cycles, r.Errors, r.Overlaps, r.First
	s.PerSecond = float64(r.Cycles) / s.Seconds
	s.P50, s.P99 = r.Waits.ValueAtPercentile(50), r.Waits.ValueAtPercentile(99)
	s.Waits = lock.Buckets(r.Waits)
	if r.Cycles == 0 {
		s.Missing = "nothing was granted within the window"
		return
	}
	perCycle := func(n float64, took time.Duration) float64 {
		if n < 0 {
			return -1
		}
		return n / took.Seconds() / s.PerSecond
	}
	s.Requests, s.Events = perCycle(float64(requests), serverTook), perCycle(float64(events), serverTook)
	s.ServerCPU = perCycle(float64(serverCPU.Nanoseconds())/1000, serverTook)
	s.ClientCPU = perCycle(float64(clientCPU.Nanoseconds())/1000, clientTook)
}
