package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/locktree/locktree/cmd/locktree/internal/screen"
	"github.com/locktree/locktree/cmd/locktree/internal/stack"
	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/cmd/locktree/internal/view/planview"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/explain"
)

func showCommand(a *app) *cobra.Command {
	var flags loadFlags
	var shown shownFlags
	c := &cobra.Command{
		Use:   "show [PLAN | ADDRESS]",
		Short: "Show a saved plan, or what this stack has in ZooKeeper",
		Long: "show prints what this stack has in ZooKeeper, or with an ADDRESS what it has there and below, or a\n" +
			"saved plan. What a stack owns is marked in the znodes themselves: there is no state file.",
		Args: atMost(1),
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 1 && !stack.IsAddress(args[0]) {
				return a.showPlan(args[0], shown)
			}
			for _, address := range args {
				if err := notPattern(address, address, coversAll); err != nil {
					return err
				}
			}
			return a.showTree(c.Context(), &flags, args)
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return a.addresses(&flags), cobra.ShellCompDirectiveDefault // and plan files
		},
	}
	flags.register(c)
	shown.register(c)
	a.jsonFlag(c, screen.Document, "print one JSON document, in the form of Terraform's show -json")
	return c
}

// showTree shows what exists, or what of it is at the address, if one is given, or below, and then the outputs of the last apply.
func (a *app) showTree(ctx context.Context, flags *loadFlags, addresses []string) error {
	trees, err := a.owned(ctx, flags)
	if trees == nil {
		return err
	}
	if len(addresses) > 0 {
		shown := a.showSome(trees, addresses[0])
		return cmp.Or(err, shown) // it, or a part of it, may be among what cannot be read
	}
	a.Show(planview.Live(trees))
	if err == nil {
		err = outputsKnown(trees)
	}
	if a.JSON != 0 {
		return err // the document has the outputs, or is about locks
	}
	if err == nil && !slices.ContainsFunc(trees, func(t *plan.Tree) bool { return len(t.Nodes) > 0 }) {
		a.Message("This stack has nothing in ZooKeeper. \"locktree plan\" shows what an apply would create.")
	}
	if outputs := planview.StoredOutputs(trees); len(outputs) > 0 {
		fmt.Fprint(a.Stdout, "\nOutputs:\n\n")
		a.Show(outputs)
	}
	return err
}

func (a *app) showSome(trees []*plan.Tree, address string) error {
	var addrs []plan.Addr
	trees = slices.DeleteFunc(trees, func(tree *plan.Tree) bool {
		tree.Nodes = slices.DeleteFunc(tree.Nodes, func(n *plan.Node) bool {
			addrs = append(addrs, plan.Addr(n.Payload.Owner.Addr))
			return !plan.Addr(address).Covers(addrs[len(addrs)-1])
		})
		return len(tree.Nodes) == 0
	})
	if len(trees) == 0 {
		return view.Failf("No such address", "This stack has nothing at %s in ZooKeeper. \"locktree show\" shows what it has.%s", address, explain.NearestAddr(address, addrs))
	}
	a.Show(planview.Live(trees))
	return nil
}

// owned are the live trees with only this stack's nodes. Trees beside an error are what could be read.
func (a *app) owned(ctx context.Context, flags *loadFlags) (trees []*plan.Tree, err error) {
	err = a.looking(ctx, flags, func(s *stack.Stack) error {
		if trees, err = s.Read(ctx); err == nil {
			err = s.AllRead(ctx, trees)
		}
		for _, tree := range trees {
			tree.Nodes = slices.DeleteFunc(tree.Nodes, func(n *plan.Node) bool { return n.Payload == nil || n.Payload.Owner.Stack != s.Stack })
		}
		return err
	})
	return trees, err
}

// showPlan needs neither the configuration nor a server: everything is in the file.
func (a *app) showPlan(name string, shown shownFlags) error {
	file, err := a.readPlan(name)
	if err != nil {
		return err
	}
	a.Show(planview.Saved{Plan: planview.Plan{Plans: file.Plans, Checks: file.Checks, Concise: shown.concise, Full: shown.full, NoAdvice: true, NowMs: time.Now().UnixMilli()}})
	return nil
}

// outputsKnown is an error where a record that would hold outputs is lost.
func outputsKnown(trees []*plan.Tree) error {
	for _, tree := range trees {
		ours := func(n *plan.Node) bool { return n.Payload != nil && n.Payload.Owner.Stack == tree.Stack }
		if tree.Index == nil && (tree.IndexTrouble != "" || slices.ContainsFunc(tree.Nodes, ours)) {
			return view.Failf("Outputs are not known", "The stack's record at %s is missing or damaged. \"locktree apply\" writes it again, with the outputs.", tree.IndexPin.Path)
		}
	}
	return nil
}
