// Command locktree declares lock trees in HCL, plans them and applies them to
// ZooKeeper.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		cancel() // the command says what it still has to finish
		<-signals
		fmt.Fprintln(os.Stderr, "\nTwo interrupts received. Exiting immediately. Run the command again to see what is left to do.")
		os.Exit(exitError)
	}()
	os.Exit(run(ctx, os.Args[1:], os.Environ(), os.Stdin, os.Stdout, os.Stderr))
}
