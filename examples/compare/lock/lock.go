// Package lock is the seam between the comparison and the lock services it compares: what a driver has to say, and the
// load that is put on it. A driver in Go implements [Driver]; one in another language speaks the lines of protocol.go.
package lock

import (
	"context"
	"errors"
)

// ErrNotOffered is what a driver says of a kind of lock that its system does not have. The row says so.
var ErrNotOffered = errors.New("not offered")

// Driver makes clients of one lock service in the way its documentation recommends.
type Driver interface {
	// Dial makes one client: what a process of a program would have, with a session or connections of its own.
	Dial(ctx context.Context, addrs []string) (Client, error)
}

// Client is one client of a lock service.
type Client interface {
	// Locker returns what one worker uses, or an error that wraps [ErrNotOffered].
	Locker(ctx context.Context, what What) (Locker, error)
	Close() error
}

// Locker acquires and releases, by turns, for one worker.
type Locker interface {
	Lock(ctx context.Context) error
	Unlock(ctx context.Context) error
}

// Fenced is a Locker whose grants come with a token that grows, for a store that refuses smaller ones.
type Fenced interface{ Token() uint64 }

// Told is a Locker that tells its holder when the lock is lost.
type Told interface{ Lost() <-chan struct{} }

// Holding is a Locker that is one holder for several locks, where its client is not: a database tells holders by their
// connections.
type Holding interface{ Also(name string) Locker }

// What a worker locks.
type What struct {
	Kind    string   // one of the constants below
	Names   []string // without slashes; one, but for a set
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
