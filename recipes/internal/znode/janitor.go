package znode

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/recipes/internal/session"
	"github.com/locktree/locktree/recipes/kind"
)

// drop deletes contenders for good, and calls then when they are gone or nothing more can be done. It returns nil when they are known to
// be gone, else ErrReleasePending: ctx ended first or a server refused, and the deletion goes on; or their session ended first, and they
// go with it.
//
// The caller's goroutine deletes them. If that fails another one goes on, so that the end of ctx does not end the deletion.
func (c *Client) Drop(ctx context.Context, ks []*Node, then func()) error {
	if deleteAll(ctx, ks) == nil {
		then()
		return nil
	}
	done := make(chan error, 1)
	c.Spawn(func() {
		err := c.DropNow(ctx, ks)
		then()
		done <- err
	})
	return AwaitRelease(ctx, done, ks)
}

// leaveBehind deletes contenders in the background, and calls then when they are gone. It returns when the request is on its
// way, or if there is no connection. Servers obey a session in order, so what this client asks next does not meet its own dying
// contenders. Who gives up is not kept for longer.
func (c *Client) LeaveBehind(ctx context.Context, ks []*Node, then func()) {
	if len(ks) == 0 {
		then()
		return
	}
	r := newRemoval(ks)
	_ = r.batch().Offer(ctx) // what was not sent is the janitor's, too
	c.Spawn(func() {
		defer then()
		_ = c.dropped(ks, r.finish(context.Background())) // nobody waits for the answer
	})
}

// awaitRelease waits for done. It prefers that to the end of ctx: an Unlock with an ended ctx, of a lock that is given back, is
// no error.
func AwaitRelease(ctx context.Context, done <-chan error, ks []*Node) error {
	var why error
	select {
	case why = <-done:
	default:
		select {
		case why = <-done:
		case <-ctx.Done():
			why = WhyEnded(ctx)
		}
	}
	if why == nil {
		return nil
	}
	path := cmp.Or(ks[0].Path, kind.JoinPath(ks[0].Dir, ks[0].Prefix))
	return fmt.Errorf("%w: %s is being deleted in the background: %w", ErrReleasePending, path, why)
}

// dropNow deletes, and returns nil when the contenders are known to be gone. If their session ends first it returns that error:
// the nodes go, but nobody has confirmed it. It returns a server's refusal (an access list, say) at once, while the janitor
// goes on trying: lists can be changed.
//
// It does not ask what became of the first request: to delete again is no error, and the names are ours alone, even in a parent
// that was deleted and made again.
func (c *Client) DropNow(ctx context.Context, ks []*Node) error {
	if len(ks) == 0 {
		return nil
	}
	return c.dropped(ks, deleteAll(context.WithoutCancel(ctx), ks))
}

// dropped is what dropNow does when the first request has ended with err.
func (c *Client) dropped(ks []*Node, err error) error {
	if err == nil {
		return nil
	}
	s := ks[0].E.S
	gone := ks[0].E.Janitor.Remove(ks...)
	if errors.Is(err, zk.ErrNoAuth) {
		return err
	}
	gone.Wait() // no longer than until the end of the session
	if lost := s.Err(); lost != nil {
		return fmt.Errorf("%w: what was not deleted yet goes within %v", lost, s.Timeout())
	}
	return nil
}

// deleteAll deletes in one request. Of several nodes one that is gone already fails it, and the janitor takes the others
// one by one.
func deleteAll(ctx context.Context, ks []*Node) error {
	if keysOf(ks) == nil {
		b := ks[0].E.S.Batch()
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
	e *Session

	Mu      sync.Mutex
	Chores  []*chore
	Running bool
}

// chore is a contender to be deleted, under its name if that is known, or found by its prefix.
type chore struct {
	k    *Node
	done *sync.WaitGroup
}

// remove takes the contenders over; what it returns is done when all are gone, or their session is.
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
		j.e.c.Spawn(j.work)
	}
	return &gone
}

// errLeft: not everything could be deleted.
var errLeft = errors.New("nodes are left to be deleted")

// work sweeps until nothing is left. Pauses grow while something is: a parent that does not let us delete may stay like that
// for as long as the session lives. A lost session ends the pause, and makes the next sweep succeed.
func (j *janitor) work() {
	for !j.finished() {
		_ = Patiently(context.Background(), j.e.S, func(error) bool { return true }, j.sweep)
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
		case j.e.S.State() == session.StateLost:
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
	ctx, cancel := context.WithTimeout(context.Background(), j.e.S.Timeout())
	defer cancel()
	path := k.Path
	if path == "" {
		name, err := Find(ctx, j.e.S, k)
		if err != nil {
			return err
		}
		if name != "" {
			path = kind.JoinPath(k.Dir, name)
		}
	}
	if path != "" {
		if err := j.e.S.Delete(ctx, path, -1); err != nil && !IsNoNode(err) {
			return err
		}
	}
	if k.Key != nil {
		return k.Key.sweep(ctx, j.e.S)
	}
	return nil
}
