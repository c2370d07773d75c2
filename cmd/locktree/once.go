package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/spf13/cobra"

	"github.com/locktree/locktree/cmd/locktree/internal/run"
	"github.com/locktree/locktree/cmd/locktree/internal/stack"
	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/kind/slots"
	"github.com/locktree/locktree/recipes/once"
)

const onceHelp = `once changes by hand what is recorded of a job that is declared as once. JOB is an address in the
configuration, such as namespace.payments.once.invoices, or a path. SLOT is an instant of its schedule,
such as 2026-11-26T03:00:00+01:00, or what programs call it. "locktree status" shows which were missed.
With a path and ZOOKEEPER_SERVERS, no configuration is read.

skip says that a slot is not to be run: nobody starts it, and it does not count as missed.`

func onceCommand(a *app) *cobra.Command {
	return group(&cobra.Command{Use: "once", Short: "Skip slots of a job by hand", Long: onceHelp}, onceSkipCommand(a))
}

// slotOf is the name of a slot, of an instant in UTC.
func slotOf(text string) string {
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return slots.At(at)
	}
	return text
}

func onceSkipCommand(a *app) *cobra.Command {
	var flags loadFlags
	var ensemble, id string
	c := &cobra.Command{
		Use:   "skip JOB SLOT",
		Short: "Do not run a slot",
		Args:  atMost(2),
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) != 2 {
				return usage(c, "Job or slot missing", "Write the job and the slot, for example \"locktree once skip once.invoices 2026-11-26T02:00:00Z\".")
			}
			defer a.Interruptible(c.Context())()
			e, paths, err := a.loader().Locks(flags.inputs, args[:1], ensemble)
			if err != nil {
				return err
			}
			cfg, err := a.loader().ClientConfig(e)
			if err != nil {
				return err
			}
			cfg.ID = id
			client, err := a.loader().ConnectWith(c.Context(), e, cfg)
			if err != nil {
				return err
			}
			defer client.Close()
			slot := slotOf(args[1])
			if err := once.New(client, paths[0]).Skip(c.Context(), slot); err != nil {
				return skipError(c.Context(), client, err)
			}
			fmt.Fprintf(a.Stdout, "%s of %s is skipped.\n", kind.Visible(slot), kind.Visible(paths[0]))
			return nil
		},
	}
	flags.register(c)
	c.ValidArgsFunction = a.firstAddress(&flags, cobra.ShellCompDirectiveNoFileComp)
	c.Flags().StringVar(&ensemble, "ensemble", "", "the `NAME` of the ensemble, if there are several")
	c.Flags().StringVar(&id, "id", "", "a name that status shows for who did it")
	return c
}

// skipError says why a slot was not skipped.
func skipError(ctx context.Context, client *recipes.Client, err error) error {
	var held *recipes.HeldError
	var taken *once.SlotError
	switch {
	case errors.As(err, &held):
		return view.Failf("Job is running", "%s Try again when it has ended.", run.HeldText(held))
	case errors.As(err, &taken):
		return view.Failf("Slot not changed", "%s", run.TakenText(taken))
	case errors.Is(err, once.ErrSlotTooOld), errors.Is(err, once.ErrNoSlot), errors.Is(err, slots.ErrUnknownZone):
		return view.Failf("No such slot", "Nothing was changed: %s.", view.Sentence(err))
	case errors.Is(err, recipes.ErrKindMismatch):
		return view.Failf("Not a job", "Only what is declared as once has slots: %s.", view.Sentence(err))
	case errors.Is(err, zk.ErrNoNode), errors.Is(err, recipes.ErrNotProvisioned):
		return view.Failf("Not a declared job", "Nothing was changed: %s. Declare and apply it.", view.Sentence(err))
	}
	return stack.Denied(ctx, client, err)
}
