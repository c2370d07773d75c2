package main

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/spf13/cobra"

	"github.com/locktree/locktree/cmd/locktree/internal/exit"
	"github.com/locktree/locktree/cmd/locktree/internal/screen"
	"github.com/locktree/locktree/cmd/locktree/internal/stack"
	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/cmd/locktree/internal/view/lockview"
	"github.com/locktree/locktree/cmd/locktree/internal/view/planview"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes/direct"
	"github.com/locktree/locktree/recipes/inspect/scan"
)

func statusCommand(a *app) *cobra.Command {
	var tree treeFlags
	var detailedExitcode, watch bool
	var key keyFlag
	var filter lockview.Filter
	reads := maxReads
	c := &cobra.Command{
		Use:        "status [ADDRESS | PATH]",
		SuggestFor: []string{"who", "holders", "list", "ls", "ps", "watch", "monitor"},
		Short:      "Show who holds and who waits",
		Long: "status shows every lock of the stack with its holders and waiters, deadlocks among them, and\n" +
			"whether the tree still matches the configuration. Of each holder and waiter it shows the name,\n" +
			"host and process, where it connects from, since when, its fencing token and session, and whether\n" +
			"it is connected. If not, it shows when its place is free by itself. Addresses and connections\n" +
			"need servers that allow the four-letter words dump and cons; otherwise it says \"not asked\".\n\n" +
			"With a PATH (or -prefix PATH) it shows the lock there, or all locks below it: those of this\n" +
			"stack and of others, and those that Java (Curator), Python (kazoo) and other programs created\n" +
			"themselves. An ADDRESS, such as namespace.payments, stands for the path declared there. A family\n" +
			"of keyed locks is one row; -key KEY shows the lock of one key. With\n" +
			"-servers, or a path and ZOOKEEPER_SERVERS, it reads no configuration. It also asks servers that\n" +
			"only the ensemble's own configuration names, and says which did not answer. It looks at no more\n" +
			"than 100,000 nodes.\n\n" +
			"-in-use, -owner and -longer show only locks that fit all of them.\n\n" +
			"-watch looks every two seconds until it is interrupted, and reads only what may have changed. A\n" +
			"terminal is redrawn; elsewhere, and with -json, each change is printed. If ZooKeeper cannot be\n" +
			"reached, it keeps trying, shows what it saw last, and says how old that is.\n\n" +
			"It names the nodes and the ensembles it cannot read, shows the others, and then exits with 1.",
		Args: atMost(1),
		RunE: func(c *cobra.Command, args []string) error {
			at := cmp.Or(append(args, tree.prefix)...)
			switch {
			case len(args) == 1 && tree.prefix != "":
				return usage(c, "Two paths", "-prefix=%s and %s are both a path to look at. Give one of them.", tree.prefix, args[0])
			case watch && (key.Given || detailedExitcode):
				return usage(c, "Bad flag", "-watch shows all locks, and has no end of its own. Leave out -key and -detailed-exitcode.")
			case reads < 0:
				return usage(c, "Bad flag", "-reads=%d: must not be negative. 0 means no limit.", reads)
			case key.Given && at == "":
				return usage(c, "Family missing", "-key=%s: of which family? Give its address or its path, for example \"locktree status /locks/orders -key 4711\".", key.Key.Key)
			case tree.servers+at != "" && detailedExitcode:
				return usage(c, "The -detailed-exitcode option is about the whole stack", "Give it without an address, a path or -servers.")
			}
			defer a.Interruptible(c.Context())()
			cfg, err := tree.configured(c, a.loader(), at)
			if err != nil {
				return err
			}
			if watch {
				if !c.Flags().Changed("reads") {
					reads = readsPerLook
				}
				return a.watch(c.Context(), cfg, tree.prefix, filter, reads)
			}
			return a.loader().Reach(c.Context(), cfg, true, func(s *stack.Stack) error {
				if tree.prefix == "" {
					return a.stackStatus(c.Context(), s, filter, detailedExitcode)
				}
				return a.lookAt(c.Context(), s, lockview.Locks{Filter: filter, NowMs: time.Now().UnixMilli()}, tree.prefix, key, reads)
			})
		},
	}
	tree.register(c)
	c.ValidArgsFunction = a.firstAddress(&tree.loadFlags, cobra.ShellCompDirectiveNoFileComp)
	c.Flags().BoolVar(&detailedExitcode, "detailed-exitcode", false, "exit with 2 if the tree differs from the configuration")
	c.Flags().BoolVar(&filter.InUse, "in-use", false, "show only locks that somebody holds or waits for")
	c.Flags().StringVar(&filter.Owner, "owner", "", "show only locks of which `NAME` is the declared owner")
	c.Flags().DurationVar(&filter.Longer, "longer", 0, "show only locks that somebody has held, or waited for, for longer than this `DURATION`")
	c.Flags().IntVar(&reads, "reads", reads, "the most requests of a look at a path; 0 means no limit")
	c.Flags().BoolVar(&watch, "watch", false, "go on, and show what changes, until interrupted")
	key.register(c)
	a.jsonFlag(c, screen.Document, "print one JSON document; with -watch one for each change")
	return c
}

func (a *app) stackStatus(ctx context.Context, s *stack.Stack, filter lockview.Filter, detailedExitcode bool) error {
	trees, err := s.Read(ctx)
	if len(trees) == 0 {
		return err
	}
	plans := s.Diff(trees, plan.Options{})
	looks, notRead := s.Looks(ctx, trees)
	err = cmp.Or(err, notRead)
	a.Show(lockview.Status{Trees: trees, Declared: s.Declared(), Drift: plans, Servers: stack.Servers(s.Config), Looks: looks, Lost: s.Lost, Filter: filter, NowMs: time.Now().UnixMilli()})
	if err := view.Join(err, s.AllRead(ctx, trees)); err != nil {
		return err
	}
	if detailedExitcode && (planview.Changed(plans) || planview.Failing(plans)) {
		return exit.With(exit.Changes)
	}
	return nil
}

// lookAt shows the locks at and below a path, or the lock of a key in the family there, on every ensemble that has it.
func (a *app) lookAt(ctx context.Context, s *stack.Stack, out lockview.Locks, path string, key keyFlag, reads int) error {
	errs := make([]error, len(s.Ensembles))
	servers, closed := stack.Servers(s.Config), error(nil)
	for i := range s.Ensembles {
		of := lockview.LocksOf{Ensemble: s.Ensembles[i].Name, Addresses: servers[i], Path: path}
		stop := a.During("Looking at "+path, nil)
		errs[i] = s.On(ctx, i, func(*direct.Session) (err error) {
			if key.Given {
				of.Key = &lockview.KeyOf{Family: path, Key: key.Key.Key}
				if of.Path, err = key.Path(ctx, s.Clients[i], path); err != nil {
					return s.Denied(ctx, i, err)
				}
			}
			of.Snapshot, err = scan.Look(ctx, s.Clients[i], scan.Options{Prefix: of.Path, Reads: reads})
			return err
		})
		stop()
		switch {
		case ctx.Err() != nil:
			return cmp.Or(errs[i], context.Cause(ctx))
		case isA[*view.Failure](errs[i]): // about the key: the servers have answered
			return errs[i]
		case errors.Is(errs[i], zk.ErrNoNode): // the family is not there
			errs[i] = nil
			continue
		case errs[i] != nil, of.Key == nil && len(of.Unread) > 0 && of.Unread[0].Missing():
			continue
		}
		closed = cmp.Or(closed, s.Closed(ctx, i, of))
		out.Ensembles = append(out.Ensembles, of)
	}
	s.Lose(errs)
	switch {
	case len(out.Ensembles) > 0:
		out.Ensembles = append(out.Ensembles, lockview.Unread(s.Lost, path)...)
		a.Show(out)
	case len(s.Lost) == 0:
		closed = view.Failf("Nothing there", "There is no node %s on %s.", path, strings.Join(servers, " or "))
	}
	return view.Join(s.Lost.Err(), closed)
}

const (
	// maxReads bounds the requests of status PATH: somebody may ask for "/".
	maxReads = 20_000
	// readsPerLook bounds those of a look that is followed by the next one.
	readsPerLook = 2000
)
