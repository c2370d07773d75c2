// Compare puts lock services beside each other on one machine: the same loads, by turns, each service used as its
// documentation recommends. It starts the servers it needs, on loopback, and ends them.
//
//	go run . [-quick | -all | -targets] [-servers 3] [-systems locktree,curator] [-out DIR]
//	go run . -from DIR/results.json [-out DIR] [-publish DIR]
package main

import (
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
	flags := flag.NewFlagSet("compare", flag.ContinueOnError)
	role := flags.String("be", "", "be one process of an experiment, in this `role`: serve, hold, keep, cross or together")
	system := flags.String("system", "", "its `system`")
	addrs := flags.String("addrs", "", "its `servers`")
	name := flags.String("name", "", "its `lock`")
	count := flags.Int("count", 1, "how many locks it keeps")
	deaf := flags.Bool("deaf", false, "it does not listen when it is told that its lock is lost")
	flags.DurationVar(&drivers.TTL, "ttl", drivers.TTL, "how long a lock may outlive who holds it, where that can be said")
	quick := flags.Bool("quick", false, "a few workloads, briefly: whether everything works, and roughly how fast")
	members := flags.Int("servers", 1, "how many ZooKeeper servers")
	systems := flags.String("systems", "", "only these, by `name,name`")
	only := flags.String("workloads", "", "only those whose name has this `text` in it")
	every := flags.Bool("all", false, "all workloads, those of a usual run in every round and the others in every other one: a quarter of an hour")
	targets := flags.Bool("targets", false, "what the table of targets needs, and no experiments")
	from := flags.String("from", "", "measure nothing: render this `results.json` of a run")
	rounds := flags.Int("rounds", 10, "how often each system has its turn with each workload")
	window := flags.Duration("window", 250*time.Millisecond, "how long a sample is")
	to := flags.String("out", "", "`directory` for page.md and results.json; none are written without it")
	publish := flags.String("publish", "", "`directory` for RESULTS.md, where the run is neither quick nor of some systems only")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *role != "" {
		return be(*role, *system, &claims.Role{Addrs: strings.Split(*addrs, ","), Name: *name, Count: *count, Deaf: *deaf, In: in, Out: out})
	}
	begin := time.Now()
	plan := bench.Plan{Rounds: *rounds, Window: *window, Warm: 50 * time.Millisecond, WarmUp: time.Second, Budget: 390 * time.Second, Limit: 20 * time.Second,
		Server: server.Options{Members: *members}, Tell: func(format string, args ...any) {
			fmt.Fprintf(progress, "%4.0fs "+format+"\n", append([]any{time.Since(begin).Seconds()}, args...)...)
		}}
	if *quick {
		plan.Rounds, plan.Warm, plan.WarmUp = 1, 20*time.Millisecond, 0
	}
	if *every || *targets {
		plan.Budget, plan.Sparse = 0, *every
	}
	plan.Workloads = choose(*only, *quick, *every || *targets)
	var err error
	if plan.Systems, err = chosen(*systems); err != nil {
		return err
	}
	if *targets {
		plan.Only = report.Targeted
		plan.Workloads = slices.DeleteFunc(plan.Workloads, func(w bench.Workload) bool { return !report.Targeted(w.Name, drivers.Ours) })
		plan.Systems = slices.DeleteFunc(slices.Clone(plan.Systems), func(s drivers.System) bool { return !s.Client && !s.Floor })
	}
	var r *report.Report
	var failed error
	if *from != "" {
		r, failed = report.Read(*from)
	} else {
		r, failed = compare(ctx, plan, *quick)
	}
	if r == nil {
		return failed
	}
	report.Page(out, r)
	report.Targets(out, r)
	if *to != "" {
		if err := r.WriteTo(*to, "page.md"); err != nil {
			return err
		}
	}
	if *publish != "" && failed == nil && !r.Plan.Quick && !*targets && *systems+*only == "" {
		return r.Publish(filepath.Join(*publish, "RESULTS.md"))
	}
	return failed
}

// be is a process of an experiment: what hangs or is killed in it takes nothing else along.
func be(role, system string, r *claims.Role) error {
	s, err := drivers.Find(system)
	if err != nil {
		return err
	}
	if r.Driver = s.Driver(); r.Driver == nil {
		return fmt.Errorf("the driver of %s is not in Go", s.Name)
	}
	if role == "serve" {
		lock.Serve(r.Driver, r.In, r.Out)
		return nil
	}
	return r.Play(role)
}

func choose(text string, quick, every bool) (all []bench.Workload) {
	for _, w := range bench.Workloads {
		part := w.Usual
		if quick {
			part = w.Brief
		}
		if strings.Contains(w.Name, text) && (part || every || text != "") {
			all = append(all, w)
		}
	}
	return all
}

func chosen(names string) (all []drivers.System, err error) {
	if names == "" {
		return drivers.All, nil
	}
	for name := range strings.SplitSeq(names, ",") {
		s, err := drivers.Find(name)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

// compare measures. What was measured before an interrupt, or another failure, is not thrown away.
func compare(ctx context.Context, plan bench.Plan, quick bool) (r *report.Report, err error) {
	scope := &server.Scope{}
	defer scope.Close()
	err = server.Try(func() {
		plan.Dir = server.Must(os.MkdirTemp("", "compare-"))
		defer os.RemoveAll(plan.Dir)
		plan.Self = server.Must(os.Executable())
		r = &report.Report{Machine: report.Here(server.Sync()), Plan: report.Plan{Seconds: plan.Window.Seconds(), Members: plan.Server.Members, Quick: quick}}
		var servers map[string]server.Server
		var stopped error
		r.Results, servers, stopped = bench.Run(ctx, scope, plan)
		r.Fit()
		server.Check(stopped)
		if plan.Only == nil {
			env := &claims.Env{Self: plan.Self, Dir: plan.Dir, Systems: plan.Systems, Servers: servers, Missing: r.Results.Missing, TTL: 4 * time.Second, Tell: plan.Tell}
			r.Claims = env.Run(ctx, scope, quick)
			server.Check(ctx.Err())
		}
	})
	return r, err
}
