//go:build linux

package claims

import (
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/locktree/locktree/examples/compare/drivers"
	"github.com/locktree/locktree/examples/compare/server"
)

// Env is what the experiments run on.
type Env struct {
	Self    string // this program, which is also the process of a driver in Go
	Dir     string // for what is compiled
	Systems []drivers.System
	Servers map[string]server.Server // those that run, by name
	Missing map[string]string        // why a system does not run, by name: nobody waits for it again
	TTL     time.Duration            // how long a lock may outlive who holds it
	Tell    func(format string, args ...any)
}

// measured are the systems that exclude somebody and whose server runs; in Go only, if so. What does not depend on the disk
// is not measured twice.
func (e *Env) measured(inGo bool) (all []drivers.System) {
	for _, s := range e.Systems {
		if !s.Floor && !s.Variant && e.Servers[s.Server] != nil && (!inGo || s.Driver() != nil) {
			all = append(all, s)
		}
	}
	return all
}

// allAtOnce runs an experiment for each system at the same time: for what is a fact, or a wait of seconds.
func allAtOnce[Row any](systems []drivers.System, measure func(drivers.System) Row) []Row {
	rows := make([]Row, len(systems))
	var all sync.WaitGroup
	for i, s := range systems {
		all.Go(func() { rows[i] = measure(s) })
	}
	all.Wait()
	return rows
}

// byServer runs an experiment for the systems of one server one after the other, and for servers at the same time: for what
// the server counts.
func byServer[Row any](systems []drivers.System, measure func(drivers.System) Row) []Row {
	turns := map[string]*sync.Mutex{}
	for _, s := range systems {
		turns[s.Server] = &sync.Mutex{}
	}
	return allAtOnce(systems, func(s drivers.System) Row {
		turns[s.Server].Lock()
		defer turns[s.Server].Unlock()
		return measure(s)
	})
}

// command is what runs the system's process.
func (e *Env) command(s drivers.System, ttl time.Duration) ([]string, error) {
	if why := e.Missing[s.Name]; why != "" {
		return nil, errors.New(why)
	}
	return s.Command(e.Self, e.Dir, ttl)
}

// role starts a process that does one thing with one lock. In other languages than Go it can hold one.
func (e *Env) role(role string, s drivers.System, addrs []string, name string, more ...string) (*holder, error) {
	argv, err := e.command(s, e.TTL)
	if err != nil {
		return nil, err
	}
	if s.Driver() == nil {
		return hold(append(argv, role, strings.Join(addrs, ","), name))
	}
	argv = []string{e.Self, "-be", role, "-system", s.Name, "-addrs", strings.Join(addrs, ","), "-name", name, "-ttl", e.TTL.String()}
	return hold(append(argv, more...))
}
