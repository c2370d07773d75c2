//go:build linux

package claims

import (
	"syscall"
	"time"

	"github.com/locktree/locktree/examples/compare/drivers"
)

// Pause is what becomes of a lock whose holder stands still for longer than the lock may outlive it (a garbage collection,
// a suspended machine), and then goes on.
type Pause struct {
	System  string `json:"system"`
	Rival   bool   `json:"rival"`  // another was granted the lock meanwhile
	Told    bool   `json:"told"`   // the holder learned that it is lost
	Token   bool   `json:"token"`  // grants come with a token
	Stale   int    `json:"stale"`  // writes by the old holder after the rival's grant, until it was told
	Writes  int    `json:"writes"` // those and some more, of a holder with a token that does not listen
	Fenced  int    `json:"fenced"` // of them, those that a store took which refuses smaller tokens than it has seen
	Missing string `json:"missing,omitempty"`
}

// enough writes of a holder who does not know better: two seconds. deaf are those of one that does not listen.
const enough, deaf = 400, 20

// patience bounds what must happen.
const patience = time.Minute

// Paused pauses a holder of each system, all at the same time, until a rival has the lock; where no time to live ends it, for
// three times that of the others.
func (e *Env) Paused() []Pause {
	return allAtOnce(e.measured(false), func(s drivers.System) Pause {
		p := Pause{System: s.Name}
		if err := e.pause(s, &p); err != nil {
			p.Missing = err.Error()
		}
		return p
	})
}

func (e *Env) pause(s drivers.System, p *Pause) error {
	addrs := e.Servers[s.Server].Addrs()
	first, err := e.role("hold", s, addrs, "paused", "-deaf")
	if err != nil {
		return err
	}
	defer first.end()
	if _, err := first.await(patience, "granted"); err != nil {
		return err
	}
	second, err := e.role("hold", s, addrs, "paused")
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
	pause := patience
	if s.Lasting {
		pause = 3 * e.TTL
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
	for limit := enough; p.Writes < limit; {
		said, err := first.await(patience, "write", "lost")
		if err != nil {
			return err
		}
		if said.verb == "lost" {
			p.Told = true
			if granted.token == 0 {
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
		if said.token == 0 || said.token >= granted.token {
			p.Fenced++
		}
	}
	p.Token = granted.token > 0
	return nil
}
