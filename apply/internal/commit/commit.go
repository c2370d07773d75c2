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

// commit sends the transaction and determines its outcome. resolved means that the
// reply was lost and the record gave the answer. Sending it again does no harm: the
// copies have the same versions, so at most one of them is committed, whenever they
// arrive.
//
// It ends with one of three results: committed, refused for a reason that is not an echo, or unknown. In all other cases settle
// asks until it is one of them, or until the transaction is known not to be committed, and then it is sent again. commit must
// never report a refusal that is only the echo of our own success, nor the success of another transaction.
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
			return false, r.refused(ctx, results, err)
		}
		// A refusal after a lost reply may be the echo of our own success.
		if resolved, err := r.settle(ctx, results, err); resolved || err != nil {
			return resolved, err
		}
		lost = true
		if r.size < Suspect || r.size <= r.Longest || r.Readable(ctx, r.size) {
			continue // it was the network
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

// givenUp is for a transaction that is known, each time, not to have been committed. Copies still
// under way have the same versions as whatever is sent next.
func (r *Sender) givenUp(err error) error {
	e := &failure.NodeError{Path: r.Plan.Root, Op: "commit to", Why: ErrLostAgain.Error(), Written: failure.NothingWritten,
		Next: "Look at the network between here and the servers, then apply again.", Err: ErrLostAgain}
	if errors.Is(err, direct.ErrServer) {
		e.Why, e.Err = "the servers failed each time the transaction was sent: "+refusal.ServerError(err), err
		e.Next = "Look at the servers' logs, then apply again."
	}
	return e
}

// settle determines the outcome of a transaction whose reply was lost, or that was refused after an earlier reply was lost. err
// is that of its last copy. If settle returns no error, the transaction was committed (resolved), or is known not to have been.
// Then it may be sent again: the connection has just answered a short transaction.
//
// results and err belong to the same copy: if that was definitely refused and none was committed,
// the refusal was not an echo, and is the result.
func (r *Sender) settle(ctx context.Context, results []zk.MultiResponse, err error) (resolved bool, _ error) {
	for {
		got, cause := r.resolve(ctx)
		switch {
		case got == committed:
			return true, nil
		case got == undecided:
			return false, &failure.UnknownError{ApplyID: r.tx.ID, Err: errors.Join(err, cause)}
		case !refusal.Unknown(err):
			return false, r.refused(ctx, results, err)
		case r.confirmed(ctx):
			return false, nil
		case r.Held.Lease.Context().Err() != nil:
			return false, refusal.Lock(r.Held.Lease.Path(), context.Cause(r.Held.Lease.Context()))
		}
	}
}

// Suspect is the length from which a transaction that ends its connection each time
// may be longer than the servers accept. jute.maxbuffer is never set lower: a session with
// a hundred watches needs that much to reconnect.
const Suspect = 8 << 10

// unreadTries is how often a transaction and then a harmless request of its length must end
// their connections, while small requests in between are answered, before the transaction counts
// as longer than the servers accept.
const unreadTries = 2

// confirmed sends a short transaction that only checks our contender in the apply lock. It
// proves that servers answer on the present connection. It also keeps the lock, which lasts
// half a session timeout without a committed write, while one connection after another breaks. If
// none succeeds the lock is lost, so that asking again ends.
func (r *Sender) confirmed(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.Held.Session.Timeout())
	defer cancel()
	return answered(r.Held.Lease.Verify(ctx))
}

// Readable reports whether the servers accept a request of a size, which is that of the transaction. It sends one
// that cannot change anything: it creates the apply lock, which exists as long as our contender in it
// does, and our contender is what each of our transactions checks first. Any answer proves that they
// accept it. If the connection ends, that may again be due to the network.
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

// resolve determines whether the transaction was committed, by the apply id in the record.
// It must not look too early: a transaction that was sent may still arrive as long as the
// session that sent it is alive. So either that session must be back and have written after
// it, or its contender must be gone, without which the fencing check refuses the transaction
// for ever.
//
// It waits for one of these as long as detached allows, which is longer than the servers keep a
// session that they do not hear from. After that the outcome is an [*failure.UnknownError].
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
		// Not at once: what fails here fails as fast as a connection is refused.
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// errFlying: the old session may still be alive, and so may its transaction.
var errFlying = errors.New("the session that sent the transaction is still alive")

func (r *Sender) ask(ctx context.Context, s *direct.Session) (outcome, error) {
	// The server we are connected to now may be behind the one that ran the transaction. Or it is a leader that was cut off
	// since, which answers a sync all the same (ZOOKEEPER-1675). No such server answers a write; a refusal counts as one.
	if _, err := s.Multi(ctx, &zk.CheckVersionRequest{Path: "/", Version: -1}); err != nil && !errors.Is(err, zk.ErrNoAuth) {
		return undecided, err
	}
	h, landed, err := r.landed(ctx, s)
	if err != nil {
		return undecided, err
	}
	if landed {
		return committed, nil
	}
	if r.Held.Lease.Context().Err() != nil { // also when the session is another one by now
		stat, err := s.Exists(ctx, r.Held.Lease.Node())
		if err != nil {
			return undecided, err
		}
		if stat != nil {
			return undecided, errFlying
		}
		// It may have been committed between the two reads.
		if h, landed, err = r.landed(ctx, s); err != nil {
			return undecided, err
		}
	}
	// The record as it stands, and what ours would have made of it at r.Record:
	//
	//   - unchanged: ours was not there. With our contender gone it never will be; else a copy
	//     may come late, and is one of those of which one at most is committed.
	//   - gone, and ours deletes it: see there.
	//   - written once since: ours would have had to be that write, and it is not. It cannot come
	//     any more either, as the version it asks for is gone.
	//   - written more than once, or made anew: ours may have been one of the writes before the
	//     last. Nobody can say.
	switch pin := h.Pin; {
	case landed:
		return committed, nil
	case pin == r.Record:
		return notCommitted, nil
	case pin.Absent && r.all[len(r.all)-1].Kind == tx.OpDelete: // the record is the last operation
		// Our transaction was to delete the record, and no other could under our lock; if the lock was lost, another destroy left
		// the same state.
		return committed, nil
	case pin.Czxid == r.Record.Czxid && pin.Version == r.Record.Version+1:
		return notCommitted, nil // the one change since the plan was not ours
	default:
		return undecided, nil
	}
}

// landed reads the record, and reports whether it shows that the transaction was committed. One that destroys everything and
// finds no record leaves none either: it raises the count of destroys, which only we can under our lock. r.tx.Index is nil for
// the last transaction of such a plan alone.
func (r *Sender) landed(ctx context.Context, s *direct.Session) (read.Head, bool, error) {
	h, err := read.HeadAt(ctx, s, r.Plan.Index.Path)
	if err != nil || r.tx.Index != nil || !r.Record.Absent || !h.Pin.Absent {
		return h, err == nil && h.Of(r.tx.ID), err
	}
	n, err := read.Destroys(ctx, s, r.Plan.Root, r.Plan.Stack)
	return h, err == nil && n == r.Plan.Destroys+1, err
}

// refused turns a transaction that was certainly not committed into an error a
// person can use.
func (r *Sender) refused(ctx context.Context, results []zk.MultiResponse, err error) error {
	if errors.Is(err, recipes.ErrTooLarge) {
		return refusal.TooLarge(r.tx.Changes, r.all[r.notes:], false)
	}
	return r.Held.Refusal(ctx, r.Plan, r.all, results, err)
}
