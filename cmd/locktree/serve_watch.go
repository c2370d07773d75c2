package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"time"

	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/cmd/locktree/internal/view/serve"
	"github.com/locktree/locktree/config"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/inspect"
)

// watched is one ensemble that is looked at, on a client of its own: one that cannot be reached holds up no other.
type watched struct {
	s      *service
	name   string
	key    [sha256.Size]byte // of all that the client and the scanner were made of
	end    context.CancelFunc
	news   chan struct{}    // there is another configuration to compare with
	stack  *config.Config   // guarded by s.mu
	e      *config.Ensemble // of it, guarded by s.mu
	source serve.Source     // of it, guarded by s.mu
}

// watch begins to look at an ensemble.
func (s *service) watch(ctx context.Context, w *watched) {
	ctx, w.end = context.WithCancel(ctx)
	e := w.e
	s.watching.Go(func() {
		client := w.connect(ctx, e)
		if client == nil {
			return
		}
		compared := make(chan struct{})
		go func() {
			defer close(compared)
			if s.driftInterval > 0 {
				w.compare(ctx, client)
			}
		}()
		w.scan(ctx, client, e)
		<-compared
		_ = client.Close()
	})
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

// connect tries until it succeeds; nil when ctx has ended.
func (w *watched) connect(ctx context.Context, e *config.Ensemble) *recipes.Client {
	for again := true; again; again = pause(ctx, w.s.interval) {
		c, err := w.s.dial(ctx, e, true)
		if err == nil {
			return c
		}
		if ctx.Err() == nil {
			w.s.board.Failed(w.name, err)
		}
	}
	return nil
}

// scan looks again and again. A session that is lost is followed by the next one.
func (w *watched) scan(ctx context.Context, client *recipes.Client, e *config.Ensemble) {
	s := w.s
	scanner := inspect.NewScanner(client, inspect.ScanOptions{Declared: locksIn(e.Tree), Prefix: s.prefix, Reads: s.reads})
	for again := true; again; again = pause(ctx, s.interval) {
		bounded, cancel := context.WithTimeout(ctx, 10*time.Second+3*s.interval)
		snap, err := scanner.Scan(bounded)
		cancel()
		switch {
		case ctx.Err() != nil:
		case err == nil:
			s.board.Saw(w.name, snap)
		default:
			s.board.Failed(w.name, err)
		}
	}
}

// compare looks at drift and at doctor's conditions again and again, each time with the configuration as it is then.
func (w *watched) compare(ctx context.Context, client *recipes.Client) {
	for ctx.Err() == nil {
		bounded, cancel := context.WithTimeout(ctx, min(w.s.driftInterval, 5*time.Minute))
		w.compareOnce(bounded, client)
		cancel()
		due := time.NewTimer(w.s.driftInterval)
		select {
		case <-w.news:
		case <-due.C:
			w.s.reread(ctx) // not all that was read is a file whose change shows: see fileStamps
		case <-ctx.Done():
		}
		due.Stop()
	}
}

func (w *watched) compareOnce(ctx context.Context, client *recipes.Client) {
	w.s.mu.Lock()
	cfg, e, source := w.stack, w.e, w.source
	w.s.mu.Unlock()
	one := &stack{Config: &config.Config{Dir: cfg.Dir, Stack: cfg.Stack, Ensembles: []*config.Ensemble{e}, Sources: cfg.Sources}, clients: []*recipes.Client{client}}
	var drift *plan.Plan
	var trouble error
	if w.s.declared(cfg) {
		trees, err := one.read(ctx)
		if trouble = err; err == nil {
			drift = one.diff(trees, plan.Options{})[0]
		}
	}
	found, err := w.s.checkUp(ctx, e)
	if trouble == nil {
		trouble = err
	}
	if ctx.Err() != nil && trouble == nil {
		return
	}
	w.s.board.Change(w.name, func(of *serve.Ensemble) {
		of.Trouble = ""
		if trouble != nil {
			of.Trouble = view.Brief(trouble)
			return
		}
		of.Checkup, of.CheckAt = &found, time.Now()
		if drift != nil {
			of.Drift, of.DriftAt, of.DriftSource, of.Plan = drift, time.Now(), source, planText(drift)
		}
	})
}

// declared reports whether there is a configuration to compare with.
func (s *service) declared(cfg *config.Config) bool { return s.servers == "" && len(cfg.Sources) > 0 }

// planText is a plan as "locktree plan" shows it.
func planText(p *plan.Plan) string {
	var out bytes.Buffer
	text := view.Stream{Writer: &out, Width: 100}
	view.NewHuman(text, text).Tell(view.Plan{Plans: []*plan.Plan{p}, NoAdvice: true, NowMs: time.Now().UnixMilli()})
	if text := strings.TrimSpace(out.String()); len(text) <= maxPlanText {
		return text
	}
	return strings.ToValidUTF8(out.String()[:maxPlanText], "") + "\n\nThere is more: run \"locktree plan\"."
}

// maxPlanText is how much of a plan the page shows.
const maxPlanText = 64 << 10

// adopt makes a configuration the one that is looked at and compared with. What an ensemble is looked at with goes on, session
// and all, unless it is another now: servers, credentials, certificates, or the locks.
func (s *service) adopt(ctx context.Context, cfg *config.Config) {
	s.source = s.sourceOf(cfg)
	s.stamps = s.fileStamps(cfg)
	s.mu.Lock()
	defer s.mu.Unlock()
	var ensembles []serve.Ensemble
	for i, e := range cfg.Ensembles {
		ensembles = append(ensembles, serve.Ensemble{Name: e.Name, Servers: serverLists(cfg)[i], Prefix: s.prefix, Root: e.Root, Stack: cfg.Stack,
			Compare: s.driftInterval > 0 && s.declared(cfg)})
	}
	s.board.Show(s.source, ensembles)
	old := s.watched
	s.watched = map[string]*watched{}
	for _, e := range cfg.Ensembles {
		key := s.keyOf(e)
		w := old[e.Name]
		known := w != nil && w.key == key
		if !known {
			w = &watched{s: s, name: e.Name, key: key, news: make(chan struct{}, 1)}
		} else {
			delete(old, e.Name)
		}
		w.stack, w.e, w.source = cfg, e, s.source
		s.watched[e.Name] = w
		if !known {
			s.watch(ctx, w)
		}
	}
	for _, w := range old {
		w.end()
	}
}

// keyOf identifies what a client and a scanner are made of.
func (s *service) keyOf(e *config.Ensemble) [sha256.Size]byte {
	h := sha256.New()
	fmt.Fprintf(h, "%q %v %v\n", e.Servers, e.SessionTimeout, e.ConnectTimeout)
	for _, a := range e.Auth {
		fmt.Fprintf(h, "%q %q %q\n", a.Scheme, a.Username, string(a.Password))
	}
	if t := s.tlsOf(e); t != nil {
		fmt.Fprintf(h, "%q\n", t.ServerName)
		for _, name := range tlsFiles(t) {
			fmt.Fprintf(h, "%q %q\n", name, fileContent(name))
		}
	}
	for _, path := range locksIn(e.Tree) {
		fmt.Fprintf(h, "%q\n", path)
	}
	return [sha256.Size]byte(h.Sum(nil))
}
