package main

import (
	"github.com/spf13/cobra"

	"github.com/locktree/locktree/cmd/locktree/internal/exit"
	"github.com/locktree/locktree/cmd/locktree/internal/run"
	"github.com/locktree/locktree/cmd/locktree/internal/screen"
	"github.com/locktree/locktree/cmd/locktree/internal/view"
)

func execCommand(a *app) *cobra.Command {
	var o run.Options
	var flags loadFlags
	var key keyFlag
	c := &cobra.Command{
		Use:        "exec [flags] LOCK... -- COMMAND [ARGUMENT]...",
		SuggestFor: []string{"run", "lock", "with"},
		Short:      "Run a command while holding a lock",
		Example: `  locktree exec namespace.payments.mutex.ledger -- ./compact
  locktree exec -try -E 0 /locks/nightly -- ./report   # skip it if another machine runs it
  locktree exec mutex.stock mutex.orders -- ./reconcile   # both, or none`,
		RunE: func(c *cobra.Command, args []string) error {
			locks := c.ArgsLenAtDash()
			if err := checkExec(c, &o, locks, len(args)-locks); err != nil {
				return run.Own(err)
			}
			o.Inputs, o.Key, o.Locks, o.Command, o.Given = flags.inputs, key.Key, args[:locks], args[locks:], c.Flags().Changed
			return run.Exec(c.Context(), run.Host{Loader: a.loader(), Stdout: a.Raw(), Stderr: a.Stderr, Interrupt: a.Interrupt,
				Show: func(j view.Job) { a.Show(j) }, Uninterrupted: a.Uninterrupted}, o)
		},
	}
	c.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return run.Own(c.Root().FlagErrorFunc()(c, err)) }) // errors in flags also end exec with its own code
	c.PersistentPreRunE = func(c *cobra.Command, args []string) error { return run.Own(c.Root().PersistentPreRunE(c, args)) }
	flags.register(c)
	c.ValidArgsFunction = func(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		switch {
		case c.ArgsLenAtDash() < len(args):
			return nil, cobra.ShellCompDirectiveDefault // after "--" the words belong to the command: complete file names
		case len(args) > 0: // another lock or a word of the command: cobra adds a "--" of its own, so we cannot tell which
			return a.addresses(&flags), cobra.ShellCompDirectiveDefault
		}
		return a.addresses(&flags), cobra.ShellCompDirectiveNoFileComp
	}
	f := c.Flags()
	f.BoolVar(&o.Try, "try", false, "do not wait for the lock")
	f.DurationVar(&o.Timeout, "timeout", 0, "connect and wait for the lock no longer than this `DURATION` in all, such as 30s")
	f.DurationVar(&o.AtLeast, "at-least", 0, "keep the lock at least this `DURATION` after the grant, such as 10m")
	f.StringVar(&o.Mode, "mode", "write", "the mode of rwlocks: read or write")
	f.IntVar(&o.Permits, "permits", 1, "how many permits of a semaphore to take")
	f.BoolVar(&o.Once, "once", false, "run the newest slot of a lock of type once; exit with 122 if it was run already")
	f.StringVar(&o.ID, "id", "", "a name that status shows for this holder")
	f.StringVar(&o.Ensemble, "ensemble", "", "the `NAME` of the ensemble, if there are several")
	f.DurationVar(&o.Session, "session-timeout", 0, "the session timeout to ask for; by default the ensemble's, otherwise 1m")
	f.IntVarP(&o.Conflict, run.ConflictFlag, "E", exit.Conflict, "exit with this code, without an error, if the lock is held, draining or has a full queue, or if the slot was run")
	key.register(c)
	f.BoolVar(&o.Quiet, "quiet", false, "do not say that the lock is waited for, granted, skipped or released")
	a.jsonFlag(c, screen.Log, "print JSON messages on standard error")
	return c
}

func checkExec(c *cobra.Command, o *run.Options, locks, command int) error {
	switch given := c.Flags().Changed; {
	case locks < 1 || command == 0:
		return usage(c, "Lock or command missing", "Write the lock, two dashes and the command, for example \"locktree exec /locks/nightly -- ./report -v\".")
	case o.Mode != "read" && o.Mode != "write":
		return usage(c, "Bad flag", "-mode=%s: must be read or write.", o.Mode)
	case o.Permits < 1:
		return usage(c, "Bad flag", "-permits=%d: must be at least 1.", o.Permits)
	case given("timeout") && o.Timeout == 0:
		return usage(c, "Bad flag", "-timeout=0: a time to wait must be positive. Leave it out to wait as long as necessary. With -try, exec does not wait.")
	case o.Try && o.Timeout > 0:
		return usage(c, "Bad flag", "-try does not wait and -timeout does. Give only one of them.")
	case locks > 1 && (given("key") || o.Once || given("permits")):
		return usage(c, "Flag of one lock", "-key, -permits and -once apply to one lock, and the command line names %d.", locks)
	case o.Conflict < 0 || o.Conflict > 255:
		return usage(c, "Bad flag", "-conflict-exit-code=%d: must be from 0 to 255.", o.Conflict)
	}
	return nil
}
