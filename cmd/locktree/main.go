// Command locktree declares lock trees in HCL, plans them and applies them to
// ZooKeeper.
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"syscall"
	_ "time/tzdata" // for schedules, where the machine has no database of time zones

	"github.com/locktree/locktree/cmd/locktree/internal/child"
)

// heapGrowth is GOGC: with it, a plan of 100,000 locks takes 217 to 240 MiB, and is as fast as with Go's default. memoryGoal is
// the soft limit in bytes, for larger trees: a plan of 100,000 semaphores takes 250 MiB. Above the limit, the program
// continues, but the collector runs more often. GOGC and GOMEMLIMIT override them.
const (
	heapGrowth = 70
	memoryGoal = 420 << 20
)

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(heapGrowth)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryGoal)
	}
	// A Go program that runs out of stack or memory exits with 2. Here 2 means that there are changes, so this program aborts.
	debug.SetTraceback("crash")
	if !slices.Contains(os.Args, "exec") { // exec does not limit core dumps: its command would inherit the limit
		child.NoCore()
	}
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // nohup ignores it
		signal.Notify(signals, syscall.SIGHUP) // the terminal was closed
	}
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // without a handler, SIGPIPE would end the program in the middle of an apply; with it, the write fails and the command ends in order
	go onSignals(signals, cancel, os.Stderr, os.Exit)
	os.Exit(start(ctx, os.Args[1:], os.Environ(), os.Stdin, os.Stdout, os.Stderr))
}
