//go:build linux

package claims

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/locktree/locktree/examples/compare/drivers"
	"github.com/locktree/locktree/examples/compare/lock"
	"github.com/locktree/locktree/examples/compare/server"
)

// Hold is the process of a holder, which can be paused and killed. It takes a lock and writes for as long as it believes that
// it holds the lock. Each write is a line. It ends with its input, or when it learns that the lock is lost. With a token it
// ignores the loss and writes on. On an error it panics; lock.Try returns the error.
func Hold(c lock.Client, name string, in io.Reader, out io.Writer) {
	l := c.Locker(name)
	fmt.Fprintln(out, "waiting")
	lock.Check(l.Lock(context.Background()))
	var token uint64
	if l.Token != nil {
		token = l.Token()
	}
	var lost <-chan struct{}
	if l.Lost != nil {
		lost = l.Lost()
	}
	done := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, in)
		close(done)
	}()
	fmt.Fprintf(out, "granted token=%d\n", token)
	for write := "write"; ; {
		select {
		case <-lost:
			fmt.Fprintln(out, "lost")
			if token == 0 {
				return
			}
			lost, write = nil, "late"
		case <-done:
			return
		case <-time.After(5 * time.Millisecond):
			fmt.Fprintf(out, "%s token=%d\n", write, token)
		}
	}
}

// queue is a holder and a rival that waits, in processes of their own, which end with the scope.
func (e *Env) queue(scope *server.Scope, s drivers.System, addrs []string, ttl time.Duration, name string) (holder, rival *lock.Process) {
	start := func(says string) *lock.Process {
		p := lock.Must(lock.Spawn(append(e.command(s, ttl), "hold", strings.Join(addrs, ","), name), patience))
		scope.Cleanup(p.Kill)
		lock.Must(p.Await(patience, says))
		return p
	}
	return start("granted"), start("waiting")
}

// outlives is how long a rival waits for a lock that its holder does not release.
func (e *Env) outlives(s drivers.System) time.Duration {
	if s.Lasting {
		return 3 * e.TTL
	}
	return patience
}

// Pause is the fate of a lock whose holder stands still for longer than its time to live, and then goes on. The reason may be a
// garbage collection, or a suspended machine.
type Pause struct {
	Row
	Rival  bool // the rival was granted the lock meanwhile
	Told   bool // the holder learned of the loss
	Token  bool // grants come with a token
	Stale  int  // writes by the old holder after the rival's grant, until it was told
	Writes int  // the writes counted in Stale, and those that a holder with a token makes after it was told
	Fenced int  // how many of Writes pass a store's check: it refuses smaller tokens than it has seen
}

// staleLimit limits the writes that are counted until the holder is told: two seconds of them. writesAfter is the number of writes
// after that.
const staleLimit, writesAfter = 400, 20

// Paused pauses a holder of each system, all at the same time, until a rival has the lock. If the lock has no time to live,
// the pause lasts three times the time to live of the other locks.
func (e *Env) Paused() []Pause { return forEach(e, e.measured(false), false, e.pause) }

func (e *Env) pause(s drivers.System, p *Pause) {
	scope := &server.Scope{}
	defer scope.Close()
	first, second := e.queue(scope, s, e.Servers[s.Server].Addrs, e.TTL, "paused")
	lock.Check(syscall.Kill(first.Pid(), syscall.SIGSTOP))
	granted, err := second.Await(e.outlives(s), "granted")
	p.Rival, p.Token = err == nil, granted.Token > 0
	if p.Rival {
		lock.Must(second.Await(patience, "write"))
	}
	first.Drain() // skip what it wrote before the pause
	lock.Check(syscall.Kill(first.Pid(), syscall.SIGCONT))
	for limit := staleLimit; p.Writes < limit; {
		said := lock.Must(first.Await(patience, "write", "lost", "late"))
		if said.Verb == "lost" {
			p.Told = true
			if !p.Token {
				break
			}
			limit = p.Writes + writesAfter
			continue
		}
		if !p.Rival {
			break
		}
		p.Writes++
		if !p.Told {
			p.Stale++
		}
		if said.Token == 0 || said.Token >= granted.Token {
			p.Fenced++
		}
	}
}

// Killed says when the next client has a lock whose holder was killed (kill -9).
type Killed struct {
	Row
	Released bool
	Lives    float64 // the time until then, divided by the time to live
}

// Killed kills a holder of each system and lets a rival wait for its lock.
func (e *Env) Killed() []Killed {
	return forEach(e, e.measured(false), false, func(s drivers.System, k *Killed) {
		scope := &server.Scope{}
		defer scope.Close()
		first, second := e.queue(scope, s, e.Servers[s.Server].Addrs, e.TTL, "killed")
		first.Kill()
		died := time.Now()
		_, err := second.Await(e.outlives(s), "granted")
		k.Lives, k.Released = time.Since(died).Seconds()/e.TTL.Seconds(), err == nil
		if !s.Lasting {
			lock.Check(err)
		}
	})
}

// Does says when the lock was free, as a multiple of the time to live.
func (k *Killed) Does() string {
	switch {
	case !k.Released:
		return fmt.Sprintf("never: nobody has it after %.0f", k.Lives)
	case k.Lives < 0.1:
		return "at once"
	}
	return fmt.Sprintf("%.1f", k.Lives)
}

// Crossed is the fate of two holders that each ask for the other's lock.
type Crossed struct {
	Row
	Refused  string // the error that one of them was given
	Granted  bool   // one of them was granted the other's lock, too
	Together bool   // clients that each take both locks at once, in opposite orders, were all granted them: no deadlock
}

// Crossed makes two clients of each system each ask for the other's lock, and waits three times the time to live for the outcome.
// A client whose request is refused gives back its own lock.
func (e *Env) Crossed() []Crossed {
	return forEach(e, e.measured(true), false, func(s drivers.System, c *Crossed) {
		var clients [2]lock.Client
		var first, second [2]lock.Locker
		for i := range clients {
			clients[i] = s.Driver(e.Servers[s.Server].Addrs, e.TTL)
			defer clients[i].Close()
			first[i] = clients[i].Locker(fmt.Sprint("crossed-", i))
			second[i] = oneMoreLocker(clients[i], first[i], fmt.Sprint("crossed-", 1-i))
			lock.Check(first[i].Lock(context.Background()))
		}
		var granted [2]bool
		var errs [2]error
		var all sync.WaitGroup
		for i := range second {
			all.Go(func() {
				if granted[i], errs[i] = ask(second[i], 3*e.TTL); errs[i] != nil {
					_ = first[i].Unlock(context.Background())
				}
			})
		}
		all.Wait()
		c.Granted = granted[0] || granted[1]
		if err := cmp.Or(errs[0], errs[1]); err != nil {
			c.Refused = err.Error()
		}
		if clients[0].Set != nil {
			e.together(s)
			c.Together = true
		}
	})
}

// together takes both locks at once, in opposite orders, fifty times each.
func (e *Env) together(s drivers.System) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var all sync.WaitGroup
	var errs [2]error
	for i := range errs {
		c := s.Driver(e.Servers[s.Server].Addrs, patience)
		defer c.Close()
		l := c.Set(fmt.Sprint("together-", i), fmt.Sprint("together-", 1-i))
		all.Go(func() {
			for n := 0; n < 50 && errs[i] == nil; n++ {
				if errs[i] = l.Lock(ctx); errs[i] == nil {
					errs[i] = l.Unlock(ctx)
				}
			}
		})
	}
	all.Wait()
	lock.Check(errors.Join(errs[:]...))
}

// Does is the outcome in words.
func (c *Crossed) Does() string {
	switch {
	case c.Refused != "":
		return "one of them is refused, the other goes on: " + c.Refused
	case c.Granted:
		return "a lock expires and is granted to the other, while its holder believes that it has it"
	case c.Together:
		return "both wait, until a program gives up; with MultiLock, which takes both at once, two clients took both in opposite orders, fifty times each"
	}
	return "both wait, until a program gives up"
}

// Failover is the fate of a lock when the server that granted it dies, and another takes its place.
type Failover struct {
	Row
	Server string // what happens to the server
	Trials int
	Double int // trials in which a rival was granted the lock, too
	Kept   int // trials in which the holder kept the lock

	holder, rival *lock.Process
}

// lag is the delay of a replica. A network across a town, or a pause of the replica's process, causes such a delay.
const lag = 50 * time.Millisecond

// Failover kills servers of its own.
func (e *Env) Failover(trials int) (all []Failover) {
	repeat := func(needs, system, happens string, start func(*server.Scope) (*server.Server, error)) {
		if e.runs(needs) {
			f := Failover{Row: Row{System: system}, Server: happens}
			f.try(func() {
				for range trials {
					f.trial(start)
				}
			})
			all = append(all, f)
		}
	}
	repeat("redis", "redislock", fmt.Sprintf("the primary is killed as soon as it has answered; its replica, %v behind, is promoted", lag),
		func(scope *server.Scope) (*server.Server, error) { return server.StartRedisPair(scope, lag) })
	repeat("redis", "redislock", "the primary is killed as soon as it has answered; its replica on the same machine is promoted",
		func(scope *server.Scope) (*server.Server, error) { return server.StartRedisPair(scope, 0) })
	repeat("three-redis", "redsync", "one of three servers is killed, and starts again with an empty memory",
		func(scope *server.Scope) (*server.Server, error) { return server.Start(scope, "three-redis", 1) })
	if e.runs("zookeeper") {
		rows := e.elect()
		if slices.ContainsFunc(rows, func(f Failover) bool { return f.Missing != "" && e.Missing[f.System] == "" }) {
			rows = e.elect() // measure again: on a busy machine, a session may end although no server was killed
		}
		all = append(all, rows...)
	}
	return all
}

// trial lets one client take the lock, lets the servers fail over, and then lets another client ask for the lock for a second.
func (f *Failover) trial(start func(*server.Scope) (*server.Server, error)) {
	scope := &server.Scope{}
	defer scope.Close()
	up, dial := lock.Must(start(scope)), lock.Must(drivers.Find(f.System)).Driver
	holds := dial(up.Addrs, drivers.TTL)
	defer holds.Close()
	lock.Check(holds.Locker("failover").Lock(context.Background()))
	wants := dial(up.FailOver(), drivers.TTL)
	defer wants.Close()
	granted, err := ask(wants.Locker("failover"), time.Second)
	lock.Check(err)
	if granted {
		f.Double++
	} else {
		f.Kept++
	}
	f.Trials++
}

// elect kills the leader of three ZooKeeper servers while a lock of each library is held, and waited for.
func (e *Env) elect() []Failover {
	scope := &server.Scope{}
	defer scope.Close()
	up, failed := server.Start(scope, "zookeeper", 3)
	libraries := slices.DeleteFunc(e.measured(false), func(s drivers.System) bool { return s.Server != "zookeeper" || !s.Client })
	all := forEach(e, libraries, true, func(s drivers.System, f *Failover) {
		f.Server = "the leader of three servers is killed; the others elect another"
		lock.Check(failed)
		// The session is long enough to outlast an election.
		f.holder, f.rival = e.queue(scope, s, up.Addrs, 20*time.Second, "failover")
	})
	if failed == nil {
		failed = lock.Try(func() { up.FailOver() })
	}
	// Look at one library after the other: each look takes seconds, and the sessions outlast all of them. A grant now is a
	// double grant, because the lock was not released.
	for i := range all {
		if f := &all[i]; f.Missing == "" {
			f.try(func() {
				lock.Check(failed)
				f.Trials = 1
				if _, err := f.rival.Await(3*time.Second, "granted"); err == nil {
					f.Double++
				} else if !errors.Is(err, lock.ErrLate) {
					lock.Check(err)
				}
				f.holder.Drain()
				if _, err := f.holder.Await(3*time.Second, "write"); err == nil {
					f.Kept++
				}
			})
		}
	}
	return all
}
