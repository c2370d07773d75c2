//go:build linux

package claims

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/locktree/locktree/examples/compare/drivers"
	"github.com/locktree/locktree/examples/compare/server"
)

// Idle is what locks cost that one program holds and does nothing with.
type Idle struct {
	System      string  `json:"system"`
	Locks       int     `json:"locks"`               // asked for
	Kept        int     `json:"kept"`                // granted
	Refused     string  `json:"refused,omitempty"`   // why not all
	Requests    float64 `json:"requests_per_second"` // as the server counts them, or as they pass by where it does not
	PerTTL      float64 `json:"requests_per_ttl"`    // in one time to live
	Connections int     `json:"connections"`         // to servers
	Gone        bool    `json:"gone"`                // after one time to live and a little another could take one
	Missing     string  `json:"missing,omitempty"`
}

// Idle lets a program hold that many locks of each system.
func (e *Env) Idle(locks int) []Idle {
	// On ZooKeeper a session is what is kept alive, so one raw client is enough.
	systems := slices.DeleteFunc(e.measured(true), func(s drivers.System) bool { return s.Server == "zookeeper" && !s.Client })
	return byServer(systems, func(s drivers.System) Idle {
		e.Tell("idle locks: %s", s.Name)
		i := Idle{System: s.Name, Locks: locks}
		if err := e.idle(s, &i); err != nil {
			i.Missing = err.Error()
		}
		return i
	})
}

func (e *Env) idle(s drivers.System, i *Idle) error {
	scope, up := &server.Scope{}, e.Servers[s.Server]
	defer scope.Close()
	relay, err := server.Away(scope, up.Addrs(), 0)
	if err != nil {
		return err
	}
	keeper, err := e.role("keep", s, relay.Addrs, "idle", "-count", strconv.Itoa(i.Locks))
	if err != nil {
		return err
	}
	defer keeper.end()
	said, err := keeper.await(patience, "kept")
	if err != nil {
		return err
	}
	if _, err := fmt.Sscanf(said.rest, "%d %q", &i.Kept, &i.Refused); err != nil {
		return fmt.Errorf("kept %s: %w", said.rest, err)
	}
	// What follows a grant, such as a watch, is over when hardly anything passes by any more.
	for last, limit := int64(-10), time.Now().Add(patience); relay.Sent.Load()-last > 5 && time.Now().Before(limit); {
		last = relay.Sent.Load()
		time.Sleep(e.TTL / 16)
	}
	before, err := up.Counts()
	if err != nil {
		return err
	}
	sent, begin := relay.Sent.Load(), time.Now()
	time.Sleep(e.TTL)
	took := time.Since(begin).Seconds()
	requests := relay.Sent.Load() - sent
	after, err := up.Counts()
	if err != nil {
		return err
	}
	if counted := server.Between(up, before, after); counted.Requests >= 0 {
		requests = counted.Requests
	}
	i.Requests, i.PerTTL = float64(requests)/took, float64(requests)*e.TTL.Seconds()/took
	i.Connections = server.Connections(keeper.cmd.Process.Pid, relay.Addrs)
	if i.Kept < i.Locks {
		return nil // nor would it let a rival in
	}
	rival, err := e.role("hold", s, up.Addrs(), "idle-0")
	if err != nil {
		return err
	}
	defer rival.end()
	if _, err := rival.await(patience, "waiting"); err != nil {
		return err
	}
	_, err = rival.await(e.TTL/4, "granted")
	i.Gone = err == nil
	return nil
}
