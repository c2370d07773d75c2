package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/locktree/locktree/examples"
	"github.com/locktree/locktree/recipes/zktest"
)

func demoCommand(a *app) *cobra.Command {
	var herd, page bool
	listen := serveAddress
	c := &cobra.Command{
		Use:   "demo",
		Short: "Show what locktree does, on an embedded server",
		Long: "demo plans and applies a small lock tree on an in-memory ZooKeeper, lets a few programs\n" +
			"contend for its locks, and destroys it again. It needs nothing and leaves nothing behind. With\n" +
			"-herd it counts instead the events that one release sends, for three ways to wait. With\n" +
			"-serve the programs go on contending until it is interrupted, and the page of \"locktree\n" +
			"serve\" shows them.",
		Args: exactly(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			if herd {
				return showHerd(c.Context(), a.stdout)
			}
			d := &demo{out: a.stdout, command: func(ctx context.Context, dir string, env []string, args ...string) int {
				return run(ctx, append([]string{"-chdir=" + dir}, args...), append(a.env, env...), a.stdin, a.stdout, a.stdout)
			}}
			if page {
				return d.show(c.Context(), listen)
			}
			return d.run(c.Context())
		},
	}
	c.Flags().BoolVar(&herd, "herd", false, "count the events that one release sends")
	c.Flags().BoolVar(&page, "serve", false, "serve the page with live contenders")
	c.Flags().StringVar(&listen, "listen", listen, "the `ADDRESS` to serve the page on")
	return c
}

// demo does everything in one process: the quickstart is planned and applied
// on an embedded server, programs contend for its four locks, and a destroy is
// refused until nobody holds one. command runs one locktree command in dir, as
// the user would have typed it, and returns its exit code.
type demo struct {
	out     io.Writer
	command func(ctx context.Context, dir string, env []string, args ...string) int

	dir string
	srv *zktest.Server
}

// open makes a server and a directory for the demo.
func (d *demo) open() (clean func(), err error) {
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

// show serves the page while programs contend.
func (d *demo) show(ctx context.Context, listen string) error {
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
	d.say("Five programs contend for four locks. Look at them on the page.")
	return d.expect(ctx, 0, "serve", "-listen="+listen, "-interval=1s", "-drift-interval=30s")
}

func (d *demo) run(ctx context.Context) error {
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
	fmt.Fprint(d.out, `
  locktree demo -herd                       the events that one release sends, for three ways to wait
  locktree demo -serve                      the page that shows who holds and who waits, with live contenders
  locktree dev                              a server like this one, to play with
  locktree -chdir=examples/quickstart plan  the same tree, in another terminal
  go run ./examples/redpacket               a hundred workers, one pot, sessions dying, not a cent lost
  go run ./examples/redpacket -unlocked     the same without the lock
  make test                                 all of it against Apache ZooKeeper
`)
	return nil
}

func (d *demo) provision(ctx context.Context) error {
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
func (d *demo) useQuickstart() error {
	old, err := filepath.Glob(filepath.Join(d.dir, "*"))
	if err != nil {
		return err
	}
	for _, f := range old {
		if err := os.RemoveAll(f); err != nil {
			return err
		}
	}
	data, err := examples.Quickstart.ReadFile("quickstart/locks.locktree.hcl")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(d.dir, "locks.locktree.hcl"), data, 0o644)
}

func (d *demo) contend(ctx context.Context) error {
	d.say("Three programs contend for each lock. Tokens only grow: a resource that remembers\nthe largest one refuses every holder of the past.")
	fleet, err := newFleet(ctx, d.out, d.srv.Addr(), 3)
	if err != nil {
		return err
	}
	defer fleet.close()
	return fleet.contend(ctx)
}

func (d *demo) refuseThenDestroy(ctx context.Context) error {
	d.say("Now they keep what they have, so that there is something to see.")
	fleet, err := newFleet(ctx, d.out, d.srv.Addr(), 3)
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
	d.say("Refused, and nobody lost a lock. They leave; then it goes.")
	release()
	return d.expect(ctx, 0, "destroy", "-auto-approve")
}

// expect shows a command, runs it, and fails unless it ends with that exit code.
func (d *demo) expect(ctx context.Context, code int, args ...string) error {
	line := "locktree " + strings.Join(args, " ")
	fmt.Fprintf(d.out, "\n\x20\x20$ %s\n\n", line)
	env := []string{`LOCKTREE_VAR_servers=["` + d.srv.Addr() + `"]`, "ZOOKEEPER_SERVERS=" + d.srv.Addr()}
	if got := d.command(ctx, d.dir, env, args...); got != code {
		return fmt.Errorf("demo: %q ended with exit code %d, not %d: please report this", line, got, code)
	}
	return nil
}

func (d *demo) say(format string, args ...any) {
	fmt.Fprintf(d.out, "\n== "+format+"\n", args...)
}
