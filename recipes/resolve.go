package recipes

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/recipes/internal/session"
	"github.com/locktree/locktree/recipes/kind"
)

// errNotApplied: a transaction whose outcome was unknown is now known never to have happened.
var errNotApplied = errors.New("the transaction was not applied")

// txn creates contenders and deletes others in one transaction.
type txn struct {
	e    *nodeSession
	born []*contender
	gone []*contender
	with []any      // further operations, after the creates
	keys []*keyNode // whose nodes it makes where they are missing; see runKeyed

	ahead    int              // operations ahead of the creates
	sent     *session.Reply   // nil until it is sent
	lists    []*session.Reply // behind it
	lookedAt []*session.Reply // access lists of the nodes of keys that are not made; nil for the others

	// left is closed when the background has undone a transaction that was abandoned: run failed without knowing its outcome.
	// Callers keep others from the queue until then (clientState.whenLeft). Nil otherwise.
	left chan struct{}
}

// run executes the transaction, with the listings pipelined behind it. After an error no born contender exists, now or once
// left is closed; the gone ones do, unless the transaction was abandoned. An error that is errNotApplied or has OutcomeNotSent
// allows another try. children is nil when the transaction succeeded and its listings did not: list again.
func (t *txn) run(ctx context.Context, lists ...string) (children [][]string, err error) {
	if err := t.begin(ctx, lists...); err != nil {
		return nil, err
	}
	return t.end(ctx)
}

// begin is the first half of run. It sends the transaction, with an error if nothing was sent.
func (t *txn) begin(ctx context.Context, lists ...string) error {
	// Before anything is sent: a session that is full must not find out when the nodes exist.
	for i, k := range t.born {
		if err := k.reserve(); err != nil {
			freeAll(t.born[:i])
			return err
		}
	}
	b, sent := t.batch(lists)
	if err := b.Send(ctx); err != nil {
		freeAll(t.born)
		return err
	}
	t.sent = sent
	return nil
}

func (t *txn) batch(lists []string) (b *session.Batch, sent *session.Reply) {
	b = t.e.s.Batch()
	if len(t.keys) > 0 {
		t.anchored(b)
	}
	if len(t.born) == 1 && len(t.gone) == 0 && len(t.with) == 0 && len(t.keys) == 0 { // a plain create: most are, and the pipelining saves most for them
		sent = b.Create(t.born[0].createRequest())
	} else {
		sent = b.Multi(t.ops()...)
	}
	for _, dir := range lists {
		t.lists = append(t.lists, b.List(dir))
	}
	for _, n := range t.keys {
		var list *session.Reply
		if n.made[0] && !n.foreign {
			list = b.GetACL(n.path())
		}
		t.lookedAt = append(t.lookedAt, list)
	}
	return b, sent
}

// end is the second half: it waits for the answer, and makes of it what run returns.
func (t *txn) end(ctx context.Context) (children [][]string, err error) {
	if err := t.sent.Wait(ctx); !t.sent.Answered() { // the caller has left
		return nil, t.abandon(err)
	}
	settled, err := t.settle(ctx)
	switch {
	case !settled:
		return nil, t.abandon(err)
	case err != nil:
		return nil, err
	}
	children, _ = awaitLists(ctx, t.lists, len(t.keys) > 0) // an error is no reason to fail: the nodes exist, and can be listed again
	return children, nil
}

// ops are the operations. Behind what makes the nodes of keys, the creates come first: results are found by their place.
func (t *txn) ops() []any {
	ops := make([]any, 0, len(t.born)+len(t.with)+len(t.gone)+2*len(t.keys))
	for i, n := range t.keys {
		if i == 0 || n.of.path != t.keys[i-1].of.path {
			ops = append(ops, n.check())
		}
		ops = n.creates(ops, t.e.s, n.made)
	}
	t.ahead = len(ops)
	for _, k := range t.born {
		ops = append(ops, k.createRequest())
	}
	ops = append(ops, t.with...)
	for _, k := range t.gone {
		ops = append(ops, &zk.DeleteRequest{Path: k.path, Version: -1})
	}
	return ops
}

// settle says what became of the transaction: applied when err is nil, else not. Not settled: nobody knows yet, or it was
// applied and its answer is of no use.
func (t *txn) settle(ctx context.Context) (settled bool, err error) {
	switch err := t.sent.Wait(ctx); {
	case err == nil:
		for _, k := range t.born {
			k.czxid = t.sent.Zxid()
		}
		names := t.sent.Created()
		names = names[min(t.ahead, len(names)):]
		err := t.name(names[:min(len(t.born), len(names))])
		return err == nil, err
	case session.OutcomeOf(err) == session.OutcomeUnknown:
		return t.resolve(ctx, err)
	default:
		freeAll(t.born) // none exists: a transaction is all or nothing
		return true, err
	}
}

// abandon leaves it to the background to find out what the transaction did, and to undo that. It returns cause. The background
// first waits for the answer, or the end of the connection: mostly that leaves nothing to search for.
func (t *txn) abandon(cause error) error {
	t.left = make(chan struct{})
	t.e.c.spawn(func() {
		defer close(t.left)
		ks := t.gone
		switch settled, err := t.settle(context.Background()); {
		case !settled: // the session is over, or some of the nodes cannot be told by name
			ks = append(append([]*contender(nil), t.born...), t.gone...)
			t.e.janitor.remove(ks...).Wait()
			t.recheck(time.Second) // what it did not find may still come: see resolve
			return
		case err == nil:
			ks = t.born
		}
		_ = t.e.c.dropNow(context.Background(), ks) // nobody waits for the answer; the janitor goes on
	})
	return cause
}

// name gives the born contenders the paths the server answered with.
func (t *txn) name(paths []string) error {
	if len(paths) != len(t.born) {
		return fmt.Errorf("%w: %d results for %d creates", session.ErrProtocol, len(paths), len(t.born))
	}
	for i, k := range t.born {
		if err := k.found(paths[i]); err != nil {
			return err
		}
	}
	freeAll(t.gone)
	return nil
}

// resolve finds out what became of a transaction whose reply did not come. A transaction is all or nothing, so any of its nodes
// shows that it was applied. It looks for all of them: see errPartly.
//
// A node that is absent behind a committed write was not created, and nearly always never will be:
//   - The request was sent before the write, or never will be: a connection writes in order, and nothing once it has ended.
//   - A server takes the requests of a session in the order it reads them. The leader refuses one that comes through a server
//     that is no longer the session's (SESSIONMOVED; Leader.revalidateSession, SessionTrackerImpl.checkSession).
//   - What a leader that was cut off has not committed, the others take over before they commit anything of their own, or it is
//     gone for good.
//   - We have seen the zxid of the write, so a server behind it does not let us in (ZooKeeperServer.processConnectRequest).
//
// A sync proves none of this: a leader that was cut off answers it by itself (Leader.processSync, ZOOKEEPER-1675).
//
// Nearly: a server of 3.8.0 in which a thread stood still executed a request after that write, when the session had come back
// to that server meanwhile (measured; the new connection overtakes the old one in NIOServerCnxn, and Learner.validateSession
// overtakes the follower's queues). Only the end of the session makes absence final, so recheck looks again. Of a transaction
// that also deletes, the callers delete the same nodes or try again before they rely on anything; of two transactions that
// delete one node the second fails as a whole.
//
// The search goes on as long as the session does, in the background when ctx has ended. go-zookeeper gives up after a few
// searches, and leaves nodes that block a lock for everybody.
func (t *txn) resolve(ctx context.Context, cause error) (settled bool, err error) {
	found := false
	err = patiently(ctx, t.e.s, func(err error) bool { return !errors.Is(err, errPartly) && !errors.Is(err, session.ErrProtocol) }, func() (err error) {
		found, err = t.look(ctx)
		return err
	})
	switch {
	case errors.Is(err, errPartly), errors.Is(err, session.ErrProtocol):
		return false, lostError(t.born[0].dir, fmt.Errorf("%w: %w", err, cause))
	case err != nil && ctx.Err() != nil: // what ended the search says nothing of what was searched for
		return false, fmt.Errorf("%w: %w", whyEnded(ctx), cause)
	case err != nil:
		return false, fmt.Errorf("%w: %w", t.e.s.Err(), cause)
	case found:
		freeAll(t.gone)
		return true, nil
	}
	freeAll(t.born)
	t.recheck(time.Second)
	return true, fmt.Errorf("%w: %w", errNotApplied, cause)
}

// recheckUntil bounds the pauses of recheck, so that its last look is more than an hour behind the transaction. A request waits
// as long as a thread of a server stands still while the rest of the server goes on.
const recheckUntil = 4096 * time.Second

// recheck looks for the contenders of a transaction that was found not applied, after wait and then ever more rarely, and
// deletes what a slow server has created after all. Otherwise it would block the queue until the session ends. A look that a
// server did not answer in full is not the last one.
func (t *txn) recheck(wait time.Duration) {
	t.e.after(wait, func() {
		if late, err := t.late(); late {
			t.e.janitor.remove(t.born...)
		} else if wait < recheckUntil || err != nil {
			t.recheck(min(2*wait, recheckUntil))
		}
	})
}

// late reports whether one of the contenders exists after all. Then all do, or did: the transaction may have been applied
// between the listings of two queues, so the janitor looks for each of them behind what was seen here.
func (t *txn) late() (bool, error) {
	var unknown error
	for _, k := range t.born {
		ctx, cancel := context.WithTimeout(context.Background(), t.e.s.Timeout())
		children, _, err := t.e.s.Children(ctx, k.dir)
		cancel()
		switch {
		case pick(children, k.prefix) != "":
			return true, nil
		case err != nil && !isNoNode(err):
			unknown = err
		}
	}
	return false, unknown
}

// errPartly: of a transaction's nodes some exist and some do not. It was applied, then, and somebody has deleted some.
var errPartly = errors.New("some of the nodes it created have been deleted")

// look searches for the born contenders. Where it sees some of them it looks again: a transaction that is applied between two
// of its listings shows those of the second.
func (t *txn) look(ctx context.Context) (found bool, err error) {
	there, err := t.count(ctx)
	if err == nil && there > 0 && there < len(t.born) {
		if there, err = t.count(ctx); err == nil && there < len(t.born) {
			err = errPartly
		}
	}
	return err == nil && there > 0, err
}

// count is how many of them exist.
func (t *txn) count(ctx context.Context) (there int, err error) {
	// A write for each: one for all would do on one connection, but this need not be quick.
	for _, k := range t.born {
		name, err := find(ctx, t.e.s, k)
		if err != nil {
			return 0, err
		}
		if name == "" {
			continue
		}
		there++
		if err := k.found(kind.JoinPath(k.dir, name)); err != nil {
			return 0, err
		}
	}
	return there, nil
}

// find returns the name under which the contender exists in this session, or "", behind a committed write. A node of that
// name that belongs to another session is a dying one and counts as absent (CURATOR-498, CURATOR-604).
func find(ctx context.Context, s *session.Session, k *contender) (string, error) {
	// A refusal is committed like what succeeds (PrepRequestProcessor makes it a transaction of errors). So it says as
	// much where the directory is gone, or not ours to read; but not where the request was shed, or the session moved on.
	if err := s.Confirm(ctx, k.dir); err != nil && !isNoNode(err) && !errors.Is(err, zk.ErrNoAuth) {
		return "", err
	}
	children, _, err := s.Children(ctx, k.dir)
	if isNoNode(err) { // what does not exist contains nothing
		return "", nil
	}
	if err != nil {
		return "", err
	}
	name := pick(children, k.prefix)
	if name == "" {
		return "", nil
	}
	stat, err := s.Exists(ctx, kind.JoinPath(k.dir, name))
	if errors.Is(err, zk.ErrNoAuth) {
		return name, nil // hidden from us, and there: the prefix was drawn at random, for this session
	}
	if err != nil || stat == nil {
		return "", err
	}
	if stat.EphemeralOwner != s.ID() {
		return "", nil
	}
	return name, nil
}
