package znode

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/recipes/internal/errs"
	"github.com/locktree/locktree/recipes/internal/retry"
	"github.com/locktree/locktree/recipes/internal/session"
	"github.com/locktree/locktree/recipes/kind"
)

// ErrNotApplied: a transaction whose outcome was unknown is now known never to have happened.
var ErrNotApplied = errors.New("the transaction was not applied")

// Txn creates the contenders Born and deletes the contenders Gone, in one transaction.
type Txn struct {
	Owner *SessionNodes
	Born  []*Node
	Gone  []*Node
	With  []any      // further operations, after the creates
	Keys  []*KeyNode // the transaction also creates the missing nodes of these keys; see RunKeyed

	ahead int              // the number of operations ahead of the creates
	Sent  *session.Reply   // the reply to the transaction; nil until it is sent
	lists []*session.Reply // the listings that were sent after it
	// The access list of each key's node that exists already; nil for the others.
	lookedAt []*session.Reply

	// Left is not nil if the transaction was abandoned: Run failed without knowing its outcome. A goroutine in the background undoes the
	// transaction and then closes Left. Callers keep others from the queue until then (lock.Client.whenLeft).
	Left chan struct{}
}

// Run executes the transaction, and pipelines the listings after it. The result children is nil if the transaction succeeded but its
// listings failed: the caller lists again. The outcomes, and the nodes after each:
//
//	outcome                         error            Born                 Gone          who cleans up
//	applied                         nil              exist                are deleted   the caller deletes Born in the end
//	refused, or not sent            the refusal      never exist          exist         the caller deletes Gone in the end
//	reply lost, found applied       nil              exist                are deleted   the caller deletes Born in the end
//	reply lost, found not applied   ErrNotApplied    absent, may come     exist         recheck: Born. The caller: Gone
//	abandoned, not known yet        ctx's, or why    unknown              unknown       a goroutine finds out, deletes what exists of
//	                                it is unknown                                       both, then closes Left. The caller: nothing
//
// An error that is ErrNotApplied, or has OutcomeNotSent, allows another try.
func (t *Txn) Run(ctx context.Context, lists ...string) (children [][]string, err error) {
	if err := t.Begin(ctx, lists...); err != nil {
		return nil, err
	}
	return t.End(ctx)
}

// Begin is the first half of Run: it sends the transaction. An error means that nothing was sent.
func (t *Txn) Begin(ctx context.Context, lists ...string) error {
	// Check the limit of the session before anything is sent: once the nodes exist it is too late.
	for i, k := range t.Born {
		if err := k.reserve(); err != nil {
			freeAll(t.Born[:i])
			return err
		}
	}
	b := t.Owner.Session.Batch()
	if len(t.Keys) > 0 {
		for _, k := range t.Gone {
			if k.isAnchor() {
				k.Key.sendAnchor(b, k)
			}
		}
	}
	var sent *session.Reply
	if len(t.Born) == 1 && len(t.Gone) == 0 && len(t.With) == 0 && len(t.Keys) == 0 { // most transactions are one plain create
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
	if err := b.Send(ctx); err != nil {
		freeAll(t.Born)
		return err
	}
	t.Sent = sent
	return nil
}

// End is the second half of Run: it waits for the answer.
func (t *Txn) End(ctx context.Context) (children [][]string, err error) {
	if err := t.Sent.Wait(ctx); !t.Sent.Answered() { // ctx ended first
		return nil, t.abandon(err)
	}
	settled, err := t.settle(ctx)
	switch {
	case !settled: // the outcome is unknown, or some of the names are
		return nil, t.abandon(err)
	case err != nil:
		return nil, err
	}
	children, _ = awaitLists(ctx, t.lists, len(t.Keys) > 0) // an error is no reason to fail: the nodes exist, and can be listed again
	return children, nil
}

// settle finds the outcome: the transaction was applied if err is nil, otherwise not. The result settled is false if the outcome is still
// unknown, or if the answer is unusable.
func (t *Txn) settle(ctx context.Context) (settled bool, err error) {
	switch err := t.Sent.Wait(ctx); {
	case err == nil:
		for _, k := range t.Born {
			k.Czxid = t.Sent.Zxid()
		}
		names := t.Sent.Created()
		if len(names) < t.ahead+len(t.Born) {
			return false, fmt.Errorf("%w: %d results for %d creates", session.ErrProtocol, len(names), t.ahead+len(t.Born))
		}
		for i, k := range t.Born {
			if err := k.recordPath(names[t.ahead+i]); err != nil {
				return false, err
			}
		}
		freeAll(t.Gone)
		return true, nil
	case session.OutcomeOf(err) == session.OutcomeUnknown:
		return t.resolve(ctx, err)
	default:
		freeAll(t.Born) // none exists: a transaction is all or nothing
		return true, err
	}
}

// abandon returns cause. A goroutine in the background finds the outcome and undoes the transaction. It first waits for the
// answer, or for the end of the connection. After an answer there is nothing to search for.
func (t *Txn) abandon(cause error) error {
	t.Left = make(chan struct{})
	t.Owner.Spawn(func() {
		defer close(t.Left)
		ks := t.Gone
		switch settled, err := t.settle(context.Background()); {
		case !settled: // the session is over, or the names of some nodes are not known
			ks = append(append([]*Node(nil), t.Born...), t.Gone...)
			t.Owner.Janitor.Remove(ks...).Wait()
			t.recheck(time.Second) // a node that the janitor did not find may still come: see recheck
			return
		case err == nil:
			ks = t.Born
		}
		_ = DropNow(context.Background(), ks) // no caller waits for the answer; the janitor goes on
	})
	return cause
}

// resolve finds the outcome of a transaction whose reply was lost. A transaction is all or nothing, so any of its nodes shows that it was
// applied (but see errPartly). A node that is absent after a committed write was not created, and will not be created later (but see
// recheck):
//  1. The lost request was sent before the committed write, or it is never sent. A connection sends in order, and sends nothing after its
//     end.
//  2. A server takes the requests of a session in the order in which it reads them. The leader refuses a request that comes through a
//     server from which the session has moved away (SESSIONMOVED; Leader.revalidateSession, SessionTrackerImpl.checkSession).
//  3. Requests that a leader had not committed when it was cut off are committed by its successor first, or never.
//  4. We have seen the zxid of the write, so a server that has not seen it refuses our connection (ZooKeeperServer.processConnectRequest).
//
// A sync proves none of this: a leader that was cut off answers it by itself (Leader.processSync, ZOOKEEPER-1675).
//
// The search goes on as long as the session lives; after ctx has ended it goes on in the background. go-zookeeper gives up after a few
// searches, and leaves nodes that block a lock.
func (t *Txn) resolve(ctx context.Context, cause error) (settled bool, err error) {
	found := false
	err = retry.Patiently(ctx, t.Owner.Session, func(err error) bool { return !errors.Is(err, errPartly) && !errors.Is(err, session.ErrProtocol) }, func() (err error) {
		found, err = t.look(ctx)
		return err
	})
	switch {
	case errors.Is(err, errPartly), errors.Is(err, session.ErrProtocol):
		return false, LostError(t.Born[0].Dir, errs.Errorf("%w: %w", err, cause))
	case err != nil && ctx.Err() != nil: // the error of the search is not the outcome
		return false, errs.Errorf("%w: %w", retry.WhyEnded(ctx), cause)
	case err != nil:
		return false, errs.Errorf("%w: %w", t.Owner.Session.Err(), cause)
	case found:
		freeAll(t.Gone)
		return true, nil
	}
	freeAll(t.Born)
	t.recheck(time.Second)
	return true, errs.Errorf("%w: %w", ErrNotApplied, cause)
}

// recheckUntil bounds the pauses of recheck: its last look comes more than an hour after the transaction. A request can wait as long as one
// thread of a server stands still while the others go on.
const recheckUntil = 4096 * time.Second

// recheck looks for the contenders of a transaction that was found not applied. Its first look comes after the time wait, and each further
// pause is longer. It deletes nodes that a slow server has created after all, which would block the queue until the session ends. After a
// look that failed there is always another look.
//
// A server of 3.8.0 was seen to execute a request after the write of resolve. One of its threads had stood still, and the session had
// meanwhile reconnected to the same server. (In NIOServerCnxn, requests of the new connection can come before those of the old one.
// Learner.validateSession asks the leader at once, before the follower forwards the requests in its queues.) Only the end of the session
// makes absence final. Callers of a transaction that also deletes (Gone) do not trust ErrNotApplied: they delete the same nodes, or try
// again. If two transactions delete the same node, the second fails as a whole.
func (t *Txn) recheck(wait time.Duration) {
	t.Owner.runAfter(wait, func() {
		if late, err := t.appliedLate(); late {
			t.Owner.Janitor.Remove(t.Born...)
		} else if wait < recheckUntil || err != nil {
			t.recheck(min(2*wait, recheckUntil))
		}
	})
}

// appliedLate reports whether one of the contenders exists after all. Then all of them exist or have existed, so the janitor looks for
// each: the transaction may have been applied between the listings of two queues.
func (t *Txn) appliedLate() (bool, error) {
	var unknown error
	for _, k := range t.Born {
		ctx, cancel := context.WithTimeout(context.Background(), t.Owner.Session.Timeout())
		children, _, err := t.Owner.Session.Children(ctx, k.Dir)
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

// errPartly: some of a transaction's nodes exist and some do not. So it was applied, and the missing ones were deleted later.
var errPartly = errors.New("some of the nodes it created have been deleted")

// look searches for the contenders in Born. If it sees only some it looks again: the transaction may have been applied between two of its
// listings.
func (t *Txn) look(ctx context.Context) (found bool, err error) {
	there, err := t.count(ctx)
	if err == nil && there > 0 && there < len(t.Born) {
		if there, err = t.count(ctx); err == nil && there < len(t.Born) {
			err = errPartly
		}
	}
	return err == nil && there > 0, err
}

// count returns how many of the contenders in Born exist.
func (t *Txn) count(ctx context.Context) (there int, err error) {
	// Find sends a committed write for each node. One write would suffice on one connection, but speed does not matter here.
	for _, k := range t.Born {
		name, err := Find(ctx, t.Owner.Session, k)
		if err != nil {
			return 0, err
		}
		if name == "" {
			continue
		}
		there++
		if err := k.recordPath(kind.JoinPath(k.Dir, name)); err != nil {
			return 0, err
		}
	}
	return there, nil
}

// Find makes a committed write, and then returns the contender's name in this session, or "" if the contender is absent. A node of that
// name in another session is dying and counts as absent (CURATOR-498, CURATOR-604).
func Find(ctx context.Context, s *session.Session, k *Node) (string, error) {
	// A refused write is committed too: PrepRequestProcessor turns it into an error transaction. So a refusal proves as much as a success
	// if the directory is gone or hidden from us. A refusal proves nothing if the server shed the request, or the session has moved to
	// another server.
	if err := s.Confirm(ctx, k.Dir); err != nil && !IsNoNode(err) && !errors.Is(err, zk.ErrNoAuth) {
		return "", err
	}
	children, _, err := s.Children(ctx, k.Dir)
	if IsNoNode(err) { // a missing node has no children
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
		return name, nil // it exists, but is hidden from us; its random prefix was drawn for this session, so it is ours
	}
	if err != nil || stat == nil {
		return "", err
	}
	if stat.EphemeralOwner != s.ID() {
		return "", nil
	}
	return name, nil
}

// ops returns the operations: the nodes of keys, then the creates. settle finds the results of the creates by their index.
func (t *Txn) ops() []any {
	ops := make([]any, 0, len(t.Born)+len(t.With)+len(t.Gone)+2*len(t.Keys))
	for i, n := range t.Keys {
		if i == 0 || n.Family.Path != t.Keys[i-1].Family.Path {
			ops = append(ops, n.check())
		}
		ops = n.creates(ops, n.Made)
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

// maxGuesses is the number of refusals in a row after which a client no longer guesses.
const maxGuesses = 3

// RunKeyed is Run, also for places in the queues of keys: the transaction creates missing nodes of keys. A refusal because of such a node
// is no error, because the next transaction knows better. After a few refusals in a row, RunKeyed sends a transaction that does not depend
// on guesses (anchor).
func (t *Txn) RunKeyed(ctx context.Context, lists ...string) (children [][]string, err error) {
	gone := t.Gone
	for refused := 0; ; refused++ {
		children, err = t.Run(ctx, lists...)
		if err == nil || len(t.Keys) == 0 {
			return children, err
		}
		if anchors := t.Gone[len(gone):]; len(anchors) > 0 {
			t.Owner.Janitor.Remove(anchors...)
			if session.OutcomeOf(err) != session.OutcomeDefinite {
				(&Txn{Owner: t.Owner, Born: anchors}).recheck(time.Second)
			}
		}
		if !t.learn(ctx, lists, err) {
			return nil, t.refusal(err)
		}
		t.Gone, t.Sent, t.lists, t.lookedAt = gone, nil, nil, nil
		for _, k := range t.Born {
			k.freed.Store(false) // a refused transaction has created nothing
		}
		if refused+1 >= maxGuesses {
			t.anchor()
		}
	}
}

// anchor lets the transaction succeed whatever other clients create or delete meanwhile: see KeyNode.anchor.
func (t *Txn) anchor() {
	t.Gone = slices.Clip(t.Gone)
	for _, n := range t.Keys {
		t.Gone = append(t.Gone, n.anchor(t.Owner))
	}
}

// learn reports whether the transaction was refused because another client has created or deleted the node of a key, or a child of it. The
// listings that followed the transaction show the state of each key.
func (t *Txn) learn(ctx context.Context, lists []string, err error) (learnt bool) {
	var op *session.OpError
	if !errors.As(err, &op) || op.Outcome != session.OutcomeDefinite {
		return false
	}
	for _, n := range t.Keys {
		learnt = n.learn(op) || learnt
	}
	if !learnt {
		return false
	}
	for i, r := range t.lists {
		err := r.Wait(ctx)
		for _, n := range t.Keys {
			n.noteListing(lists[i], err)
		}
	}
	return true
}

// refusal names the node of another program that does not let us in.
func (t *Txn) refusal(err error) error {
	var op *session.OpError
	if !errors.As(err, &op) || !errors.Is(err, zk.ErrNoAuth) {
		return err
	}
	for _, n := range t.Keys {
		if slices.Contains(n.Dirs, kind.ParentPath(op.Path)) && n.Made[0] {
			return errs.Errorf("%w: %s does not let this client in: %w", ErrKeyForeign, n.path(), err)
		}
	}
	return err
}

// Admits notes that the nodes of all keys exist, once the transaction has succeeded. It checks the access lists of nodes that other clients
// created: they were read together with the transaction.
func (t *Txn) Admits(ctx context.Context) error {
	for i, n := range t.Keys {
		if err := n.noteExistence(ctx, t.Owner.Session, t.lookedAt[i]); err != nil {
			return err
		}
	}
	return nil
}

// awaitLists waits for listings that were sent.
func awaitLists(ctx context.Context, sent []*session.Reply, absent bool) ([][]string, error) {
	lists := make([][]string, len(sent))
	for i, r := range sent {
		switch err := r.Wait(ctx); {
		case err == nil:
			lists[i] = r.Names()
		case !absent || !IsNoNode(err):
			return nil, err
		}
	}
	return lists, nil
}
