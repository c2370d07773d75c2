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

// Contenders are deleted in three ways. After each of these calls the janitor goes on, until the contenders are gone or their session has
// ended:
//
//	             waits for        when ctx ends            error
//	Drop         an answer        stops waiting            nil if gone, otherwise ErrReleasePending
//	DropNow      an answer        goes on waiting          nil if gone, otherwise the refusal or the end of the session
//	LeaveBehind  only the send    no effect: it was sent   none: callback reports the end
//
// Drop deletes contenders, and calls callback when they are gone or nothing more can be done. It returns nil when they are known to be
// gone. Otherwise the error is ErrReleasePending: ctx ended first, a server refused, or the session ended, which removes them.
//
// The caller's goroutine sends the deletion. If that fails another goroutine goes on, so that the end of ctx does not end the deletion.
func Drop(ctx context.Context, ks []*Node, callback func()) error {
	if deleteAll(ctx, ks) == nil {
		callback()
		return nil
	}
	done := make(chan error, 1)
	ks[0].Owner.Spawn(func() {
		err := DropNow(ctx, ks)
		callback()
		done <- err
	})
	return AwaitRelease(ctx, done, ks)
}

// LeaveBehind deletes contenders in the background, and calls callback as Drop does. It returns when the request is on its way, or at once
// without a connection. Servers execute the requests of a session in order, so this client's next request does not meet the contenders that
// are left behind.
func LeaveBehind(ctx context.Context, ks []*Node, callback func()) {
	if len(ks) == 0 {
		callback()
		return
	}
	for _, k := range ks {
		k.Work.CompareAndSwap(nil, &neverGranted)
	}
	r := newRemoval(ks)
	_ = r.batch().Offer(ctx) // the janitor deletes the nodes if the request was not sent
	ks[0].Owner.Spawn(func() {
		defer callback()
		_ = finishDrop(ks, r.finish(context.Background())) // no caller waits for the answer
	})
}

// neverGranted is the Work of a contender that was never granted, and that its caller has given up. Such a contender is never in use.
var neverGranted Work = noWork{}

type noWork struct{}

func (noWork) InUse() bool { return false }

// AwaitRelease waits for the channel done, and prefers it to the end of ctx. So an Unlock with an ended ctx is no error if the lock was
// given back.
func AwaitRelease(ctx context.Context, done <-chan error, ks []*Node) error {
	var cause error
	select {
	case cause = <-done:
	default:
		select {
		case cause = <-done:
		case <-ctx.Done():
			cause = retry.WhyEnded(ctx)
		}
	}
	if cause == nil {
		return nil
	}
	if left := notFreed(ks); left != nil { // nil means that all have gone meanwhile
		ks = left
	}
	path := cmp.Or(ks[0].Path, kind.JoinPath(ks[0].Dir, ks[0].Prefix))
	if len(ks) > 1 {
		path += fmt.Sprintf(" and %d more", len(ks)-1)
	}
	return errs.Errorf("%w: %s: the deletion goes on in the background: %w", ErrReleasePending, path, cause)
}

// notFreed returns the contenders that are not known to be gone.
func notFreed(ks []*Node) (left []*Node) {
	for _, k := range ks {
		if !k.freed.Load() {
			left = append(left, k)
		}
	}
	return left
}

// DropNow deletes contenders, and returns nil when they are known to be gone. If their session ends first, it returns the session's error:
// the servers then remove the nodes, and nothing confirms the removal. It returns a server's refusal (by an access list, say) at once. The
// janitor still goes on trying, because access lists can be changed.
//
// DropNow does not ask for the outcome of the first request. To delete again is no error, because no other program uses these names, even
// in a parent that was deleted and created again.
func DropNow(ctx context.Context, ks []*Node) error {
	if len(ks) == 0 {
		return nil
	}
	return finishDrop(ks, deleteAll(context.WithoutCancel(ctx), ks))
}

// finishDrop goes on when the first request of DropNow has ended with err.
func finishDrop(ks []*Node, err error) error {
	if err == nil {
		return nil
	}
	s := ks[0].Owner.Session
	if errors.Is(err, zk.ErrNoAuth) && len(ks) > 1 { // one refusal prevents all deletions, so delete each by itself
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
	gone.Wait() // this waits no longer than the session lasts
	if lost := s.Err(); lost != nil {
		return errs.Errorf("%w: what was not deleted yet goes within %v", lost, s.Timeout())
	}
	return nil
}

// deleteAll deletes in one request. If one of several nodes is already gone, the request fails. The janitor then deletes them one
// by one.
func deleteAll(ctx context.Context, ks []*Node) error {
	if keysOf(ks) == nil {
		b := ks[0].Owner.Session.Batch()
		b.Delete(Paths(ks)...)
		return noteDeleted(ks, b.Do(ctx))
	}
	r := newRemoval(ks)
	if err := r.batch().Send(ctx); err != nil {
		return err
	}
	return r.finish(ctx)
}

// noteDeleted notes how a request that deletes contenders has ended.
func noteDeleted(ks []*Node, err error) error {
	if len(ks) == 1 && IsNoNode(err) {
		err = nil
	}
	if err == nil {
		freeAll(ks)
	}
	return err
}

// janitor removes the nodes that a session must not leave behind. Each such node is a chore. One goroutine works through all chores until
// none is left or the session is over. So even ten thousand chores need only one goroutine.
type janitor struct {
	s     *session.Session
	spawn func(func())

	Mu      sync.Mutex
	Chores  []*chore
	Running bool
}

// chore is a contender to be deleted, by its name if that is known, or by its prefix.
type chore struct {
	k    *Node
	done *sync.WaitGroup
}

// Remove makes the janitor delete the contenders. The result is done when all are gone, or their session is over.
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

// work sweeps until nothing is left, with growing pauses: the parent's access list may refuse our deletes for as long as the session lives.
// A lost session ends the pause, and makes the next sweep succeed.
func (j *janitor) work() {
	for !j.stopIfIdle() {
		_ = retry.Patiently(context.Background(), j.s, func(error) bool { return true }, j.sweep)
	}
}

// stopIfIdle ends the worker if there is no chore. It does so under mu, so a chore that comes later starts another worker.
func (j *janitor) stopIfIdle() bool {
	j.Mu.Lock()
	defer j.Mu.Unlock()
	j.Running = len(j.Chores) > 0
	return !j.Running
}

// batch is how many nodes the janitor deletes in one request.
const batch = 100

// sweep tries every chore once, many in one request where possible.
func (j *janitor) sweep() error {
	j.Mu.Lock()
	todo := j.Chores
	j.Chores = nil
	j.Mu.Unlock()
	var left []*chore
	for some := range slices.Chunk(todo, batch) {
		if !j.deleteTogether(some) {
			left = append(left, j.oneByOne(some)...)
		}
	}
	if len(left) == 0 {
		return nil
	}
	j.Mu.Lock()
	defer j.Mu.Unlock()
	j.Chores = append(left, j.Chores...) // before the chores that came meanwhile
	return errLeft
}

// deleteTogether deletes all contenders in one request, and reports whether that was possible.
func (j *janitor) deleteTogether(todo []*chore) bool {
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
	c.k.freeBytes()
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
			left = append(left, c) // only this node is refused (by its parent's ACL, say): go on with the others
		default:
			return append(append(left, c), todo[i+1:]...) // without a connection no other chore would succeed
		}
	}
	return left
}

// try deletes one contender, and the node of its key if that is empty. It returns nil when both are known to be gone. Its deadline keeps
// the janitor free for the other chores.
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

// How the node of a key is deleted. A client that deletes a contender of a key does one of two things:
//   - It deletes the node in the same transaction. ZooKeeper refuses the whole transaction if the queue has another contender.
//   - It deletes the contender alone: at once if it has seen others, or after such a refusal. With its next request on the same connection,
//     it looks whether the queue is empty, and deletes the node in that case. If a contender has come meanwhile, ZooKeeper refuses.
//
// So the last of several clients that leave together finds the queue empty: its look shows a state after all deletions. A crash leaves a
// container, which ZooKeeper collects.

// removal deletes contenders. Some may be in the queues of keys.
type removal struct {
	ks    []*Node
	keys  []*KeyNode // the nodes of the keys in whose queues the contenders are
	whole bool       // the transaction may also delete the nodes of keys; false after a server has refused that
	sent  *session.Reply
	// A look at each node of keys that was not deleted; nil for the others.
	looks [][]*session.Reply
}

// keysOf returns the nodes of the contenders' keys, each once; nil if no contender is in the queue of a key.
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
		if r.whole && n.removesNode() {
			all = append(all, n.existingPaths()...)
		}
	}
	r.sent = b.Delete(all...)
	for i, n := range r.keys {
		if !r.whole || !n.removesNode() {
			r.looks[i] = n.look(b)
		}
	}
	return b
}

// finish waits until the contenders are gone. Then it deletes the nodes of keys that are empty.
func (r *removal) finish(ctx context.Context) error {
	err := r.sent.Wait(ctx)
	if r.whole && isRefused(err) { // usually because another contender has queued
		r.whole = false
		if err = r.batch().Send(ctx); err == nil {
			err = r.sent.Wait(ctx)
		}
	}
	if err = noteDeleted(r.ks, err); err != nil {
		return err
	}
	s := r.ks[0].Owner.Session
	for i, n := range r.keys {
		if r.looks[i] == nil {
			continue
		}
		if err := n.removeEmpty(ctx, s, r.looks[i]); err != nil {
			if err = n.sweep(ctx, s); err != nil {
				return err
			}
		}
	}
	return nil
}

// isRefused reports whether a server has looked at a request and refused it.
func isRefused(err error) bool {
	return err != nil && session.OutcomeOf(err) == session.OutcomeDefinite && !errors.Is(err, session.ErrThrottled)
}
