package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/locktree/locktree/apply/history"
	"github.com/locktree/locktree/cmd/locktree/internal/screen"
	"github.com/locktree/locktree/cmd/locktree/internal/stack"
	"github.com/locktree/locktree/cmd/locktree/internal/view/planview"
	"github.com/locktree/locktree/recipes/direct"
)

func historyCommand(a *app) *cobra.Command {
	var flags loadFlags
	c := &cobra.Command{
		Use:        "history",
		SuggestFor: []string{"log", "audit", "blame"},
		Short:      "Show who applied what, and when",
		Long: "history shows the last 50 applies of the stack, also destroys and imports, and who was taken out of\n" +
			"a lock with revoke or break, the newest first: when, who from which machine, as which identity, in\n" +
			"which CI run, why (-message), and what was changed. It is a node beside the stack's record, which\n" +
			"administrators write and readers read. An apply that changes nothing writes nothing into it.\n\n" +
			"Who wrote an entry could write anything into it: it is a note for colleagues, not evidence. Times\n" +
			"are those of the machine that applied.",
		Args: atMost(0),
		RunE: func(c *cobra.Command, _ []string) error {
			return a.looking(c.Context(), &flags, func(s *stack.Stack) error { return a.history(c.Context(), s) })
		},
	}
	flags.register(c)
	a.jsonFlag(c, screen.Document, "print one JSON document")
	return c
}

// history shows that of each ensemble that can be read.
func (a *app) history(ctx context.Context, s *stack.Stack) error {
	errs := make([]error, len(s.Ensembles))
	var out planview.History
	for i, e := range s.Ensembles {
		of := planview.HistoryOf{Ensemble: e.Name, Stack: s.Stack}
		errs[i] = s.On(ctx, i, func(session *direct.Session) (err error) {
			of.Entries, err = history.Read(ctx, session, e.Root, s.Stack)
			return s.Denied(ctx, i, err)
		})
		if errs[i] == nil {
			out = append(out, of)
		}
	}
	if s.Lose(errs); len(out) > 0 {
		a.Show(out)
	}
	return s.Lost.Err()
}
