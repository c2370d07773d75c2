package page

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/netutil"

	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/cmd/locktree/internal/view/lockview"
	"github.com/locktree/locktree/cmd/locktree/internal/view/planview"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/inspect/scan"
)

// Setup is what one configuration says to look at. If it could not be read, it has only Stamps, and a Source with an Error.
type Setup struct {
	Source  lockview.Source
	Targets []Target
	Stamps  func() string // its result changes when one of the files changes
}

// Service looks at ensembles, and serves what it sees.
type Service struct {
	Options
	Door          *Door                    // who may look
	Hosts         []string                 // the page's own names, see guard
	DriftInterval time.Duration            // between two comparisons; 0: none
	Read          []func() (*Setup, error) // reads each configuration again
	Say           func(string)             // prints a line for the operator

	board *board

	reading sync.Mutex // held while configurations are read again
	setups  []*Setup   // in force, one for each Read
	stamps  []string   // the Stamps of each setup when it was read

	mu       sync.Mutex
	watched  map[string]*watched // by ensemble
	watching sync.WaitGroup
}

// watched is one ensemble that is looked at.
type watched struct {
	end    context.CancelFunc
	news   chan struct{}   // there is another configuration to compare with
	target Target          // guarded by mu
	source lockview.Source // of the target, guarded by mu
}

// Run serves until ctx ends, even if servers cannot be reached. At the start it calls the function serving with the page's
// address: the listener is already open. It reads the configurations (at least one) again when a file changes, or when a signal
// comes from hangups. A configuration that cannot be read, now or later, does not affect the others.
func (s *Service) Run(ctx context.Context, l net.Listener, first []*Setup, hangups <-chan os.Signal, serving func(address string)) error {
	s.board, s.watched = newBoard(s.Options), map[string]*watched{}
	handler := newServer(s.board.handler())
	handler.ErrorLog = log.New(sayings(s.Say), "", 0)
	address := "http://" + l.Addr().String() + "/"
	if s.Door.Encrypts() {
		address = strings.Replace(address, "http:", "https:", 1)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	serving(address) // the listener is open
	s.setups = first
	for _, setup := range first {
		s.stamps = append(s.stamps, setup.Stamps())
	}
	s.adopt(ctx)
	s.watching.Go(func() { s.followFiles(ctx, hangups) })
	ended := make(chan error, 1)
	go func() { ended <- s.Door.serve(netutil.LimitListener(l, maxConnections), handler, s.Hosts, s.Say) }()
	var err error
	select {
	case err = <-ended:
		err = view.Failf("The page is not served any more", "%v.", err)
	case <-ctx.Done():
	}
	stop()
	// Finish the answers under way, and close the sessions, if that is soon done. The sessions hold no lock.
	soon, cancel := context.WithTimeout(context.Background(), endWithin)
	defer cancel()
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		s.watching.Wait()
	}()
	if handler.Shutdown(soon) != nil {
		_ = handler.Close()
	}
	select {
	case <-closed:
	case <-soon.Done():
	}
	return err
}

// endWithin is the time for answers and for the end of the sessions when serve is told to stop. It is below the grace of package screen.
const endWithin = 700 * time.Millisecond

// adopt puts configurations in force. A watched ensemble keeps its client and session unless its key has changed.
func (s *Service) adopt(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var sources []lockview.Source
	var ensembles []Ensemble
	for _, setup := range s.setups {
		sources = append(sources, setup.Source)
		for _, t := range setup.Targets {
			ensembles = append(ensembles, t.Ensemble)
		}
	}
	s.board.show(sources, ensembles)
	old := s.watched
	s.watched = map[string]*watched{}
	for _, setup := range s.setups {
		for _, t := range setup.Targets {
			name := t.Ensemble.Name
			w := old[name]
			if w != nil && w.target.Key == t.Key {
				delete(old, name)
				w.target, w.source = t, setup.Source
			} else {
				w = &watched{target: t, source: setup.Source, news: make(chan struct{}, 1)}
				s.watch(ctx, name, w)
			}
			s.watched[name] = w
		}
	}
	for _, w := range old {
		w.end()
	}
}

// Apart returns an error if another setup has the stack name of this one and both have ensembles: the page tells stacks
// apart by their names.
func Apart(one *Setup, others ...*Setup) error {
	for _, other := range others {
		if len(one.Targets) > 0 && len(other.Targets) > 0 && one.Source.Stack == other.Source.Stack {
			return fmt.Errorf("stack %s is also declared in %s, and one page cannot tell them apart: serve them by two programs", one.Source.Stack, other.Source.Path)
		}
	}
	return nil
}

func (s *Service) watch(ctx context.Context, name string, w *watched) {
	ctx, w.end = context.WithCancel(ctx)
	target := w.target
	tell := func(snap *scan.Snapshot, err error) {
		line := ""
		if err != nil {
			line = s.board.publishFailure(name, err)
		} else {
			line = s.board.publishLook(name, snap)
		}
		if line != "" {
			s.Say(line)
		}
	}
	s.watching.Go(func() {
		progress := func(text string) { s.board.change(name, func(e *Ensemble) { e.looking = text }) }
		target.watch(ctx, s.Interval, tell, progress, func(ctx context.Context, client *recipes.Client) { s.compare(ctx, name, w, client) })
	})
}

// health matches the log line that each -healthcheck on this machine causes if the page has TLS: the check sends plain HTTP.
var health = regexp.MustCompile(`handshake error from (127\.[0-9.]+|\[::1\]):\d+: client sent an HTTP request to an HTTPS server`)

// sayings are lines for the operator of the page, such as those of net/http about connections that fail: "TLS handshake error
// from ...".
type sayings func(string)

func (say sayings) Write(line []byte) (int, error) {
	if health.Match(line) {
		return len(line), nil
	}
	say("The page: " + notUnderstood(errors.New(strings.TrimSpace(strings.TrimPrefix(string(line), "http: "))))) // the line may quote the web configuration
	return len(line), nil
}

// compare looks at drift and at doctor's conditions again and again, each time with the configuration as it is then.
func (s *Service) compare(ctx context.Context, name string, w *watched, client *recipes.Client) {
	for s.DriftInterval > 0 && ctx.Err() == nil {
		s.mu.Lock()
		target, source := w.target, w.source
		s.mu.Unlock()
		bounded, cancel := context.WithTimeout(ctx, min(s.DriftInterval, 5*time.Minute))
		found, err := target.Compare(bounded, client)
		if bounded.Err() == nil || err != nil {
			s.board.change(name, func(of *Ensemble) {
				of.Trouble = ""
				if err != nil {
					of.Trouble = view.Brief(err)
					return
				}
				of.Checkup, of.CheckAt = found.Conditions, time.Now()
				if found.Drift != nil {
					of.Drift, of.DriftAt, of.DriftSource, of.Plan = dropUnchanged(found.Drift), time.Now(), source, planText(found.Drift)
					of.adopt(found.Applied, found.Unapplied)
				}
			})
		}
		cancel()
		due := time.NewTimer(s.DriftInterval)
		select {
		case <-w.news:
		case <-due.C:
			s.reread(ctx) // a change of some inputs does not show in Setup.Stamps
		case <-ctx.Done():
		}
		due.Stop()
	}
}

// dropUnchanged returns a plan without its unchanged nodes. Unchanged nodes would keep the whole tree in memory.
func dropUnchanged(p *plan.Plan) *plan.Plan {
	drifted := map[string]bool{}
	for _, d := range p.Drifted {
		drifted[d.Path] = true
	}
	out := *p
	out.Pins, out.Changes = nil, nil
	for c := range p.Each() {
		if c.Action != plan.NoOp || c.PreviousAddr != "" || c.Unsealed || drifted[c.Path] {
			out.Changes = append(out.Changes, *c)
		}
	}
	return &out
}

// maxPlanText is how much of a plan the page shows.
const maxPlanText = 64 << 10

// planText is a plan as "locktree plan" shows it.
func planText(p *plan.Plan) string {
	var out bytes.Buffer
	text := view.Stream{Writer: &out, Width: 100}
	view.NewHuman(text, text).Show(planview.Plan{Plans: []*plan.Plan{p}, NoAdvice: true, NowMs: time.Now().UnixMilli()})
	if text := strings.TrimSpace(out.String()); len(text) <= maxPlanText {
		return text
	}
	return strings.ToValidUTF8(out.String()[:maxPlanText], "") + "\n\nThere is more: run \"locktree plan\"."
}

// followFiles reads everything again when a file has changed, and when a signal comes from hangups.
func (s *Service) followFiles(ctx context.Context, hangups <-chan os.Signal) {
	look := time.NewTicker(s.Interval)
	defer look.Stop()
	for {
		select {
		case <-hangups:
		case <-look.C:
			s.reading.Lock()
			same := slices.EqualFunc(s.setups, s.stamps, func(setup *Setup, stamps string) bool { return setup.Stamps() == stamps })
			s.reading.Unlock()
			if same {
				continue
			}
		case <-ctx.Done():
			return
		}
		s.reread(ctx)
		s.mu.Lock()
		for _, w := range s.watched {
			select {
			case w.news <- struct{}{}:
			default: // the watcher has been told already
			}
		}
		s.mu.Unlock()
	}
}

// reread reads the configurations again and puts them in force. If one has errors, its old version stays in force, and the page,
// the metrics and the log say so.
func (s *Service) reread(ctx context.Context) {
	s.reading.Lock()
	defer s.reading.Unlock()
	for i := range s.setups {
		s.rereadOne(ctx, i)
	}
	if ctx.Err() == nil {
		s.adopt(ctx)
	}
}

// rereadOne notes the configuration as it is now, or why it cannot be used.
func (s *Service) rereadOne(ctx context.Context, i int) {
	was := s.setups[i]
	before := was.Stamps()
	setup, err := s.Read[i]()
	if err == nil {
		others := slices.Delete(slices.Clone(s.setups), i, i+1)
		err = Apart(setup, others...)
	}
	if ctx.Err() != nil {
		return
	}
	which := "The configuration"
	if len(s.setups) > 1 {
		which += " of " + was.Source.Stack
	}
	if err != nil {
		said, now := view.Brief(err), *was // other goroutines may be reading the old setup
		if said != was.Source.Error {
			instead := "Nothing of it is looked at"
			if !was.Source.Read.IsZero() {
				instead = "The one of " + was.Source.Read.UTC().Format(time.RFC3339) + " stays active"
			}
			s.Say(fmt.Sprintf("%s was read again and is not used: %s %s.", which, said, instead))
		}
		if was.Source.Error == "" {
			now.Source.Failed = time.Now()
		}
		now.Source.Error = said
		s.setups[i], s.stamps[i] = &now, before
		return
	}
	if was.Source.Error != "" {
		s.Say(which + " was read again and is active.")
	}
	if s.setups[i], s.stamps[i] = setup, setup.Stamps(); before != was.Stamps() {
		s.stamps[i] = before // a file has changed meanwhile: the configuration is read once more
	}
}
