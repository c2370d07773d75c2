package stack

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/apply/checkup"
	"github.com/locktree/locktree/apply/failure"
	"github.com/locktree/locktree/apply/read"
	"github.com/locktree/locktree/cmd/locktree/internal/look"
	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/cmd/locktree/internal/view/lockview"
	"github.com/locktree/locktree/config"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/diff"
	"github.com/locktree/locktree/plan/problem"
	"github.com/locktree/locktree/plan/record"
	"github.com/locktree/locktree/plan/saved"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/direct"
)

// Stack is a loaded configuration with a connection to each of its ensembles.
type Stack struct {
	Config  *config.Config    // with the ensembles that could be read
	Clients []*recipes.Client // by position in Ensembles
	Lost    view.Lost         // the other ensembles
	screen  Screen
}

// Of makes a stack of a configuration and its connections.
func Of(cfg *config.Config, clients []*recipes.Client, screen Screen) *Stack {
	return &Stack{Config: cfg, Clients: clients, screen: screen}
}

// Servers are the servers of each ensemble, as text.
func Servers(cfg *config.Config) []string {
	out := make([]string, len(cfg.Ensembles))
	for i, e := range cfg.Ensembles {
		out[i] = strings.Join(e.Servers, ",")
	}
	return out
}

// Look loads the configuration, connects for reading to the ensembles that can be reached, and calls f.
func (l *Loader) Look(ctx context.Context, inputs []config.Input, f func(*Stack) error) error {
	cfg, err := l.Load(inputs)
	if err != nil {
		return err
	}
	return l.Reach(ctx, cfg, true, f)
}

// ConnectAll connects to all ensembles of a configuration and calls f.
func (l *Loader) ConnectAll(ctx context.Context, cfg *config.Config, readOnly bool, f func(*Stack) error) error {
	return l.Reach(ctx, cfg, readOnly, func(s *Stack) error {
		if len(s.Lost) > 0 {
			return s.Lost.Err()
		}
		return f(s)
	})
}

// Reach connects to the ensembles of a configuration and calls f with those that can be reached.
func (l *Loader) Reach(ctx context.Context, cfg *config.Config, readOnly bool, f func(*Stack) error) error {
	s, errs := Of(cfg, make([]*recipes.Client, len(cfg.Ensembles)), l.Screen), make([]error, len(cfg.Ensembles))
	var dials sync.WaitGroup // each may take as long as connect_timeout says
	for i, e := range cfg.Ensembles {
		dials.Go(func() {
			if s.Clients[i], errs[i] = l.Connect(ctx, e, readOnly); errs[i] == nil && e.Tree != nil {
				errs[i] = s.On(ctx, i, func(session *direct.Session) error { return s.Denied(ctx, i, read.Recognize(ctx, session, e.Tree)) })
			}
		})
	}
	stop := l.Screen.During("Connecting to "+strings.Join(Servers(cfg), " and "), nil)
	dials.Wait()
	stop()
	for i, c := range s.Clients {
		if c != nil {
			defer c.Close() // the command ends; if Close fails, the servers remove the session
		}
		if f := (*view.Failure)(nil); errors.As(errs[i], &f) { // the error is ours, not the servers'
			return errs[i]
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	s.Lose(errs)
	return f(s)
}

// Lose leaves out the ensembles that have an error.
func (s *Stack) Lose(errs []error) {
	rest, only := Stack{Lost: s.Lost, screen: s.screen}, len(s.Config.Ensembles)+len(s.Lost) == 1
	cfg := *s.Config
	cfg.Ensembles = nil
	for i, e := range s.Config.Ensembles {
		if errs[i] != nil {
			rest.Lost = append(rest.Lost, view.Unseen{Ensemble: e.Name, Servers: strings.Join(e.Servers, ","), Only: only, Err: errs[i]})
			continue
		}
		cfg.Ensembles, rest.Clients = append(cfg.Ensembles, e), append(rest.Clients, s.Clients[i])
	}
	rest.Config = &cfg
	*s = rest
}

// Counting is During for a step that reads an ensemble: the tally counts its nodes.
func Counting(s Screen, doing, ensemble string) (nodes *read.Tally, stop func()) {
	nodes = &read.Tally{}
	return nodes, s.During(doing+" ensemble "+strconv.Quote(ensemble), func(p *view.Progress) {
		p.Unit = "nodes"
		p.Done, p.Total = nodes.Count()
	})
}

// Read reads the live tree of every ensemble. An ensemble that cannot be read is lost: the trees of the others are returned with
// the error.
func (s *Stack) Read(ctx context.Context) ([]*plan.Tree, error) {
	return s.readWith(ctx, (*read.Tally).Tree)
}

// Records reads only the stack's records. Where a record is missing, it reads the whole tree, which shows whether there ever was
// a record.
func (s *Stack) Records(ctx context.Context) ([]*plan.Tree, error) {
	trees, err := s.readWith(ctx, func(_ *read.Tally, ctx context.Context, session *direct.Session, desired *plan.Tree) (*plan.Tree, error) {
		return read.Record(ctx, session, desired)
	})
	if err == nil && slices.ContainsFunc(trees, func(t *plan.Tree) bool { return t.Index == nil }) {
		return s.Read(ctx)
	}
	return trees, err
}

func (s *Stack) readWith(ctx context.Context, look func(*read.Tally, context.Context, *direct.Session, *plan.Tree) (*plan.Tree, error)) ([]*plan.Tree, error) {
	trees, errs := make([]*plan.Tree, len(s.Config.Ensembles)), make([]error, len(s.Config.Ensembles))
	for i, e := range s.Config.Ensembles {
		nodes, stop := Counting(s.screen, "Reading", e.Name)
		errs[i] = s.On(ctx, i, func(session *direct.Session) (err error) {
			trees[i], err = look(nodes, ctx, session, e.Tree)
			return s.Denied(ctx, i, err)
		})
		stop()
		if errs[i] != nil && ctx.Err() != nil {
			return nil, errs[i]
		}
	}
	s.Lose(errs)
	trees = slices.DeleteFunc(trees, func(t *plan.Tree) bool { return t == nil })
	if len(s.Lost) > 0 {
		return trees, s.Lost.Err()
	}
	return trees, nil
}

// The method On calls f with a session of ensemble i, perhaps a new one; f only reads.
func (s *Stack) On(ctx context.Context, i int, f func(*direct.Session) error) error {
	return look.On(ctx, s.Clients[i], SessionWithin(s.Config.Ensembles[i]), f)
}

// SessionWithin is how long a command waits for its next session: twice as long as for its first one.
func SessionWithin(e *config.Ensemble) time.Duration {
	return 2 * cmp.Or(e.ConnectTimeout, 5*time.Second)
}

// question asks how the live trees differ from the configuration. A plan answers it.
func (s *Stack) question(trees []*plan.Tree, opts plan.Options) *saved.Question {
	q := &saved.Question{Stack: s.Config.Stack, Options: opts, Checks: s.Config.Checks}
	for i, e := range s.Config.Ensembles {
		q.Ensembles = append(q.Ensembles, diff.Ensemble{Servers: e.Servers, Current: trees[i], Desired: e.Tree, Identities: s.Clients[i].Identities()})
	}
	return q
}

// Declared are the trees of the configuration.
func (s *Stack) Declared() (out []*plan.Tree) {
	for _, e := range s.Config.Ensembles {
		out = append(out, e.Tree)
	}
	return out
}

// Diff compares the live trees with the configuration.
func (s *Stack) Diff(trees []*plan.Tree, opts plan.Options) []*plan.Plan {
	return s.answer(s.question(trees, opts))
}

func (s *Stack) answer(q *saved.Question) []*plan.Plan {
	defer s.screen.During("Comparing with the configuration", nil)()
	return diff.CompareAll(q.Ensembles, q.Options)
}

// Ask reads and compares. With an error, it returns the plans of the ensembles that could be read; they are no whole plan.
func (s *Stack) Ask(ctx context.Context, opts plan.Options) (*saved.Question, []*plan.Plan, error) {
	trees, err := s.Read(ctx)
	if len(trees) == 0 {
		return nil, nil, err
	}
	question := s.question(trees, opts)
	plans := s.answer(question)
	if err != nil { // an address may be in one of the other ensembles
		for _, p := range plans {
			p.Problems = slices.DeleteFunc(p.Problems, func(q plan.Problem) bool { return q.Code == problem.Target })
		}
	}
	return question, plans, err
}

// Unread is the error of a command that showed all of ensemble i except these nodes; nil if there are none. The parameter refused
// is the path of a node that the servers did not let us read; "" if there is none.
func (s *Stack) Unread(ctx context.Context, i int, closed []string, refused string) error {
	if len(closed) == 0 {
		return nil
	}
	err := view.Failf("Not everything can be read", "%s cannot be read, so their holders and waiters are not known: %s.",
		view.Plural(len(closed), "node"), view.FirstFew(closed))
	if refused == "" {
		return err
	}
	return DeniedAt(ctx, s.Clients[i], errors.Join(zk.ErrNoAuth, err), refused)
}

// AllRead returns the error about nodes of the trees that could not be read.
func (s *Stack) AllRead(ctx context.Context, trees []*plan.Tree) error {
	for i, tree := range trees {
		gaps, refused := read.Gaps(tree, s.Config.Ensembles[i].Tree), ""
		closed := lockview.Closed(gaps)
		if slices.ContainsFunc(gaps, func(g read.Gap) bool { return g.Trouble == plan.TroubleUnreadable }) {
			refused = closed[0]
		}
		if err := s.Unread(ctx, i, closed, refused); err != nil {
			return err
		}
	}
	return nil
}

// Denied adds to a refusal of the servers who we are, and who could grant the right; it returns any other error as it is. It says more
// if the refusal is about the stack's root, or about the tool's own nodes in it.
func (s *Stack) Denied(ctx context.Context, i int, err error) error {
	err = Denied(ctx, s.Clients[i], err)
	if d := (*view.Denied)(nil); errors.As(err, &d) {
		root := s.Config.Ensembles[i].Root
		if at := failure.RefusedAt(err); at == root || strings.HasPrefix(at, record.ScaffoldPath(root)) {
			d.Root = root
		}
	}
	return err
}

// Denied adds to a refusal of the servers who we are, and who could grant the right; it returns any other error as it is.
func Denied(ctx context.Context, c *recipes.Client, err error) error {
	if !errors.Is(err, zk.ErrNoAuth) {
		return err
	}
	return DeniedAt(ctx, c, err, failure.RefusedAt(err))
}

// DeniedAt is Denied for a refusal at a path.
func DeniedAt(ctx context.Context, c *recipes.Client, err error, path string) error {
	d := &view.Denied{Err: err, Who: failure.WhoWeAre(c)}
	d.At, d.Ask = checkup.Administrators(ctx, c, path)
	return d
}
