//go:build linux

// Package server starts the servers that lock services need, on loopback, with data folders of their own, and ends them.
package server

import (
	"fmt"
	"slices"

	"github.com/locktree/locktree/examples/compare/lock"
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
	Missing    string        // why it does not run, and there is nothing else
	Counts     func() Counts `json:"-"` // fails as lock.Check does
	// FailOver kills a process of the service, and returns the addresses of what takes its place. It fails as lock.Check does, and
	// is nil where nothing takes its place.
	FailOver func() []string `json:"-"`

	asking int64 // requests that Counts itself adds to the counts
}

// Between is what was counted from one look at the counts to another, without the second look.
func (s *Server) Between(from, to Counts) Counts {
	if to.Requests < 0 {
		return to
	}
	return Counts{to.Requests - from.Requests - s.asking, to.Events - from.Events}
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
	if err = lock.Try(func() { started = start(own) }); err != nil {
		own.failed = true
		own.Close()
		return nil, err
	}
	s.Cleanup(own.Close)
	return started, nil
}

// Scope ends what was started in it. It is what package realzk takes for a test: what a server wrote before it did not start is in
// the error.
type Scope struct {
	ends   []func()
	failed bool
}

// Close ends everything, the last one first.
func (s *Scope) Close() {
	for _, end := range slices.Backward(s.ends) {
		end()
	}
	s.ends = nil
}

func (s *Scope) Cleanup(end func())                { s.ends = append(s.ends, end) }
func (s *Scope) Fatalf(format string, args ...any) { lock.Check(fmt.Errorf(format, args...)) }
func (s *Scope) Helper()                           {}
func (s *Scope) Logf(string, ...any)               {}
func (s *Scope) Failed() bool                      { return s.failed }
