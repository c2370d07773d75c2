package page

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/locktree/locktree/apply/history"
	"github.com/locktree/locktree/cmd/locktree/internal/look"
	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/cmd/locktree/internal/view/lockview"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/direct"
	"github.com/locktree/locktree/recipes/inspect/scan"
)

// Target is an ensemble to look at.
type Target struct {
	Ensemble Ensemble          // what is known of it before a look
	Key      [sha256.Size]byte // hash of everything that Dial and Scan depend on
	Dial     func(context.Context) (*recipes.Client, error)
	Scan     scan.Options
	Patience time.Duration // how long a look waits for a session
	// Compare looks at drift, at who applied, and at doctor's conditions.
	Compare func(context.Context, *recipes.Client) (Comparison, error)
}

// Comparison is how an ensemble differs from a configuration, and the conditions that its locks depend on.
type Comparison struct {
	Drift      *plan.Plan // nil without a configuration
	Applied    []history.Entry
	Unapplied  error // why Applied is not known
	Conditions *lockview.CheckupOf
}

// watch looks at the ensemble again and again until ctx ends. It has a client of its own, so that an ensemble that cannot be
// reached delays no other. After a lost session it goes on with the next one. It calls progress with the progress of a slow
// look, or "" if the servers sent nothing since the last call. companion runs concurrently while a client exists.
func (t Target) watch(ctx context.Context, interval time.Duration, tell func(*scan.Snapshot, error), progress func(string), companion func(context.Context, *recipes.Client)) {
	client, err := t.Dial(ctx)
	for ; err != nil; client, err = t.Dial(ctx) {
		if ctx.Err() == nil {
			tell(nil, err)
		}
		if !pause(ctx, interval) {
			return
		}
	}
	var besides sync.WaitGroup
	besides.Go(func() { companion(ctx, client) })
	t.Scan.Silence = 10*time.Second + 3*interval
	scanner := scan.New(client, t.Scan)
	for again := true; again; again = pause(ctx, interval) {
		looking, over := context.WithCancel(ctx)
		var telling sync.WaitGroup
		telling.Go(func() {
			for signs := scanner.Progress().Signs; pause(looking, interval); {
				p, text := scanner.Progress(), ""
				if p.Signs != signs { // otherwise the servers have sent nothing meanwhile
					text = fmt.Sprintf("A look is under way: %d of %d nodes.", p.Looked, p.Of)
				}
				signs = p.Signs
				progress(text)
			}
		})
		var snap *scan.Snapshot
		err := look.On(ctx, client, t.Patience, func(*direct.Session) (err error) { // the look goes on as long as the servers send something
			snap, err = scanner.Scan(ctx)
			return err
		})
		over()
		telling.Wait()
		if ctx.Err() == nil {
			tell(snap, err)
		}
	}
	besides.Wait()
	_ = client.Close() // the client holds no lock
}

// pause waits for d; false when ctx has ended.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// noAnswer is shown for an ensemble while a look takes longer than it should.
const noAnswer = "No answer yet."

// Follow looks at ensembles until ctx ends or the function show returns false. It calls show on progress, and after each round:
// when every ensemble has brought a snapshot or an error. After the first snapshot it also calls show at each interval while an
// ensemble has failed or does not answer. If the first round brings no snapshot, Follow ends. It returns what is known, and for
// each ensemble the error of its last look.
func Follow(ctx context.Context, targets []Target, interval time.Duration, show func(known []lockview.LocksOf, rounds int) (more bool)) ([]lockview.LocksOf, []error) {
	type answer struct {
		of       int
		snap     *scan.Snapshot
		err      error
		progress string // if not empty, the look is still under way, and this is no answer
	}
	ctx, stop := context.WithCancel(ctx)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer stop()
	answers := make(chan answer)
	known, errs, at := make([]lockview.LocksOf, len(targets)), make([]error, len(targets)), make([]time.Time, len(targets))
	for i, t := range targets {
		e := t.Ensemble
		known[i], at[i] = lockview.LocksOf{Ensemble: e.Name, Addresses: e.Servers, Path: e.Prefix}, time.Now()
		send := func(a answer) {
			select {
			case answers <- a:
			case <-ctx.Done():
			}
		}
		tell := func(snap *scan.Snapshot, err error) { send(answer{of: i, snap: snap, err: err}) }
		progress := func(text string) {
			if text != "" {
				send(answer{of: i, progress: text})
			}
		}
		watching.Go(func() { t.watch(ctx, interval, tell, progress, func(context.Context, *recipes.Client) {}) })
	}
	late := time.NewTicker(interval)
	defer late.Stop()
	rounds, missing := 0, len(targets)
	answered := make([]bool, len(targets))
	seen := func() bool {
		return slices.ContainsFunc(known, func(of lockview.LocksOf) bool { return of.Snapshot != nil })
	}
	for {
		select {
		case a := <-answers:
			of := &known[a.of]
			if a.progress != "" {
				if of.Looking, at[a.of] = a.progress, time.Now(); of.Error == noAnswer {
					of.Error = ""
				}
				break
			}
			if errs[a.of], at[a.of], of.Error, of.Looking = a.err, time.Now(), "", ""; a.err != nil {
				of.Error = view.Reason(a.err)
			} else {
				of.Snapshot = a.snap
			}
			if !answered[a.of] {
				answered[a.of] = true
				missing--
			}
			if missing > 0 {
				continue
			}
			rounds, missing = rounds+1, len(targets)
			clear(answered)
			if !seen() {
				return known, errs
			}
		case <-late.C:
			stale := false
			for i := range known {
				if time.Since(at[i]) >= 3*interval && known[i].Error == "" {
					known[i].Error = noAnswer
				}
				stale = stale || known[i].Error != ""
			}
			if !stale || !seen() {
				continue
			}
		case <-ctx.Done():
			return known, errs
		}
		if !show(slices.Clone(known), rounds) {
			return known, errs
		}
	}
}
