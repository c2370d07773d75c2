package main

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/locktree/locktree/apply/failure"
	"github.com/locktree/locktree/cmd/locktree/internal/change"
	"github.com/locktree/locktree/cmd/locktree/internal/exit"
	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/plan"
)

// shownFlags are how a person wants to see a plan.
type shownFlags struct{ concise, full bool }

func (f *shownFlags) register(c *cobra.Command) {
	c.Flags().BoolVar(&f.concise, "concise", false, "show each change of the plan on one line")
	c.Flags().BoolVar(&f.full, "full", false, "show each change; without it, a terminal shows more than 200 changes in groups")
}

// intentFlags are what a person can ask of one run of plan, apply or destroy, besides the
// configuration.
type intentFlags struct {
	plan.Options
	drain time.Duration
}

func (f *intentFlags) register(c *cobra.Command) {
	c.Flags().StringArrayVar(&f.Targets, "target", nil, "plan only this `ADDRESS`, everything in it, and what that needs; may be repeated")
	c.Flags().BoolVar(&f.AllowMassDestroy, "allow-mass-destroy", false, "allow a plan that removes at least five nodes and more than 30 % of a namespace")
	c.Flags().StringArrayVar(&f.ForceBreak, "force-break", nil, "remove the lock at this exact `ADDRESS` even if it is in use: its holder loses it")
	c.Flags().DurationVar(&f.drain, "drain", 0, "before locks are removed or replaced, make them grant nothing new and wait this long until they are idle; 60s without a value")
	c.Flags().Lookup("drain").NoOptDefVal = "60s"
}

// registerChanges adds the flags of register, and those that plan and apply have, but destroy does not have.
func (f *intentFlags) registerChanges(c *cobra.Command) {
	f.register(c)
	c.Flags().StringArrayVar(&f.Replace, "replace", nil, "remove the lock at this `ADDRESS`, or all locks in it, and create them again; may be repeated")
	c.Flags().BoolVar(&f.OverwriteData, "overwrite-data", false, "let an import replace data that another program wrote into the node")
}

// options returns the options of the planner. It refuses flags that exclude each other, before anything is read.
func (f *intentFlags) options() (plan.Options, error) {
	opts := f.Options
	opts.Drain = f.drain
	for _, given := range []struct {
		flag      string
		addresses []string
	}{{"target", f.Targets}, {"replace", f.Replace}, {"force-break", f.ForceBreak}} {
		if slices.Contains(given.addresses, "") {
			return opts, view.Failf("Bad flag", "-%s is given without an address; perhaps a shell variable is empty. Write it as -%s=namespace.payments.mutex.ledger.", given.flag, given.flag)
		}
		hint := coversAll
		if given.flag == "force-break" {
			hint = "Name each lock."
		}
		for _, address := range given.addresses {
			if err := notPattern("-"+given.flag+"="+address, address, hint); err != nil {
				return opts, err
			}
		}
	}
	return opts, nil
}

const coversAll = "The address of a namespace, a module or a block with for_each takes everything in it."

// notPattern refuses an address with * or ? outside of its key: patterns contain these characters, names do not contain them.
func notPattern(shown, address, hint string) error {
	if !strings.ContainsAny(string(plan.Addr(address).Block()), "*?") {
		return nil
	}
	return view.Failf("Not an address", "%s is no address: names contain neither \"*\" nor \"?\". %s", shown, hint)
}

// refuse returns an error if one of these flags is beside a saved plan, which already says what to do.
func (f *intentFlags) refuse() error {
	if f.Destroy {
		return view.Failf("Destroy with a saved plan", "A saved plan already says what to destroy. Save one with \"plan -destroy -out FILE\" and apply that.")
	}
	if f.AllowMassDestroy || f.OverwriteData || f.drain != 0 || len(f.Targets)+len(f.Replace)+len(f.ForceBreak) > 0 {
		return view.Failf("Planning options with a saved plan", "A saved plan already says what to do. Give -target, -replace, -drain and similar flags to \"plan -out FILE\", and apply that file.")
	}
	return nil
}

type applyFlags struct {
	loadFlags
	intentFlags
	shownFlags
	autoApprove, input, detailedExitcode bool
	lockTimeout                          time.Duration
	message                              messageFlag
}

func (f *applyFlags) register(c *cobra.Command) {
	f.loadFlags.register(c)
	f.message.register(c)
	c.Flags().BoolVar(&f.autoApprove, "auto-approve", false, "do not ask for approval")
	c.Flags().BoolVar(&f.input, "input", true, "ask for approval; -input=false fails instead of asking")
	c.Flags().BoolVar(&f.detailedExitcode, "detailed-exitcode", false, "exit with 4 for a stale plan, 5 if another apply holds the lock, 6 if a lock is in use")
	f.shownFlags.register(c)
	c.Flags().DurationVar(&f.lockTimeout, "lock-timeout", 0, "how long to wait for another apply, such as 90s")
}

// change returns the options of an apply.
func (f *applyFlags) change(a *app, opts plan.Options) change.Options {
	return change.Options{Options: opts, AutoApprove: f.autoApprove, NoInput: !f.input, Concise: f.concise, Full: f.full, LockTimeout: f.lockTimeout, Author: change.Author(a.loader(), string(f.message))}
}

// coded sets the exit codes of errors that scripts distinguish.
func (f *applyFlags) coded(err error) error {
	switch {
	case !f.detailedExitcode, isA[*failure.PartialError](err), isA[*view.SomeEnsembles](err), isA[*failure.ClosedError](err): // the codes say that nothing was written
		return err
	case isA[*failure.StaleError](err):
		return exit.Wrap(exit.Stale, err)
	case isA[*failure.LockedError](err):
		return exit.Wrap(exit.Locked, err)
	case isA[*failure.InUseError](err):
		return exit.Wrap(exit.InUse, err)
	}
	return err
}

// completeAddresses completes the flags of the command that take an address.
func completeAddresses(a *app, c *cobra.Command, flags *loadFlags) {
	for _, name := range []string{"target", "replace", "force-break"} {
		// It fails if the command has no such flag.
		_ = c.RegisterFlagCompletionFunc(name, completes(func() []string { return a.addresses(flags) }))
	}
}

func isA[E error](err error) bool {
	var e E
	return errors.As(err, &e)
}
