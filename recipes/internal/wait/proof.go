package wait

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/locktree/locktree/recipes/internal/znode"

	"github.com/go-zookeeper/zk"
)

// grant is what hold makes a holding of: entries that are ours, and proven to be.
type Grant struct {
	Entries []*Place // one, or those of a set
	Czxid   int64    // of the node, where it has been read
}

// prove makes a grant certain: it is the one step between "the queue admits us" and a lease. done is false if the
// declaration has changed; then the caller asks the queue again, under the new one.
//
// A grant rests on two facts.
//
// The first: at one transaction our node existed, was our session's, and every contender ahead was gone. The caller brings
// it, in one of two forms.
//   - A listing that has our node and admits us. A server shows the state behind some transaction, whole. Our node is in it,
//     so it is behind our create, and whoever is ahead was created earlier: a server that lags can show contenders that have
//     left, but hide none. A listing is a fact by itself, whatever the connection.
//   - The deletion of our predecessor, the front, as an event or as a read that finds no node, while the watch on our own
//     node is silent when looked at behind that (wayClear). A server sends events in the order of its log, and before any
//     reply of a later state, so our node was there at that deletion. All of that is of one connection: a new one fires every
//     watch of ours, so also the one on the declaration, which is older than the others and looked at last. Where our own
//     watch is not set or has fired, even for a change of the data, it could not tell us more: then the caller lists.
//
// The node is our session's: the reply to its create, or a read of it (ours), said so.
//
// The second: the session is alive now. The first may be long past: a follower cut off from its leader goes on telling events
// and showing a node whose session has expired (5.82 s of two believed holders were measured). What bounds that is a committed
// write of this session, sent at some moment m, before or behind the first fact. No server expires the session before
// m + T less a tick (session, proof), and the lease ends at m + T/2. Until then our node exists, so it keeps out everybody
// behind us, and nobody comes ahead of it. A write that is less than T/6 old is enough: it leaves a lease as much time as
// the heartbeats leave one that is held, and a server that commits nothing grants nothing after T/6. A waiter that is next
// heartbeats (wayClear), so there mostly is one. Else confirm makes one.
//
// Neither fact tells of a node that somebody else deletes while our server lags: such a lease is lost like one whose node is
// deleted after the grant, with the event or the next heartbeat.
//
// The declaration is looked at last. Nothing in ZooKeeper compares it with our create: a lock can be drained or moved, seen to
// be idle, between the reading of one and the commit of the other. But a server tells a session of a change before anything of
// a later state. So a watch that is silent behind the first fact, which is behind our create, says that the declaration we
// know was in force when we queued.
func (w *waiter) prove(ctx context.Context, ad admission) (g Grant, done bool, err error) {
	marked, err := w.confirm(ctx, ad)
	if err != nil {
		return Grant{}, false, err
	}
	if w.D.Stale() {
		return Grant{}, false, w.renew(ctx)
	}
	if ad.fact != created && !marked {
		w.mark()
	}
	g = Grant{Entries: []*Place{w.Place}}
	if !w.Permits() {
		g.Czxid = w.own.Czxid
	}
	return g, true, nil
}

// vouched reports whether a heartbeat does for the write of prove. Of a node that was found when the reply to its create
// was lost, and has not been read since, we do not know whose it is. One that has to name its holder is written in any
// case, and so is a permit, which is rare: to whoever looks, the mark tells permits that are held from those that wait.
func (w *waiter) vouched() bool {
	return w.named() && !w.Permits() && (w.Node().Czxid != 0 || w.own.W != nil) && w.S.S.Proven()
}

// confirm makes the write of prove, unless one was made behind what admits us, or a heartbeat does. marked reports that it says in
// our node that we hold.
func (w *waiter) confirm(ctx context.Context, ad admission) (marked bool, err error) {
	if ad.written || w.vouched() {
		return false, nil
	}
	k, own := w.Node(), &w.own
	// A check of our node is as good a commit as a write into it, and wakes nobody. But the node must name the holder, and
	// where a mark will be wanted one write does for both; and a check takes READ.
	mark, named := w.In.Marked && (w.long() || w.Permits() || own.Hidden) || !w.named(), k.Id
	err = znode.Retry(ctx, w.S.S, znode.Unanswered, func() error {
		for {
			var stat *zk.Stat
			var err error
			if mark {
				k.Id = "" // until we know
				stat, err = w.S.S.Set(ctx, k.Path, znode.HeldData(w.In, k.Data, w.Q.Id, time.Now()), own.Version)
			} else {
				err = w.S.S.Confirm(ctx, k.Path)
			}
			switch {
			case err == nil && mark:
				k.Id = w.Q.Id
				return own.Ours(stat)
			case err == nil:
				return nil
			case znode.IsNoNode(err):
				return znode.LostError(k.Path, err)
			case errors.Is(err, zk.ErrNoAuth) && mark: // we may not write it: our successor lists
				mark, k.Id = false, named
				continue
			case !errors.Is(err, zk.ErrBadVersion):
				return err
			}
			// Somebody else wrote our node, or an earlier try of ours did and its reply was lost.
			own.Unwatch()
			if err := own.Read(ctx, w.waker()); err != nil {
				return err
			}
			if own.Hidden { // we may read neither its version nor a request to step back
				own.Version = -1
			}
		}
	})
	if err == nil || errors.Is(err, znode.ErrLost) {
		return mark, err
	}
	return false, w.TimedOut(ctx, err)
}

// longQueue is from how many contenders on a queue is long. To list n of them costs a reply of 60 n bytes. A mark costs a
// commit, an event, and the successor's next look at the node: three messages of some 200 bytes each to every follower that
// logs it, and to the two clients. So a listing of 32, 2 KB, is about where the two cost the same bytes; the
// commit, which costs the servers more than either, is saved.
const longQueue = 32

// long reports whether the queue was long when it was last listed.
func (w *waiter) long() bool { return w.total > cmp.Or(w.Many, longQueue) }

// mark says in our node that we hold, and since when, behind the grant: what is sent later is behind it, the release too, and
// nobody waits for it. In a long queue it goes at once, for our successor. In a short one only who looks wants to know, so it
// goes with the watch of a lock that is held for a moment (see moment). If it is lost, or somebody else has written our
// node, the successor lists, and who looks counts from when we queued. What was granted on arrival has no mark.
func (w *waiter) mark() {
	if !w.In.Marked {
		return
	}
	s, q, k, version, at := w.S.S, w.Q, w.Node(), w.own.Version, time.Now()
	say := func() {
		b := s.Batch()
		b.Set(k.Path, znode.HeldData(q.Decides(), k.Data, q.Id, at), version)
		_ = b.Offer(ended) // who holds the lock waits for nothing
	}
	if w.long() {
		say()
	} else {
		k.Mark.Store(&say)
	}
}

// ended is the context of what is done at once or not at all.
var ended = func() context.Context {
	ctx, end := context.WithCancel(context.Background())
	end()
	return ctx
}()
