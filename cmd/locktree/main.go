// Command locktree declares lock trees in HCL, plans them and applies them to
// ZooKeeper.
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
)

// The collector may let the heap grow by so many percent of what was in use, and not to twice that: a plan of 100,000 locks takes
// 217 to 240 MiB, and as much time. memoryGoal is the soft limit in bytes, for larger trees: 100,000 semaphores are 250 MiB.
// Above it, the collector only works harder. GOGC and GOMEMLIMIT override them.
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
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go onSignals(signals, cancel, os.Stderr, os.Exit)
	os.Exit(run(ctx, os.Args[1:], os.Environ(), os.Stdin, os.Stdout, os.Stderr))
}
