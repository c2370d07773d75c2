// Package run runs a command while it holds locks. [Exec] acquires the locks, starts the command, supervises it, and gives the
// locks back.
//
// It relies on three facts:
//
//  1. A lease ends at half of the session timeout, before a server expires the session.
//  2. A command in a process group of its own can be ended with what it started. Package child lists the exceptions.
//  3. A signal before the grant or after the command is for this program.
//
// It never runs a command without a proven lock, and it never reports the command's exit code if the lock was lost while the
// command ran.
//
//	err := run.Exec(ctx, host, run.Options{Locks: []string{"/locks/nightly"}, Command: []string{"./report"}, Try: true,
//		Permits: 1, Conflict: exit.Conflict, Given: func(flag string) bool { return false }})
//	code := exit.Code(err) // the command's own, or one of package exit
package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/cmd/locktree/internal/child"
	"github.com/locktree/locktree/cmd/locktree/internal/exit"
	"github.com/locktree/locktree/cmd/locktree/internal/stack"
	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/config"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/direct"
)

// Options say which locks to take, how, and which command to run.
type Options struct {
	Inputs   []config.Input // of the configuration, if it is read
	Locks    []string       // addresses or paths
	Ensemble string         // "" is the only one
	Command  []string

	Try              bool
	Timeout, AtLeast time.Duration // 0: Timeout never ends, AtLeast does not wait
	Mode             string        // of read-write locks: "read" or "write"
	Permits          int
	Once             bool // run the newest slot of a job
	Key              stack.Key
	ID               string
	Session          time.Duration // the session timeout to ask for; 0 is the ensemble's
	Conflict         int           // the exit code if others have the lock
	Quiet            bool

	// Given reports whether the command line has a flag. -mode and -permits are errors for a lock that has neither. With
	// ConflictFlag, a lock that others hold is no error.
	Given func(flag string) bool
}

// ConflictFlag is the flag of Options.Conflict.
const ConflictFlag = "conflict-exit-code"

// Host is the program around an execution.
type Host struct {
	Loader         *stack.Loader // its Stdin, Environ and Dir are the command's
	Stdout, Stderr io.Writer     // the command's
	Show           func(view.Job)
	Interrupt      func(cause error) // cancels the context of Exec
	// Uninterrupted makes an interrupt of the program wait until the returned function is called.
	Uninterrupted func(context.Context) (over func(), err error)
}

// job is one execution.
type job struct {
	host  Host
	opts  Options
	slot  slot
	asked time.Duration // the session timeout
	lost  chan struct{}
	lose  func() // closes lost, once
}

func newJob(h Host, o Options) *job {
	x := &job{host: h, opts: o, lost: make(chan struct{})}
	x.lose = sync.OnceFunc(func() { close(x.lost) })
	return x
}

// jobSession is the session timeout that exec asks for if neither the command line nor the ensemble has one. Programs use 15 s,
// because they can try again. A job of hours has to outlast the election of a new ZooKeeper leader.
const jobSession = time.Minute

// Exec returns an [exit.Error] unless the command exited with 0. An error of another type would make locktree exit with 1, a code
// that commands use themselves.
func Exec(ctx context.Context, h Host, o Options) error {
	x := newJob(h, o)
	// From here on signals are for the command, even a second one, which would otherwise end this program.
	signals := make(chan os.Signal, 8)
	signal.Reset(child.Forwarded...)
	signal.Notify(signals, child.Forwarded...)
	defer signal.Stop(signals)

	before, after := make(chan struct{}), make(chan struct{})
	defer close(after)
	listens := x.listen(signals, before)
	client, lease, err := x.take(ctx)
	granted := time.Now()
	if client != nil {
		defer client.Close() // this ends the session, and with it any node of the lock
	}
	var token uint64
	var session *direct.Session
	if err == nil {
		token, session, err = x.leaseToken(client, lease)
	}
	close(before)
	<-listens // otherwise listen would swallow a signal that is for the command
	if err = cmp.Or(exit.Asked(ctx), err); err != nil {
		return err
	}
	x.tell(view.Job{Event: view.JobGranted, Path: lease.Path(), Token: token, Session: session.Timeout(), Asked: x.asked})
	over, _ := x.host.Uninterrupted(context.WithoutCancel(ctx)) // a signal is for the command; this program ends after the command
	cmd := exec.Command(o.Command[0], o.Command[1:]...)
	cmd.Env, cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = append(x.environment(lease, token), x.slot.environment()...), x.host.Loader.Dir, x.host.Loader.Stdin, x.host.Stdout, x.host.Stderr
	p, err := child.Start(cmd)
	stopped, kept := "", true
	if err == nil {
		stopped = x.supervise(ctx, p, lease, session, signals)
		kept = stopped != "" || isLost(lease) || x.linger(ctx, lease, granted.Add(x.opts.AtLeast), signals)
	}
	over()
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
func (x *job) take(ctx context.Context) (*recipes.Client, *recipes.Lease, error) {
	e, paths, err := x.host.Loader.Locks(x.opts.Inputs, x.opts.Locks, x.opts.Ensemble)
	if err != nil {
		return nil, nil, Own(err)
	}
	timed, stop := x.withTimeout(ctx)
	defer stop()
	client, err := x.dialFor(timed, e)
	if err != nil {
		return nil, nil, Own(err)
	}
	lease, err := x.acquire(timed, client, paths)
	if err != nil {
		return client, nil, x.notAcquired(ctx, client, paths, err)
	}
	return client, lease, nil
}

// withTimeout returns a context that ends after -timeout.
func (x *job) withTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	if x.opts.Timeout > 0 {
		return context.WithTimeout(ctx, x.opts.Timeout)
	}
	return ctx, func() {}
}

// The function Own is for errors outside the command. An error that was shown already has no text left.
func Own(err error) error {
	if err == nil {
		return nil
	}
	if shown := (*exit.Error)(nil); errors.As(err, &shown) {
		err = shown.Err
	}
	return exit.Wrap(exit.Own, err)
}

func (x *job) dialFor(ctx context.Context, e *config.Ensemble) (*recipes.Client, error) {
	cfg, err := x.host.Loader.ClientConfig(e)
	if err != nil {
		return nil, err
	}
	x.asked = cmp.Or(x.opts.Session, cfg.SessionTimeout, jobSession)
	cfg.SessionTimeout = x.asked
	cfg.ID, cfg.Observer = x.opts.ID, x.observe
	return x.host.Loader.ConnectWith(ctx, e, cfg)
}

// leaseToken returns the lease's token and session, or why the command cannot start: the lease was lost, or it cannot be kept. Only
// a read of our own contender proves that we hold the lock; the right to create it is not enough.
func (x *job) leaseToken(client *recipes.Client, lease *recipes.Lease) (uint64, *direct.Session, error) {
	token := lease.Token()
	proof := lease.Verify(lease.Context())
	s, err := client.Session(lease.Context()) // the session of the lease, or another one if it is lost
	switch {
	case err != nil, isLost(lease):
		return 0, nil, exit.Wrap(exit.Lost, view.Failf("Lock lost", "%s was lost before the command was started: %s. It was not run.",
			lease.Path(), view.Sentence(context.Cause(lease.Context()))))
	case token == 0, errors.Is(proof, zk.ErrNoAuth):
		x.release(lease, time.Time{})
		return 0, nil, Own(stack.DeniedAt(context.WithoutCancel(lease.Context()), client, errors.Join(zk.ErrNoAuth, view.Failf("Lock cannot be kept",
			"The command was not run, and %s was released: the access list lets this program queue for it, but not read its own contender. Only that read proves that the lock is held. Grant \"lock\" to it in the lock's acl, and apply.", lease.Path())), lease.Path()))
	}
	return token, s, nil
}

// environment tells the command about its lock.
func (x *job) environment(lease *recipes.Lease, token uint64) []string {
	return append(append([]string{}, x.host.Loader.Environ...),
		"LOCKTREE_LOCK_PATH="+strings.Join(x.pathsOf(lease), "\n"),
		"LOCKTREE_LOCK_NODE="+lease.Node(),
		"LOCKTREE_LOCK_TOKEN="+strconv.FormatUint(token, 10))
}

// tell says what happened to the lock, on standard error: standard output is for the command.
func (x *job) tell(j view.Job) {
	if !x.opts.Quiet {
		x.host.Show(j)
	}
}

// say says what a person has to know, also with -quiet.
func (x *job) say(format string, args ...any) {
	x.host.Show(view.Job{Text: fmt.Sprintf(format, args...)})
}

// separator stands between the paths of several locks, as a lease has them.
const separator = " + "

func together(paths []string) string { return strings.Join(paths, separator) }

// pathsOf are the paths of the locks that were taken. The path of one lock may contain the separator: a key may be any text.
func (x *job) pathsOf(lease *recipes.Lease) []string {
	if len(x.opts.Locks) == 1 {
		return []string{lease.Path()}
	}
	return strings.Split(lease.Path(), separator)
}
