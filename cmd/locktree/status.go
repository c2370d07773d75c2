package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/spf13/cobra"

	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/config"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/inspect"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/session"
)

func statusCommand(a *app) *cobra.Command {
	var flags loadFlags
	var detailedExitcode bool
	c := &cobra.Command{
		Use:        "status [PATH]",
		SuggestFor: []string{"who", "holders", "list", "ls", "ps"},
		Short:      "Show who holds and who waits",
		Long: "status shows every lock of the stack with its holders and waiters, their fencing tokens\n" +
			"and sessions, whether some of them wait for each other in a circle, and whether the tree\n" +
			"still is what the configuration says.\n\n" +
			"With a PATH it shows the lock there, or all locks below: of this stack, of others, and those\n" +
			"that Java (Curator), Python (kazoo) and other programs made for themselves. With a PATH and\n" +
			"ZOOKEEPER_SERVERS no configuration is read.\n\n" +
			"It ends with 1 when some of them cannot be read, and names them.",
		Args: exactly(0, 1),
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 1 && detailedExitcode {
				return usage(c, "The -detailed-exitcode option is about the whole stack", "Give it without a path.")
			}
			defer a.interruptible(c.Context())()
			var cfg *config.Config
			var err error
			if len(args) == 1 {
				cfg, err = a.configOfEnvironment()
			}
			if cfg == nil && err == nil {
				cfg, err = a.load(&flags)
			}
			if err != nil {
				return err
			}
			s, err := a.connect(c.Context(), cfg, true)
			if err != nil {
				return err
			}
			defer s.close()
			if len(args) == 1 {
				return a.lookAt(c.Context(), s, args[0])
			}
			return a.stackStatus(c.Context(), s, detailedExitcode)
		},
	}
	flags.register(c)
	c.Flags().BoolVar(&detailedExitcode, "detailed-exitcode", false, "exit 2 when the tree differs from the configuration")
	a.jsonFlag(c, documentJSON, "print one JSON document")
	return c
}

func (a *app) stackStatus(ctx context.Context, s *stack, detailedExitcode bool) error {
	trees, err := s.read(ctx)
	if err != nil {
		return err
	}
	plans := s.plans(trees, false)
	st := view.Status{Trees: trees, Drift: plans, Servers: serverLists(s.Config), NowMs: time.Now().UnixMilli()}
	for _, tree := range trees {
		st.Waits = append(st.Waits, inspect.WaitsFor(inspections(tree)...))
	}
	a.view().Status(st)
	if err := s.allRead(ctx, trees); err != nil {
		return err
	}
	if detailedExitcode && (hasChanges(plans) || !applyable(plans)) {
		return exitWith(exitChanges)
	}
	return nil
}

// inspections are what reading the tree has shown already: no further request.
func inspections(tree *plan.Tree) []*inspect.Report {
	var out []*inspect.Report
	for _, n := range tree.Nodes {
		if n.Payload == nil || n.Live == nil || n.Live.Usage == nil {
			continue
		}
		contenders := func(hs []plan.Holder) []recipes.Contender {
			var cs []recipes.Contender
			for _, h := range hs {
				cs = append(cs, recipes.Contender{Path: kind.JoinPath(n.Path, h.Name), Name: h.Name, ID: h.ID, Session: h.Session, Token: h.Token, Shared: h.Shared})
			}
			return cs
		}
		u := n.Live.Usage
		out = append(out, &inspect.Report{Path: n.Path, Kind: n.Kind(), Payload: n.Payload, Holders: contenders(u.Holders), Waiters: contenders(u.Waiters)})
	}
	return out
}

// lookAt shows what stands at a path, on every ensemble that has it.
func (a *app) lookAt(ctx context.Context, s *stack, path string) error {
	if path != "/" {
		if err := kind.ValidatePath(path); err != nil {
			return view.Failf("Not a path", "%v. A path is absolute, as in \"/locks/payments/ledger\".", err)
		}
	}
	out := view.Locks{NowMs: time.Now().UnixMilli()}
	servers := serverLists(s.Config)
	var closed error
	for i, e := range s.Ensembles {
		found := view.LocksOf{Ensemble: e.Name, Servers: servers[i], Path: path}
		err := s.look(ctx, i, func(session *recipes.Session) error {
			found.Found, found.Closed, found.Cut = nil, nil, false
			walk := lockSearch{c: s.clients[i], session: session, out: &found}
			return walk.visit(ctx, path)
		})
		if errors.Is(err, zk.ErrNoNode) {
			continue
		}
		if err != nil {
			return err
		}
		if len(found.Closed) > 0 {
			closed = deniedAt(ctx, s.clients[i], errors.Join(zk.ErrNoAuth, unreadable(found.Closed)), found.Closed[0])
		}
		found.Waits = inspect.WaitsFor(found.Found...)
		out.Ensembles = append(out.Ensembles, found)
	}
	if len(out.Ensembles) == 0 {
		return view.Failf("Nothing there", "There is no node %s on %s.", path, strings.Join(servers, " or "))
	}
	a.view().Locks(out)
	return closed
}

// maxLookedAt is how many nodes status PATH looks at: each is two requests, and
// somebody may ask for "/".
const maxLookedAt = 5000

// lockSearch looks for locks at a path and below.
type lockSearch struct {
	c       *recipes.Client
	session *recipes.Session
	out     *view.LocksOf
	seen    int
}

// visit notes the lock at path, or what is below it when it is none.
func (w *lockSearch) visit(ctx context.Context, path string) error {
	if w.seen++; w.seen > maxLookedAt {
		w.out.Cut = true
		return nil
	}
	if w.session.State() == session.StateLost { // else the client would wait for a new one, without end
		return w.session.Err()
	}
	if path != "/" {
		in, err := inspect.Lock(ctx, w.c, path)
		if errors.Is(err, zk.ErrNoAuth) {
			w.out.Closed = append(w.out.Closed, path)
			return nil
		}
		if err != nil {
			return err
		}
		if in.Kind != nil && !in.Kind.Container {
			w.out.Found = append(w.out.Found, in)
			return nil
		}
	}
	children, _, err := w.session.Children(ctx, path)
	if err != nil {
		return err
	}
	slices.Sort(children)
	for _, name := range children {
		if path == "/" && name == "zookeeper" || name == ".locktree" {
			continue // the server's and the stacks' own books
		}
		// What goes while we look is not there.
		if err := w.visit(ctx, kind.JoinPath(path, name)); err != nil && !errors.Is(err, zk.ErrNoNode) {
			return err
		}
	}
	return nil
}
