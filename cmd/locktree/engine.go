package main

import (
	"cmp"
	"context"
	"errors"
	"os"
	"os/user"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/apply"
	"github.com/locktree/locktree/apply/checkup"
	"github.com/locktree/locktree/apply/failure"
	"github.com/locktree/locktree/apply/read"
	"github.com/locktree/locktree/cmd/locktree/internal/page"
	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/config"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/diff"
	"github.com/locktree/locktree/plan/record"
	"github.com/locktree/locktree/plan/saved"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/direct"
)

// stack is a loaded configuration with a connection to each of its ensembles.
type stack struct {
	*config.Config                   // with the ensembles that could be read
	clients        []*recipes.Client // by position in Ensembles
	lost           view.Lost         // the other ensembles
	app            *app              // shows how far long steps are; nil: nobody does
}

// looking loads the configuration, connects to those of its ensembles that can be reached, to read, and calls f. An interrupt
// is answered meanwhile.
func (a *app) looking(ctx context.Context, flags *loadFlags, f func(*stack) error) error {
	defer a.interruptible(ctx)()
	cfg, err := a.load(flags)
	if err != nil {
		return err
	}
	return a.dialled(ctx, cfg, true, f)
}

// connected connects to all ensembles of a configuration and calls f.
func (a *app) connected(ctx context.Context, cfg *config.Config, readOnly bool, f func(*stack) error) error {
	return a.dialled(ctx, cfg, readOnly, func(s *stack) error {
		if err := s.lost.Err(); err != nil {
			return err
		}
		return f(s)
	})
}

// dialled connects to the ensembles of a configuration and calls f with those that can be reached.
func (a *app) dialled(ctx context.Context, cfg *config.Config, readOnly bool, f func(*stack) error) error {
	s := &stack{Config: cfg, clients: make([]*recipes.Client, len(cfg.Ensembles)), app: a}
	errs := make([]error, len(cfg.Ensembles))
	var dials sync.WaitGroup // each may take as long as connect_timeout says
	for i, e := range cfg.Ensembles {
		dials.Go(func() {
			if s.clients[i], errs[i] = a.dial(ctx, e, readOnly); errs[i] == nil && e.Tree != nil {
				errs[i] = s.look(ctx, i, func(session *direct.Session) error { return s.denied(ctx, i, read.Recognize(ctx, session, e.Tree)) })
			}
		})
	}
	stop := a.during("Connecting to "+strings.Join(serverLists(cfg), " and "), nil)
	dials.Wait()
	stop()
	for i, c := range s.clients {
		if c != nil {
			defer c.Close() // the command is over then; the servers remove the session in any case
		}
		if isA[*view.Failure](errs[i]) { // it is not the servers'
			return errs[i]
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	s.lose(errs)
	return f(s)
}

// lose leaves out the ensembles that have an error.
func (s *stack) lose(errs []error) {
	rest, only := stack{lost: s.lost, app: s.app}, len(s.Ensembles)+len(s.lost) == 1
	cfg := *s.Config
	cfg.Ensembles = nil
	for i, e := range s.Ensembles {
		if errs[i] != nil {
			rest.lost = append(rest.lost, view.Unseen{Ensemble: e.Name, Servers: strings.Join(e.Servers, ","), Only: only, Err: errs[i]})
			continue
		}
		cfg.Ensembles, rest.clients = append(cfg.Ensembles, e), append(rest.clients, s.clients[i])
	}
	rest.Config = &cfg
	*s = rest
}

// read reads the live tree of every ensemble. One that cannot be read is lost: what there is of the others is returned with the
// error.
func (s *stack) read(ctx context.Context) ([]*plan.Tree, error) {
	return s.readWith(ctx, (*read.Tally).Tree)
}

func (s *stack) readWith(ctx context.Context, look func(*read.Tally, context.Context, *direct.Session, *plan.Tree) (*plan.Tree, error)) ([]*plan.Tree, error) {
	trees, errs := make([]*plan.Tree, len(s.Ensembles)), make([]error, len(s.Ensembles))
	for i, e := range s.Ensembles {
		nodes, stop := s.app.reading("Reading", e.Name)
		errs[i] = s.look(ctx, i, func(session *direct.Session) (err error) {
			trees[i], err = look(nodes, ctx, session, e.Tree)
			return s.denied(ctx, i, err)
		})
		stop()
		if errs[i] != nil && ctx.Err() != nil {
			return nil, errs[i]
		}
	}
	s.lose(errs)
	return slices.DeleteFunc(trees, func(t *plan.Tree) bool { return t == nil }), s.lost.Err()
}

// look calls f, which only reads ensemble i, on a session that may be a new one.
func (s *stack) look(ctx context.Context, i int, f func(*direct.Session) error) error {
	return page.Look(ctx, s.clients[i], sessionWithin(s.Ensembles[i]), f)
}

// sessionWithin is how long a command waits for another session: as long as for its first one.
func sessionWithin(e *config.Ensemble) time.Duration {
	return 2 * cmp.Or(e.ConnectTimeout, 5*time.Second)
}

// question is what plans answer: how the live trees differ from the configuration.
func (s *stack) question(trees []*plan.Tree, opts plan.Options) *saved.Question {
	q := &saved.Question{Stack: s.Stack, Options: opts, Checks: s.Checks}
	for i, e := range s.Ensembles {
		q.Ensembles = append(q.Ensembles, diff.Ensemble{Servers: e.Servers, Current: trees[i], Desired: e.Tree, Identities: apply.Identities(s.clients[i])})
	}
	return q
}

// declared are the trees of the configuration.
func (s *stack) declared() (out []*plan.Tree) {
	for _, e := range s.Ensembles {
		out = append(out, e.Tree)
	}
	return out
}

// diff compares the live trees with the configuration.
func (s *stack) diff(trees []*plan.Tree, opts plan.Options) []*plan.Plan {
	return s.answer(s.question(trees, opts))
}

func (s *stack) answer(q *saved.Question) []*plan.Plan {
	defer s.app.during("Comparing with the configuration", nil)()
	return q.Answer()
}

// unread is the error of a command that showed everything of ensemble i except these nodes, if there are any; refused is one
// of them that the servers did not let us read.
func (s *stack) unread(ctx context.Context, i int, closed []string, refused string) error {
	if len(closed) == 0 {
		return nil
	}
	err := view.Failf("Not everything can be read", "%s cannot be read, so their holders and waiters are not known: %s.",
		view.Plural(len(closed), "node"), view.FirstFew(closed))
	if refused == "" {
		return err
	}
	return deniedAt(ctx, s.clients[i], errors.Join(zk.ErrNoAuth, err), refused)
}

// allRead is that error for the trees, or nil.
func (s *stack) allRead(ctx context.Context, trees []*plan.Tree) error {
	for i, tree := range trees {
		gaps, refused := tree.Gaps(s.Ensembles[i].Tree), ""
		closed := view.Closed(gaps)
		if slices.ContainsFunc(gaps, func(g plan.Gap) bool { return g.Trouble == plan.TroubleUnreadable }) {
			refused = closed[0]
		}
		if err := s.unread(ctx, i, closed, refused); err != nil {
			return err
		}
	}
	return nil
}

// ask reads and compares in one go. Plans beside an error are of the ensembles that could be read; they are no whole plan.
func (s *stack) ask(ctx context.Context, opts plan.Options) (*saved.Question, []*plan.Plan, error) {
	trees, err := s.read(ctx)
	if len(trees) == 0 {
		return nil, nil, err
	}
	question := s.question(trees, opts)
	plans := s.answer(question)
	if err != nil { // an address may be one of the others'
		for _, p := range plans {
			p.Problems = slices.DeleteFunc(p.Problems, func(q plan.Problem) bool { return q.Code == plan.ProblemTarget })
		}
	}
	return question, plans, err
}

// ensembleOf finds the ensemble of a saved plan, which must still be the one of the plan.
func ensembleOf(cfg *config.Config, p *plan.Plan) (int, error) {
	const summary = "Saved plan does not match the configuration"
	i := slices.IndexFunc(cfg.Ensembles, func(e *config.Ensemble) bool { return e.Name == p.Ensemble })
	if i < 0 {
		return 0, view.Failf(summary, "The plan is for ensemble %q, which the configuration does not declare. Apply it from the directory it was made in, or make a new plan.", p.Ensemble)
	}
	e := cfg.Ensembles[i]
	switch {
	case e.Root != p.Root:
		return 0, view.Failf(summary, "The plan is for ensemble %q below %s; the configuration now says %s. Make a new plan.", p.Ensemble, p.Root, e.Root)
	// With other variables the same block may name other servers, where a plan for a new stack would fit, too.
	case len(p.Servers) > 0 && !slices.ContainsFunc(p.Servers, func(server string) bool { return slices.Contains(e.Servers, server) }):
		return 0, view.Failf(summary, "The plan for ensemble %q was made on %s; the configuration now says %s. Give the variables that \"locktree plan\" was given, or make a new plan.",
			p.Ensemble, strings.Join(p.Servers, ","), strings.Join(e.Servers, ","))
	}
	return i, nil
}

// serverLists are the servers of each ensemble.
func serverLists(cfg *config.Config) []string {
	out := make([]string, len(cfg.Ensembles))
	for i, e := range cfg.Ensembles {
		out[i] = strings.Join(e.Servers, ",")
	}
	return out
}

// who is written into the apply lock: user@host, if they are known.
func who() string {
	name := "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return name + "@" + host
}

// denied adds who we are to a refusal of the servers, and who could grant the right.
func denied(ctx context.Context, c *recipes.Client, err error) error {
	return deniedAt(ctx, c, err, failure.RefusedAt(err))
}

func deniedAt(ctx context.Context, c *recipes.Client, err error, path string) error {
	if !errors.Is(err, zk.ErrNoAuth) {
		return err
	}
	d := &view.Denied{Err: err, Who: failure.WhoWeAre(c)}
	d.At, d.Ask = checkup.Administrators(ctx, c, path)
	return d
}

// denied says more if the stack's root is closed to us, or what the tool created in it.
func (s *stack) denied(ctx context.Context, i int, err error) error {
	err = denied(ctx, s.clients[i], err)
	if d, ok := asType[*view.Denied](err); ok {
		root := s.Ensembles[i].Root
		if at := failure.RefusedAt(err); at == root || strings.HasPrefix(at, record.ScaffoldPath(root)) {
			d.Root = root
		}
	}
	return err
}
