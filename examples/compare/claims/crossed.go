//go:build linux

package claims

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/locktree/locktree/examples/compare/drivers"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/inspect"
)

// Crossed is what becomes of two holders each of whom asks for the lock that the other has.
type Crossed struct {
	System   string `json:"system"`
	Refused  string `json:"refused,omitempty"`  // the error that one of them was given
	Granted  int    `json:"granted"`            // second locks that were granted
	Deadlock bool   `json:"deadlock"`           // locktree's status names the deadlock
	Together bool   `json:"together,omitempty"` // both at once, as one lock, in opposite orders: no deadlock
	Missing  string `json:"missing,omitempty"`
}

// Crossed crosses two locks of each system, and looks for three times the time to live what comes of it.
func (e *Env) Crossed() []Crossed {
	return allAtOnce(e.measured(true), func(s drivers.System) Crossed {
		c := Crossed{System: s.Name}
		if err := e.cross(s, &c); err != nil {
			c.Missing = err.Error()
		}
		return c
	})
}

func (e *Env) cross(s drivers.System, c *Crossed) error {
	addrs := e.Servers[s.Server].Addrs()
	p, err := e.role("cross", s, addrs, "crossed")
	if err != nil {
		return err
	}
	defer p.end()
	if _, err := p.await(patience, "crossed"); err != nil {
		return err
	}
	limit := time.Now().Add(3 * e.TTL)
	for c.Granted < 2 {
		said, err := p.await(time.Until(limit), "granted", "refused")
		if errors.Is(err, errLate) {
			break
		}
		if err != nil {
			return err
		}
		if said.verb == "granted" {
			c.Granted++
		} else if c.Refused = said.rest; c.Granted > 0 {
			break
		}
	}
	if s.Name != drivers.Ours {
		return nil
	}
	if c.Deadlock, err = deadlock(addrs); err != nil {
		return err
	}
	lasting := *e
	lasting.TTL = patience
	both, err := lasting.role("together", s, addrs, "together")
	if err != nil {
		return err
	}
	defer both.end()
	_, err = both.await(patience, "together")
	c.Together = err == nil
	return err
}

// deadlock asks what `locktree status` asks.
func deadlock(addrs []string) (bool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := recipes.Dial(ctx, recipes.Config{Servers: addrs, ConnectTimeout: patience})
	if err != nil {
		return false, err
	}
	defer c.Close()
	var locks []*inspect.Report
	for _, path := range []string{"/locktree/crossed-0", "/locktree/crossed-1"} {
		l, err := inspect.Lock(ctx, c, path)
		if err != nil {
			return false, err
		}
		locks = append(locks, l)
	}
	return len(inspect.WaitsFor(locks...).Deadlocks) > 0, nil
}

// does is what came of it, in words.
func (c *Crossed) does() string {
	switch {
	case c.Refused != "":
		return "one of them is refused, the other goes on: " + strings.Trim(c.Refused, `"`)
	case c.Granted > 0:
		return "a lock expires and is granted to the other, while its holder believes that it has it"
	}
	return "both wait, until a program gives up"
}
