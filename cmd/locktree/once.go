package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/spf13/cobra"

	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/inspect"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/once"
)

const onceHelp = `once runs and skips slots of a job that is declared as once, by hand. JOB is an address in the
configuration, such as namespace.payments.once.invoices, or a path. SLOT is an instant of its schedule,
such as 2026-11-26T03:00:00+01:00, or what programs call it. "locktree status" shows which were missed.
With a path and ZOOKEEPER_SERVERS, no configuration is read.

run starts a slot and runs a command, as exec -once does, also if the slot is too old to be started by
itself, or was skipped. A slot that was started is not run again, unless the job is declared with
success = "end" and no run of it has succeeded. Exit codes are those of exec: 122 says that somebody
else has run it.

skip says that a slot is not to be run: nobody starts it, and it does not count as missed.

pause skips all slots before SLOT that nobody has started. To end a pause early, pause until now: the
first slot after that is the next one.`

func onceCommand(a *app) *cobra.Command {
	return group(&cobra.Command{Use: "once", Short: "Run or skip slots of a job by hand", Long: onceHelp},
		onceRunCommand(a),
		onceChangeCommand(a, "skip", "Do not run a slot", "%s of %s is skipped.\n",
			func(ctx context.Context, job *once.Once, slot string) error { return job.Skip(ctx, slot) }),
		onceChangeCommand(a, "pause", "Run no slot before this one", "The slots of %[2]s before %[1]s that nobody has started are skipped.\n",
			func(ctx context.Context, job *once.Once, slot string) error { return job.Pause(ctx, slot) }))
}

func onceRunCommand(a *app) *cobra.Command {
	x := &execution{app: a, mode: "write", permits: 1, conflict: exitConflict}
	x.slot.once = true
	c := &cobra.Command{
		Use:     "run [flags] JOB SLOT -- COMMAND [ARGUMENT]...",
		Short:   "Run a command for a slot",
		Example: "  locktree once run once.invoices 2026-11-26T02:00:00Z -- ./invoices",
		RunE: func(c *cobra.Command, args []string) error {
			if c.ArgsLenAtDash() != 2 || len(args) < 3 {
				return own(usage(c, "Job, slot or command missing", "Write the job, the slot, two dashes and the command, for example \"locktree once run once.invoices 2026-11-26T02:00:00Z -- ./invoices\"."))
			}
			x.slot.slot = slotOf(args[1])
			return x.run(c, args[:1], args[2:])
		},
	}
	ownErrors(c)
	x.flags.register(c)
	c.ValidArgsFunction = a.firstAddress(&x.flags, cobra.ShellCompDirectiveDefault) // behind the dashes it is a command
	c.Flags().StringVar(&x.id, "id", "", "a name that status shows for who runs it")
	c.Flags().StringVar(&x.ensemble, "ensemble", "", "the `NAME` of the ensemble, if there are several")
	return c
}

// slotOf is the name of a slot, of an instant in UTC.
func slotOf(text string) string {
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return kind.SlotAt(at)
	}
	return text
}

// onceChangeCommand changes what is recorded of a job, and says what was done.
func onceChangeCommand(a *app, verb, short, done string, change func(context.Context, *once.Once, string) error) *cobra.Command {
	x := &execution{app: a}
	c := &cobra.Command{
		Use:   verb + " JOB SLOT",
		Short: short,
		Args:  atMost(2),
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) != 2 {
				return usage(c, "Job or slot missing", "Write the job and the slot, for example \"locktree once %s once.invoices 2026-11-26T02:00:00Z\".", verb)
			}
			defer a.interruptible(c.Context())()
			e, paths, err := x.targets(args[:1])
			if err != nil {
				return err
			}
			cfg, err := a.clientConfig(e)
			if err != nil {
				return err
			}
			cfg.ID = x.id
			client, err := a.dialTo(c.Context(), e, cfg)
			if err != nil {
				return err
			}
			defer client.Close()
			slot := slotOf(args[1])
			if slot == "now" {
				slot, err = nextSlot(c.Context(), client, paths[0])
			}
			if err == nil {
				err = change(c.Context(), once.New(client, paths[0]), slot)
			}
			if err != nil {
				return changeError(c.Context(), client, err)
			}
			fmt.Fprintf(a.stdout, done, kind.Visible(slot), kind.Visible(paths[0]))
			return nil
		},
	}
	x.flags.register(c)
	c.ValidArgsFunction = a.firstAddress(&x.flags, cobra.ShellCompDirectiveNoFileComp)
	c.Flags().StringVar(&x.ensemble, "ensemble", "", "the `NAME` of the ensemble, if there are several")
	c.Flags().StringVar(&x.id, "id", "", "a name that status shows for who did it")
	return c
}

// nextSlot is the next slot of a job's schedule.
func nextSlot(ctx context.Context, client *recipes.Client, path string) (string, error) {
	in, err := inspect.Lock(ctx, client, path)
	if err != nil || in.Payload == nil {
		return "", cmp.Or(err, recipes.ErrNotProvisioned)
	}
	p, ok := in.Payload.Params.(*kind.OnceParams)
	if !ok {
		return "", recipes.ErrKindMismatch
	}
	times, err := p.Times()
	if times == nil || err != nil {
		return "", cmp.Or(err, once.ErrNoSlot)
	}
	return kind.SlotAt(times.Next(time.Now())), nil
}

// changeError says why a record was not changed.
func changeError(ctx context.Context, client *recipes.Client, err error) error {
	var held *recipes.HeldError
	var taken *once.SlotError
	switch {
	case errors.As(err, &held):
		return view.Failf("Job is running", "%s Try again when it has ended.", heldText(held))
	case errors.As(err, &taken):
		return view.Failf("Slot not changed", "%s", takenText(taken))
	case errors.Is(err, once.ErrSlotTooOld), errors.Is(err, once.ErrNoSlot), errors.Is(err, kind.ErrUnknownZone):
		return view.Failf("No such slot", "Nothing was changed: %s.", view.Sentence(err))
	case errors.Is(err, recipes.ErrKindMismatch):
		return view.Failf("Not a job", "Only what is declared as once has slots: %s.", view.Sentence(err))
	case errors.Is(err, zk.ErrNoNode), errors.Is(err, recipes.ErrNotProvisioned):
		return view.Failf("Not a declared job", "Nothing was changed: %s. Declare and apply it.", view.Sentence(err))
	}
	return denied(ctx, client, err)
}
