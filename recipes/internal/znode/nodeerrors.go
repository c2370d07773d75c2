package znode

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"
)

var (
	// ErrLost: the lease, or the place in the queue, ended without being given back. Final.
	ErrLost = errors.New("recipes: lock lost")
	// ErrRevoked: somebody asked the holder to give the lock back. It is still held until Unlock.
	ErrRevoked = errors.New("recipes: revocation requested")
	// ErrReleasePending: the lease is released, but its node is not yet known to be gone. The client keeps deleting
	// it in the background until that succeeds or the session is over; others may have to wait until then.
	ErrReleasePending = errors.New("recipes: release pending")
	// ErrKeyForeign: the node of a key has another access list than its family declares, so another program has made it. Whoever the
	// list admits could end the lock. Delete the node when nobody uses it, or declare the family with foreign = true.
	ErrKeyForeign = errors.New("recipes: the node of the key is another program's")
	// errSequenceExhausted: the node has numbered almost 2^31 contenders, and ZooKeeper would soon hand out
	// duplicates. Delete the node and apply it again while nobody queues.
	ErrSequenceExhausted = errors.New("recipes: sequence numbers exhausted")
	// errSessionFull: the paths of this session's contenders add up to more than 512 KiB. A server must be
	// able to list them all in the transaction that ends the session (ZOOKEEPER-4306). Release some locks, or
	// use another Client.
	ErrSessionFull = errors.New("recipes: too many contenders in one session")
)

// lostError is the cause that the context of a lost lease carries.
func LostError(path string, cause error) error {
	if cause == nil {
		cause = errors.New("its node is gone")
	}
	return fmt.Errorf("%w: %s: %w", ErrLost, path, cause)
}

// whyEnded is the cause of ctx's end, which matches ctx.Err too: callers ask for either, whatever cause somebody gave.
func WhyEnded(ctx context.Context) error {
	why, err := context.Cause(ctx), ctx.Err()
	if errors.Is(why, err) {
		return why
	}
	return fmt.Errorf("%w%.0w", why, err) // .0: the text is the cause's alone
}

// isNoNode saves its callers the spelling.
func IsNoNode(err error) bool { return errors.Is(err, zk.ErrNoNode) }
