//go:build linux

// Package bench runs workloads on lock services, by turns, and keeps what was measured.
package bench

import (
	"time"

	"github.com/locktree/locktree/examples/compare/lock"
	"github.com/locktree/locktree/examples/compare/server"
)

// Workload is one row of the comparison for every system.
type Workload struct {
	Name      string
	Load      lock.Load
	RoundTrip time.Duration // between the clients and the servers, beside what loopback takes
	Brief     bool          // part of a quick run
	Wide      bool          // for lock services that are not ZooKeeper's clients, too
}

// Workloads that there are.
var Workloads = []Workload{
	{Name: "own lock, 1 worker", Brief: true, Wide: true, Load: lock.Load{Clients: 1, Workers: 1, Locks: 1}},
	{Name: "own locks, 64 workers on 8 clients", Load: lock.Load{Clients: 8, Workers: 64, Locks: 64}},
	{Name: "one lock, 8 workers on 8 clients", Brief: true, Wide: true, Load: lock.Load{Clients: 8, Workers: 8, Locks: 1}},
	{Name: "own lock, 1 worker, 1 ms away", Wide: true, RoundTrip: time.Millisecond, Load: lock.Load{Clients: 1, Workers: 1, Locks: 1}},
}

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
	// Per cycle; -1 where the server does not count it.
	Requests float64 `json:"requests_per_cycle"`
	Events   float64 `json:"events_per_cycle"`

	Errors   int64  `json:"errors,omitempty"`
	Overlaps int64  `json:"double_grants,omitempty"`
	First    string `json:"first_error,omitempty"`
}

// fill computes the figures. Server and client were not looked at in the same instants, so what the server counted is taken by
// its rate.
func (s *Sample) fill(r lock.Result, counted server.Counts, took time.Duration) {
	s.Seconds, s.Cycles, s.Errors, s.Overlaps, s.First = r.Window.Seconds(), r.Cycles, r.Errors, r.Overlaps, r.First
	s.PerSecond = float64(r.Cycles) / s.Seconds
	if r.Cycles == 0 {
		s.Missing = "nothing was granted within the window"
		return
	}
	perCycle := func(n int64) float64 {
		if n < 0 {
			return -1
		}
		return float64(n) / took.Seconds() / s.PerSecond
	}
	s.Requests, s.Events = perCycle(counted.Requests), perCycle(counted.Events)
}
