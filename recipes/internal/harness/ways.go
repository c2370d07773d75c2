package harness

import (
	"context"
	"testing"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
)

// Take is a function that takes a lock, such as a method of a recipe's handle.
type Take = func(context.Context) (*recipes.Lease, error)

// Work runs under a lock.
type Work = func(context.Context, *recipes.Lease) error

// A Way is a recipe for tests that run with every recipe: how to take it, and how another client blocks it.
type Way struct {
	Path  string
	Kind  *kind.Kind
	Queue string // where its waiters stand
	Block func(*recipes.Client) Take
	Take  func(*recipes.Client, ...recipes.Option) Take
	Try   func(*recipes.Client, ...recipes.Option) Take // nil for an election, which has no such method
	Do    func(*recipes.Client, ...recipes.Option) func(context.Context, Work) error
}

// Queues are where the contenders of all Ways stand.
var Queues = []string{"/m", "/rw", "/s/leases", "/s/locks", "/e"}

// Ways are recipes of four kinds, and a set, by name. They take the locks that Lab.EveryKind declares, and of the semaphore
// all permits.
func Ways() map[string]Way { return WaysAt("") }

// WaysAt is Ways for locks whose paths end with suffix.
func WaysAt(suffix string) map[string]Way {
	m, rw, s, e := "/m"+suffix, "/rw"+suffix, "/s"+suffix, "/e"+suffix
	lock := func(c *recipes.Client) Take { return c.Mutex(m).Lock }
	read := func(c *recipes.Client) Take { return c.RWMutex(rw).RLock }
	write := func(c *recipes.Client) Take { return c.RWMutex(rw).Lock }
	lead := func(c *recipes.Client) Take { return c.Election(e).Campaign }
	set := func(c *recipes.Client, o []recipes.Option) *recipes.MultiLock {
		return c.MultiLock(c.Mutex(m, o...), c.RWMutex(rw, o...).RLocker(), c.Election(e, o...))
	}
	return map[string]Way{
		"mutex": {m, kind.Mutex, m, lock,
			func(c *recipes.Client, o ...recipes.Option) Take { return c.Mutex(m, o...).Lock },
			func(c *recipes.Client, o ...recipes.Option) Take { return c.Mutex(m, o...).TryLock },
			func(c *recipes.Client, o ...recipes.Option) func(context.Context, Work) error {
				return c.Mutex(m, o...).Do
			}},
		"writer": {rw, kind.RWLock, rw, read,
			func(c *recipes.Client, o ...recipes.Option) Take { return c.RWMutex(rw, o...).Lock },
			func(c *recipes.Client, o ...recipes.Option) Take { return c.RWMutex(rw, o...).TryLock },
			func(c *recipes.Client, o ...recipes.Option) func(context.Context, Work) error {
				return c.RWMutex(rw, o...).Do
			}},
		"reader": {rw, kind.RWLock, rw, write,
			func(c *recipes.Client, o ...recipes.Option) Take { return c.RWMutex(rw, o...).RLock },
			func(c *recipes.Client, o ...recipes.Option) Take { return c.RWMutex(rw, o...).TryRLock },
			func(c *recipes.Client, o ...recipes.Option) func(context.Context, Work) error {
				return c.RWMutex(rw, o...).RDo
			}},
		"semaphore": {s, kind.Semaphore, s + "/locks", Draw(s, 1),
			func(c *recipes.Client, o ...recipes.Option) Take { return Draw(s, 3, o...)(c) },
			func(c *recipes.Client, o ...recipes.Option) Take {
				return func(ctx context.Context) (*recipes.Lease, error) { return c.Semaphore(s, o...).TryAcquire(ctx, 3) }
			},
			func(c *recipes.Client, o ...recipes.Option) func(context.Context, Work) error {
				return func(ctx context.Context, f Work) error { return c.Semaphore(s, o...).Do(ctx, 3, f) }
			}},
		"election": {e, kind.Election, e, lead,
			func(c *recipes.Client, o ...recipes.Option) Take { return c.Election(e, o...).Campaign },
			nil,
			func(c *recipes.Client, o ...recipes.Option) func(context.Context, Work) error {
				return c.Election(e, o...).Lead
			}},
		"set": {m, kind.Mutex, m, lock,
			func(c *recipes.Client, o ...recipes.Option) Take { return set(c, o).Lock },
			func(c *recipes.Client, o ...recipes.Option) Take { return set(c, o).TryLock },
			func(c *recipes.Client, o ...recipes.Option) func(context.Context, Work) error { return set(c, o).Do }},
	}
}

// Draw takes n permits of the semaphore at path.
func Draw(path string, n int, o ...recipes.Option) func(*recipes.Client) Take {
	return func(c *recipes.Client) Take {
		return func(ctx context.Context) (*recipes.Lease, error) { return c.Semaphore(path, o...).Acquire(ctx, n) }
	}
}

// EachWay runs f for each of Ways, in a Lab with locks of all kinds.
func EachWay(t *testing.T, f func(t *testing.T, l *Lab, way Way)) {
	for name, way := range Ways() {
		t.Run(name, func(t *testing.T) {
			InLab(t, func(t *testing.T, l *Lab) {
				l.EveryKind()
				f(t, l, way)
			})
		})
	}
}
