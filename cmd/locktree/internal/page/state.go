// Package page is the read-only page of "locktree serve": it looks at ensembles again and again, and shows their locks over HTTP to
// people, programs and Prometheus.
//
// A [Service] watches each [Target] with a client of its own and publishes each look on a board. The board's handler renders the
// pages, the JSON document and the metrics. A [Door] checks passwords and certificates before a request reaches the board; a
// health check needs no password. The caller makes the clients, which refuse writes, and reads the configurations ([Setup]). The
// board itself has no connection and writes nothing.
//
//	service := &page.Service{Options: options, Door: door, Read: read, Say: say}
//	err := service.Run(ctx, listener, setups, hangups, started)
package page

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/locktree/locktree/apply/history"
	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/cmd/locktree/internal/view/lockview"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes/inspect/scan"
)

// Ensemble is what is known of one ensemble.
type Ensemble struct {
	Name     string // unique; it includes the name of the stack if there are several stacks
	Servers  string
	Prefix   string          // below which everything is looked at, "" for declared locks only
	Snapshot *scan.Snapshot  // the newest; nil before the first
	Error    string          // why there is no newer snapshot; "" if the last look succeeded
	before   *scan.Snapshot  // the snapshot before
	held     map[string]bool // locks that should always be held, and were
	failures int             // looks that failed
	failed   time.Time       // since when looks have failed, if Error is set
	told     time.Time       // when the operator was told last
	looking  string          // progress of the look under way, if it takes long

	Root, Stack    string     // as declared
	Compare        bool       // the ensemble is compared with a configuration
	Drift          *plan.Plan // what would put the configuration in force; nil before it was checked, and without a configuration
	DriftAt        time.Time
	DriftSource    lockview.Source // the configuration that Drift is about
	Plan           string          // Drift as text, "" where there is none
	Applied        []history.Entry // the newest of who applied what
	AppliedTrouble string          // why Applied is not known
	Checkup        *lockview.CheckupOf
	CheckAt        time.Time
	Trouble        string // why drift or conditions could not be looked at
}

// Options of a board.
type Options struct {
	Version  string
	Interval time.Duration // between two looks; a snapshot older than three intervals is stale
	Now      func() time.Time
}

// board holds what is known, and shows it. Safe for use by many goroutines.
type board struct {
	opts Options

	rendering sync.Mutex // lets one goroutine at a time render the document

	mu        sync.Mutex
	sources   []lockview.Source
	ensembles []Ensemble
	document  []byte            // what status writes; nil until it is requested after news
	version   int               // counts the calls of news
	pages     map[string][]byte // rendered since the last news
	metrics   []byte            // the metrics as text, of the time in measured; nil until they are requested after news
	measured  time.Time
	rendered  time.Time // when render last cleared the pages because of their age
}

// newBoard is a board before the first look.
func newBoard(opts Options, ensembles ...Ensemble) *board {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	return &board{opts: opts, ensembles: ensembles, pages: map[string][]byte{}}
}

// publishLook publishes a look at an ensemble. It returns a line for the operator if that ends an outage.
func (b *board) publishLook(ensemble string, snap *scan.Snapshot) (line string) {
	b.change(ensemble, func(e *Ensemble) {
		if e.Error != "" {
			line = fmt.Sprintf("Ensemble %s answers again, after %s.", ensemble, snap.At.Sub(e.failed).Round(time.Second))
		}
		e.before, e.Snapshot, e.Error, e.looking, e.told = e.Snapshot, snap, "", "", time.Time{}
		held := map[string]bool{}
		for _, in := range snap.Locks {
			if in.Kind.Kept && (len(in.Holders) > 0 || e.held[in.Path]) { // a lock that was never held is no problem
				held[in.Path] = true
			}
		}
		e.held = held
	})
	return line
}

// tellAgain is the shortest time between two lines about one outage.
const tellAgain = time.Minute

// publishFailure publishes that a look failed. It returns a line for the operator if that is news. The last snapshot stays.
func (b *board) publishFailure(ensemble string, err error) (line string) {
	b.change(ensemble, func(e *Ensemble) {
		now, reason := b.opts.Now(), view.Brief(err)
		if e.Error == "" {
			if e.failed = now; e.Snapshot != nil {
				e.failed = e.Snapshot.At
			}
		}
		if e.Error == "" || e.Error != reason && now.Sub(e.told) >= tellAgain {
			e.told = now
			line = fmt.Sprintf("Ensemble %s does not answer since %s: %s", ensemble, e.failed.UTC().Format(time.RFC3339), reason)
		}
		e.Error, e.looking = reason, ""
		e.failures++
	})
	return line
}

// change calls the function set to update an ensemble, and publishes the result.
func (b *board) change(ensemble string, set func(*Ensemble)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.IndexFunc(b.ensembles, func(e Ensemble) bool { return e.Name == ensemble })
	if i < 0 {
		return
	}
	set(&b.ensembles[i])
	b.news()
}

// news lets everything be rendered again; the caller holds b.mu.
func (b *board) news() {
	b.version++
	clear(b.pages)
	b.metrics, b.document = nil, nil
}

// show sets the ensembles, and the configurations that they are compared with. It keeps the snapshots of ensembles that stay.
func (b *board) show(sources []lockview.Source, ensembles []Ensemble) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, e := range ensembles {
		for _, old := range b.ensembles {
			if old.Name == e.Name {
				old.Servers, old.Prefix, old.Root, old.Stack, old.Compare = e.Servers, e.Prefix, e.Root, e.Stack, e.Compare
				ensembles[i] = old
			}
		}
	}
	b.sources, b.ensembles = sources, ensembles
	b.news()
}

// isFresh reports whether the snapshot is recent, or the servers are answering the requests for the next one.
func (e *Ensemble) isFresh(now time.Time, interval time.Duration) bool {
	return e.Snapshot != nil && (e.looking != "" || now.Sub(e.Snapshot.At) <= 3*interval+e.Snapshot.Took)
}

// PlanLines are what would put the configuration in force: a class for the colour that a line has in a terminal, and the line.
func (e *Ensemble) PlanLines() (out [][2]string) {
	classes := map[string]string{"+": "good", "-": "bad", "-/+": "bad", "~": "warn", ".": "warn"}
	for line := range strings.SplitSeq(e.Plan, "\n") {
		symbol, _, _ := strings.Cut(strings.TrimLeft(line, " "), " ")
		out = append(out, [2]string{classes[symbol], line})
	}
	return out
}

// edit is a node that was changed by other means than an apply.
type edit struct {
	Path, What string
	At         time.Time // when its data was last written; zero if that is unknown, or if something other than the data changed
}

// mostEdits is how many the page shows.
const mostEdits = 100

// Edits are the nodes that have changed since the last apply.
func (e *Ensemble) Edits() (out []edit) {
	if e.Drift == nil {
		return nil
	}
	live := map[string]*plan.Node{}
	for c := range e.Drift.Each() {
		live[c.Path] = c.Before
	}
	for _, d := range e.Drift.Drifted[:min(len(e.Drift.Drifted), mostEdits)] {
		var names []string
		written := len(d.Attributes) == 0
		for _, a := range d.Attributes {
			names = append(names, a.Name)
			written = written || a.Name != "acl"
		}
		one := edit{Path: d.Path, What: cmp.Or(strings.Join(names, ", "), "not as the last apply left it")}
		if d.Deleted {
			one.What = "deleted"
		}
		if n := live[d.Path]; n != nil && n.Live != nil && n.Live.ModifiedMs > 0 && written {
			one.At = time.UnixMilli(n.Live.ModifiedMs)
		}
		out = append(out, one)
	}
	return out
}

// mostApplies is how many of the last applies the page shows.
const mostApplies = 5

// adopt notes who applied last, or why that is not known.
func (e *Ensemble) adopt(history []history.Entry, err error) {
	e.Applied, e.AppliedTrouble = nil, ""
	switch {
	case err != nil:
		e.AppliedTrouble = "the history of the stack could not be read: " + view.Brief(err)
	case len(history) == 0:
		e.AppliedTrouble = "the stack has no history."
	}
	for _, one := range history {
		if one.Changes != nil && len(e.Applied) < mostApplies { // revokes and breaks have no changes
			e.Applied = append(e.Applied, one)
		}
	}
}
