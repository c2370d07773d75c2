// Package seam is where tests replace what a session gets from its machine: a context carries the replacements to Dial.
package seam

import (
	"context"
	"net"
	"time"
)

// Seams are the replacements; a nil field replaces nothing.
type Seams struct {
	Now     func() time.Time                                         // the machine's clock, by which a slot is due
	Slept   func() time.Duration                                     // how long the machine has been suspended
	Resolve func(ctx context.Context, host string) ([]string, error) // looks up names of servers, also for a Dialer of the program
	// Services looks up SRV records.
	Services func(ctx context.Context, name string) ([]*net.SRV, error)
	// Jitter returns a time that is not longer than the parameter most: a random time, unless a test chooses it.
	Jitter  func(most time.Duration) time.Duration
	Preempt func() // runs where the scheduler may stop a goroutine before it hands a request over
}

type key struct{}

// With returns ctx with s in it.
func With(ctx context.Context, s Seams) context.Context { return context.WithValue(ctx, key{}, s) }

// From returns the Seams that With put into ctx.
func From(ctx context.Context) Seams {
	s, _ := ctx.Value(key{}).(Seams)
	return s
}
