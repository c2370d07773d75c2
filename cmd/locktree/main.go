// Command locktree declares lock trees in HCL, plans them and applies them to
// ZooKeeper.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go onSignals(signals, cancel, os.Stderr, os.Exit)
	os.Exit(run(ctx, os.Args[1:], os.Environ(), os.Stdin, os.Stdout, os.Stderr))
}

// onSignals lets the first signal cancel the command, which says itself what it
// still has to finish, and the second end the program where it stands: an apply
// is one transaction, so nothing is left half written.
func onSignals(signals <-chan os.Signal, cancel func(), stderr io.Writer, exit func(int)) {
	<-signals
	cancel()
	<-signals
	fmt.Fprintln(stderr, "\nTwo interrupts received. Exiting immediately. Run the command again to see what is left to do.")
	exit(exitError)
}
