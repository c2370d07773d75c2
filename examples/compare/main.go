//go:build linux

// Compare puts lock services beside each other on one machine: the same loads, by turns, each service used as its
// documentation recommends. It starts the servers it needs, on loopback, and ends them. It needs Linux.
//
//	go run . [-quick] [-servers 3] [-systems locktree,curator] [-out DIR] [-publish DIR]
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/locktree/locktree/examples/compare/bench"
	"github.com/locktree/locktree/examples/compare/claims"
	"github.com/locktree/locktree/examples/compare/drivers"
	"github.com/locktree/locktree/examples/compare/lock"
	"github.com/locktree/locktree/examples/compare/report"
	"github.com/locktree/locktree/examples/compare/server"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second interrupt does not wait for the experiments to end
	if err := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, in io.Reader, out, progress io.Writer) error {
	if len(args) > 0 && args[0] == "be" {
		return be(args[1:], in, out)
	}
	flags := flag.NewFlagSet("compare", flag.ContinueOnError)
	quick := flags.Bool("quick", false, "a few workloads, briefly: shows whether everything works, and roughly how fast")
	members := flags.Int("servers", 1, "how many ZooKeeper servers")
	systems := flags.String("systems", "", "only these systems: `name,name`")
	only := flags.String("workloads", "", "only the workloads whose name contains this `text`")
	to := flags.String("out", "", "`directory` for page.md and results.json, which are not written without it")
	publish := flags.String("publish", "", "`directory` for RESULTS.md, which is not written if the run is quick, or of some systems or workloads only")
	if err := flags.Parse(args); err != nil {
		return err
	}
	begin := time.Now()
	plan := bench.Plan{Rounds: 10, Window: 250 * time.Millisecond, Warm: 50 * time.Millisecond, WarmUp: time.Second, Limit: 20 * time.Second,
		Members: *members, Tell: func(format string, args ...any) {
			fmt.Fprintf(progress, "%4.0fs "+format+"\n", append([]any{time.Since(begin).Seconds()}, args...)...)
		}}
	if *quick {
		plan.Rounds, plan.Warm, plan.WarmUp = 1, 20*time.Millisecond, 0
	}
	for _, w := range bench.Workloads {
		if (w.Brief || !*quick) && strings.Contains(w.Name, *only) {
			plan.Workloads = append(plan.Workloads, w)
		}
	}
	plan.Systems = drivers.All
	if *systems != "" {
		names := strings.Split(*systems, ",")
		for _, name := range names {
			if _, err := drivers.Find(name); err != nil {
				return err
			}
		}
		plan.Systems = slices.DeleteFunc(slices.Clone(drivers.All), func(s drivers.System) bool { return !slices.Contains(names, s.Name) })
	}
	r, err := compare(ctx, plan, *quick)
	if r == nil {
		return err
	}
	failed := cmp.Or(report.Page(out, r), err)
	if *to != "" {
		if err := r.WriteTo(*to); err != nil {
			return err
		}
	}
	if *publish != "" && failed == nil && !r.Plan.Quick && *systems+*only == "" {
		return r.Publish(filepath.Join(*publish, "RESULTS.md"))
	}
	return failed
}

// be is a process of an experiment: what hangs or is killed in it takes nothing else along. Its arguments are those that
// [drivers.System.Command] makes; those of a role may follow.
func be(args []string, in io.Reader, out io.Writer) error {
	return server.Try(func() {
		driver := server.Must(drivers.Find(args[0])).Driver()
		drivers.TTL = server.Must(time.ParseDuration(args[1]))
		if role := args[2:]; len(role) > 0 {
			(&claims.Role{Driver: driver, Addrs: strings.Split(role[1], ","), Name: role[2], More: role[3:], In: in, Out: out}).Play(role[0])
		} else {
			lock.Serve(driver, in, out)
		}
	})
}

// compare measures. What was measured before an interrupt, or another failure, is not thrown away.
func compare(ctx context.Context, plan bench.Plan, quick bool) (r *report.Report, err error) {
	scope := &server.Scope{}
	defer scope.Close()
	err = server.Try(func() {
		plan.Dir = server.Must(os.MkdirTemp("", "compare-"))
		defer os.RemoveAll(plan.Dir)
		plan.Self = server.Must(os.Executable())
		r = &report.Report{Machine: report.Here(), Plan: report.Plan{Seconds: plan.Window.Seconds(), Members: plan.Members, Quick: quick},
			Systems: plan.Systems, Workloads: plan.Workloads}
		var servers map[string]*server.Server
		var stopped error
		r.Results, servers, stopped = bench.Run(ctx, scope, plan)
		server.Check(stopped)
		env := &claims.Env{Self: plan.Self, Dir: plan.Dir, Systems: plan.Systems, Servers: servers, Missing: r.Results.Missing, TTL: 4 * time.Second, Tell: plan.Tell}
		r.Claims = env.Run(ctx, scope, quick)
		server.Check(ctx.Err())
	})
	return r, err
}
