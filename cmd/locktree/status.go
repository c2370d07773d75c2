package main

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/spf13/cobra"

	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/inspect"
	"github.com/locktree/locktree/recipes/kind"
)

func statusCommand(a *app) *cobra.Command {
	var flags loadFlags
	var detailedExitcode bool
	c := &cobra.Command{
		Use:        "status [PATH]",
		SuggestFor: []string{"who", "holders", "list", "ls", "ps"},
		Short:      "Show who holds and who waits",
		Long: "status shows every lock of the stack with its holders and waiters, their fencing tokens\n" +
			"and sessions, deadlocks among them, and whether the tree still matches the configuration.\n\n" +
			"With a PATH it shows the lock there, or all locks below: those of this stack and of others,\n" +
			"and those that Java (Curator), Python (kazoo) and other programs created themselves. With a\n" +
			"PATH and ZOOKEEPER_SERVERS, no configuration is read.\n\n" +
			"It names the nodes it cannot read, and then exits with 1.",
		Args: exactly(0, 1),
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 1 && detailedExitcode {
				return usage(c, "The -detailed-exitcode option is about the whole stack", "Give it without a path.")
			}
			if len(args) == 0 {
				return a.withStack(c.Context(), &flags, true, func(s *stack) error { return a.stackStatus(c.Context(), s, detailedExitcode) })
			}
			look := func(s *stack) error { return a.lookAt(c.Context(), s, args[0]) }
			cfg, err := a.configOfEnvironment()
			if cfg == nil && err == nil {
				return a.withStack(c.Context(), &flags, true, look)
			}
			if err != nil {
				return err
			}
			defer a.interruptible(c.Context())()
			return a.connected(c.Context(), cfg, true, look)
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
	st := s.status(trees)
	plans := s.diff(trees, plan.Options{})
	st.Drift = plans
	a.show(st)
	if err := s.allRead(ctx, trees); err != nil {
		return err
	}
	if detailedExitcode && (hasChanges(plans) || !applyable(plans)) {
		return exitWith(exitChanges)
	}
	return nil
}

// status is what reading the trees showed.
func (s *stack) status(trees []*plan.Tree) view.Status {
	st := view.Status{Trees: trees, Servers: serverLists(s.Config), NowMs: time.Now().UnixMilli()}
	for _, tree := range trees {
		st.Waits = append(st.Waits, view.WaitsIn(tree))
	}
	return st
}

// lookAt shows the locks at and below a path, on every ensemble that has it.
func (a *app) lookAt(ctx context.Context, s *stack, path string) error {
	if path != "/" {
		if err := kind.ValidatePath(path); err != nil {
			return view.Failf("Not a path", "%v. A path is absolute, such as \"/locks/payments/ledger\".", err)
		}
	}
	out := view.Locks{NowMs: time.Now().UnixMilli()}
	servers := serverLists(s.Config)
	var closed error
	for i, e := range s.Ensembles {
		var found *inspect.Listing
		err := s.look(ctx, i, func(session *recipes.Session) (err error) {
			found, err = inspect.Locks(ctx, session, path, maxLookedAt)
			return err
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
		out.Ensembles = append(out.Ensembles, view.LocksOf{Ensemble: e.Name, Servers: servers[i], Path: path, Listing: *found, Waits: inspect.WaitsFor(found.Locks...)})
	}
	if len(out.Ensembles) == 0 {
		return view.Failf("Nothing there", "There is no node %s on %s.", path, strings.Join(servers, " or "))
	}
	a.show(out)
	return closed
}

// maxLookedAt is how many nodes status PATH reads: each takes two requests, and
// somebody may ask for "/".
const maxLookedAt = 5000
