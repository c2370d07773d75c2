//go:build linux

// Compare puts lock services beside each other on one machine: the same loads, by turns, each service used as its
// documentation recommends. It starts the servers it needs, on loopback, and ends them. It needs Linux.
//
//	go run . [-quick] [-servers 3] [-systems locktree,curator] [-out DIR]
package main

import (
	"cmp"
	"context"
	"encoding/json"
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
	context.AfterFunc(ctx, stop) // a second interrupt does not wait for the experiments to end
	if err := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, in io.Reader, out, progress io.Writer) error {
	if len(args) > 0 && args[0] == "be" {
		return lock.Try(func() { runProcess(args[1:], in, out) })
	}
	flags := flag.NewFlagSet("compare", flag.ContinueOnError)
	quick := flags.Bool("quick", false, "a few workloads, briefly: shows whether everything works, and roughly how fast")
	members := flags.Int("servers", 1, "how many ZooKeeper servers")
	systems := flags.String("systems", "", "only these systems: `name,name`")
	to := flags.String("out", "../../bin/compare", "`directory` for page.md, and for results.json with all samples")
	if err := flags.Parse(args); err != nil {
		return err
	}
	begin := time.Now()
	plan := bench.Plan{Rounds: 10, Window: 250 * time.Millisecond, WarmUp: time.Second, Limit: 20 * time.Second,
		Members: *members, Tell: func(format string, args ...any) {
			fmt.Fprintf(progress, "%4.0fs "+format+"\n", append([]any{time.Since(begin).Seconds()}, args...)...)
		}}
	if *quick {
		plan.Rounds, plan.WarmUp = 1, 0
	}
	for _, w := range bench.Workloads {
		if w.Brief || !*quick {
			plan.Workloads = append(plan.Workloads, w)
		}
	}
	if *systems == "" {
		plan.Systems = drivers.All
	}
	return lock.Try(func() {
		for name := range strings.FieldsFuncSeq(*systems, func(c rune) bool { return c == ',' }) {
			plan.Systems = append(plan.Systems, lock.Must(drivers.Find(name)))
		}
		plan.Dir, plan.Self = lock.Must(os.MkdirTemp("", "compare-")), lock.Must(os.Executable())
		defer os.RemoveAll(plan.Dir)
		scope := &server.Scope{}
		defer scope.Close()
		r := report.New(plan)
		r.Results = bench.Run(ctx, scope, plan)
		if ctx.Err() == nil {
			r.Claims = (&claims.Env{Plan: plan, Results: r.Results, TTL: 4 * time.Second}).Run(ctx, *quick)
		}
		// Keep the samples that were measured before an interrupt.
		lock.Check(os.MkdirAll(*to, 0o755))
		page := lock.Must(os.Create(filepath.Join(*to, "page.md")))
		lock.Check(cmp.Or(report.Page(page, r), page.Close()))
		lock.Check(os.WriteFile(filepath.Join(*to, "results.json"), lock.Must(json.Marshal(r)), 0o644))
		lock.Check(ctx.Err())
	})
}

// runProcess runs a process of an experiment, so that a hang or a kill affects only that process. Its arguments come from
// [drivers.System.Command]; the arguments of a holder may follow.
func runProcess(args []string, in io.Reader, out io.Writer) {
	driver, ttl := lock.Must(drivers.Find(args[0])).Driver, lock.Must(time.ParseDuration(args[1]))
	if len(args) > 2 {
		claims.Hold(driver(strings.Split(args[3], ","), ttl), args[4], in, out)
	} else {
		lock.Serve(driver, ttl, in, out)
	}
}
