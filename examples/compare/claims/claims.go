//go:build linux

package claims

import (
	"context"
	"sync"
	"time"

	"github.com/locktree/locktree/examples/compare/server"
)

// Results of all experiments.
type Results struct {
	TTL      time.Duration `json:"time_to_live_ns"` // of the locks and sessions that were paused, killed and kept
	Herd     []Release     `json:"herd,omitempty"`
	Paused   []Pause       `json:"paused,omitempty"`
	Fair     []Fair        `json:"fair,omitempty"`
	Killed   []Killed      `json:"killed,omitempty"`
	Idle     []Idle        `json:"idle,omitempty"`
	Crossed  []Crossed     `json:"crossed,omitempty"`
	Pooled   []Pooled      `json:"pooled,omitempty"`
	Failover []Failover    `json:"failover,omitempty"`
}

// Run runs all experiments. Those that wait for seconds to pass do so at the same time; what a server counts is counted
// while nobody else talks to it.
func (e *Env) Run(ctx context.Context, scope *server.Scope, quick bool) (r Results) {
	window, waiters, locks, trials := 3*time.Second, []int{10, 100, 1000}, 1000, 5
	if quick {
		window, waiters, trials = time.Second, []int{10, 100}, 2
	}
	r.TTL = e.TTL
	together := func(experiments ...func()) {
		if ctx.Err() != nil {
			return
		}
		var all sync.WaitGroup
		for _, each := range experiments {
			all.Go(each)
		}
		all.Wait()
	}
	e.Tell("holders that are paused, killed and crossed; pools; servers that fail")
	together(
		func() { r.Paused = e.Paused() },
		func() { r.Killed = e.Killed() },
		func() { r.Crossed = e.Crossed() },
		func() { r.Pooled = e.Pool(scope, window) },
		func() { r.Failover = e.Failover(trials) },
	)
	together(func() { r.Fair = e.Fair(window) })
	together(func() { r.Idle = e.Idle(locks) })
	together(func() {
		up := e.Servers["zookeeper"]
		if up == nil {
			return
		}
		limited, cancel := context.WithTimeout(ctx, 2*time.Minute)
		defer cancel()
		r.Herd = Herd(limited, up, waiters, e.Tell)
	})
	return r
}
