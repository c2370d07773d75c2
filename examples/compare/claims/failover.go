//go:build linux

package claims

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/locktree/locktree/examples/compare/drivers"
	"github.com/locktree/locktree/examples/compare/lock"
	"github.com/locktree/locktree/examples/compare/server"
)

// Failover is what becomes of a lock when the server dies that granted it, and another takes its place.
type Failover struct {
	Row
	Server string `json:"server"` // what happens to it
	Trials int    `json:"trials"`
	Double int    `json:"double_grants"` // a rival was granted the lock, too
	Kept   int    `json:"kept"`          // the holder still has it
}

// lag of a replica: a network across a town, or a pause of its process.
const lag = 50 * time.Millisecond

// Failover kills servers of its own.
func (e *Env) Failover(trials int) (all []Failover) {
	repeat := func(needs, system, happens string, start func(*server.Scope) (*server.Server, error)) {
		if e.Servers[needs] == nil {
			return
		}
		f := Failover{Row: Row{System: system}, Server: happens}
		f.try(func() {
			for range trials {
				f.trial(start)
			}
		})
		all = append(all, f)
	}
	repeat("redis", "redislock", fmt.Sprintf("the primary is killed as soon as it has answered; its replica, %v behind, is promoted", lag),
		func(scope *server.Scope) (*server.Server, error) { return server.StartRedisPair(scope, lag) })
	repeat("redis", "redislock", "the primary is killed as soon as it has answered; its replica on the same machine is promoted",
		func(scope *server.Scope) (*server.Server, error) { return server.StartRedisPair(scope, 0) })
	repeat("three-redis", "redsync", "one of three servers is killed, and starts again with an empty memory",
		func(scope *server.Scope) (*server.Server, error) { return server.Start(scope, "three-redis", 1) })
	if e.Servers["zookeeper"] != nil {
		rows := e.elect()
		if slices.ContainsFunc(rows, func(f Failover) bool { return f.Missing != "" && e.Missing[f.System] == "" }) {
			rows = e.elect() // a busy machine may lose a session that nobody killed
		}
		all = append(all, rows...)
	}
	return all
}

// trial lets one take the lock, then the servers fail over, then another ask for it for a moment.
func (f *Failover) trial(start func(*server.Scope) (*server.Server, error)) {
	scope := &server.Scope{}
	defer scope.Close()
	up, dial := server.Must(start(scope)), server.Must(drivers.Find(f.System)).Driver()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	holds := server.Must(dial(ctx, up.Addrs))
	defer holds.Close()
	server.Check(locker(holds, "failover").Lock(ctx))
	wants := server.Must(dial(ctx, up.FailOver()))
	defer wants.Close()
	moment, stop := context.WithTimeout(ctx, time.Second)
	defer stop()
	switch err := locker(wants, "failover").Lock(moment); {
	case err == nil:
		f.Double++
	case moment.Err() != nil:
		f.Kept++
	default:
		server.Check(err)
	}
	f.Trials++
}

// elect kills the leader of three ZooKeeper servers while a lock of each library is held, and waited for.
func (e *Env) elect() []Failover {
	scope := &server.Scope{}
	defer scope.Close()
	up, failed := server.Start(scope, "zookeeper", 3)
	lasting := *e
	lasting.TTL = 20 * time.Second // a session must not end because an election takes its time
	libraries := slices.DeleteFunc(e.measured(false), func(s drivers.System) bool { return s.Server != "zookeeper" || !s.Client })
	all, queues := make([]Failover, len(libraries)), make([][2]*lock.Process, len(libraries))
	for i, s := range libraries {
		all[i] = Failover{Row: Row{System: s.Name}, Server: "the leader of three servers is killed; the others elect another"}
		all[i].try(func() {
			server.Check(failed)
			queues[i][0], queues[i][1] = lasting.queue(scope, s, up.Addrs, "failover")
		})
	}
	if failed == nil {
		failed = server.Try(func() { up.FailOver() })
	}
	// One after the other: a look takes seconds, and the sessions outlast them all.
	for i := range all {
		if all[i].Missing == "" {
			all[i].try(func() {
				server.Check(failed)
				all[i].look(queues[i][0], queues[i][1])
			})
		}
	}
	return all
}

// look counts: a grant now is a second one, since nobody has released the lock.
func (f *Failover) look(holder, rival *lock.Process) {
	f.Trials = 1
	switch _, err := rival.Await(3*time.Second, "granted"); {
	case err == nil:
		f.Double++
	case !errors.Is(err, lock.ErrLate):
		server.Check(err)
	}
	holder.Drain()
	if _, err := holder.Await(3*time.Second, "write"); err == nil {
		f.Kept++
	}
}
