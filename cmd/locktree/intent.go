package main

import (
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/plan"
)

// intentFlags are what a person can ask of one run of plan, apply or destroy, besides the
// configuration.
type intentFlags struct {
	plan.Options
	drain time.Duration
}

func (f *intentFlags) register(c *cobra.Command) {
	c.Flags().StringArrayVar(&f.Targets, "target", nil, "plan only this `ADDRESS` and what it needs; * and ** match any; may be repeated")
	c.Flags().StringArrayVar(&f.Excludes, "exclude", nil, "plan everything except this `ADDRESS` and what needs it; may be repeated")
	c.Flags().BoolVar(&f.AllowMassDestroy, "allow-mass-destroy", false, "allow a plan that removes more than 30 % of a namespace")
	c.Flags().StringArrayVar(&f.ForceBreak, "force-break", nil, "remove the lock at this exact `ADDRESS` even if it is in use: its holder loses it")
	c.Flags().DurationVar(&f.drain, "drain", 0, "admit nobody new to locks to be removed, and wait up to this long until they are idle; 60s without a value")
	c.Flags().Lookup("drain").NoOptDefVal = "60s"
}

// registerChanges adds what makes no sense where everything is removed.
func (f *intentFlags) registerChanges(c *cobra.Command) {
	f.register(c)
	c.Flags().StringArrayVar(&f.Replace, "replace", nil, "remove this `ADDRESS` and create it again; may be repeated")
	c.Flags().BoolVar(&f.RefreshOnly, "refresh-only", false, "only show what was changed by hand; an apply records it")
	c.Flags().BoolVar(&f.OverwriteData, "overwrite-data", false, "let an import replace data that another program wrote into the node")
}

// options are those of the planner. What cannot go together is refused before anything is read.
func (f *intentFlags) options() (plan.Options, error) {
	opts := f.Options
	opts.Drain = f.drain
	for _, given := range []struct {
		flag      string
		addresses []string
	}{{"target", f.Targets}, {"exclude", f.Excludes}, {"replace", f.Replace}, {"force-break", f.ForceBreak}} {
		if slices.Contains(given.addresses, "") {
			return opts, view.Failf("Bad flag", "-%s is given without an address; perhaps a shell variable is empty. Write it as -%s=namespace.payments.mutex.ledger.", given.flag, given.flag)
		}
	}
	switch {
	case f.RefreshOnly && f.Destroy:
		return opts, view.Failf("Incompatible options", "-destroy removes everything and -refresh-only changes nothing. Give only one of them.")
	case f.RefreshOnly && len(f.Replace) > 0:
		return opts, view.Failf("Incompatible options", "-replace creates a lock again and -refresh-only changes nothing. Give only one of them.")
	case f.drain < 0:
		return opts, view.Failf("Bad flag", "-drain=%s: must not be negative. Give a time to wait, such as -drain=60s.", f.drain)
	}
	return opts, nil
}

// none refuses the flags where a saved plan already says what to do.
func (f *intentFlags) none() error {
	if f.Destroy {
		return view.Failf("Destroy with a saved plan", "A saved plan already says what to destroy. Save one with \"plan -destroy -out FILE\" and apply that.")
	}
	if f.RefreshOnly || f.AllowMassDestroy || f.OverwriteData || f.drain != 0 || len(f.Targets)+len(f.Excludes)+len(f.Replace)+len(f.ForceBreak) > 0 {
		return view.Failf("Planning options with a saved plan", "A saved plan already says what to do. Give -target, -replace, -drain and similar flags to \"plan -out FILE\", and apply that file.")
	}
	return nil
}
