package main

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/locktree/locktree/apply"
	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/config"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/inspect"
	"github.com/locktree/locktree/recipes/kind"
)

func stateCommand(a *app) *cobra.Command {
	return group(&cobra.Command{
		Use:   "state",
		Short: "Work on what is in ZooKeeper, beside the configuration",
		Long: "The state of a stack is in its nodes, and plan and apply are what changes it. The commands of\n" +
			"state are for what no configuration declares.",
	}, pruneCommand(a))
}

// pruning are the options of state prune.
type pruning struct {
	treeFlags
	older    time.Duration
	approved bool
}

func pruneCommand(a *app) *cobra.Command {
	var p pruning
	c := &cobra.Command{
		Use:        "prune -prefix PATH",
		SuggestFor: []string{"gc", "clean", "cleanup"},
		Short:      "Remove what undeclared locks left behind",
		Long: "prune removes nodes below -prefix that programs left of locks which nobody declared: nodes\n" +
			"without data in which somebody was, and nobody is now. It shows them, and asks. Each is removed\n" +
			"only if it is still as it was seen, and ZooKeeper itself removes no node with a child. A declared\n" +
			"node is never removed, nor the node of a key while any key of its family is in use.\n\n" +
			"Servers do not say since when a node is empty. It counts as empty for longer than -older only if\n" +
			"another node that prune reads was made or written later, and that long ago. Others are left out,\n" +
			"and counted.\n\n" + pruneRisk + "\n\n" +
			"With -servers or ZOOKEEPER_SERVERS it reads no configuration. It reads no more than 100,000 nodes.",
		Args: atMost(0),
		RunE: func(c *cobra.Command, _ []string) error {
			if p.prefix == "" {
				return usage(c, "Path missing", "Say below which path to remove nodes: -prefix=/locks, for example.")
			}
			defer a.interruptible(c.Context())()
			cfg, err := a.configured(c, &p.treeFlags)
			if err != nil {
				return err
			}
			return a.connected(c.Context(), cfg, true, func(s *stack) error { return a.prune(c.Context(), s, &p) })
		},
	}
	p.register(c)
	says(c, "prefix", "remove what was left below this `PATH`; / is everything")
	says(c, "servers", "on these `SERVERS`, without a configuration: zk1:2181,zk2:2181")
	c.Flags().DurationVar(&p.older, "older", 24*time.Hour, "leave nodes that may have been in use within this `DURATION`")
	c.Flags().BoolVar(&p.approved, "auto-approve", false, "do not ask for approval")
	return c
}

// pruneRisk is what happens to programs whose node is removed.
const pruneRisk = "Nothing tells a node of a lock from one that another program keeps empty for its own purposes: choose\n" +
	"-prefix so that there are only locks below it. A program of Curator creates its node again. A Lock object\n" +
	"of kazoo that was used before does not: it fails with NoNodeError, because it remembers that the node\n" +
	"was there; a new object works. Programs of this library create it again with WithCreate, and are\n" +
	"refused without it."

// prune shows what would be removed from each ensemble, asks once, and removes it.
func (a *app) prune(ctx context.Context, s *stack, p *pruning) error {
	left, all := make([][]inspect.Empty, len(s.Ensembles)), 0
	for i, e := range s.Ensembles {
		var unknown int
		var cut bool
		err := s.look(ctx, i, func(*recipes.Session) (err error) {
			left[i], unknown, cut, err = leftBelow(ctx, s.clients[i], e, p)
			return s.denied(ctx, i, err)
		})
		if err != nil {
			return err
		}
		all += len(left[i])
		fmt.Fprintf(a.stdout, "%s  %s below %s can be removed.\n", kind.Visible(e.Name), view.Plural(len(left[i]), "empty node"), kind.Visible(p.prefix))
		for _, one := range left[i] {
			fmt.Fprintf(a.stdout, "  %s  empty since before %s\n", kind.Visible(one.Path), one.Before.Format(time.RFC3339))
		}
		if unknown > 0 {
			fmt.Fprintf(a.stdout, "Left out, because nothing shows that nobody was there within %v: %s.\n", p.older, view.Plural(unknown, "empty node"))
		}
		if cut {
			fmt.Fprintf(a.stdout, "There are more than 100,000 nodes, and some were not looked at. Give a longer path.\n")
		}
	}
	if all == 0 {
		return nil
	}
	fmt.Fprintf(a.stdout, "\n%s\n", pruneRisk)
	if !p.approved {
		question := fmt.Sprintf("Do you want to remove %s?\n  locktree will delete each that is still empty. Nobody declared them.\n"+
			"  There is no undo. Only 'yes' will be accepted to approve.", view.Plural(all, "node"))
		if err := a.approve(ctx, "Prune", question, ""); err != nil {
			return err
		}
	}
	for i, e := range s.Ensembles {
		if err := a.pruneOn(ctx, e, left[i]); err != nil {
			return err
		}
	}
	return nil
}

// leftBelow finds what can be removed, and counts what would be if it were known for how long it has been empty.
func leftBelow(ctx context.Context, client *recipes.Client, e *config.Ensemble, p *pruning) (left []inspect.Empty, unknown int, cut bool, err error) {
	snap, err := inspect.Look(ctx, client, inspect.ScanOptions{Prefix: p.prefix})
	if err != nil {
		return nil, 0, false, err
	}
	if len(snap.Unread) > 0 && snap.Unread[0].Path == p.prefix {
		if snap.Unread[0].Missing() {
			return nil, 0, false, view.Failf("Nothing there", "There is no node %s on %s.", p.prefix, e.Name)
		}
		return nil, 0, false, snap.Unread[0].Err
	}
	all := snap.Empty
	for _, in := range snap.Locks {
		if in.Keys == nil {
			continue
		}
		keys, err := snap.EmptyKeys(ctx, client, in)
		if err != nil {
			return nil, 0, false, err
		}
		all = append(all, keys...)
	}
	until := time.Now().Add(-p.older)
	for _, one := range all {
		switch {
		case e.Tree.Find(one.Path) != nil: // it is declared, and not applied yet
		case one.Before.IsZero() || one.Before.After(until):
			unknown++
		default:
			left = append(left, one)
		}
	}
	return left, unknown, snap.Cut, nil
}

// pruneOn removes nodes from one ensemble, on a connection that can write.
func (a *app) pruneOn(ctx context.Context, e *config.Ensemble, left []inspect.Empty) error {
	if len(left) == 0 {
		return nil
	}
	client, err := a.dial(ctx, e, false)
	if err != nil {
		return err
	}
	defer client.Close()
	done, err := apply.Prune(ctx, client, left)
	text := fmt.Sprintf("\n%s: removed %s", e.Name, view.Plural(done.Removed, "node"))
	if len(done.Used) > 0 {
		text += fmt.Sprintf("; left %s, which somebody used or removed meanwhile", view.FirstFew(done.Used))
	}
	a.view().Message(text + ".")
	return cmp.Or(denied(ctx, client, err), ctx.Err())
}
