//go:build linux

// Command share runs the ZooKeeper server that the tests of many packages share. It prints the server's address, and ends when its
// standard input does.
package main

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"

	"github.com/locktree/locktree/recipes/zktest/realzk"
)

func main() {
	signal.Ignore(os.Interrupt) // Ctrl-C ends the script, and with it the standard input
	s := &scope{}
	fmt.Println(realzk.Start(s, realzk.SharedOptions).Addr)
	io.Copy(io.Discard, os.Stdin)
	s.close()
}

// scope stands for the test that a server belongs to.
type scope struct{ ends []func() }

func (s *scope) Helper()             {}
func (s *scope) Cleanup(end func())  { s.ends = append(s.ends, end) }
func (s *scope) Logf(string, ...any) {}
func (s *scope) Failed() bool        { return false }
func (s *scope) Fatalf(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
	s.close()
	os.Exit(1)
}

func (s *scope) close() {
	for _, end := range slices.Backward(s.ends) {
		end()
	}
}
