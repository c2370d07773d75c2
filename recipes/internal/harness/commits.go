//go:build linux

package harness

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/recipes/zktest/realzk"
)

// Commits checks the writes of an existing node. Only Set writes the node, and its calls do not overlap. So its version only grows, unless
// the servers lose a write that they have confirmed. Set returns the new version.
type Commits struct {
	Set  func(context.Context) (version int32, err error)
	mu   sync.Mutex
	last int32 // the last confirmed version
	lost error
}

// Write writes the node once, and says whether a write has been lost.
func (c *Commits) Write(ctx context.Context) (answered bool, lost error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	version, err := c.Set(ctx)
	gone := errors.Is(err, zk.ErrNoNode)
	if gone || err == nil && version <= c.last {
		c.lost = cmp.Or(c.lost, fmt.Errorf("%s: a node has version %d after %d was confirmed (%v); so this run says nothing of locks. "+
			"Run it again, or on a release without that fault: see docs/operating.md", realzk.Void, version, c.last, err))
	}
	if err == nil {
		c.last = version
	}
	return gone || err == nil, c.lost
}

// Keep writes the node at once, and again at the test's end, until a server answers or some seconds have passed. With a pause it also
// writes after each pause in between. If a confirmed write was lost, Keep fails the test: such a run says nothing of locks.
func (c *Commits) Keep(t *testing.T, pause time.Duration) {
	ctx, stop := context.WithCancel(context.Background())
	write := func(within time.Duration) (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, within)
		defer cancel()
		return c.Write(ctx)
	}
	_, _ = write(10 * time.Second)
	var writer sync.WaitGroup
	done := make(chan struct{})
	if pause > 0 {
		writer.Go(func() {
			for {
				select {
				case <-done:
					return
				case <-time.After(pause):
				}
				_, _ = write(5 * time.Second)
			}
		})
	}
	t.Cleanup(func() {
		defer stop()
		close(done)
		writer.Wait()
		patience := time.Now().Add(2 * time.Second)
		if t.Failed() { // a lost write may be the reason
			patience = patience.Add(30 * time.Second)
		}
		answered, lost := write(time.Until(patience))
		for !answered && lost == nil && Pause(ctx, 100*time.Millisecond) == nil && time.Now().Before(patience) {
			answered, lost = write(time.Until(patience))
		}
		if lost != nil {
			t.Error(lost)
		}
	})
}
