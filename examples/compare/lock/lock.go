// Package lock is the seam between the comparison and the lock services it compares: what a driver has to say, and the
// load that is put on it. A driver in Go is a [Driver]; one in another language speaks the lines of protocol.go.
package lock

import (
	"context"
	"errors"
)

// ErrNotOffered is what a driver says of a kind of lock that its system does not have. The row says so.
var ErrNotOffered = errors.New("not offered")

// Driver makes one client of a lock service in the way its documentation recommends: what a process of a program would have, with
// a session or connections of its own.
type Driver func(ctx context.Context, addrs []string) (Client, error)

// Client is one client of a lock service.
type Client struct {
	// Locker returns what one worker uses, or an error that wraps [ErrNotOffered].
	Locker func(ctx context.Context, what What) (Locker, error)
	Close  func() error
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

// What a worker locks.
type What struct {
	Kind    string   // one of the constants below
	Names   []string // without slashes; one, but for a set
	Worker  int      // whose it is: a worker uses one of its lockers at a time
	Own     bool     // no other worker uses these
	Permits int      // of a semaphore
	Handoff int      // so many goroutines of one client may take the lock over from each other in a row
}

// The kinds of lock.
const (
	Mutex     = "mutex"
	Read      = "read"
	Write     = "write"
	Semaphore = "semaphore"
	Set       = "set" // all of several mutexes, or none
)
