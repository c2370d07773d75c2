//go:build linux

package claims

import (
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/locktree/locktree/examples/compare/drivers"
	"github.com/locktree/locktree/examples/compare/server"
)

// Pause is what becomes of a lock whose holder stands still for longer than the lock may outlive it (a garbage collection,
// a suspended machine), and then goes on.
type Pause struct {
	System  string `json:"system"`
	Rival   bool   `json:"rival"`  // another was granted the lock meanwhile
	Told    bool   `json:"told"`   // the holder learned that it is lost
	Token   bool   `json:"token"`  // grants come with a token
	Stale   int    `json:"stale"`  // writes by the old holder after the rival's grant that a store without a check took
	Fenced  int    `json:"fenced"` // those that a store took which refuses smaller tokens than it has seen
	Missing string `json:"missing,omitempty"`
}

// enough writes of a holder who does not know better.
const enough = 20

// patience bounds what must happen.
const patience = time.Minute

// Paused pauses a holder of each system, all at the same time, until a rival has the lock or for that long. self is this program.
func Paused(self string, systems []drivers.System, servers map[string]server.Server, ttl, pause time.Duration) []Pause {
	all := make([]Pause, 0, len(systems))
	for _, s := range systems {
		if s.Driver() != nil && !s.Floor && servers[s.Server] != nil {
			all = append(all, Pause{System: s.Name})
		}
	}
	var each sync.WaitGroup
	for i := range all {
		p := &all[i]
		s, _ := drivers.Find(p.System) // it is one of them
		each.Go(func() {
			argv := []string{self, "-hold", s.Name, "-addrs", strings.Join(servers[s.Server].Addrs(), ","), "-ttl", ttl.String()}
			if err := p.measure(argv, pause); err != nil {
				p.Missing = err.Error()
			}
		})
	}
	each.Wait()
	return all
}

func (p *Pause) measure(argv []string, pause time.Duration) error {
	first, err := hold(argv)
	if err != nil {
		return err
	}
	defer first.end()
	if _, err := first.await(patience, "granted"); err != nil {
		return err
	}
	second, err := hold(argv)
	if err != nil {
		return err
	}
	defer second.end()
	if _, err := second.await(patience, "waiting"); err != nil {
		return err
	}
	if err := first.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	granted, err := second.await(pause, "granted")
	p.Rival = err == nil
	if p.Rival {
		if _, err := second.await(patience, "write"); err != nil {
			return err
		}
	}
	first.drain() // what it wrote before it was paused
	if err := first.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		return err
	}
	for p.Stale < enough {
		said, err := first.await(patience, "write", "lost")
		if err != nil {
			return err
		}
		p.Token = said.token > 0 || p.Token
		if p.Told = said.verb == "lost"; p.Told || !p.Rival {
			break
		}
		p.Stale++
		if said.token == 0 || said.token >= granted.token {
			p.Fenced++
		}
	}
	p.Token = p.Token || granted.token > 0
	return nil
}
