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
	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/config"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
)

const execHelp = `exec takes a lock, runs a command while it holds the lock, and releases it. LOCK is an address
in the configuration, such as namespace.payments.mutex.ledger, or a path, such as
/locks/payments/ledger. In a family of keyed locks, -key=KEY says which lock. With a path and ZOOKEEPER_SERVERS, no configuration is read.

exec exits with the command's own exit code, or with 128+N if signal N killed it. Exit codes that
commands do not normally use report what happened to the lock: 123 if it was lost, or if locktree
ended the command because of it; 124 if it was not acquired (-E sets another code and silences
the message); 125 if something else failed; 126 and 127 if the command could not be run.

If ZooKeeper confirms nothing for a third of the session timeout, the command and the processes
that it started get SIGTERM; after half of it they are killed, before anybody else can get the
lock. A longer -session-timeout gives more time. They also get SIGTERM when another program asks
for the lock back. A process that left the command's session (setsid, as daemons do) gets neither,
and goes on without the lock. exec passes signals on to the command.

The command's environment has LOCKTREE_LOCK_PATH, LOCKTREE_LOCK_NODE (the contender in
ZooKeeper) and LOCKTREE_LOCK_TOKEN, the fencing token. A store that refuses tokens smaller than
one it has seen is safe even where no lock can help, for example after a machine was suspended.`

func execCommand(a *app) *cobra.Command {
	x := &execution{app: a}
	c := &cobra.Command{
		Use:        "exec [flags] LOCK -- COMMAND [ARGUMENT]...",
		SuggestFor: []string{"run", "lock", "with"},
		Short:      "Run a command while holding a lock",
		Long:       execHelp,
		Example:    "  locktree exec namespace.payments.mutex.ledger -- ./compact\n  locktree exec -try -E 0 /locks/nightly -- ./report   # skip it if another machine runs it\n  locktree exec -key=4711 keyed.orders -- ./charge",
		RunE: func(c *cobra.Command, args []string) error {
			if c.ArgsLenAtDash() != 1 || len(args) < 2 {
				return own(usage(c, "Lock or command missing", "Write the lock, two dashes and the command, for example \"locktree exec /locks/nightly -- ./report -v\"."))
			}
			return x.run(c, args[0], args[1:])
		},
	}
	// Errors before the command runs have a code of their own, too.
	c.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return own(c.Parent().FlagErrorFunc()(c, err)) })
	c.PersistentPreRunE = func(c *cobra.Command, args []string) error { return own(c.Root().PersistentPreRunE(c, args)) }
	x.flags.register(c)
	c.ValidArgsFunction = a.firstAddress(&x.flags, cobra.ShellCompDirectiveDefault) // then the command, and its files
	c.Flags().BoolVar(&x.try, "try", false, "do not wait for the lock")
	c.Flags().DurationVar(&x.timeout, "timeout", 0, "wait for the lock no longer than this `DURATION`, such as 30s")
	c.Flags().StringVar(&x.mode, "mode", "write", "the mode of an rwlock: read or write")
	c.Flags().IntVar(&x.permits, "permits", 1, "how many permits of a semaphore to take")
	c.Flags().StringVar(&x.id, "id", "", "a name that status shows for this holder")
	c.Flags().StringVar(&x.ensemble, "ensemble", "", "the `NAME` of the ensemble, if there are several")
	c.Flags().DurationVar(&x.session, "session-timeout", 0, "override the ensemble's session timeout")
	c.Flags().IntVarP(&x.conflict, conflictFlag, "E", exitConflict, "exit with this code, without a message, if the lock was not acquired")
	x.key.register(c)
	c.Flags().BoolVar(&x.quiet, "quiet", false, "print nothing while waiting")
	return c
}

const conflictFlag = "conflict-exit-code"

// execution is one run of exec.
type execution struct {
	*app
	flags    loadFlags
	try      bool
	timeout  time.Duration
	mode     string
	permits  int
	id       string
	ensemble string
	session  time.Duration
	conflict int
	quiet    bool
	key      keyFlag
	given    map[string]bool // the flags of the command line

	lost chan struct{}
	lose func() // closes it, once
}

// run always returns a codeError: commands use 1 themselves.
func (x *execution) run(c *cobra.Command, lock string, command []string) error {
	if err := x.checkFlags(c); err != nil {
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
	client, lease, err := x.take(ctx, lock)
	if client != nil {
		defer client.Close() // the session goes, and with it what is left of the lock
	}
	var token uint64
	var session *recipes.Session
	if err == nil {
		token, session, err = x.ready(client, lease)
	}
	close(before)
	<-listens // or it would take a signal that is the command's
	if err = cmp.Or(bySignal(ctx), err); err != nil {
		return err
	}
	x.underWay <- struct{}{} // a signal is the command's, and ends this program only after it
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env, cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = x.environment(lease, token), x.dir, x.stdin, unchecked(x.stdout), x.stderr
	p, err := child.Start(cmd)
	stopped := ""
	if err == nil {
		stopped = x.supervise(ctx, p, lease, session, signals)
	}
	<-x.underWay
	x.listen(signals, after)
	if err != nil {
		x.release(lease)
		return &codeError{child.CodeOf(err), view.Failf("Cannot run the command", "%v. The lock was released.", err)}
	}
	return x.finish(p, lease, stopped)
}

// take connects and takes the lock.
func (x *execution) take(ctx context.Context, lock string) (*recipes.Client, *recipes.Lease, error) {
	e, path, err := x.target(lock)
	if err != nil {
		return nil, nil, own(err)
	}
	client, err := x.dialFor(ctx, e)
	if err != nil {
		return nil, nil, own(err)
	}
	lease, err := x.acquire(ctx, client, path)
	if err != nil {
		return client, nil, x.notAcquired(ctx, client, path, err)
	}
	return client, lease, nil
}

// own is for errors outside the command. What has been shown already has no text left.
func own(err error) error {
	if err == nil {
		return nil
	}
	if shown, ok := asType[*codeError](err); ok {
		err = shown.err
	}
	return &codeError{exitOwn, err}
}

func (x *execution) checkFlags(c *cobra.Command) error {
	x.given = map[string]bool{}
	c.Flags().Visit(func(f *pflag.Flag) { x.given[f.Name] = true })
	switch {
	case x.mode != "read" && x.mode != "write":
		return usage(c, "Bad flag", "-mode=%s: must be read or write.", x.mode)
	case x.permits < 1:
		return usage(c, "Bad flag", "-permits=%d: must be at least 1.", x.permits)
	case x.timeout < 0 || x.session < 0:
		return usage(c, "Bad flag", "A duration cannot be negative.")
	case x.given["timeout"] && x.timeout == 0:
		return usage(c, "Bad flag", "-timeout=0: a time to wait must be positive. Leave it out to wait without end, or give -try not to wait.")
	case x.try && x.timeout > 0:
		return usage(c, "Bad flag", "-try does not wait and -timeout does. Give only one of them.")
	case x.conflict < 0 || x.conflict > 255:
		return usage(c, "Bad flag", "-conflict-exit-code=%d: must be from 0 to 255.", x.conflict)
	}
	return nil
}

// target finds the lock, and the ensemble it is on.
func (x *execution) target(lock string) (*config.Ensemble, string, error) {
	isPath := strings.HasPrefix(lock, "/")
	if isPath {
		if err := kind.ValidatePath(lock); err != nil {
			return nil, "", view.Failf("Not a path", "%v. A path is absolute, such as \"/locks/payments/ledger\".", err)
		}
		cfg, err := x.configOfEnvironment()
		if err != nil {
			return nil, "", err
		}
		if cfg != nil && x.ensemble == "" {
			return cfg.Ensembles[0], lock, nil
		}
	}
	cfg, err := x.load(&x.flags)
	if err != nil {
		return nil, "", err
	}
	if isPath {
		e, err := chosenEnsemble(cfg, x.ensemble)
		return e, lock, err
	}
	return declared(cfg, lock)
}

func (x *execution) dialFor(ctx context.Context, e *config.Ensemble) (*recipes.Client, error) {
	cfg, err := x.clientConfig(e)
	if err != nil {
		return nil, err
	}
	if x.session > 0 {
		cfg.SessionTimeout = x.session
	}
	x.lost = make(chan struct{})
	x.lose = sync.OnceFunc(func() { close(x.lost) })
	cfg.ID, cfg.Observer = x.id, x.Observe
	return x.dialTo(ctx, e, cfg)
}

// environment tells the command about its lock.
func (x *execution) environment(lease *recipes.Lease, token uint64) []string {
	return append(append([]string{}, x.env...),
		"LOCKTREE_LOCK_PATH="+lease.Path(),
		"LOCKTREE_LOCK_NODE="+lease.Node(),
		"LOCKTREE_LOCK_TOKEN="+strconv.FormatUint(token, 10))
}

// say writes a line for the person who waits. Standard output is the command's.
func (x *execution) say(format string, args ...any) {
	fmt.Fprintf(x.stderr, "locktree: %s\n", view.Clean(fmt.Sprintf(format, args...)))
}
