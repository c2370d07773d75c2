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
	destroy, refreshOnly       bool
	targets, excludes, replace []string
	forceBreak                 []string
	allowMassDestroy           bool
	overwriteData              bool
	drain                      time.Duration
}

func (f *intentFlags) register(c *cobra.Command) {
	c.Flags().StringArrayVar(&f.targets, "target", nil, "plan only this `ADDRESS` and what it needs; * and ** match any; may be repeated")
	c.Flags().StringArrayVar(&f.excludes, "exclude", nil, "plan everything except this `ADDRESS` and what needs it; may be repeated")
	c.Flags().BoolVar(&f.allowMassDestroy, "allow-mass-destroy", false, "allow a plan that removes more than 30 % of a namespace")
	c.Flags().StringArrayVar(&f.forceBreak, "force-break", nil, "remove the lock at this exact `ADDRESS` even if it is in use: its holder loses it")
	c.Flags().DurationVar(&f.drain, "drain", 0, "admit nobody new to locks to be removed, and wait up to this long until they are idle; 60s without a value")
	c.Flags().Lookup("drain").NoOptDefVal = "60s"
}

// registerChanges adds what makes no sense where everything is removed.
func (f *intentFlags) registerChanges(c *cobra.Command) {
	f.register(c)
	c.Flags().StringArrayVar(&f.replace, "replace", nil, "remove this `ADDRESS` and create it again; may be repeated")
	c.Flags().BoolVar(&f.refreshOnly, "refresh-only", false, "only show what was changed by hand; an apply records it")
	c.Flags().BoolVar(&f.overwriteData, "overwrite-data", false, "let an import replace data that another program wrote into the node")
}

// options are those of the planner. What cannot go together is refused before anything is read.
func (f *intentFlags) options() (plan.Options, error) {
	for _, given := range []struct {
		flag      string
		addresses []string
	}{{"target", f.targets}, {"exclude", f.excludes}, {"replace", f.replace}, {"force-break", f.forceBreak}} {
		if slices.Contains(given.addresses, "") {
			return plan.Options{}, view.Failf("Bad flag", "-%s is given without an address; perhaps a shell variable is empty. Write it as -%s=namespace.payments.mutex.ledger.", given.flag, given.flag)
		}
	}
	switch {
	case f.refreshOnly && f.destroy:
		return plan.Options{}, view.Failf("Incompatible options", "-destroy removes everything and -refresh-only changes nothing. Give only one of them.")
	case f.refreshOnly && len(f.replace) > 0:
		return plan.Options{}, view.Failf("Incompatible options", "-replace creates a lock again and -refresh-only changes nothing. Give only one of them.")
	case f.drain < 0:
		return plan.Options{}, view.Failf("Bad flag", "-drain=%s: must not be negative. Give a time to wait, such as -drain=60s.", f.drain)
	}
	return plan.Options{
		Destroy: f.destroy, RefreshOnly: f.refreshOnly, Targets: f.targets, Excludes: f.excludes, Replace: f.replace,
		AllowMassDestroy: f.allowMassDestroy, Drain: f.drain, ForceBreak: f.forceBreak, OverwriteData: f.overwriteData,
	}, nil
}

// none refuses the flags where a saved plan already says what to do.
func (f *intentFlags) none() error {
	if f.destroy {
		return view.Failf("Destroy with a saved plan", "A saved plan already says what to destroy. Save one with \"plan -destroy -out FILE\" and apply that.")
	}
	if f.refreshOnly || f.allowMassDestroy || f.overwriteData || f.drain != 0 || len(f.targets)+len(f.excludes)+len(f.replace)+len(f.forceBreak) > 0 {
		return view.Failf("Planning options with a saved plan", "A saved plan already says what to do. Give -target, -replace, -drain and similar flags to \"plan -out FILE\", and apply that file.")
	}
	return nil
}

// operation is the word a view shows.
func (f *intentFlags) operation() string {
	switch {
	case f.destroy:
		return "destroy"
	case f.refreshOnly:
		return "refresh"
	}
	return "apply"
}
