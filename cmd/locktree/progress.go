package main

import (
	"slices"
	"sync"
	"time"

	"github.com/locktree/locktree/apply"
	"github.com/locktree/locktree/cmd/locktree/internal/view"
)

// stillEvery is how often an apply says what it is still about, as Terraform does.
const stillEvery = 10 * time.Second

// progress passes an apply's events on and, where nothing ends for a while, says
// what goes on still.
type progress struct {
	view     view.Steps
	ensemble string
	stopped  chan struct{}
	over     sync.WaitGroup

	mu   sync.Mutex
	open []view.Ongoing
}

func (a *app) progress(ensemble string) *progress {
	p := &progress{view: a.steps(), ensemble: ensemble, stopped: make(chan struct{})}
	p.over.Go(p.watch)
	return p
}

// stop ends the watch; nothing is said afterwards.
func (p *progress) stop() {
	close(p.stopped)
	p.over.Wait()
}

func (p *progress) event(e apply.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e := e.(type) {
	case apply.Draining:
		p.open = append(p.open, view.Ongoing{Started: apply.Started{Addr: e.Addr, Path: e.Path}, Drains: true, Since: time.Now()})
	case apply.Started:
		p.done(e.Addr) // its draining, where there was one
		p.open = append(p.open, view.Ongoing{Started: e, Since: time.Now()})
	case apply.Applied:
		p.done(e.Addr)
	case apply.Failed:
		p.done(e.Addr)
	}
	p.view.Tell(view.Event{Ensemble: p.ensemble, Event: e})
}

func (p *progress) done(addr string) {
	// What began first usually ends first: the search is short.
	if i := slices.IndexFunc(p.open, func(o view.Ongoing) bool { return o.Addr == addr }); i >= 0 {
		p.open = slices.Delete(p.open, i, i+1)
	}
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
			if long := slices.DeleteFunc(slices.Clone(p.open), func(o view.Ongoing) bool { return now.Sub(o.Since) < time.Second }); len(long) > 0 {
				p.view.Tell(view.Still{Ensemble: p.ensemble, Open: long, Now: now})
			}
			p.mu.Unlock()
		}
	}
}
