// Package demo shows what locktree does: it plans and applies a small lock tree on an in-memory ZooKeeper, lets programs contend
// for its locks, and destroys it again. It needs no server and leaves nothing behind. It runs commands through the function that
// it is given, as a person would type them:
//
//	err := (&demo.Demo{Out: os.Stdout, Command: command, Starter: "main.locktree.hcl"}).Run(ctx)
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/locktree/locktree/cmd/locktree/internal/exit"
	"github.com/locktree/locktree/examples"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/inspect"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
)

// Demo does everything in one process. It plans and applies the quickstart on an embedded server. Programs contend for its four
// locks, and a destroy is refused until no program holds one.
type Demo struct {
	Out io.Writer
	// Command runs one locktree command in dir, as a person would have typed it, and returns its exit code.
	Command func(ctx context.Context, dir string, env []string, args ...string) int
	Starter string // the file that init writes

	dir string
	srv *zktest.Server
}

// open makes a server and a directory for the demo.
func (d *Demo) open() (clean func(), err error) {
	d.dir, err = os.MkdirTemp("", "locktree-demo-")
	if err != nil {
		return nil, err
	}
	d.srv = zktest.New()
	d.say("An in-memory ZooKeeper for this demo listens on %s.", d.srv.Addr())
	return func() {
		d.srv.Close()
		os.RemoveAll(d.dir)
	}, nil
}

// Show serves the page while programs contend.
func (d *Demo) Show(ctx context.Context, listen string) error {
	clean, err := d.open()
	if err != nil {
		return err
	}
	defer clean()
	if err := d.useQuickstart(); err != nil {
		return err
	}
	if err := d.expect(ctx, 0, "apply", "-auto-approve"); err != nil {
		return err
	}
	fleet, err := newFleet(ctx, io.Discard, d.srv.Addr(), 5)
	if err != nil {
		return err
	}
	defer fleet.close()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var live sync.WaitGroup
	live.Go(func() { fleet.live(ctx) })
	defer live.Wait()
	defer stop()
	d.say("Five programs contend for four locks, now and then in a circle. Look at them on the page.")
	_, code := d.types(ctx, "serve", "-listen="+listen, "-interval=1s", "-drift-interval=30s")
	return exit.With(code)
}

// Run is the whole tour.
func (d *Demo) Run(ctx context.Context) error {
	clean, err := d.open()
	if err != nil {
		return err
	}
	defer clean()
	for _, part := range []func(context.Context) error{d.provision, d.contend, d.refuseThenDestroy} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	d.say("What to try next:")
	fmt.Fprint(d.Out, `
  locktree demo -serve                      the page that shows who holds and who waits, with live contenders
  locktree dev                              a server like this one, to play with
  locktree -chdir=examples/quickstart plan  the same tree, in another terminal
  go run ./examples/redpacket               a hundred workers share a pot while sessions are killed; not a cent is lost
  go run ./examples/redpacket -unlocked     the same without the lock
  make test                                 all of it against Apache ZooKeeper
`)
	return nil
}

func (d *Demo) provision(ctx context.Context) error {
	if err := d.expect(ctx, 0, "init"); err != nil {
		return err
	}
	d.say("That is a starting point. The demo goes on with examples/quickstart.")
	if err := d.useQuickstart(); err != nil {
		return err
	}
	for _, step := range [][]string{{"validate"}, {"plan"}, {"apply", "-auto-approve"}, {"plan"}} {
		if err := d.expect(ctx, 0, step...); err != nil {
			return err
		}
	}
	return nil
}

// useQuickstart replaces what init wrote by the example.
func (d *Demo) useQuickstart() error {
	if err := os.RemoveAll(filepath.Join(d.dir, d.Starter)); err != nil {
		return err
	}
	data, err := examples.Quickstart.ReadFile("quickstart/locks.locktree.hcl")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(d.dir, "locks.locktree.hcl"), data, 0o644)
}

func (d *Demo) contend(ctx context.Context) error {
	d.say("Three programs contend for each lock. Tokens only grow: a resource that remembers\nthe largest one can refuse every earlier holder.")
	fleet, err := newFleet(ctx, d.Out, d.srv.Addr(), 3)
	if err != nil {
		return err
	}
	defer fleet.close()
	return fleet.contend(ctx)
}

func (d *Demo) refuseThenDestroy(ctx context.Context) error {
	d.say("Now the programs keep their locks, to show what happens to locks in use.")
	fleet, err := newFleet(ctx, d.Out, d.srv.Addr(), 3)
	if err != nil {
		return err
	}
	defer fleet.close()
	release, err := fleet.holdEverything(ctx)
	if err != nil {
		return err
	}
	defer release()
	if err := d.expect(ctx, 0, "status"); err != nil {
		return err
	}
	if err := d.expect(ctx, 1, "destroy", "-auto-approve"); err != nil {
		return err
	}
	d.say("Destroy was refused, and no program lost a lock. The programs release their locks, and destroy succeeds.")
	release()
	return d.expect(ctx, 0, "destroy", "-auto-approve")
}

// types shows a command, and runs it.
func (d *Demo) types(ctx context.Context, args ...string) (line string, code int) {
	line = "locktree " + strings.Join(args, " ")
	fmt.Fprintf(d.Out, "\n\x20\x20$ %s\n\n", line)
	env := []string{`LOCKTREE_VAR_servers=["` + d.srv.Addr() + `"]`, "ZOOKEEPER_SERVERS=" + d.srv.Addr()}
	return line, d.Command(ctx, d.dir, env, args...)
}

// expect fails unless a command ends with that exit code.
func (d *Demo) expect(ctx context.Context, code int, args ...string) error {
	if line, got := d.types(ctx, args...); got != code {
		return fmt.Errorf("demo: %q ended with exit code %d, not %d: please report this", line, got, code)
	}
	return nil
}

func (d *Demo) say(format string, args ...any) {
	fmt.Fprintf(d.Out, "\n== "+format+"\n", args...)
}

// use is how a program uses a lock in the demo, and the line that is printed about it.
type use struct {
	what    string
	shared  bool
	permits int
}

// demoLocks are those of examples/quickstart.
var demoLocks = []struct {
	kind        *kind.Kind
	path        string
	first, rest use // uses of the first program, and of the others
	times       int
}{
	{kind.Mutex, "/locks/payments/ledger", use{what: "holds the lock"}, use{what: "holds the lock"}, 2},
	{kind.RWLock, "/locks/payments/catalog", use{what: "writes, alone"}, use{what: "reads", shared: true}, 1},
	{kind.Semaphore, "/locks/payments/workers", use{what: "has 2 of 3", permits: 2}, use{what: "has 1 of 3", permits: 1}, 1},
	{kind.Election, "/locks/payments/scheduler", use{what: "leads"}, use{what: "leads"}, 1},
}

// demoWork is how long a holder of the demo keeps a lock: long enough for a queue, short enough for a spectator.
const demoWork = 40 * time.Millisecond

// demoPatience is how long a program of the page waits for a lock: long enough that a person sees a deadlock on the page.
const demoPatience = 15 * time.Second

// demoSession is the programs' session timeout: as long as the server grants, so that the demo goes on after a machine
// that slept or swapped. Nothing in it waits for a session to end.
const demoSession = 40 * time.Second

// fleet is a few programs, each with a session of its own, and the output they share.
type fleet struct {
	mu      sync.Mutex
	out     io.Writer
	clients []*recipes.Client
}

func newFleet(ctx context.Context, out io.Writer, addr string, n int) (*fleet, error) {
	f := &fleet{out: out}
	for i := range n {
		c, err := recipes.Dial(ctx, recipes.Config{
			Servers: []string{addr}, SessionTimeout: demoSession, ConnectTimeout: 30 * time.Second, ID: fmt.Sprintf("program-%d", i+1),
		})
		if err != nil {
			f.close()
			return nil, err
		}
		f.clients = append(f.clients, c)
	}
	return f, nil
}

func (f *fleet) close() {
	var all sync.WaitGroup
	for _, c := range f.clients {
		all.Go(func() { c.Close() })
	}
	all.Wait()
}

// contend lets all programs take each lock, all at the same time.
func (f *fleet) contend(ctx context.Context) error {
	for _, lock := range demoLocks {
		fmt.Fprintln(f.out)
		errs := make([]error, len(f.clients))
		var wg sync.WaitGroup
		for i, c := range f.clients {
			u := lock.rest
			if i == 0 {
				u = lock.first
			}
			wg.Go(func() {
				for range lock.times {
					l, err := c.Locker(lock.kind, lock.path, u.shared, u.permits).Lock(ctx)
					if err != nil {
						errs[i] = err
						return
					}
					f.print(lock.kind.Name, i, u.what, l.Token())
					errs[i] = errors.Join(errs[i], work(l.Context()), l.Unlock(ctx))
				}
			})
		}
		wg.Wait()
		if err := errors.Join(errs...); err != nil {
			return err
		}
	}
	return nil
}

func (f *fleet) print(lock string, program int, what string, token uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fmt.Fprintf(f.out, "  %-10s program-%d  %-18s token %d\n", lock, program+1, what, token)
}

// work ends early if the lock is lost.
func work(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(demoWork):
		return nil
	}
}

// live lets the programs take one lock after the other, each for some seconds, until ctx ends. Half of the time they take another
// one meanwhile, in no common order. So now and then two wait for each other, until demoPatience is over.
func (f *fleet) live(ctx context.Context) {
	var wg sync.WaitGroup
	for i, c := range f.clients {
		wg.Go(func() {
			for n := i; ctx.Err() == nil; n++ {
				holdFor(ctx, c, n%len(demoLocks), rand.N(2) == 0)
			}
		})
	}
	wg.Wait()
}

// holdFor has a program hold a lock for some seconds, and then perhaps another one too.
func holdFor(ctx context.Context, c *recipes.Client, i int, another bool) {
	lock := demoLocks[i]
	patience, over := context.WithTimeout(ctx, demoPatience)
	l, err := c.Locker(lock.kind, lock.path, lock.rest.shared, lock.rest.permits).Lock(patience)
	if over(); err != nil {
		return // the wait was too long, or ctx has ended, or the machine slept
	}
	holding, end := context.WithCancel(l.Context())
	defer context.AfterFunc(ctx, end)()
	select {
	case <-holding.Done():
	case <-time.After(time.Second + rand.N(5*time.Second)):
	}
	if another {
		holdFor(holding, c, len(demoLocks)-1-i, false)
	}
	_ = l.Unlock(ctx) // Unlock deletes the node even if ctx has ended
}

// holdEverything lets the first program take one lock of each kind, and the second queue behind its mutex. It returns when the
// second has queued. The function release gives everything back, and waits until the second has had the mutex.
func (f *fleet) holdEverything(ctx context.Context) (release func(), err error) {
	var held []*recipes.Lease
	for _, lock := range demoLocks {
		l, err := f.clients[0].Locker(lock.kind, lock.path, lock.rest.shared, lock.rest.permits).Lock(ctx)
		if err != nil {
			return nil, err
		}
		held = append(held, l)
	}
	mutex := demoLocks[0].path
	waiting := make(chan struct{})
	go func() {
		defer close(waiting)
		if l, err := f.clients[1].Mutex(mutex).Lock(ctx); err == nil {
			l.Unlock(ctx)
		}
	}()
	if err := awaitWaiter(ctx, f.clients[2], mutex); err != nil {
		return nil, err
	}
	return sync.OnceFunc(func() {
		for _, l := range held {
			l.Unlock(ctx)
		}
		<-waiting
	}), nil
}

// awaitWaiter returns once a program queues for the lock.
func awaitWaiter(ctx context.Context, c *recipes.Client, path string) error {
	for {
		in, err := inspect.Lock(ctx, c, path)
		if err != nil || len(in.Waiters) > 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
}
