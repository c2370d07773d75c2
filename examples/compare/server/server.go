// Package server starts the servers that lock services need, on loopback, with data folders of their own, and ends them.
package server

import (
	"fmt"
	"maps"
	"slices"
)

// Counts are what a server has counted since it began. A server that does not count something says -1.
type Counts struct {
	Requests int64 // from clients
	Events   int64 // sent to clients that watch
}

// Server is one running lock service, of one process or several.
type Server interface {
	Addrs() []string
	Pids() []int
	Counts() (Counts, error)
	Version() string
	Durability() string // what it has done with a write when it answers
}

// Options of all servers.
type Options struct {
	Members int // of a ZooKeeper ensemble
}

// starters start a server; what they need to end goes to the given scope.
var starters = map[string]func(*Scope, Options) Server{
	"zookeeper":          startZooKeeper,
	"zookeeper-unsynced": startZooKeeperUnsynced,
	"postgres-unsynced":  startPostgresUnsynced,
	"redis":              startRedis,
	"redis-synced":       startRedisSynced,
	"three-redis":        startThreeRedises,
	"etcd":               startEtcd,
	"postgres":           startPostgres,
	"pgbouncer":          startPgBouncer,
	"mariadb":            startMariaDB,
}

// Names of the servers that there are.
func Names() []string { return slices.Sorted(maps.Keys(starters)) }

// Start starts a server, or says what is missing. It ends with the scope.
func Start(s *Scope, name string, opts Options) (Server, error) {
	start, ok := starters[name]
	if !ok {
		return nil, fmt.Errorf("no server is called %q", name)
	}
	return begin(s, func(s *Scope) Server { return start(s, opts) })
}

// begin starts something. A start that fails takes away what it has made, and nothing else.
func begin[T any](s *Scope, start func(*Scope) T) (started T, err error) {
	own := &Scope{}
	if err = Try(func() { started = start(own) }); err != nil {
		own.failed = true
		own.Close()
		return started, err
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
