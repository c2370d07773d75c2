package znode

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
var ErrNotApplied = errors.New("the transaction was not applied")

// txn creates contenders and deletes others in one transaction.
type Txn struct {
	E    *Session
	Born []*Node
	Gone []*Node
	With []any     // further operations, after the creates
	Keys []*Parent // whose nodes it makes where they are missing; see runKeyed

	ahead    int              // operations ahead of the creates
	Sent     *session.Reply   // nil until it is sent
	lists    []*session.Reply // behind it
	lookedAt []*session.Reply // access lists of the nodes of keys that are not made; nil for the others

	// left is closed when the background has undone a transaction that was abandoned: run failed without knowing its outcome.
	// Callers keep others from the queue until then (clientState.whenLeft). Nil otherwise.
	Left chan struct{}
}

// run executes the transaction, with the listings pipelined behind it. After an error no born contender exists, now or once
// left is closed; the gone ones do, unless the transaction was abandoned. An error that is errNotApplied or has OutcomeNotSent
// allows another try. children is nil when the transaction succeeded and its listings did not: list again.
func (t *Txn) Run(ctx context.Context, lists ...string) (children [][]string, err error) {
	if err := t.Begin(ctx, lists...); err != nil {
		return nil, err
	}
	return t.End(ctx)
}

// begin is the first half of run. It sends the transaction, with an error if nothing was sent.
func (t *Txn) Begin(ctx context.Context, lists ...string) error {
	// Before anything is sent: a session that is full must not find out when the nodes exist.
	for i, k := range t.Born {
		if err := k.reserve(); err != nil {
			freeAll(t.Born[:i])
			return err
		}
	}
	b, sent := t.batch(lists)
	if err := b.Send(ctx); err != nil {
		freeAll(t.Born)
		return err
	}
	t.Sent = sent
	return nil
}

func (t *Txn) batch(lists []string) (b *session.Batch, sent *session.Reply) {
	b = t.E.S.Batch()
	if len(t.Keys) > 0 {
		t.anchored(b)
	}
	if len(t.Born) == 1 && len(t.Gone) == 0 && len(t.With) == 0 && len(t.Keys) == 0 { // a plain create: most are, and the pipelining saves most for them
		sent = b.Create(t.Born[0].createRequest())
	} else {
		sent = b.Multi(t.ops()...)
	}
	for _, dir := range lists {
		t.lists = append(t.lists, b.List(dir))
	}
	for _, n := range t.Keys {
		var list *session.Reply
		if n.Made[0] && !n.Foreign {
			list = b.GetACL(n.path())
		}
		t.lookedAt = append(t.lookedAt, list)
	}
	return b, sent
}

// end is the second half: it waits for the answer, and makes of it what run returns.
func (t *Txn) End(ctx context.Context) (children [][]string, err error) {
	if err := t.Sent.Wait(ctx); !t.Sent.Answered() { // the caller has left
		return nil, t.abandon(err)
	}
	settled, err := t.settle(ctx)
	switch {
	case !settled:
		return nil, t.abandon(err)
	case err != nil:
		return nil, err
	}
	children, _ = awaitLists(ctx, t.lists, len(t.Keys) > 0) // an error is no reason to fail: the nodes exist, and can be listed again
	return children, nil
}

// ops are the operations. Behind what makes the nodes of keys, the creates come first: results are found by their place.
func (t *Txn) ops() []any {
	ops := make([]any, 0, len(t.Born)+len(t.With)+len(t.Gone)+2*len(t.Keys))
	for i, n := range t.Keys {
		if i == 0 || n.Of.Path != t.Keys[i-1].Of.Path {
			ops = append(ops, n.check())
		}
		ops = n.creates(ops, t.E.S, n.Made)
	}
	t.ahead = len(ops)
	for _, k := range t.Born {
		ops = append(ops, k.createRequest())
	}
	ops = append(ops, t.With...)
	for _, k := range t.Gone {
		ops = append(ops, &zk.DeleteRequest{Path: k.Path, Version: -1})
	}
	return ops
}

// settle says what became of the transaction: applied when err is nil, else not. Not settled: nobody knows yet, or it was
// applied and its answer is of no use.
func (t *Txn) settle(ctx context.Context) (settled bool, err error) {
	switch err := t.Sent.Wait(ctx); {
	case err == nil:
		for _, k := range t.Born {
			k.Czxid = t.Sent.Zxid()
		}
		names := t.Sent.Created()
		names = names[min(t.ahead, len(names)):]
		err := t.name(names[:min(len(t.Born), len(names))])
		return err == nil, err
	case session.OutcomeOf(err) == session.OutcomeUnknown:
		return t.resolve(ctx, err)
	default:
		freeAll(t.Born) // none exists: a transaction is all or nothing
		return true, err
	}
}

// abandon leaves it to the background to find out what the transaction did, and to undo that. It returns cause. The background
// first waits for the answer, or the end of the connection: mostly that leaves nothing to search for.
func (t *Txn) abandon(cause error) error {
	t.Left = make(chan struct{})
	t.E.c.Spawn(func() {
		defer close(t.Left)
		ks := t.Gone
		switch settled, err := t.settle(context.Background()); {
		case !settled: // the session is over, or some of the nodes cannot be told by name
			ks = append(append([]*Node(nil), t.Born...), t.Gone...)
			t.E.Janitor.Remove(ks...).Wait()
			t.recheck(time.Second) // what it did not find may still come: see resolve
			return
		case err == nil:
			ks = t.Born
		}
		_ = t.E.c.DropNow(context.Background(), ks) // nobody waits for the answer; the janitor goes on
	})
	return cause
}

// name gives the born contenders the paths the server answered with.
func (t *Txn) name(paths []string) error {
	if len(paths) != len(t.Born) {
		return fmt.Errorf("%w: %d results for %d creates", session.ErrProtocol, len(paths), len(t.Born))
	}
	for i, k := range t.Born {
		if err := k.found(paths[i]); err != nil {
			return err
		}
	}
	freeAll(t.Gone)
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
func (t *Txn) resolve(ctx context.Context, cause error) (settled bool, err error) {
	found := false
	err = Patiently(ctx, t.E.S, func(err error) bool { return !errors.Is(err, errPartly) && !errors.Is(err, session.ErrProtocol) }, func() (err error) {
		found, err = t.look(ctx)
		return err
	})
	switch {
	case errors.Is(err, errPartly), errors.Is(err, session.ErrProtocol):
		return false, LostError(t.Born[0].Dir, fmt.Errorf("%w: %w", err, cause))
	case err != nil && ctx.Err() != nil: // what ended the search says nothing of what was searched for
		return false, fmt.Errorf("%w: %w", WhyEnded(ctx), cause)
	case err != nil:
		return false, fmt.Errorf("%w: %w", t.E.S.Err(), cause)
	case found:
		freeAll(t.Gone)
		return true, nil
	}
	freeAll(t.Born)
	t.recheck(time.Second)
	return true, fmt.Errorf("%w: %w", ErrNotApplied, cause)
}

// recheckUntil bounds the pauses of recheck, so that its last look is more than an hour behind the transaction. A request waits
// as long as a thread of a server stands still while the rest of the server goes on.
const recheckUntil = 4096 * time.Second

// recheck looks for the contenders of a transaction that was found not applied, after wait and then ever more rarely, and
// deletes what a slow server has created after all. Otherwise it would block the queue until the session ends. A look that a
// server did not answer in full is not the last one.
func (t *Txn) recheck(wait time.Duration) {
	t.E.after(wait, func() {
		if late, err := t.late(); late {
			t.E.Janitor.Remove(t.Born...)
		} else if wait < recheckUntil || err != nil {
			t.recheck(min(2*wait, recheckUntil))
		}
	})
}

// late reports whether one of the contenders exists after all. Then all do, or did: the transaction may have been applied
// between the listings of two queues, so the janitor looks for each of them behind what was seen here.
func (t *Txn) late() (bool, error) {
	var unknown error
	for _, k := range t.Born {
		ctx, cancel := context.WithTimeout(context.Background(), t.E.S.Timeout())
		children, _, err := t.E.S.Children(ctx, k.Dir)
		cancel()
		switch {
		case pick(children, k.Prefix) != "":
			return true, nil
		case err != nil && !IsNoNode(err):
			unknown = err
		}
	}
	return false, unknown
}

// errPartly: of a transaction's nodes some exist and some do not. It was applied, then, and somebody has deleted some.
var errPartly = errors.New("some of the nodes it created have been deleted")

// look searches for the born contenders. Where it sees some of them it looks again: a transaction that is applied between two
// of its listings shows those of the second.
func (t *Txn) look(ctx context.Context) (found bool, err error) {
	there, err := t.count(ctx)
	if err == nil && there > 0 && there < len(t.Born) {
		if there, err = t.count(ctx); err == nil && there < len(t.Born) {
			err = errPartly
		}
	}
	return err == nil && there > 0, err
}

// count is how many of them exist.
func (t *Txn) count(ctx context.Context) (there int, err error) {
	// A write for each: one for all would do on one connection, but this need not be quick.
	for _, k := range t.Born {
		name, err := Find(ctx, t.E.S, k)
		if err != nil {
			return 0, err
		}
		if name == "" {
			continue
		}
		there++
		if err := k.found(kind.JoinPath(k.Dir, name)); err != nil {
			return 0, err
		}
	}
	return there, nil
}

// find returns the name under which the contender exists in this session, or "", behind a committed write. A node of that
// name that belongs to another session is a dying one and counts as absent (CURATOR-498, CURATOR-604).
func Find(ctx context.Context, s *session.Session, k *Node) (string, error) {
	// A refusal is committed like what succeeds (PrepRequestProcessor makes it a transaction of errors). So it says as
	// much where the directory is gone, or not ours to read; but not where the request was shed, or the session moved on.
	if err := s.Confirm(ctx, k.Dir); err != nil && !IsNoNode(err) && !errors.Is(err, zk.ErrNoAuth) {
		return "", err
	}
	children, _, err := s.Children(ctx, k.Dir)
	if IsNoNode(err) { // what does not exist contains nothing
		return "", nil
	}
	if err != nil {
		return "", err
	}
	name := pick(children, k.Prefix)
	if name == "" {
		return "", nil
	}
	stat, err := s.Exists(ctx, kind.JoinPath(k.Dir, name))
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
