package znode

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/recipes/internal/errs"
	"github.com/locktree/locktree/recipes/internal/retry"
	"github.com/locktree/locktree/recipes/internal/session"
	"github.com/locktree/locktree/recipes/kind"
)

// Drop deletes contenders for good, and calls then when they are gone or nothing more can be done. It returns nil when they are known to
// be gone, else ErrReleasePending: ctx ended first or a server refused, and the deletion goes on; or their session ended first, and they
// go with it.
//
// The caller's goroutine deletes them. If that fails another one goes on, so that the end of ctx does not end the deletion.
func Drop(ctx context.Context, ks []*Node, then func()) error {
	if deleteAll(ctx, ks) == nil {
		then()
		return nil
	}
	done := make(chan error, 1)
	ks[0].Owner.Spawn(func() {
		err := DropNow(ctx, ks)
		then()
		done <- err
	})
	return AwaitRelease(ctx, done, ks)
}

// LeaveBehind deletes contenders in the background, and calls then when they are gone. It returns when the request is on its
// way, or if there is no connection. Servers obey a session in order, so what this client asks next does not meet its own dying
// contenders. Who gives up is not kept for longer.
func LeaveBehind(ctx context.Context, ks []*Node, then func()) {
	if len(ks) == 0 {
		then()
		return
	}
	for _, k := range ks {
		k.InUse.CompareAndSwap(nil, &none)
	}
	r := newRemoval(ks)
	_ = r.batch().Offer(ctx) // what was not sent is the janitor's, too
	ks[0].Owner.Spawn(func() {
		defer then()
		_ = dropped(ks, r.finish(context.Background())) // nobody waits for the answer
	})
}

// none is the work under a contender that was never granted, and is given up.
var none = func() bool { return false }

// AwaitRelease waits for done. It prefers that to the end of ctx: an Unlock with an ended ctx, of a lock that is given back, is
// no error.
func AwaitRelease(ctx context.Context, done <-chan error, ks []*Node) error {
	var why error
	select {
	case why = <-done:
	default:
		select {
		case why = <-done:
		case <-ctx.Done():
			why = retry.WhyEnded(ctx)
		}
	}
	if why == nil {
		return nil
	}
	if left := notFreed(ks); left != nil { // else they have gone since
		ks = left
	}
	path := cmp.Or(ks[0].Path, kind.JoinPath(ks[0].Dir, ks[0].Prefix))
	if len(ks) > 1 {
		path += fmt.Sprintf(" and %d more", len(ks)-1)
	}
	return errs.Errorf("%w: %s: the deletion goes on in the background: %w", ErrReleasePending, path, why)
}

// notFreed are those that are not known to be gone.
func notFreed(ks []*Node) (left []*Node) {
	for _, k := range ks {
		if !k.freed.Load() {
			left = append(left, k)
		}
	}
	return left
}

// DropNow deletes, and returns nil when the contenders are known to be gone. If their session ends first it returns that error:
// the nodes go, but nobody has confirmed it. It returns a server's refusal (an access list, say) at once, while the janitor
// goes on trying: lists can be changed.
//
// It does not ask what became of the first request: to delete again is no error, and the names are ours alone, even in a parent
// that was deleted and made again.
func DropNow(ctx context.Context, ks []*Node) error {
	if len(ks) == 0 {
		return nil
	}
	return dropped(ks, deleteAll(context.WithoutCancel(ctx), ks))
}

// dropped is what dropNow does when the first request has ended with err.
func dropped(ks []*Node, err error) error {
	if err == nil {
		return nil
	}
	s := ks[0].Owner.Session
	if errors.Is(err, zk.ErrNoAuth) && len(ks) > 1 { // a server that keeps one keeps all: each by itself
		each := make([]error, len(ks))
		for i := range ks {
			each[i] = deleteAll(context.Background(), ks[i:i+1])
		}
		err = cmp.Or(each...)
		if ks = notFreed(ks); ks == nil {
			return nil
		}
	}
	gone := ks[0].Owner.Janitor.Remove(ks...)
	if errors.Is(err, zk.ErrNoAuth) {
		return err
	}
	gone.Wait() // no longer than until the end of the session
	if lost := s.Err(); lost != nil {
		return errs.Errorf("%w: what was not deleted yet goes within %v", lost, s.Timeout())
	}
	return nil
}

// deleteAll deletes in one request. Of several nodes one that is gone already fails it, and the janitor takes the others
// one by one.
func deleteAll(ctx context.Context, ks []*Node) error {
	if keysOf(ks) == nil {
		b := ks[0].Owner.Session.Batch()
		b.Delete(Paths(ks)...)
		return deleted(ks, b.Do(ctx))
	}
	r := newRemoval(ks)
	if err := r.batch().Send(ctx); err != nil {
		return err
	}
	return r.finish(ctx)
}

// deleted notes how a request that deletes contenders has ended.
func deleted(ks []*Node, err error) error {
	if len(ks) == 1 && IsNoNode(err) {
		err = nil
	}
	if err == nil {
		freeAll(ks)
	}
	return err
}

// janitor removes what a session must not leave behind. One goroutine per session works through all chores until none is left
// or the session is over: ten thousand failed searches are one goroutine.
type janitor struct {
	s     *session.Session
	spawn func(func())

	Mu      sync.Mutex
	Chores  []*chore
	Running bool
}

// chore is a contender to be deleted, under its name if that is known, or found by its prefix.
type chore struct {
	k    *Node
	done *sync.WaitGroup
}

// Remove takes the contenders over; what it returns is done when all are gone, or their session is.
func (j *janitor) Remove(ks ...*Node) *sync.WaitGroup {
	j.Mu.Lock()
	defer j.Mu.Unlock()
	var gone sync.WaitGroup
	for _, k := range ks {
		gone.Add(1)
		j.Chores = append(j.Chores, &chore{k, &gone})
	}
	if !j.Running && len(j.Chores) > 0 {
		j.Running = true
		j.spawn(j.work)
	}
	return &gone
}

// errLeft: not everything could be deleted.
var errLeft = errors.New("nodes are left to be deleted")

// work sweeps until nothing is left. Pauses grow while something is: a parent that does not let us delete may stay like that
// for as long as the session lives. A lost session ends the pause, and makes the next sweep succeed.
func (j *janitor) work() {
	for !j.finished() {
		_ = retry.Patiently(context.Background(), j.s, func(error) bool { return true }, j.sweep)
	}
}

// finished says that no chore is there, which ends the worker, in the same hold of mu: a chore that comes later starts
// another one, and none comes in between unseen.
func (j *janitor) finished() bool {
	j.Mu.Lock()
	defer j.Mu.Unlock()
	j.Running = len(j.Chores) > 0
	return !j.Running
}

// batch is how many nodes the janitor deletes in one request.
const batch = 100

// sweep tries every chore once: many at a time where nothing is in the way.
func (j *janitor) sweep() error {
	j.Mu.Lock()
	todo := j.Chores
	j.Chores = nil
	j.Mu.Unlock()
	var left []*chore
	for some := range slices.Chunk(todo, batch) {
		if !j.together(some) {
			left = append(left, j.oneByOne(some)...)
		}
	}
	if len(left) == 0 {
		return nil
	}
	j.Mu.Lock()
	defer j.Mu.Unlock()
	j.Chores = append(left, j.Chores...) // before those that came meanwhile
	return errLeft
}

// together deletes all in one request, and reports whether that was possible.
func (j *janitor) together(todo []*chore) bool {
	ks := make([]*Node, len(todo))
	for i, c := range todo {
		if ks[i] = c.k; c.k.Path == "" {
			return false
		}
	}
	if deleteAll(context.Background(), ks) != nil {
		return false
	}
	for _, c := range todo {
		c.finish()
	}
	return true
}

func (c *chore) finish() {
	c.k.free()
	c.done.Done()
}

func (j *janitor) oneByOne(todo []*chore) []*chore {
	var left []*chore
	for i, c := range todo {
		switch err := j.try(c.k); {
		case err == nil:
			c.finish()
		case j.s.State() == session.StateLost:
			c.done.Done()
		case session.OutcomeOf(err) == session.OutcomeDefinite:
			left = append(left, c) // this node's own trouble (its parent's ACL, say); the others may do better
		default:
			return append(append(left, c), todo[i+1:]...) // no connection: none would do better
		}
	}
	return left
}

// try deletes one contender; nil when it is known not to exist, nor the node of its key if nobody is in that. Its deadline keeps the
// janitor free for the others.
func (j *janitor) try(k *Node) error {
	ctx, cancel := context.WithTimeout(context.Background(), j.s.Timeout())
	defer cancel()
	path := k.Path
	if path == "" {
		name, err := Find(ctx, j.s, k)
		if err != nil {
			return err
		}
		if name != "" {
			path = kind.JoinPath(k.Dir, name)
		}
	}
	if path != "" {
		if err := j.s.Delete(ctx, path, -1); err != nil && !IsNoNode(err) {
			return err
		}
	}
	if k.Key != nil {
		return k.Key.sweep(ctx, j.s)
	}
	return nil
}

// How the node of a key goes. Whoever deletes a contender of a key, does one of two things:
//
//   - It deletes the node in the same transaction, which ZooKeeper refuses as a whole if anybody else is in the queue.
//   - It deletes the contender alone, at once where others were seen and else after such a refusal, and looks behind that, on the same
//     connection, whether anybody is left. If not it deletes the node; if somebody has come meanwhile, ZooKeeper refuses that.
//
// So the last of several that leave at once finds that nobody is left: its look shows a state behind all deletions. What is left is
// left by a crash, and is a container, which ZooKeeper collects.

// removal deletes contenders, some of which are those of keys.
type removal struct {
	ks    []*Node
	keys  []*KeyNode // of these
	whole bool       // with the nodes of keys
	sent  *session.Reply
	looks [][]*session.Reply // at the nodes of keys that were not deleted; nil for others
}

// keysOf are the nodes of the contenders' keys, each once; nil if they are no keys'.
func keysOf(ks []*Node) (keys []*KeyNode) {
	for _, k := range ks {
		if k.Key != nil && !slices.ContainsFunc(keys, func(n *KeyNode) bool { return n.path() == k.Key.path() }) {
			keys = append(keys, k.Key)
		}
	}
	return keys
}

func newRemoval(ks []*Node) *removal { return &removal{ks: ks, keys: keysOf(ks), whole: true} }

// batch makes the requests.
func (r *removal) batch() *session.Batch {
	b := r.ks[0].Owner.Session.Batch()
	all := Paths(r.ks)
	r.looks = make([][]*session.Reply, len(r.keys))
	for _, n := range r.keys {
		if r.whole && n.alone() {
			all = append(all, n.existing()...)
		}
	}
	r.sent = b.Delete(all...)
	for i, n := range r.keys {
		if !r.whole || !n.alone() {
			r.looks[i] = n.look(b)
		}
	}
	return b
}

// alone reports whether the node is to go in the transaction that deletes our contenders: nobody else was seen, and all of it is known
// to exist.
func (n *KeyNode) alone() bool { return !n.SeenOthers && !slices.Contains(n.Made[:n.Needed], false) }

// finish waits until the contenders are gone, and with them the nodes that nobody is left in.
func (r *removal) finish(ctx context.Context) error {
	err := r.sent.Wait(ctx)
	if r.whole && refused(err) { // mostly somebody has queued
		r.whole = false
		if err = r.batch().Send(ctx); err == nil {
			err = r.sent.Wait(ctx)
		}
	}
	if err = deleted(r.ks, err); err != nil {
		return err
	}
	s := r.ks[0].Owner.Session
	for i, n := range r.keys {
		if r.looks[i] == nil {
			continue
		}
		left, err := n.left(ctx, r.looks[i])
		if err == nil && left != nil {
			err = remove(ctx, s, left)
		}
		if err != nil {
			err = n.sweep(ctx, s)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// remove deletes nodes that nobody was in. It is no error that somebody has come. Of a NoNode the servers' collector may be the cause,
// which has taken one of several: then look again.
func remove(ctx context.Context, s *session.Session, paths []string) error {
	b := s.Batch()
	b.Delete(paths...)
	if err := b.Do(ctx); IsNoNode(err) || !refused(err) {
		return err
	}
	return nil
}

// refused: a server has looked at a request and refused it.
func refused(err error) bool {
	return err != nil && session.OutcomeOf(err) == session.OutcomeDefinite && !errors.Is(err, session.ErrThrottled)
}

// look asks for the stat of each node, children first: what the servers' collector takes meanwhile is not taken for somebody.
func (n *KeyNode) look(b *session.Batch) []*session.Reply {
	looks := make([]*session.Reply, len(n.Dirs))
	for i, dir := range slices.Backward(n.Dirs) {
		looks[i] = b.Exists(dir)
	}
	return looks
}

// left are the nodes to be deleted if nobody is in them, children first; nil if somebody is, or nothing is there.
func (n *KeyNode) left(ctx context.Context, looks []*session.Reply) (paths []string, err error) {
	children := 0
	for i, r := range slices.Backward(looks) {
		switch err := r.Wait(ctx); {
		case IsNoNode(err):
		case refused(err): // another program's node, which we may not look at
			return nil, nil
		case err != nil:
			return nil, err
		case int(r.Stat().NumChildren) > children || i > 0 && r.Stat().NumChildren > 0:
			return nil, nil
		default:
			paths = append(paths, n.Dirs[i])
			children++
		}
	}
	return paths, nil
}

// sweep deletes the nodes if nobody is in them. It fails if that may not have been looked at.
func (n *KeyNode) sweep(ctx context.Context, s *session.Session) error {
	again := func(err error) bool { return Unanswered(err) || IsNoNode(err) }
	return retry.Do(ctx, s, again, func() error {
		b := s.Batch()
		looks := n.look(b)
		if err := b.Send(ctx); err != nil {
			return err
		}
		left, err := n.left(ctx, looks)
		if err != nil || left == nil {
			return err
		}
		return remove(ctx, s, left)
	})
}
