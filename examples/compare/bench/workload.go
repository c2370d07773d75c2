//go:build linux

// Package bench runs workloads on lock services, by turns, and keeps what was measured.
package bench

import (
	"slices"
	"time"

	"github.com/locktree/locktree/examples/compare/drivers"
	"github.com/locktree/locktree/examples/compare/lock"
	"github.com/locktree/locktree/examples/compare/server"
)

// Workload is one row of the comparison for every system.
type Workload struct {
	Name      string
	Load      lock.Load
	RoundTrip time.Duration // between the clients and the servers, beside what loopback takes
	// Instead names the workload from which systems that have no hand-off in the process are taken.
	Instead string
	Brief   bool // part of a quick run
	Usual   bool // part of a run of ten minutes
	Wide    bool // for lock services that are not ZooKeeper's clients, too
	// Floors are what is no lock and is put beside them here, under FloorLoad if that is not nil.
	Floors    []string
	FloorLoad *lock.Load
}

// Workloads that are named elsewhere, too.
const (
	Alone     = "own lock, 1 worker"
	Many      = "own locks, 64 workers on 8 clients"
	Contended = "one lock, 8 workers on 8 clients"
	Crowded   = "one lock, 32 workers on 8 clients"
	Crowd     = "one lock, 1,000 workers on one client"
	HandedOn  = "the same, handed on in the process"
	Stream    = "one lock after another, 1 worker"
	Streams   = "one lock after another, 64 workers on 8 clients"
)

// Workloads that there are.
var Workloads = []Workload{
	{Name: Alone, Brief: true, Usual: true, Wide: true, Load: own(1, 1), Floors: []string{"requests"}},
	{Name: Many, Usual: true, Load: own(64, 8), Floors: []string{"requests"}},
	{Name: Contended, Brief: true, Usual: true, Wide: true, Load: one(8, 8)},
	{Name: Stream, Load: stream(1, 1)},
	{Name: Streams, Load: stream(64, 8)},
	{Name: Crowded, Load: one(32, 8)},
	{Name: "one lock, 32 workers on 32 clients", Load: one(32, 32)},
	{Name: Crowd, Load: one(1000, 1), Floors: []string{"writes", "exchanges"}, FloorLoad: &serial},
	{Name: HandedOn, Load: lock.Load{Kind: lock.Mutex, Clients: 1, Workers: 1000, Locks: 1, Handoff: 1000}, Instead: Crowd}, // a turn for each, and then another client's
	{Name: "read-write lock, 1 writer in 10, 8 workers on 8 clients", Load: lock.Load{Kind: "rw", Clients: 8, Workers: 8, Locks: 1, Reads: 10}},
	{Name: "semaphore of 3, 8 workers on 8 clients", Load: lock.Load{Kind: lock.Semaphore, Clients: 8, Workers: 8, Locks: 1, Permits: 3}},
	{Name: "10 locks at once, 4 workers on 4 clients", Load: lock.Load{Kind: lock.Set, Clients: 4, Workers: 4, Locks: 10, Set: 10}},
	{Name: "one lock kept for 5 ms, 8 workers on 8 clients", Wide: true, Load: lock.Load{Kind: lock.Mutex, Clients: 8, Workers: 8, Locks: 1, Hold: 5 * time.Millisecond}},
	{Name: "own lock, 1 worker, 1 ms away", Usual: true, Wide: true, RoundTrip: time.Millisecond, Load: own(1, 1)},
	{Name: "own lock, 1 worker, 5 ms away", RoundTrip: 5 * time.Millisecond, Load: own(1, 1)},
	{Name: "one lock, 8 workers on 8 clients, 1 ms away", RoundTrip: time.Millisecond, Load: one(8, 8)},
	{Name: "one lock, 8 workers on 8 clients, 5 ms away", RoundTrip: 5 * time.Millisecond, Load: one(8, 8)},
	{Name: "own locks, 100 arrivals a second, 8 workers on one client", Load: scheduled(own(8, 1), 100)},
	{Name: "one lock, 100 arrivals a second, 8 workers on 8 clients", Usual: true, Wide: true, Load: scheduled(one(8, 8), 100)},
}

var serial = own(1, 1)

// Of names the workload whose samples are a system's here, or is empty where it is no part of this one.
func (w Workload) Of(s drivers.System) string {
	switch {
	case s.Stream && w.Load.Stream == 0:
		return ""
	case s.Floor && !slices.Contains(w.Floors, s.Name) || !s.Floor && !s.Client && !w.Wide:
		return ""
	case w.Instead != "" && !s.Handoff:
		return w.Instead
	}
	return w.Name
}

func own(workers, clients int) lock.Load {
	return lock.Load{Kind: lock.Mutex, Clients: clients, Workers: workers, Locks: workers}
}

// stream is workers that go through eight locks each: a lock that is taken again has been free for long.
func stream(workers, clients int) lock.Load {
	return lock.Load{Kind: lock.Mutex, Clients: clients, Workers: workers, Locks: 8 * workers, Stream: 8}
}

func one(workers, clients int) lock.Load {
	return lock.Load{Kind: lock.Mutex, Clients: clients, Workers: workers, Locks: 1}
}

func scheduled(l lock.Load, rate int) lock.Load {
	l.Rate = rate
	return l
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
	Waits    lock.Waits `json:"waits_us"`
}

// fill computes the figures. Server and client were not looked at in the same instants, so what they used is taken by
// its rate.
func (s *Sample) fill(r lock.Result, used server.Usage, serverTook, clientCPU, clientTook time.Duration) {
	s.Seconds, s.Cycles, s.Errors, s.Overlaps, s.First = r.Window.Seconds(), r.Cycles, r.Errors, r.Overlaps, r.First
	s.PerSecond = float64(r.Cycles) / s.Seconds
	s.P50, s.P99 = r.Waits.Percentile(50), r.Waits.Percentile(99)
	s.Waits = r.Waits
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
	s.Requests, s.Events = perCycle(float64(used.Counts.Requests), serverTook), perCycle(float64(used.Counts.Events), serverTook)
	s.ServerCPU = perCycle(float64(used.CPU.Nanoseconds())/1000, serverTook)
	s.ClientCPU = perCycle(float64(clientCPU.Nanoseconds())/1000, clientTook)
}
