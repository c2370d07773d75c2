package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes/kind"
)

type importFlags struct {
	applyFlags
	from, generate, emptyAs, ensemble string
}

func importCommand(a *app) *cobra.Command {
	var f importFlags
	c := &cobra.Command{
		Use:   "import {ADDRESS PATH | -from PATH}",
		Short: "Take over locks that exist already",
		Long: "import ADDRESS PATH takes over one znode: it becomes the node declared at ADDRESS.\n\n" +
			"import -from PATH looks at a whole subtree, tells the locks in it by what their contenders\n" +
			"are called, and lists them. With -generate FILE it also writes a configuration with import\n" +
			"blocks for them. It writes nothing to ZooKeeper: that is for plan and apply.",
		Args: exactly(0, 2),
		RunE: func(c *cobra.Command, args []string) error {
			switch {
			case f.from != "" && len(args) == 0:
				return a.importTree(c.Context(), &f)
			case f.from == "" && len(args) == 2 && f.generate == "":
				return f.exit(a.importOne(c.Context(), &f, args[0], args[1]))
			}
			return usage(c, "What to import", "Give an address and a path, or -from=PATH with or without -generate=FILE.")
		},
	}
	f.register(c)
	c.Flags().StringVar(&f.from, "from", "", "the `PATH` of the subtree to look at")
	c.Flags().StringVar(&f.generate, "generate", "", "write what was found to this new `FILE`")
	c.Flags().StringVar(&f.emptyAs, "empty-as", "", "take nodes that nobody uses for this `TYPE`, as in mutex")
	c.Flags().StringVar(&f.ensemble, "ensemble", "", "the `NAME` of the ensemble, where there are several")
	c.Flags().BoolVar(&f.overwriteData, "overwrite-data", false, "replace data another program wrote into the node")
	return c
}

// importOne is an import block given on the command line: a plan of that one
// address, shown, approved and applied.
func (a *app) importOne(ctx context.Context, f *importFlags, addr, path string) error {
	defer a.interruptible(ctx)()
	cfg, err := a.load(&f.loadFlags)
	if err != nil {
		return err
	}
	if err := declareImport(cfg, addr, path); err != nil {
		return err
	}
	s, err := a.connect(ctx, cfg, false)
	if err != nil {
		return err
	}
	defer s.close()
	return a.planAndApply(ctx, &f.applyFlags, s, "apply", func(ctx context.Context) ([]*plan.Plan, error) {
		plans, err := s.plan(ctx, plan.Options{Targets: []string{addr}, OverwriteData: f.overwriteData})
		for _, p := range plans { // an import is about one address: nobody limited it
			p.Problems = slices.DeleteFunc(p.Problems, func(q plan.Problem) bool { return q.Code == plan.ProblemTargeted })
		}
		return plans, err
	})
}

// lockTypes are the types of locks, and not of what holds them.
func lockTypes() (names []string) {
	for _, k := range kind.All() {
		if !k.Container {
			names = append(names, k.Name)
		}
	}
	return names
}

// importTree looks at a subtree, over a connection that cannot write.
func (a *app) importTree(ctx context.Context, f *importFlags) error {
	if f.emptyAs != "" && !slices.Contains(lockTypes(), f.emptyAs) {
		return view.Failf("Unknown type", "-empty-as=%s: there is no lock of that type. There are: %s.", f.emptyAs, strings.Join(lockTypes(), ", "))
	}
	if _, err := os.Lstat(a.path(f.generate)); f.generate != "" && err == nil {
		return view.Failf("Refusing to overwrite a file", "%s exists. Choose another name for -generate, or remove it.", f.generate)
	}
	defer a.interruptible(ctx)()
	cfg, err := a.load(&f.loadFlags)
	if err != nil {
		return err
	}
	e, err := chosenEnsemble(cfg, f.ensemble)
	if err != nil {
		return err
	}
	client, err := a.dial(ctx, e, true)
	if err != nil {
		return err
	}
	defer client.Close()
	top, whole, err := surveyTree(ctx, client, f.from, f.emptyAs, cfg.Stack, e.Root)
	if err != nil {
		return denied(ctx, client, err)
	}
	for _, line := range top.lines() {
		fmt.Fprintln(a.stdout, line)
	}
	if f.generate == "" {
		return nil
	}
	return a.generate(cfg, e, top, whole, f)
}
