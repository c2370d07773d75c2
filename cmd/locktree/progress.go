package main

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/locktree/locktree/apply"
	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/plan"
)

// stillEvery is how often an apply says what it is still about, as Terraform does.
const stillEvery = 10 * time.Second

// progress is one apply on one ensemble. It shows the events, and what is still under way if nothing ends for a while. Once
// something has begun, interrupts wait for it.
type progress struct {
	*app
	ensemble string
	stopped  chan struct{}
	over     sync.WaitGroup
	begun    bool // something is under way

	mu   sync.Mutex
	open map[plan.Addr]view.Ongoing // a transaction may have many thousands
}

func (a *app) progress(ensemble string) *progress {
	p := &progress{app: a, ensemble: ensemble, stopped: make(chan struct{}), open: map[plan.Addr]view.Ongoing{}}
	p.over.Go(p.watch)
	return p
}

// stop ends the watch and lets interrupts through. Nothing is shown afterwards.
func (p *progress) stop() {
	if p.begun {
		p.changing.Store(false)
		<-p.underWay
	}
	close(p.stopped)
	p.over.Wait()
}

func (p *progress) event(e apply.Event) {
	switch e.(type) {
	case apply.ACLWidened, apply.Draining, apply.Breaking, apply.Started:
		if !p.begun {
			p.begun = true
			p.underWay <- struct{}{}
			p.changing.Store(true)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e := e.(type) {
	case apply.Draining:
		p.open[e.Addr] = view.Ongoing{Started: apply.Started{Addr: e.Addr, Path: e.Path}, Drains: true, Since: time.Now()}
	case apply.Started:
		p.open[e.Addr] = view.Ongoing{Started: e, Since: time.Now()} // in place of its draining, where there was one
	case apply.Applied:
		delete(p.open, e.Addr)
	case apply.Failed:
		delete(p.open, e.Addr)
	}
	p.steps().Tell(view.Event{Ensemble: p.ensemble, Event: e})
}

func (p *progress) watch() {
	tick := time.NewTicker(stillEvery)
	defer tick.Stop()
	for {
		select {
		case <-p.stopped:
			return
		case now := <-tick.C:
			p.mu.Lock()
			long := slices.SortedFunc(maps.Values(p.open), func(a, b view.Ongoing) int { return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Addr, b.Addr)) })
			long = slices.DeleteFunc(long, func(o view.Ongoing) bool { return now.Sub(o.Since) < time.Second })
			if len(long) > 0 {
				p.steps().Tell(view.Still{Ensemble: p.ensemble, Open: long, Now: now})
			}
			p.mu.Unlock()
		}
	}
}
