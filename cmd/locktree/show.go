package main

import (
	"time"

	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/plan"
	"github.com/spf13/cobra"
)

func showCommand(a *app) *cobra.Command {
	var flags loadFlags
	var concise bool
	c := &cobra.Command{
		Use:   "show [PLAN]",
		Short: "Show a saved plan, or what this stack has in ZooKeeper",
		Args:  exactly(0, 1),
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 1 {
				return a.showPlan(args[0], concise)
			}
			defer a.interruptible(c.Context())()
			cfg, err := a.load(&flags)
			if err != nil {
				return err
			}
			s, err := a.connect(c.Context(), cfg, true)
			if err != nil {
				return err
			}
			defer s.close()
			trees, err := s.read(c.Context())
			if err != nil {
				return err
			}
			a.view().Tree(trees)
			return nil
		},
	}
	flags.register(c)
	c.Flags().BoolVar(&concise, "concise", false, "show a saved plan with one line a change")
	a.jsonFlag(c, documentJSON, "print one JSON document, in the form of Terraform's show -json")
	return c
}

// showPlan needs neither the configuration nor a server: the file says it all.
func (a *app) showPlan(name string, concise bool) error {
	file, err := a.readPlan(name)
	if err != nil {
		return err
	}
	shown := intentFlags{}
	if len(file.Plans) > 0 {
		shown.destroy, shown.refreshOnly = file.Plans[0].Destroy, file.Plans[0].RefreshOnly
	}
	a.view().Plan(view.Plan{Plans: file.Plans, Checks: file.Checks, Operation: shown.operation(), Concise: concise, NoAdvice: true, NowMs: time.Now().UnixMilli()})
	return nil
}

// storedOutputs are the outputs the last apply left in the index.
func storedOutputs(trees []*plan.Tree) []plan.Output {
	var out []plan.Output
	for _, tree := range trees {
		if tree.Index == nil {
			continue
		}
		for name, o := range tree.Index.Outputs {
			out = append(out, plan.Output{Name: name, Type: o.Type, Value: o.Value, Sensitive: o.Sensitive})
		}
	}
	return out
}
