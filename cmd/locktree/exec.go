package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/locktree/locktree/cmd/locktree/internal/child"
	"github.com/locktree/locktree/cmd/locktree/internal/exit"
	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/config"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/direct"
)

const execHelp = `exec takes locks, runs a command while it holds them, and releases them. LOCK is an address in the
configuration, such as namespace.payments.mutex.ledger, or a path, such as /locks/payments/ledger. In a
family of keyed locks, -key=KEY says which lock. With paths and ZOOKEEPER_SERVERS, no configuration is
read. Several mutexes, elections and read-write locks of one ensemble are taken together, all or none,
in one transaction: two sets that overlap cannot deadlock.

exec exits with the command's own exit code, or with 128+N if signal N killed it. Exit codes that
commands do not normally use report what happened to the lock: 123 if it was lost, or if locktree
ended the command because of it; 124 if it was not acquired (-E sets another code, and one line in
place of the error); 122 if somebody else ran the slot of -once; 125 if something else failed; 126 and
127 if the command could not be run.

One line each on standard error says that the lock was granted, that the command was skipped (with
-E), and that the lock was released; -quiet leaves them out, and -json makes messages of them.

For jobs that several machines start at the same time: -try -E 0 runs the job on one of them, and
-at-least 10m keeps the lock until ten minutes after the grant, also when the command ends sooner or
fails, so that a machine whose clock is a little slow does not run it again. A signal that ends
programs releases the lock before that, and a command that cannot be started keeps it no longer:
nothing has run. If exec itself is killed, the lock goes with its session.

If ZooKeeper confirms nothing for a third of the session timeout, the command and the processes
that it started get SIGTERM; after half of it they are killed, before anybody else can get the
lock. So the session timeout decides how long an outage or a pause of this machine may last, and how
long the lock stays taken after a crash. exec asks for the ensemble's, or for 60 s; servers grant at most
their maxSessionTimeout, 20 ticks (40 s) by default, and exec prints what they granted.

The command also gets SIGTERM when another program asks for the lock back. exec passes signals on to it.
A process that left the command's session (setsid, as daemons do) gets neither, and goes on without the
lock.

The command's environment has LOCKTREE_LOCK_PATH (each of several paths on a line), LOCKTREE_LOCK_NODE
(the contender in ZooKeeper, of several locks that of the first), LOCKTREE_LOCK_TOKEN, the fencing
token, and with -once LOCKTREE_SLOT. A store that refuses tokens smaller than one it has seen is safe even where no lock can help, for
example after a machine was suspended.`

func execCommand(a *app) *cobra.Command {
	x := &execution{app: a}
	c := &cobra.Command{
		Use:        "exec [flags] LOCK... -- COMMAND [ARGUMENT]...",
		SuggestFor: []string{"run", "lock", "with"},
		Short:      "Run a command while holding a lock",
		Long:       execHelp,
		Example:    "  locktree exec namespace.payments.mutex.ledger -- ./compact\n  locktree exec -try -E 0 /locks/nightly -- ./report   # skip it if another machine runs it\n  locktree exec mutex.stock mutex.orders -- ./reconcile   # both, or none\n  locktree exec -key=4711 keyed.orders -- ./charge",
		RunE: func(c *cobra.Command, args []string) error {
			locks := c.ArgsLenAtDash()
			if locks < 1 || len(args) == locks {
				return own(usage(c, "Lock or command missing", "Write the lock, two dashes and the command, for example \"locktree exec /locks/nightly -- ./report -v\"."))
			}
			return x.run(c, args[:locks], args[locks:])
		},
	}
	ownErrors(c)
	x.flags.register(c)
	c.ValidArgsFunction = func(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		switch {
		case c.ArgsLenAtDash() < len(args):
			return nil, cobra.ShellCompDirectiveDefault // within the command: its files
		case len(args) > 0: // another lock, or the command: cobra puts a dash of its own here
			return a.addresses(&x.flags), cobra.ShellCompDirectiveDefault
		}
		return a.addresses(&x.flags), cobra.ShellCompDirectiveNoFileComp
	}
	c.Flags().BoolVar(&x.try, "try", false, "do not wait for the lock")
	c.Flags().DurationVar(&x.timeout, "timeout", 0, "connect and wait for the lock no longer than this `DURATION` in all, such as 30s")
	c.Flags().DurationVar(&x.atLeast, "at-least", 0, "keep the lock at least this `DURATION` after the grant, such as 10m")
	c.Flags().StringVar(&x.mode, "mode", "write", "the mode of rwlocks: read or write")
	c.Flags().IntVar(&x.permits, "permits", 1, "how many permits of a semaphore to take")
	c.Flags().BoolVar(&x.slot.once, "once", false, "run the newest slot of a once, unless it was run: then exit with 122")
	c.Flags().StringVar(&x.id, "id", "", "a name that status shows for this holder")
	c.Flags().StringVar(&x.ensemble, "ensemble", "", "the `NAME` of the ensemble, if there are several")
	c.Flags().DurationVar(&x.session, "session-timeout", 0, "ask for this session timeout, not the ensemble's, or 1m")
	c.Flags().IntVarP(&x.conflict, conflictFlag, "E", exit.Conflict, "exit with this code, without an error, if the lock was not acquired")
	x.key.register(c)
	c.Flags().BoolVar(&x.quiet, "quiet", false, "do not say that the lock is waited for, granted, skipped or released")
	a.jsonFlag(c, logJSON, "print JSON messages on standard error")
	return c
}

// ownErrors has errors before the command runs exit with a code of their own, too.
func ownErrors(c *cobra.Command) {
	c.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return own(c.Root().FlagErrorFunc()(c, err)) })
	c.PersistentPreRunE = func(c *cobra.Command, args []string) error { return own(c.Root().PersistentPreRunE(c, args)) }
}

const conflictFlag = "conflict-exit-code"

// execution is one run of exec.
type execution struct {
	*app
	flags    loadFlags
	try      bool
	timeout  time.Duration
	atLeast  time.Duration
	mode     string
	permits  int
	slot     slotRun
	id       string
	ensemble string
	session  time.Duration
	conflict int
	quiet    bool
	key      keyFlag
	given    map[string]bool // the flags of the command line
	locks    int             // how many are named

	asked time.Duration // the session timeout
	lost  chan struct{}
	lose  func() // closes it, once
}

// jobSession is the session timeout that exec asks for where nobody says which. With the 15 s that suit programs, which try again, an
// election of the ensemble would end a job of hours.
const jobSession = time.Minute

// run always returns a exit.Error: commands use 1 themselves.
func (x *execution) run(c *cobra.Command, locks, command []string) error {
	if err := x.checkFlags(c, len(locks)); err != nil {
		return own(err)
	}
	// From here on signals are the command's, even the second one, which would otherwise end the
	// program.
	signals := make(chan os.Signal, 8)
	signal.Reset(child.Forwarded...)
	signal.Notify(signals, child.Forwarded...)
	defer signal.Stop(signals)

	ctx := c.Context()
	before, after := make(chan struct{}), make(chan struct{})
	defer close(after)
	listens := x.listen(signals, before)
	client, lease, err := x.take(ctx, locks)
	granted := time.Now()
	if client != nil {
		defer client.Close() // the session goes, and with it what is left of the lock
	}
	var token uint64
	var session *direct.Session
	if err == nil {
		token, session, err = x.ready(client, lease)
	}
	close(before)
	<-listens // or it would take a signal that is the command's
	if err = cmp.Or(bySignal(ctx), err); err != nil {
		return err
	}
	x.tell(view.Job{Event: view.JobGranted, Path: lease.Path(), Token: token, Session: session.Timeout(), Asked: x.asked})
	x.underWay <- struct{}{} // a signal is the command's, and ends this program only after it
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env, cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = append(x.environment(lease, token), x.slot.environment()...), x.dir, x.stdin, unchecked(x.stdout), x.stderr
	p, err := child.Start(cmd)
	stopped, kept := "", true
	if err == nil {
		stopped = x.supervise(ctx, p, lease, session, signals)
		kept = stopped != "" || isLost(lease) || x.linger(ctx, lease, granted.Add(x.atLeast), signals)
	}
	<-x.underWay
	x.listen(signals, after)
	if err != nil {
		x.release(lease, granted)
		return exit.Wrap(child.CodeOf(err), view.Failf("Cannot run the command", "%v. The lock was released.", err))
	}
	if !kept {
		return exit.With(p.Code())
	}
	return x.finish(p, lease, granted, stopped)
}

// take connects and takes the locks, all within -timeout.
func (x *execution) take(ctx context.Context, locks []string) (*recipes.Client, *recipes.Lease, error) {
	e, paths, err := x.loader().Locks(x.flags.inputs, locks, x.ensemble)
	if err != nil {
		return nil, nil, own(err)
	}
	timed, stop := x.bounded(ctx)
	defer stop()
	client, err := x.dialFor(timed, e)
	if err != nil {
		return nil, nil, own(err)
	}
	lease, err := x.acquire(timed, client, paths)
	if err != nil {
		return client, nil, x.notAcquired(ctx, client, paths, err)
	}
	return client, lease, nil
}

// bounded ends with -timeout.
func (x *execution) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if x.timeout > 0 {
		return context.WithTimeout(ctx, x.timeout)
	}
	return ctx, func() {}
}

// own is for errors outside the command. What has been shown already has no text left.
func own(err error) error {
	if err == nil {
		return nil
	}
	if shown, ok := asType[*exit.Error](err); ok {
		err = shown.Err
	}
	return exit.Wrap(exit.Own, err)
}

func (x *execution) checkFlags(c *cobra.Command, locks int) error {
	x.given, x.locks = map[string]bool{}, locks
	c.Flags().Visit(func(f *pflag.Flag) { x.given[f.Name] = true })
	switch {
	case x.mode != "read" && x.mode != "write":
		return usage(c, "Bad flag", "-mode=%s: must be read or write.", x.mode)
	case x.permits < 1:
		return usage(c, "Bad flag", "-permits=%d: must be at least 1.", x.permits)
	case x.given["timeout"] && x.timeout == 0:
		return usage(c, "Bad flag", "-timeout=0: a time to wait must be positive. Leave it out to wait without end, or give -try not to wait.")
	case x.try && x.timeout > 0:
		return usage(c, "Bad flag", "-try does not wait and -timeout does. Give only one of them.")
	case locks > 1 && (x.key.Given || x.slot.once || x.given["permits"]):
		return usage(c, "Flag of one lock", "-key, -permits and -once say something of one lock, and %d are named.", locks)
	case x.conflict < 0 || x.conflict > 255:
		return usage(c, "Bad flag", "-conflict-exit-code=%d: must be from 0 to 255.", x.conflict)
	}
	return nil
}

func (x *execution) dialFor(ctx context.Context, e *config.Ensemble) (*recipes.Client, error) {
	cfg, err := x.loader().ClientConfig(e)
	if err != nil {
		return nil, err
	}
	x.asked = cmp.Or(x.session, cfg.SessionTimeout, jobSession)
	cfg.SessionTimeout = x.asked
	x.lost = make(chan struct{})
	x.lose = sync.OnceFunc(func() { close(x.lost) })
	cfg.ID, cfg.Observer = x.id, x.Observe
	return x.loader().ConnectWith(ctx, e, cfg)
}

// environment tells the command about its lock.
func (x *execution) environment(lease *recipes.Lease, token uint64) []string {
	return append(append([]string{}, x.env...),
		"LOCKTREE_LOCK_PATH="+strings.Join(x.pathsOf(lease), "\n"),
		"LOCKTREE_LOCK_NODE="+lease.Node(),
		"LOCKTREE_LOCK_TOKEN="+strconv.FormatUint(token, 10))
}

// tell says what happened to the lock. Standard output is the command's.
func (x *execution) tell(j view.Job) {
	if !x.quiet {
		x.show(j)
	}
}

// say says what a person has to know, also with -quiet.
func (x *execution) say(format string, args ...any) {
	x.show(view.Job{Text: fmt.Sprintf(format, args...)})
}
