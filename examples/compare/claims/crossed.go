//go:build linux

package claims

import (
	"errors"
	"strings"
	"time"

	"github.com/locktree/locktree/examples/compare/drivers"
	"github.com/locktree/locktree/examples/compare/lock"
	"github.com/locktree/locktree/examples/compare/server"
)

// Crossed is what becomes of two holders each of whom asks for the lock that the other has.
type Crossed struct {
	Row
	Refused  string `json:"refused,omitempty"`  // the error that one of them was given
	Granted  int    `json:"granted"`            // second locks that were granted
	Together bool   `json:"together,omitempty"` // a lock that takes both at once was granted in opposite orders: no deadlock
}

// Crossed crosses two locks of each system, and looks for three times the time to live what comes of it.
func (e *Env) Crossed() []Crossed { return each(e.measured(true), false, e.cross) }

func (e *Env) cross(s drivers.System, c *Crossed) {
	addrs := e.Servers[s.Server].Addrs
	p := e.role("cross", s, addrs, "crossed")
	defer p.Kill()
	server.Must(p.Await(patience, "crossed"))
	limit := time.Now().Add(3 * e.TTL)
	for c.Granted < 2 {
		said, err := p.Await(time.Until(limit), "granted", "refused")
		if errors.Is(err, lock.ErrLate) {
			break
		}
		server.Check(err)
		if said.Verb == "granted" {
			c.Granted++
		} else if c.Refused = said.Rest; c.Granted > 0 {
			break
		}
	}
	if s.Name != drivers.Ours {
		return
	}
	lasting := *e
	lasting.TTL = patience
	both := lasting.role("together", s, addrs, "together")
	defer both.Kill()
	server.Must(both.Await(patience, "together"))
	c.Together = true
}

// Does is what came of it, in words.
func (c *Crossed) Does() string {
	switch {
	case c.Refused != "":
		return "one of them is refused, the other goes on: " + strings.Trim(c.Refused, `"`)
	case c.Granted > 0:
		return "a lock expires and is granted to the other, while its holder believes that it has it"
	case c.Together:
		return "both wait, until a program gives up; with MultiLock, which takes both at once, two clients took both in opposite orders, fifty times each"
	}
	return "both wait, until a program gives up"
}
