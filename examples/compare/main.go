//go:build linux

// Compare puts lock services beside each other on one machine: the same loads, by turns, each service used as its
// documentation recommends. It starts the servers it needs, on loopback, and ends them.
//
//	go run . [-quick] [-servers 3] [-systems locktree,curator] [-out DIR]
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
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
	if err := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, in io.Reader, out, progress io.Writer) error {
	flags := flag.NewFlagSet("compare", flag.ContinueOnError)
	serve := flags.String("serve", "", "be the process of one `system`, and measure what standard input says")
	hold := flags.String("hold", "", "hold a lock of this `system`, and write, until standard input ends")
	addrs := flags.String("addrs", "", "the `servers` for -hold")
	flags.DurationVar(&drivers.TTL, "ttl", drivers.TTL, "how long a lock may outlive who holds it, where that can be said")
	quick := flags.Bool("quick", false, "a few workloads, briefly: whether everything works, and roughly how fast")
	members := flags.Int("servers", 1, "how many ZooKeeper servers")
	systems := flags.String("systems", "", "only these, by `name,name`")
	only := flags.String("workloads", "", "only those whose name has this `text` in it")
	rounds := flags.Int("rounds", 5, "how often each system has its turn with each workload")
	window := flags.Duration("window", 400*time.Millisecond, "how long a sample is")
	to := flags.String("out", "", "`directory` for page.md, results.md and results.json; none are written without it")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if name := *serve + *hold; name != "" {
		s, err := drivers.Find(name)
		if err == nil && s.Driver() == nil {
			err = fmt.Errorf("the driver of %s is not in Go", s.Name)
		}
		if err != nil {
			return err
		}
		if *hold != "" {
			return lock.Hold(s.Driver(), strings.Split(*addrs, ","), "paused", in, out)
		}
		lock.Serve(s.Driver(), in, out)
		return nil
	}
	plan := bench.Plan{Workloads: bench.Workloads, Rounds: *rounds, Window: *window, Warm: 150 * time.Millisecond, WarmUp: 2 * time.Second, Limit: 20 * time.Second,
		Server: server.Options{Members: *members}, Tell: func(format string, args ...any) { fmt.Fprintf(progress, format+"\n", args...) }}
	if *quick {
		plan.Rounds, plan.Window = 1, 400*time.Millisecond
		plan.Warm, plan.WarmUp = 100*time.Millisecond, 500*time.Millisecond
	}
	plan.Workloads = choose(*only, *quick)
	var err error
	if plan.Systems, err = chosen(*systems); err != nil {
		return err
	}
	return compare(ctx, plan, *quick, *to, out)
}

func choose(text string, quick bool) (all []bench.Workload) {
	for _, w := range bench.Workloads {
		if strings.Contains(w.Name, text) && (w.Brief || !quick || text != "") {
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

func compare(ctx context.Context, plan bench.Plan, quick bool, to string, out io.Writer) error {
	scope := &server.Scope{}
	defer scope.Close()
	dir, err := os.MkdirTemp("", "compare-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	plan.Dir = dir
	if plan.Self, err = os.Executable(); err != nil {
		return err
	}
	sync, err := server.Sync()
	if err != nil {
		return err
	}
	r := &report.Report{Machine: report.Here(sync), Systems: plan.Systems, Workloads: plan.Workloads,
		Plan: report.Plan{Rounds: plan.Rounds, Seconds: plan.Window.Seconds(), Members: plan.Server.Members, Quick: quick}}
	// What was measured before an interrupt is not thrown away.
	var failed error
	var servers map[string]server.Server
	r.Results, servers, failed = bench.Run(ctx, scope, plan)
	if failed == nil {
		pause := 16 * time.Second // ZooKeeper rounds a timeout of 4 s up, twice
		if quick {
			pause = 10 * time.Second
		}
		r.Claims.Paused = claims.Paused(plan.Self, plan.Systems, servers, 4*time.Second, pause)
	}
	if up := servers["zookeeper"]; up != nil && failed == nil {
		waiters := []int{10, 100, 1000}
		if quick {
			waiters = waiters[:2]
		}
		limited, cancel := context.WithTimeout(ctx, 3*time.Minute)
		r.Claims.Herd = claims.Herd(limited, up, waiters, plan.Tell)
		cancel()
	}
	report.Markdown(out, r)
	if to == "" {
		return failed
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	for name, render := range map[string]func(io.Writer, *report.Report){
		"page.md": report.Page, "results.md": report.Markdown, "results.json": report.JSON,
	} {
		if err := write(filepath.Join(to, name), render, r); err != nil {
			return err
		}
	}
	return failed
}

func write(name string, render func(io.Writer, *report.Report), r *report.Report) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	render(f, r)
	return f.Close()
}
