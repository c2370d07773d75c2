package commit

import (
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/apply/failure"
	"github.com/locktree/locktree/apply/internal/lock"
	"github.com/locktree/locktree/apply/internal/refusal"
	"github.com/locktree/locktree/apply/internal/wire"
	"github.com/locktree/locktree/apply/read"
	"github.com/locktree/locktree/plan/tx"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/direct"
)

// outcome is what is known of a transaction.
type outcome int

const (
	committed outcome = iota
	notCommitted
	undecided
)

// commit sends the transaction and determines its outcome. The result resolved is true if the reply was lost and the record gave
// the answer. Sending a copy again does no harm: all copies check the same versions, so at most one is committed, whenever it
// arrives.
//
// After a lost reply, servers may refuse a copy although the transaction succeeded: an earlier copy was committed. Such a refusal
// is an echo of our own success. commit must not report an echo as a refusal, nor another transaction's success as ours. settle
// reads the record until it knows the outcome. If no copy was committed, the transaction is sent again.
func (r *Sender) commit(ctx context.Context) (resolved bool, err error) {
	lost, unread := false, 0
	var failed error // the error of the last copy
	for range lock.Tries {
		results, err := r.sendOps(ctx, r.all)
		failed = err
		if answered(err) {
			r.Longest = max(r.Longest, r.size)
		}
		switch {
		case err == nil:
			return false, nil
		case !refusal.Unknown(err) && !lost:
			return false, r.explain(ctx, results, err)
		}
		// A refusal after a lost reply may be the echo of our own success.
		if resolved, err := r.settle(ctx, results, err); resolved || err != nil {
			return resolved, err
		}
		lost = true
		if r.size < Suspect || r.size <= r.Longest || r.Readable(ctx, r.size) {
			continue // the network broke the connection, not the length of the transaction
		}
		// An earlier copy may have arrived meanwhile.
		if resolved, err := r.settle(ctx, nil, err); resolved || err != nil {
			return resolved, err
		}
		if unread++; unread == unreadTries {
			return false, refusal.TooLarge(r.tx.Changes, r.all[r.notes:], true)
		}
	}
	return false, r.givenUp(failed)
}

// givenUp is the error after the last try of a transaction that was not committed in any try. A copy that arrives late does no
// harm: it checks the same versions as the next apply's transaction, so at most one of them is committed.
func (r *Sender) givenUp(err error) error {
	e := &failure.NodeError{Path: r.Plan.Root, Op: "commit to", Why: ErrLostAgain.Error(), Written: failure.NothingWritten,
		Next: "Look at the network between here and the servers, then apply again.", Err: ErrLostAgain}
	if errors.Is(err, direct.ErrServer) {
		e.Why, e.Err = "the servers failed each time the transaction was sent: "+refusal.ServerError(err), err
		e.Next = "Look at the servers' logs, then apply again."
	}
	return e
}

// settle determines the outcome of a transaction whose reply was lost, or that was refused after an earlier reply was lost. If
// settle returns no error, either the transaction was committed (resolved is true), or it is known that it was not committed. In
// the second case it may be sent again, because probe has just got an answer on this connection.
//
// The parameters results and err are those of the last copy. If that copy was refused and no copy was committed, the refusal is no
// echo, and settle returns it.
func (r *Sender) settle(ctx context.Context, results []zk.MultiResponse, err error) (resolved bool, _ error) {
	for {
		got, cause := r.resolve(ctx)
		switch {
		case got == committed:
			return true, nil
		case got == undecided:
			return false, &failure.UnknownError{ApplyID: r.tx.ID, Err: errors.Join(err, cause)}
		case !refusal.Unknown(err):
			return false, r.explain(ctx, results, err)
		case r.probe(ctx):
			return false, nil
		case r.Held.Lease.Context().Err() != nil:
			return false, refusal.Lock(r.Held.Lease.Path(), context.Cause(r.Held.Lease.Context()))
		}
	}
}

// A transaction of at least this length may be too long for the servers if each try ends its connection. A lower jute.maxbuffer is
// not expected: a session with a hundred watches needs that much to reconnect.
const Suspect = 8 << 10

// A try is unread if the connection ends on the transaction, and ends again on a harmless request of the same length. After
// unreadTries such tries, the transaction counts as longer than the servers accept. Small requests in between must be answered.
const unreadTries = 2

// probe sends a short transaction that only checks our contender in the apply lock. It proves that servers answer on the
// present connection, and it renews the lock. If the session commits no write for half a session timeout, the lock is lost and
// the retries end.
func (r *Sender) probe(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.Held.Session.Timeout())
	defer cancel()
	return answered(r.Held.Lease.Verify(ctx))
}

// Readable reports whether the servers accept a request of the transaction's size. It tries to create the apply lock. That changes
// nothing: the request first checks our contender. While our contender exists, so does the lock, and the create fails. Any answer
// proves that the servers accept the size. If the connection ends, that may again be due to the network.
func (r *Sender) Readable(ctx context.Context, size int) bool {
	op := tx.Op{Kind: tx.OpCreate, Path: r.Held.Lease.Path(), ACL: r.Own}
	op.Data = make([]byte, max(0, size-tx.Size([]tx.Op{op})))
	_, err := r.sendOps(ctx, []tx.Op{op})
	if !answered(err) {
		return false
	}
	r.Longest = max(r.Longest, size)
	return true
}

// answered reports whether a server answered a transaction in any way, even by a failure that leaves the outcome unknown.
func answered(err error) bool {
	var op *direct.OpError
	return err == nil || errors.Is(err, direct.ErrServer) || errors.As(err, &op) && op.Outcome == direct.OutcomeDefinite
}

// sendOps waits no longer than the session timeout. If no reply has come by then, the outcome is
// determined in another way.
func (r *Sender) sendOps(ctx context.Context, ops []tx.Op) ([]zk.MultiResponse, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.Held.Session.Timeout())
	defer cancel()
	return r.Held.Lease.Multi(ctx, wire.Requests(ops)...)
}

var ErrLostAgain = errors.New("the connection broke each time the transaction was sent")

// resolve determines whether the transaction was committed, by the apply id in the record. It must not look too early: a
// transaction that was sent may still arrive as long as the session that sent it is alive. So resolve waits until that session has
// written again after the transaction, or until our contender is gone. Without our contender, the fencing check always refuses the
// transaction.
//
// resolve waits as long as lock.Detached allows. That is longer than the servers keep a session that they do not hear from. After
// that, the outcome is an [*failure.UnknownError].
func (r *Sender) resolve(ctx context.Context) (outcome, error) {
	ctx, cancel := lock.Detached(ctx, r.Held.Session)
	defer cancel()
	for {
		s, err := r.Held.Client.Session(ctx)
		if err != nil {
			return undecided, err
		}
		got, err := r.ask(ctx, s)
		if err == nil {
			return got, nil
		}
		if ctx.Err() != nil {
			return undecided, err
		}
		select {
		case <-ctx.Done():
			return undecided, context.Cause(ctx)
		// Wait before the next try: a refused connection fails at once, so the loop would spin.
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// errFlying: the old session may still be alive, and so may its transaction.
var errFlying = errors.New("the session that sent the transaction is still alive")

func (r *Sender) ask(ctx context.Context, s *direct.Session) (outcome, error) {
	// The server we are connected to now may be behind the one that ran the transaction. Or it is a leader that was cut off
	// since, which answers a sync all the same (ZOOKEEPER-1675). Such a server does not answer a write. A refused write is an
	// answer too.
	if _, err := s.Multi(ctx, &zk.CheckVersionRequest{Path: "/", Version: -1}); err != nil && !errors.Is(err, zk.ErrNoAuth) {
		return undecided, err
	}
	h, landed, err := r.readOutcome(ctx, s)
	if err != nil {
		return undecided, err
	}
	if landed {
		return committed, nil
	}
	if r.Held.Lease.Context().Err() != nil { // the lease is lost, perhaps because the client has another session now
		stat, err := s.Exists(ctx, r.Held.Lease.Node())
		if err != nil {
			return undecided, err
		}
		if stat != nil {
			return undecided, errFlying
		}
		// The transaction may have been committed between the two reads.
		if h, landed, err = r.readOutcome(ctx, s); err != nil {
			return undecided, err
		}
	}
	// Compare the record now with r.Record, the record before our transaction:
	//
	//   - unchanged: ours is not committed. If our contender is gone, no copy will ever be committed. If it is there, a
	//     late copy is harmless: at most one is committed.
	//   - gone, and ours deletes it: see its case below.
	//   - written once since: that write was not ours. Ours cannot be committed any more, because the
	//     version that it checks is gone.
	//   - written more than once, or created again: ours may have been an earlier write. The outcome
	//     stays unknown.
	switch pin := h.Pin; {
	case landed:
		return committed, nil
	case pin == r.Record:
		return notCommitted, nil
	case pin.Absent && r.all[len(r.all)-1].Kind == tx.OpDelete: // the record is the last operation
		// Only our transaction could delete the record while we had the lock. If we had lost the lock, another destroy left the
		// same state.
		return committed, nil
	case pin.Czxid == r.Record.Czxid && pin.Version == r.Record.Version+1:
		return notCommitted, nil // the one write since r.Record was not ours
	default:
		return undecided, nil
	}
}

// readOutcome reads the record, and reports whether it shows that the transaction was committed. If there was no record before a
// destroy, its absence shows nothing. Then readOutcome reads the data version of the apply lock: every destroy raises it, and only
// the holder of the lock does. r.tx.Index is nil only for the last transaction of a destroy.
func (r *Sender) readOutcome(ctx context.Context, s *direct.Session) (read.Head, bool, error) {
	h, err := read.HeadAt(ctx, s, r.Plan.Index.Path)
	if err != nil || r.tx.Index != nil || !r.Record.Absent || !h.Pin.Absent {
		return h, err == nil && h.Of(r.tx.ID), err
	}
	n, err := read.Destroys(ctx, s, r.Plan.Root, r.Plan.Stack)
	return h, err == nil && n == r.Plan.Destroys+1, err
}

// explain turns a transaction that was certainly not committed into an error a person can use.
func (r *Sender) explain(ctx context.Context, results []zk.MultiResponse, err error) error {
	if errors.Is(err, recipes.ErrTooLarge) {
		return refusal.TooLarge(r.tx.Changes, r.all[r.notes:], false)
	}
	return r.Held.Refusal(ctx, r.Plan, r.all, results, err)
}
