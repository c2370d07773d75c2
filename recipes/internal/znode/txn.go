package znode

import (
	"context"
	"encoding/hex"
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

// Txn creates contenders and deletes others in one transaction.
type Txn struct {
	Owner *SessionNodes
	Born  []*Node
	Gone  []*Node
	With  []any      // further operations, after the creates
	Keys  []*KeyNode // it creates their missing nodes; see RunKeyed

	ahead int              // operations ahead of the creates
	Sent  *session.Reply   // nil until it is sent
	lists []*session.Reply // sent after it
	// The access list of each key's node that exists already; nil for the others.
	lookedAt []*session.Reply

	// Left is closed when the background has undone a transaction that was abandoned, because Run failed without knowing its outcome.
	// Callers keep others from the queue until then (lock.Client.whenLeft). Nil otherwise.
	Left chan struct{}
}

// Run executes the transaction, and pipelines the listings after it. After an error no contender in Born exists, or the background deletes
// them and then closes Left. The contenders in Gone still exist, unless the transaction was abandoned. An error that is ErrNotApplied or
// has OutcomeNotSent allows another try. children is nil when the transaction succeeded and its listings did not: list again.
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
		t.anchored(b)
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
	case !settled:
		return nil, t.abandon(err)
	case err != nil:
		return nil, err
	}
	children, _ = awaitLists(ctx, t.lists, len(t.Keys) > 0) // an error is no reason to fail: the nodes exist, and can be listed again
	return children, nil
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

// settle finds the outcome: applied when err is nil, otherwise not. It is not settled while the outcome is unknown, or when the answer is
// unusable.
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
			if err := k.found(names[t.ahead+i]); err != nil {
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

// abandon returns cause, and lets the background find the outcome and undo the transaction. The background first waits for the answer, or
// for the end of the connection. After an answer there is nothing to search for.
func (t *Txn) abandon(cause error) error {
	t.Left = make(chan struct{})
	t.Owner.Spawn(func() {
		defer close(t.Left)
		ks := t.Gone
		switch settled, err := t.settle(context.Background()); {
		case !settled: // the session is over, or the names of some nodes are not known
			ks = append(append([]*Node(nil), t.Born...), t.Gone...)
			t.Owner.Janitor.Remove(ks...).Wait()
			t.recheck(time.Second) // a node that it did not find may still come: see recheck
			return
		case err == nil:
			ks = t.Born
		}
		_ = DropNow(context.Background(), ks) // no caller waits for the answer; the janitor goes on
	})
	return cause
}

// resolve finds the outcome of a transaction whose reply was lost. A transaction is all or nothing, so any of its nodes shows that it was
// applied (but see errPartly). A node that is absent after a committed write was not created, and will not be (but see recheck):
//  1. The lost request was sent before the committed write, or it is never sent. A connection sends in order, and sends nothing after its
//     end.
//  2. A server takes the requests of a session in the order in which it reads them. The leader refuses a request that comes through a
//     server from which the session has moved away (SESSIONMOVED; Leader.revalidateSession, SessionTrackerImpl.checkSession).
//  3. Requests that a leader had not committed when it was cut off are committed by its successor first, or never.
//  4. We have seen the zxid of the write, so a server that has not seen it refuses our connection (ZooKeeperServer.processConnectRequest).
//
// A sync proves none of this: a leader that was cut off answers it by itself (Leader.processSync, ZOOKEEPER-1675).
//
// The search goes on as long as the session lives, in the background after ctx has ended. go-zookeeper gives up after a few searches, and
// leaves nodes that block a lock.
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

// recheck looks for the contenders of a transaction that was found not applied, after wait and then ever more rarely. It deletes nodes
// that a slow server has created after all, which would block the queue until the session ends. A look without a full answer is not the
// last one.
//
// A server of 3.8.0 whose thread stood still has executed a request after the write of resolve: the session had come back to that
// server meanwhile. (Measured. The new connection overtakes the old one in NIOServerCnxn, and Learner.validateSession overtakes
// the follower's queues.) Only the end of the session makes absence final. Callers of a transaction that also deletes do not rely
// on absence: they delete the same nodes, or try again. Of two transactions that delete one node the second fails as a whole.
func (t *Txn) recheck(wait time.Duration) {
	t.Owner.after(wait, func() {
		if late, err := t.late(); late {
			t.Owner.Janitor.Remove(t.Born...)
		} else if wait < recheckUntil || err != nil {
			t.recheck(min(2*wait, recheckUntil))
		}
	})
}

// late reports whether one of the contenders exists after all. Then all exist, or did, so the janitor looks for each: the transaction may
// have been applied between the listings of two queues.
func (t *Txn) late() (bool, error) {
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
		if err := k.found(kind.JoinPath(k.Dir, name)); err != nil {
			return 0, err
		}
	}
	return there, nil
}

// Find returns the contender's name in this session, or "", as of a committed write that it makes first. A node of that name in another
// session is dying and counts as absent (CURATOR-498, CURATOR-604).
func Find(ctx context.Context, s *session.Session, k *Node) (string, error) {
	// A refusal is committed like what succeeds (PrepRequestProcessor makes it a transaction of errors). So it proves as much as a success
	// if the directory is gone, or if we may not read it. It proves nothing if the server shed the request, or the session has moved to
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

// After haste refusals in a row a client no longer guesses.
const haste = 3

// RunKeyed is Run, also for places in the queues of keys: the transaction creates missing nodes of keys. A refusal because of such a node
// is no error, because the next transaction knows better. After a few refusals in a row, RunKeyed sends a transaction that depends on no
// guess (anchor).
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
		if refused+1 >= haste {
			t.anchor()
		}
	}
}

// anchor lets the transaction succeed whatever other clients create or delete meanwhile. For each key, the batch first sends another
// transaction, in several forms. Each form expects a different number of the key's nodes to exist. Each creates an ephemeral child that is
// no contender, so the node stays until our transaction has deleted that child. All forms fail only if another contender came and went
// between them.
func (t *Txn) anchor() {
	t.Gone = slices.Clip(t.Gone)
	for _, n := range t.Keys {
		for i := range n.Made {
			n.Made[i] = n.Made[i] || i < n.Needed
		}
		dir := n.Dirs[n.Needed-1]
		u := NewUUID()
		name := anchorPrefix + hex.EncodeToString(u[:])
		own := *n // a copy, because the janitor may still use it when n changes
		own.Made = slices.Clone(n.Made)
		k := &Node{Owner: t.Owner, Dir: dir, Prefix: name, ACL: n.Family.ACL, Flags: zk.FlagEphemeral, Key: &own,
			Name: name, Path: kind.JoinPath(dir, name)}
		k.freed.Store(true) // it is too brief to be booked
		t.Gone = append(t.Gone, k)
	}
}

// anchorPrefix begins the names of anchors. Curator and kazoo sort such names behind all contenders.
const anchorPrefix = "_key_"

// anchored adds the forms of anchor to a batch.
func (t *Txn) anchored(b *session.Batch) {
	for _, k := range t.Gone {
		if k.Flags&zk.FlagSequence != 0 || k.Key == nil || k.Name != k.Prefix {
			continue
		}
		create := &zk.CreateRequest{Path: k.Path, Data: []byte{}, Acl: k.ACL, Flags: zk.FlagEphemeral}
		for have := range k.Key.Needed { // if so many nodes exist, this form creates the rest
			made := make([]bool, len(k.Key.Dirs))
			for i := range have {
				made[i] = true
			}
			b.Multi(append(k.Key.creates([]any{k.Key.check()}, made), create)...)
		}
		b.Create(create)
	}
}

// learn reports whether a transaction was refused because another client has created or deleted the node of a key, or a child of it. The
// listings that followed the transaction show the state of each key.
func (t *Txn) learn(ctx context.Context, lists []string, err error) (learnt bool) {
	var op *session.OpError
	if !errors.As(err, &op) || op.Outcome != session.OutcomeDefinite {
		return false
	}
	for _, n := range t.Keys {
		for i, dir := range n.Dirs {
			switch {
			case errors.Is(err, zk.ErrNodeExists) && op.Path == dir && !n.Made[i]:
				n.Made[i], learnt = true, true
				for j := range n.Needed { // usually all nodes of a key exist together
					n.Made[j] = n.Made[j] || i == 0
				}
			case IsNoNode(err) && kind.ParentPath(op.Path) == dir && n.Made[i]:
				n.Made[i], learnt = false, true
				for j := range n.Made {
					n.Made[j] = n.Made[j] && i > 0
				}
			}
		}
	}
	if !learnt {
		return false
	}
	for i, r := range t.lists {
		err := r.Wait(ctx)
		for _, n := range t.Keys {
			j := slices.Index(n.Dirs, lists[i])
			switch {
			case j < 0:
			case err == nil:
				n.Made[0], n.Made[j] = true, true
			case IsNoNode(err) && (j == 0 || j >= n.Needed):
				n.Made[j] = false
			}
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

// Admits notes that all nodes exist, once the transaction has succeeded. It checks the access lists of nodes that other clients created:
// they were read together with the transaction.
func (t *Txn) Admits(ctx context.Context) error {
	for i, n := range t.Keys {
		for j := range n.Needed {
			n.Made[j] = true
		}
		r := t.lookedAt[i]
		if r == nil {
			continue
		}
		var list []zk.ACL
		err := r.Wait(ctx)
		switch {
		case err == nil:
			list = r.ACL()
		case Unanswered(err):
			err = retry.Do(ctx, t.Owner.Session, Unanswered, func() (err error) {
				list, _, err = t.Owner.Session.GetACL(ctx, n.path())
				return err
			})
		}
		switch {
		case errors.Is(err, zk.ErrNoAuth):
			return errs.Errorf("%w: its access list is hidden from this client: %w", ErrKeyForeign, err)
		case err != nil:
			return err
		}
		if got := fromZK(list); !got.Equal(n.Family.Declares) {
			return fmt.Errorf("%w: %s has the access list %s, its family declares %s; delete the node when nobody uses the key, or declare the family with foreign = true",
				ErrKeyForeign, n.path(), got, n.Family.Declares)
		}
	}
	return nil
}

// fromZK converts an access list.
func fromZK(acl []zk.ACL) kind.List {
	out := make(kind.List, len(acl))
	for i, a := range acl {
		out[i] = kind.ACL{Scheme: a.Scheme, ID: a.ID, Perms: kind.Perm(a.Perms)}
	}
	return out
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
