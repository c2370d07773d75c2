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

// memoryGoal is the soft memory limit in bytes. Without it the collector waits until the
// heap is twice what was in use, and 100,000 semaphores are 250 MiB. Above it, the collector
// only works harder. GOMEMLIMIT overrides it.
const memoryGoal = 420 << 20

func main() {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryGoal)
	}
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go onSignals(signals, cancel, os.Stderr, os.Exit)
	os.Exit(run(ctx, os.Args[1:], os.Environ(), os.Stdin, os.Stdout, os.Stderr))
}
