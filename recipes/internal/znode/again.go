package znode

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/recipes/internal/errs"
	"github.com/locktree/locktree/recipes/internal/retry"
	"github.com/locktree/locktree/recipes/internal/session"
)

// The library tries again, for as long as this table says:
//
//	a new place in a queue                while nothing was done (DidNothing)       in the next session, if need be
//	an exchange of nodes that exist       while nothing was done                    in their session
//	a read, a check, the mark of a grant  until a server answers (Unanswered)       in the session of the first try
//	a node that WithCreate makes          until a server answers                    in that session, or in the next one
//	a look at a node that holds           until a server says if it exists (Unseen) in the session that holds it
//	the outcome of a transaction          until it is known (Txn.resolve)           in its session, patiently, also without its caller
//	the deletion of a node                until it is gone (janitor.work)           in its session, patiently
//	a campaign                            while it can still be won (Retryable)     in the next session, patiently
//
// A session itself repeats a read a few times when its answer was lost (session.Session).

// errNotQueued: the session was lost before it was used for more than reading.
var errNotQueued = errors.New("no place in the queue was asked for yet")

// NotQueued marks err if the session was lost when the call had only read: another try in the next session is safe.
func NotQueued(err error) error {
	if !errors.Is(err, session.ErrLost) {
		return err
	}
	return errs.Errorf("%w: %w", errNotQueued, err)
}

// DidNothing: nothing was done, and another try can succeed.
func DidNothing(err error) bool {
	return errors.Is(err, ErrNotApplied) || errors.Is(err, errNotQueued) && !errors.Is(err, session.ErrClosed) || session.Retryable(err)
}

// Unanswered: no server has answered an operation, and this side did not refuse to send it. ErrThrottled counts as unanswered too: the
// server did not look at the request, so the caller keeps its place or grant. A session repeats a read only a few times, too few for a
// waiter: it must not lose its place because a network cuts every fourth connection.
func Unanswered(err error) bool {
	var op *session.OpError
	switch {
	case !errors.As(err, &op), errors.Is(err, session.ErrClosed):
		return false
	case op.Outcome == session.OutcomeDefinite:
		return errors.Is(err, session.ErrThrottled)
	}
	return op.Outcome == session.OutcomeUnknown || session.Retryable(err)
}

// Unseen: no server has said that the node is gone, or that another program wants the lock back.
func Unseen(err error) bool { return !errors.Is(err, ErrLost) && !errors.Is(err, ErrRevoked) }

// Package recipes exports and documents these.
var (
	ErrLost           = errors.New("recipes: lock lost")
	ErrRevoked        = errors.New("recipes: revocation requested")
	ErrReleasePending = errors.New("recipes: release pending")
	ErrKeyForeign     = errors.New("recipes: the node of the key is another program's")
)

var (
	// ErrSequenceExhausted: the node has numbered almost 2^31 contenders, and ZooKeeper would soon give two the same number. Delete the
	// node while its queue is empty, and apply it again.
	ErrSequenceExhausted = errors.New("recipes: sequence numbers exhausted")
	// ErrSessionFull: the paths of this session's contenders add up to more than 512 KiB. A server must list them all in the transaction
	// that ends the session (ZOOKEEPER-4306). Release some locks, or use another Client.
	ErrSessionFull = errors.New("recipes: too many contenders in one session")
)

// LostError is the cause that the context of a lost lease carries.
func LostError(path string, cause error) error {
	if cause == nil {
		cause = errors.New("its node is gone")
	}
	return errs.Errorf("%w: %s: %w", ErrLost, path, cause)
}

// ListChildren lists a node, however often the answer is lost with its connection.
func ListChildren(ctx context.Context, s *session.Session, dir string) (children []string, err error) {
	err = retry.Do(ctx, s, Unanswered, func() error {
		children, _, err = s.Children(ctx, dir)
		return err
	})
	return children, err
}

// ListAll lists several nodes in one round trip, however often the answers are lost. If the parameter absent is true, a missing node
// counts as empty: the gate of a key is created only when a caller has to wait.
func ListAll(ctx context.Context, s *session.Session, dirs []string, absent bool) ([][]string, error) {
	b := s.Batch()
	sent := make([]*session.Reply, len(dirs))
	for i, dir := range dirs {
		sent[i] = b.List(dir)
	}
	lists, err := [][]string(nil), b.Send(ctx)
	if err == nil {
		lists, err = awaitLists(ctx, sent, absent)
	}
	if err != nil {
		lists, err = ListAllAgain(ctx, s, dirs, absent)
	}
	return lists, err
}

// ListAllAgain lists several nodes, one after the other. Callers use it when listings were lost.
func ListAllAgain(ctx context.Context, s *session.Session, dirs []string, absent bool) (lists [][]string, err error) {
	lists = make([][]string, len(dirs))
	for i, dir := range dirs {
		if lists[i], err = ListChildren(ctx, s, dir); err != nil && !(absent && IsNoNode(err)) {
			return nil, err
		}
	}
	return lists, nil
}

// GetCalledPersistent repeats Session.GetCalled until a server answers.
func GetCalledPersistent(ctx context.Context, s *session.Session, path string, call func()) (data []byte, stat *zk.Stat, w *session.Watch, err error) {
	for t := (retry.Tries{}); ; {
		if data, stat, w, err = s.GetCalled(ctx, path, call); t.Over(ctx, s, Unanswered, &err) {
			return data, stat, w, err
		}
	}
}

// ChildrenCalledPersistent repeats Session.ChildrenCalled until a server answers.
func ChildrenCalledPersistent(ctx context.Context, s *session.Session, path string, call func()) (children []string, w *session.Watch, err error) {
	err = retry.Do(ctx, s, Unanswered, func() error {
		children, _, w, err = s.ChildrenCalled(ctx, path, call)
		return err
	})
	return children, w, err
}
