package recipes

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/recipes/inspect"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/session"
)

// wait returns nil when the contender is admitted and that is proven by a committed write of this session.
//
// What proves it. A listing that contains our contender, read behind a write of ours in the same session, is of a
// state at or after that write; in that state our node existed, so our session was alive, and every earlier contender
// it does not show was gone. Staleness can only show contenders that have left already, never hide one that is ahead.
// The write is the create itself when nobody was ahead, or one made for the purpose. A listing alone proves nothing:
// a follower cut off from its leader goes on showing a node whose session has expired (5.82 s measured).
//
// The declaration is looked at once more behind that write. Nothing in ZooKeeper compares it with our create: a lock
// can be drained or moved, seen to be idle, between the reading of one and the commit of the other. But a server tells
// a session of a change before it answers anything of a later state, so a watch that is silent behind our write says
// that the declaration we know was in force when we queued.
func (a *claim) wait(ctx context.Context, children []string) error {
	missing := false
	for {
		if children == nil {
			var err error
			if children, err = a.list(ctx); err != nil {
				return err
			}
		}
		v, err := decide(a.q.place(), a.d.params, children, a.k.name)
		if err != nil {
			if missing {
				return lostError(a.k.path, err)
			}
			missing, children = true, nil
			continue
		}
		turn := v.granted
		if !turn {
			if err := a.ahead(a.k.dir, v); err != nil {
				return err
			}
			if turn, err = a.await(ctx, v); err != nil {
				return err
			}
			a.proven = a.proven && !turn // what made it our turn is newer than what was proven before
		}
		if turn {
			if err := a.prove(ctx); err != nil {
				return err
			}
			if !a.d.stale() {
				return nil
			}
			// Still declared, but perhaps with other parameters: whether it is our turn under those, the queue tells.
			if err := a.redeclare(ctx); err != nil {
				return err
			}
		}
		children = nil
	}
}

// list reads the queue again. Where the grant could not be written into our node anyway, the proof travels with the
// listing, in one round trip.
func (a *claim) list(ctx context.Context) ([]string, error) {
	a.proven = false
	if a.q.place().Marked {
		return a.plainList(ctx)
	}
	var children []string
	err := retry(ctx, a.s, unanswered, func() error {
		p := a.s.MultiAndList(ctx, []any{&zk.CheckVersionRequest{Path: a.k.path, Version: -1}}, a.k.dir)
		if err := p.Outcome(ctx); err != nil {
			return err
		}
		if a.proven = a.named(); p.ListErr == nil {
			children = p.Children[0]
		}
		return nil
	})
	switch {
	case isNoNode(err):
		return nil, lostError(a.k.path, nil)
	case errors.Is(err, zk.ErrNoAuth): // the queue is shown to us, our node is not
		return a.plainList(ctx)
	case err != nil:
		return nil, err
	case children == nil: // a later listing is of a later state: servers never go back in one session
		return a.plainList(ctx)
	}
	return children, nil
}

func (a *claim) plainList(ctx context.Context) ([]string, error) {
	return listChildren(ctx, a.s, a.k.dir)
}

// ahead takes note of who is ahead, and refuses a queue that is full, a Try, or what can never be granted.
func (a *claim) ahead(dir string, v verdict) error {
	if err := a.possible(); err != nil {
		return err
	}
	a.position = v.position
	// Of the same holder we may know more by now than its name.
	if a.holder.Name != v.first.Name {
		a.holder = inspect.NewContender(dir, v.first)
	}
	if a.try {
		return &HeldError{Path: a.q.path, Holder: a.holder, Position: v.position, c: a.q.c}
	}
	// Who waits already is not sent away when the bound is lowered, nor when somebody appears ahead.
	if !a.queued && a.d.waiters > 0 && v.waiters >= a.d.waiters {
		return fmt.Errorf("%w: %d contenders wait for %s, max_waiters is %d", ErrQueueFull, v.waiters, a.q.path, a.d.waiters)
	}
	a.tell()
	if !a.queued {
		a.queued = true
		a.q.c.observe(Observer.Queued, Event{Path: a.q.path, Kind: a.q.kind, Node: a.k.path, Wait: time.Since(a.start)})
	}
	return nil
}

// tell lets the goroutines of this client that wait behind us know whom for.
func (a *claim) tell() {
	if a.turn {
		a.q.c.state.stuck(a.q.slot(), &HeldError{Path: a.q.path, Holder: a.holder, Position: a.position, c: a.q.c})
	}
}

// await waits for the contender that v says is in the way. turn is true when its departure alone makes it our turn;
// otherwise list again.
//
// How the front is proven without listing: whoever is granted after a wait writes that into its own node (prove).
// We watch that node anyway, so we learn that our predecessor is the front, and as numbers only grow nobody can come
// between: when it goes, we are the front. The chain starts at a listing that shows the predecessor first, and is
// broken by a foreign client ahead, a predecessor that leaves while it waits, and a reconnect: then we list.
func (a *claim) await(ctx context.Context, v verdict) (turn bool, err error) {
	head := v.head && a.q.place().Marked
	for {
		w, held, err := a.watchAhead(ctx, v)
		if isNoNode(err) {
			return head, nil
		}
		if err != nil {
			return false, a.timedOut(ctx, err)
		}
		if w == nil {
			return false, nil
		}
		head = head || held && a.q.place().Marked
		a.identify(ctx)
		event, err := a.sleep(ctx, w)
		w.Stop()
		if err != nil {
			return false, err
		}
		switch event {
		case zk.EventNodeDeleted:
			return head, nil
		case zk.EventNodeDataChanged: // the mark of a grant, perhaps: read it, and go on watching
		default:
			return false, nil
		}
	}
}

// identify reads who the holder is, for the error of a wait that ends: the predecessor's data came with its watch, but
// the front may be somebody else. Best effort, and once for each front seen.
func (a *claim) identify(ctx context.Context) {
	if a.holder.Data == nil {
		a.holder.Data = []byte{}
		if data, _, err := a.s.Get(ctx, a.holder.Path); err == nil {
			a.holder.Describe(data)
		}
	}
	a.tell()
}

// watchAhead watches the contender v names, or the queue when none is named or ours may not read it. A nil watch
// without an error says that the queue has changed already.
func (a *claim) watchAhead(ctx context.Context, v verdict) (w *session.Watch, held bool, err error) {
	if v.behind != "" {
		data, _, w, err := getWPersistent(ctx, a.s, kind.JoinPath(a.k.dir, v.behind))
		if err == nil && v.head {
			a.holder.Describe(data)
		}
		if !errors.Is(err, zk.ErrNoAuth) {
			return w, saysHeld(data), err
		}
	}
	// A watch of the queue tells of changes behind the listing it came with. The one that was decided on is older, so the
	// question is asked once more.
	children, w, err := childrenWPersistent(ctx, a.s, a.k.dir)
	if err != nil {
		return nil, false, err
	}
	now, err := decide(a.q.place(), a.d.params, children, a.k.name)
	if err != nil || now.granted || now.behind != v.behind {
		w.Stop()
		return nil, false, nil
	}
	return w, false, nil
}

// sleep waits for w, our own node, the declaration or the caller's context, whichever speaks first. It asks by itself
// when nothing has spoken for a session timeout: a server that forgot the watch must cost no more than that.
func (a *claim) sleep(ctx context.Context, w *session.Watch) (zk.EventType, error) {
	silence := time.NewTicker(a.s.Timeout())
	defer silence.Stop()
	for {
		if a.own == nil && !a.deaf {
			if err := a.readOwn(ctx); err != nil {
				return 0, a.timedOut(ctx, err)
			}
		}
		var own <-chan struct{}
		if a.own != nil {
			own = a.own.C()
		}
		select {
		case <-w.C():
			if a.s.State() == session.StateLost {
				return 0, lostError(a.k.path, a.s.Err())
			}
			return w.Event(), nil
		case <-silence.C:
			if w.OfChildren() { // what could have changed is the list: look at it
				return zk.EventNotWatching, nil
			}
			// Whatever else goes wrong here is met by the next reconnect, or the next look.
			if stat, err := a.s.Exists(ctx, w.Path()); err == nil && stat == nil {
				return zk.EventNodeDeleted, nil
			}
		case <-own:
			a.unwatch()
		case <-a.d.changed():
			return zk.EventNotWatching, a.redeclare(ctx)
		case <-a.d.dropped: // it has changed, perhaps, and somebody else saw that first
			was := a.d.mzxid
			if err := a.redeclare(ctx); err != nil || a.d.mzxid != was {
				return zk.EventNotWatching, err
			}
		case <-ctx.Done():
			return 0, a.timedOut(ctx, context.Cause(ctx))
		}
	}
}

// redeclare reads the declaration again: the lock may be drained, moved, or have other parameters. Who waits is told then,
// and sent away where nothing is granted any more.
func (a *claim) redeclare(ctx context.Context) error {
	d, err := a.q.c.declared(ctx, a.s, a.q)
	if err != nil {
		return a.timedOut(ctx, err)
	}
	a.d = d
	return nil
}

// obey reads the declaration again until it is the one in force. For the recipes that decide after their write by a listing
// they have already; wait asks the queue again instead.
func (a *claim) obey(ctx context.Context) error {
	for a.d.stale() {
		if err := a.redeclare(ctx); err != nil {
			return err
		}
	}
	return nil
}

// readOwn reads and watches our own node: it may be deleted under us, or carry a request to step back.
func (a *claim) readOwn(ctx context.Context) error {
	data, stat, w, err := getWPersistent(ctx, a.s, a.k.path)
	if errors.Is(err, zk.ErrNoAuth) {
		a.deaf = true // its deletion shows when our turn comes
		return nil
	}
	if isNoNode(err) {
		return lostError(a.k.path, err)
	}
	if err != nil {
		return err
	}
	a.own = w
	if stat.EphemeralOwner != a.s.ID() {
		return lostError(a.k.path, fmt.Errorf("it belongs to session %#x, ours is %#x", stat.EphemeralOwner, a.s.ID()))
	}
	a.version, a.czxid = stat.Version, stat.Czxid
	if string(data) == kind.RevokeMessage {
		return fmt.Errorf("%w: %s, while waiting", ErrRevoked, a.k.path)
	}
	return nil
}

func (a *claim) unwatch() {
	if a.own != nil {
		a.own.Stop()
		a.own = nil
	}
}

// timedOut dresses an error that came because ctx ended as a HeldError; others stay as they are.
func (a *claim) timedOut(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return &HeldError{Path: a.q.path, Holder: a.holder, Position: a.position, Waited: time.Since(a.start), Cause: context.Cause(ctx), c: a.q.c}
}

// prove makes the committed write that confirms a waited grant, unless one was made already. Into our own node where
// we may write it: that is what tells our successor that we are the front.
func (a *claim) prove(ctx context.Context) error {
	if a.proven {
		return nil
	}
	// Where nobody would read the mark, a check of our node is as good a commit, and wakes nobody. But who holds is named.
	marking, named := a.q.place().Marked || !a.named(), a.k.id
	err := retry(ctx, a.s, unanswered, func() error {
		for {
			var stat *zk.Stat
			var err error
			if marking {
				a.k.id = "" // until we know
				stat, err = a.s.Set(ctx, a.k.path, heldData(a.q.place(), a.k.data, a.q.id()), a.version)
			} else {
				err = a.s.Confirm(ctx, a.k.path)
			}
			switch {
			case err == nil:
				if a.proven = true; marking {
					a.k.id = a.q.id()
				}
				return a.ours(stat)
			case isNoNode(err):
				return lostError(a.k.path, err)
			case errors.Is(err, zk.ErrNoAuth) && marking: // nor we: our successor lists, then
				marking, a.k.id = false, named
				continue
			case !errors.Is(err, zk.ErrBadVersion):
				return err
			}
			// Somebody wrote our node, or an earlier try of ours did without our hearing of it.
			a.unwatch()
			if err := a.readOwn(ctx); err != nil {
				return err
			}
			if a.deaf { // the version it has now is nothing we may read, nor a request to step back
				a.version = -1
			}
		}
	})
	if err == nil || errors.Is(err, ErrLost) {
		return err
	}
	return a.timedOut(ctx, err)
}

// ours checks the owner in what the confirming write answered.
func (a *claim) ours(stat *zk.Stat) error {
	if stat == nil {
		return nil
	}
	if stat.EphemeralOwner != a.s.ID() {
		return lostError(a.k.path, fmt.Errorf("it belongs to session %#x, ours is %#x", stat.EphemeralOwner, a.s.ID()))
	}
	a.version, a.czxid = stat.Version, stat.Czxid
	return nil
}
