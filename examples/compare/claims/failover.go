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
	repeat := func(system, happens string, trial func(*Failover, *server.Scope)) {
		f := Failover{Row: Row{System: system}, Server: happens}
		f.try(func() {
			for range trials {
				scope := &server.Scope{}
				err := server.Try(func() { trial(&f, scope) })
				scope.Close()
				server.Check(err)
				f.Trials++
			}
		})
		all = append(all, f)
	}
	if e.Servers["redis"] != nil {
		for _, behind := range []time.Duration{lag, 0} {
			happens := "the primary is killed as soon as it has answered; its replica on the same machine is promoted"
			if behind > 0 {
				happens = fmt.Sprintf("the primary is killed as soon as it has answered; its replica, %v behind, is promoted", behind)
			}
			repeat("redislock", happens, func(f *Failover, scope *server.Scope) {
				pair := server.Must(server.StartRedisPair(scope, behind))
				f.rival([]string{pair.Primary}, []string{pair.Replica}, pair.FailOver)
			})
		}
	}
	if e.Servers["three-redis"] != nil {
		repeat("redsync", "one of three servers is killed, and starts again with an empty memory", func(f *Failover, scope *server.Scope) {
			up := server.Must(server.Start(scope, "three-redis", server.Options{}))
			f.rival(up.Addrs(), up.Addrs(), func() error { return up.(interface{ Forget(int) error }).Forget(0) })
		})
	}
	if e.Servers["zookeeper"] != nil {
		rows := e.elect()
		if slices.ContainsFunc(rows, func(f Failover) bool { return f.Missing != "" && e.Missing[f.System] == "" }) {
			rows = e.elect() // a busy machine may lose a session that nobody killed
		}
		all = append(all, rows...)
	}
	return all
}

// rival lets one take the lock, then the servers fail over, then another ask for it for a moment.
func (f *Failover) rival(before, after []string, failOver func() error) {
	driver := server.Must(drivers.Find(f.System)).Driver()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	holds := server.Must(driver.Dial(ctx, before))
	defer holds.Close()
	server.Check(locker(holds, lock.Mutex, "failover").Lock(ctx))
	server.Check(failOver())
	wants := server.Must(driver.Dial(ctx, after))
	defer wants.Close()
	moment, stop := context.WithTimeout(ctx, time.Second)
	defer stop()
	switch err := locker(wants, lock.Mutex, "failover").Lock(moment); {
	case err == nil:
		f.Double++
	case moment.Err() != nil:
		f.Kept++
	default:
		server.Check(err)
	}
}

// elect kills the leader of three ZooKeeper servers while a lock of each library is held, and waited for.
func (e *Env) elect() []Failover {
	scope := &server.Scope{}
	defer scope.Close()
	up, failed := server.Start(scope, "zookeeper", server.Options{Members: 3})
	lasting := *e
	lasting.TTL = 20 * time.Second // a session must not end because an election takes its time
	queues := map[string][2]*lock.Process{}
	libraries := slices.DeleteFunc(e.measured(false), func(s drivers.System) bool { return s.Server != "zookeeper" || !s.Client })
	why := map[string]error{}
	for _, s := range libraries {
		why[s.Name] = server.Try(func() {
			server.Check(failed)
			queues[s.Name] = lasting.queue(scope, s, up.Addrs())
		})
	}
	if failed == nil {
		failed = server.Try(func() { failOver(up.(ensemble)) })
	}
	// One after the other: a look takes seconds, and the sessions outlast them all.
	var all []Failover
	for _, s := range libraries {
		f := Failover{Row: Row{System: s.Name}, Server: "the leader of three servers is killed; the others elect another"}
		f.try(func() {
			server.Check(why[s.Name])
			server.Check(failed)
			f.look(queues[s.Name][0], queues[s.Name][1])
		})
		all = append(all, f)
	}
	return all
}

// queue is a holder and a rival that waits, in processes of their own.
func (e *Env) queue(scope *server.Scope, s drivers.System, addrs []string) (both [2]*lock.Process) {
	for i, says := range []string{"granted", "waiting"} {
		both[i] = e.role("hold", s, addrs, "failover")
		scope.Cleanup(both[i].Kill)
		server.Must(both[i].Await(patience, says))
	}
	return both
}

type ensemble interface {
	KillLeader() error
	Led() bool
}

func failOver(up ensemble) {
	server.Check(up.KillLeader())
	for end := time.Now().Add(patience); !up.Led(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			server.Check(fmt.Errorf("no leader was elected within %v", patience))
		}
	}
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
