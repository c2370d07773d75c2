//go:build linux

package claims

import (
	"fmt"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/locktree/locktree/examples/compare/drivers"
	"github.com/locktree/locktree/examples/compare/lock"
	"github.com/locktree/locktree/examples/compare/server"
)

// queue is a holder and a rival that waits, in processes of their own, which end with the scope.
func (e *Env) queue(scope *server.Scope, s drivers.System, addrs []string, name string) (holder, rival *lock.Process) {
	start := func(says string) *lock.Process {
		p := e.role("hold", s, addrs, name)
		scope.Cleanup(p.Kill)
		server.Must(p.Await(patience, says))
		return p
	}
	return start("granted"), start("waiting")
}

// outlives is how long a rival is given to get a lock that its holder does not release.
func (e *Env) outlives(s drivers.System) time.Duration {
	if s.Lasting {
		return 3 * e.TTL
	}
	return patience
}

// Pause is what becomes of a lock whose holder stands still for longer than the lock may outlive it (a garbage collection,
// a suspended machine), and then goes on.
type Pause struct {
	Row
	Rival  bool `json:"rival"`  // another was granted the lock meanwhile
	Told   bool `json:"told"`   // the holder learned that it is lost
	Token  bool `json:"token"`  // grants come with a token
	Stale  int  `json:"stale"`  // writes by the old holder after the rival's grant, until it was told
	Writes int  `json:"writes"` // those and some more, of a holder with a token that ignores the loss
	Fenced int  `json:"fenced"` // of them, those that a store took which refuses smaller tokens than it has seen
}

// enough writes of a holder that does not know better: two seconds. deaf are those of one that ignores the loss.
const enough, deaf = 400, 20

// Paused pauses a holder of each system, all at the same time, until a rival has the lock; where no time to live ends it, for
// three times that of the others.
func (e *Env) Paused() []Pause { return each(e.measured(false), false, e.pause) }

func (e *Env) pause(s drivers.System, p *Pause) {
	scope := &server.Scope{}
	defer scope.Close()
	first, second := e.queue(scope, s, e.Servers[s.Server].Addrs, "paused")
	server.Check(syscall.Kill(first.Pid(), syscall.SIGSTOP))
	granted, err := second.Await(e.outlives(s), "granted")
	p.Rival, p.Token = err == nil, granted.Token > 0
	if p.Rival {
		server.Must(second.Await(patience, "write"))
	}
	first.Drain() // what it wrote before it was paused
	server.Check(syscall.Kill(first.Pid(), syscall.SIGCONT))
	for limit := enough; p.Writes < limit; {
		said := server.Must(first.Await(patience, "write", "lost", "late"))
		if said.Verb == "lost" {
			p.Told = true
			if !p.Token {
				break
			}
			limit = p.Writes + deaf
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

// Killed is what becomes of a lock whose holder was killed (kill -9): when the next one has it.
type Killed struct {
	Row
	TTL      time.Duration `json:"time_to_live_ns"`
	Released bool          `json:"released"`
	After    time.Duration `json:"after_ns"`
}

// Killed kills a holder of each system and lets a rival wait for its lock.
func (e *Env) Killed() []Killed { return each(e.measured(false), false, e.kill) }

func (e *Env) kill(s drivers.System, k *Killed) {
	scope := &server.Scope{}
	defer scope.Close()
	k.TTL = e.TTL
	first, second := e.queue(scope, s, e.Servers[s.Server].Addrs, "killed")
	first.Kill()
	died := time.Now()
	_, err := second.Await(e.outlives(s), "granted")
	k.After, k.Released = time.Since(died), err == nil
	if !s.Lasting {
		server.Check(err)
	}
}

// Does is when the lock was free, in times to live.
func (k *Killed) Does() string {
	switch lives := k.After.Seconds() / k.TTL.Seconds(); {
	case !k.Released:
		return fmt.Sprintf("never: nobody has it after %.0f", lives)
	case lives < 0.1:
		return "at once"
	default:
		return fmt.Sprintf("%.1f", lives)
	}
}

// Idle is what locks cost that one program holds and does nothing with.
type Idle struct {
	Row
	Locks    int     `json:"locks"`               // asked for
	Kept     int     `json:"kept"`                // granted
	Refused  string  `json:"refused,omitempty"`   // why not all
	Requests float64 `json:"requests_per_second"` // as the server counts them, or as they pass by where it does not
	Gone     bool    `json:"gone"`                // after one time to live and a little another could take one
}

// Idle lets a program hold that many locks of each system.
func (e *Env) Idle(locks int) []Idle {
	// On ZooKeeper a session is what is kept alive, so one raw client is enough.
	systems := slices.DeleteFunc(e.measured(true), func(s drivers.System) bool { return s.Server == "zookeeper" && !s.Client })
	return each(systems, true, func(s drivers.System, i *Idle) {
		e.Tell("idle locks: %s", s.Name)
		i.Locks = locks
		e.idle(s, i)
	})
}

func (e *Env) idle(s drivers.System, i *Idle) {
	scope, up := &server.Scope{}, e.Servers[s.Server]
	defer scope.Close()
	relay := server.Must(server.Away(scope, up.Addrs, 0))
	keeper := e.role("keep", s, relay.Addrs, "idle", strconv.Itoa(i.Locks))
	defer keeper.Kill()
	said := server.Must(keeper.Await(patience, "kept"))
	if _, err := fmt.Sscanf(said.Rest, "%d %q", &i.Kept, &i.Refused); err != nil {
		server.Check(fmt.Errorf("kept %s: %w", said.Rest, err))
	}
	// What follows a grant, such as a watch, is over when hardly anything passes by any more.
	for last, limit := int64(-10), time.Now().Add(patience); relay.Sent.Load()-last > 5 && time.Now().Before(limit); {
		last = relay.Sent.Load()
		time.Sleep(e.TTL / 16)
	}
	before, sent, begin := up.Counts(), relay.Sent.Load(), time.Now()
	time.Sleep(e.TTL)
	took, requests := time.Since(begin).Seconds(), relay.Sent.Load()-sent
	if counted := up.Between(before, up.Counts()); counted.Requests >= 0 {
		requests = counted.Requests
	}
	i.Requests = float64(requests) / took
	if i.Kept < i.Locks {
		return // nor would it let a rival in
	}
	rival := e.role("hold", s, up.Addrs, "idle-0")
	defer rival.Kill()
	server.Must(rival.Await(patience, "waiting"))
	_, err := rival.Await(e.TTL/4, "granted")
	i.Gone = err == nil
}
