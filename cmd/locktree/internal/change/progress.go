package change

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/locktree/locktree/apply/event"
	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/cmd/locktree/internal/view/planview"
	"github.com/locktree/locktree/plan"
)

// stillEvery is the interval at which an apply shows the changes still under way, as Terraform does.
const stillEvery = 10 * time.Second

// progress shows the events of one ensemble, and what is still under way if nothing ends for a while.
type progress struct {
	host     Host
	ensemble string

	together bool // changes that are alike are shown as one

	mu     sync.Mutex
	open   map[plan.Addr]planview.Ongoing // changes under way: a transaction may have many thousands
	groups planview.Together
	far    view.Progress
}

func newProgress(h Host, ensemble string) *progress {
	return &progress{host: h, ensemble: ensemble, open: map[plan.Addr]planview.Ongoing{}}
}

// showStill begins to show what is still under way. Nothing is shown after the returned function is called.
func (p *progress) showStill() (stop func()) {
	var over sync.WaitGroup
	stopped := make(chan struct{})
	over.Go(func() { p.watch(stopped) })
	arrived := p.host.During("Applying to ensemble "+strconv.Quote(p.ensemble), p.howFar)
	return func() {
		p.host.Changing(false)
		close(stopped)
		over.Wait()
		arrived()
		p.host.Show(p.groups)
	}
}

func (p *progress) howFar(to *view.Progress) {
	p.mu.Lock()
	defer p.mu.Unlock()
	to.Unit, to.Done, to.Total = p.far.Unit, p.far.Done, p.far.Total
}

func (p *progress) event(e event.Event) {
	switch e.(type) {
	case event.ACLWidened, event.Draining, event.Breaking, event.Started:
		p.host.Changing(true)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e := e.(type) {
	case event.Draining:
		p.open[e.Addr] = planview.Ongoing{Started: event.Started{Addr: e.Addr, Path: e.Path}, Drains: true, Since: time.Now()}
	case event.Started:
		p.open[e.Addr] = planview.Ongoing{Started: e, Since: time.Now()} // this replaces the draining of the same change, if there was one
	case event.Applied:
		delete(p.open, e.Addr)
	case event.Failed:
		delete(p.open, e.Addr)
	case event.Left:
		for _, addr := range e.Addrs {
			delete(p.open, addr)
		}
	case event.Committed:
		p.far = view.Progress{Unit: "transactions", Done: e.Batch, Total: e.Batches}
	case event.ACLPhase:
		p.far = view.Progress{Unit: "access lists", Total: e.Total}
	case event.ACLApplied:
		p.far.Done++
	}
	if !p.together || !p.isGrouped(e) {
		p.host.Show(planview.Event{Ensemble: p.ensemble, Event: e})
	}
}

// isGrouped reports whether an event is shown with others like it.
func (p *progress) isGrouped(e event.Event) bool {
	switch e := e.(type) {
	case event.Started, event.ACLApplied: // event.ACLPhase, which came before, has shown how many there are
		return true
	case event.Applied:
		p.groups.Add(p.ensemble, e)
		return true
	}
	return false
}

func (p *progress) watch(stopped <-chan struct{}) {
	tick := time.NewTicker(stillEvery)
	defer tick.Stop()
	for {
		select {
		case <-stopped:
			return
		case now := <-tick.C:
			p.mu.Lock()
			long := slices.SortedFunc(maps.Values(p.open), func(a, b planview.Ongoing) int { return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Addr, b.Addr)) })
			long = slices.DeleteFunc(long, func(o planview.Ongoing) bool { return now.Sub(o.Since) < time.Second })
			if len(long) > 0 {
				p.host.Show(planview.Still{Ensemble: p.ensemble, Open: long, Now: now})
			}
			p.mu.Unlock()
		}
	}
}
