//go:build linux

package claims

import (
	"time"

	"github.com/locktree/locktree/examples/compare/drivers"
	"github.com/locktree/locktree/examples/compare/lock"
)

// Killed is what becomes of a lock whose holder was killed (kill -9): when the next one has it.
type Killed struct {
	System   string        `json:"system"`
	TTL      time.Duration `json:"time_to_live_ns"`
	Released bool          `json:"released"`
	After    time.Duration `json:"after_ns"`
	Missing  string        `json:"missing,omitempty"`
}

// Killed kills a holder of each system and lets a rival wait for its lock.
func (e *Env) Killed() []Killed {
	return allAtOnce(e.measured(false), func(s drivers.System) Killed {
		k := Killed{System: s.Name, TTL: e.TTL}
		if err := e.kill(s, &k); err != nil {
			k.Missing = err.Error()
		}
		return k
	})
}

func (e *Env) kill(s drivers.System, k *Killed) error {
	argv, err := e.command(s, e.TTL)
	if err != nil {
		return err
	}
	// A worker that keeps the lock for most of the time to live. Start returns when it has had it once, and has it again.
	first, err := lock.Spawn(argv, patience)
	if err != nil {
		return err
	}
	defer first.Kill()
	one := lock.Load{Kind: lock.Mutex, Clients: 1, Workers: 1, Locks: 1, Hold: e.TTL * 3 / 4}
	if err := first.Start(e.Servers[s.Server].Addrs(), "killed", one, e.TTL/8); err != nil {
		return err
	}
	limit := patience
	if s.Lasting {
		limit = 3 * e.TTL
	}
	second, err := lock.Spawn(argv, limit)
	if err != nil {
		return err
	}
	defer second.Kill()
	first.Kill()
	died := time.Now()
	one.Hold = 0
	err = second.Start(e.Servers[s.Server].Addrs(), "killed", one, 0)
	k.After = time.Since(died)
	k.Released = err == nil
	if k.After < limit {
		return err
	}
	return nil
}
