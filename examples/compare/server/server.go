//go:build linux

// Package server starts the servers that lock services need, on loopback, with data folders of their own, and ends them.
package server

import (
	"fmt"
	"slices"
)

// Counts are what a server has counted since it began. A server that does not count something says -1.
type Counts struct {
	Requests int64 // from clients
	Events   int64 // sent to clients that watch
}

// Server is one running lock service, of one process or several.
type Server struct {
	Addrs      []string
	Version    string
	Durability string        // what it has done with a write when it answers
	Counts     func() Counts // fails as Check does
	// FailOver kills a process of the service, and returns the addresses of what takes its place. It fails as Check does, and is
	// nil where nothing takes its place.
	FailOver func() []string

	asking int64 // requests that Counts itself adds to the counts
}

// Between is what was counted from one look at the counts to another, without the second look.
func (s *Server) Between(from, to Counts) Counts {
	c := Counts{to.Requests - from.Requests - s.asking, to.Events - from.Events}
	if to.Requests < 0 {
		c.Requests = -1
	}
	if to.Events < 0 {
		c.Events = -1
	}
	return c
}

// starter starts a server. What the server needs to end goes to the scope. members are those of a ZooKeeper ensemble.
type starter func(s *Scope, members int) *Server

var starters = map[string]starter{
	"zookeeper":   zooKeeper,
	"redis":       redis(1, "in memory", "--appendonly", "no"),
	"three-redis": redis(3, "in the memory of two of three", "--appendonly", "no"),
	"etcd":        etcd,
	"postgres":    postgres,
	"pgbouncer":   pgBouncer,
	"mariadb":     mariadb,
}

// Start starts a server, or says what is missing. It ends with the scope. members is how many servers a ZooKeeper ensemble has;
// the others have as many as their name says.
func Start(s *Scope, name string, members int) (*Server, error) {
	start, ok := starters[name]
	if !ok {
		return nil, fmt.Errorf("no server is called %q", name)
	}
	return begin(s, func(s *Scope) *Server { return start(s, members) })
}

// begin starts something. A start that fails takes away what it has made, and nothing else.
func begin(s *Scope, start func(*Scope) *Server) (started *Server, err error) {
	own := &Scope{}
	if err = Try(func() { started = start(own) }); err != nil {
		own.failed = true
		own.Close()
		return nil, err
	}
	s.Cleanup(own.Close)
	return started, nil
}

// Scope ends what was started in it. It is what package realzk takes for a test.
type Scope struct {
	ends   []func()
	failed bool
}

// failure ends the start of a server, or an experiment, with an error.
type failure struct{ error }

// Check ends what [Try] runs if there is an error.
func Check(err error) {
	if err != nil {
		panic(failure{err})
	}
}

// Must is Check for a call with a result.
func Must[T any](v T, err error) T {
	Check(err)
	return v
}

// Try runs what ends with the first error of Check, in its own goroutine, and returns that.
func Try(f func()) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case failure:
			err = p.error
		default:
			panic(p)
		}
	}()
	f()
	return nil
}

// Close ends everything, the last one first.
func (s *Scope) Close() {
	for _, end := range slices.Backward(s.ends) {
		end()
	}
	s.ends = nil
}

// Cleanup implements realzk.TB.
func (s *Scope) Cleanup(end func()) { s.ends = append(s.ends, end) }

// Fatalf implements realzk.TB.
func (s *Scope) Fatalf(format string, args ...any) { Check(fmt.Errorf(format, args...)) }

// Helper implements realzk.TB.
func (s *Scope) Helper() {}

// Logf implements realzk.TB: what a server wrote before it did not start is in the error.
func (s *Scope) Logf(string, ...any) {}

// Failed implements realzk.TB.
func (s *Scope) Failed() bool { return s.failed }
