// Package lock is the seam between the comparison and the lock services it compares: what a driver has to say, and the
// load that is put on it. A driver in Go is a [Driver]; one in another language speaks the lines of protocol.go.
package lock

import "context"

// Driver makes one client of a lock service in the way its documentation recommends: what a process of a program would have, with
// a session or connections of its own.
type Driver func(ctx context.Context, addrs []string) (Client, error)

// Client is one client of a lock service.
type Client struct {
	// Locker returns what one worker uses of a lock. The name has no slash.
	Locker func(ctx context.Context, name string) (Locker, error)
	// Set returns a lock that takes several at once. Nil where the system has none, or its driver needs none.
	Set   func(names ...string) Locker
	Close func() error
}

// Locker acquires and releases, by turns, for one worker.
type Locker struct {
	Lock, Unlock func(context.Context) error
	// Token is that of the last grant: it grows, for a store that refuses smaller ones. Nil where grants have none.
	Token func() uint64
	// Lost tells the holder that the lock is lost. Nil where nothing tells it.
	Lost func() <-chan struct{}
	// Also makes another lock of the same holder, where a client's locks have several: a database tells holders by their
	// connections. Nil where the client is one holder.
	Also func(name string) Locker
}
