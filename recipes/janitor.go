package recipes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/session"
)

// drop deletes contenders for good. It returns nil when they are known to be gone, else ErrReleasePending: ctx ended first or a
// server refused, and the deletion goes on; or their session ended first, and they go with it.
//
// The caller's goroutine deletes them. If that fails another one goes on (dropAside), so that the end of ctx does not end the
// deletion.
func (c *Client) drop(ctx context.Context, ks []*contender) error {
	if deleteAll(ctx, ks) == nil {
		return nil
	}
	return c.dropAside(ctx, ks, func() {})
}

// dropAside is the second half of drop. It calls then when the nodes are gone or nothing more can be done.
func (c *Client) dropAside(ctx context.Context, ks []*contender, then func()) error {
	done := make(chan error, 1)
	c.state.spawn(func() {
		err := c.dropNow(ctx, ks)
		then()
		done <- err
	})
	return awaitRelease(ctx, done, ks)
}

// leaveBehind deletes contenders in the background, and calls then when they are gone. It returns when the request is on its
// way, or if there is no connection. Servers obey a session in order, so what this client asks next does not meet its own dying
// contenders. Who gives up is not kept for longer.
func (c *Client) leaveBehind(ctx context.Context, ks []*contender, then func()) {
	if len(ks) == 0 {
		then()
		return
	}
	b := ks[0].s.Batch()
	sent := b.Delete(paths(ks)...)
	_ = b.Offer(ctx) // what was not sent is the janitor's, too
	c.state.spawn(func() {
		defer then()
		_ = c.dropped(ks, deleted(ks, sent.Wait(context.Background()))) // nobody waits for the answer
	})
}

// awaitRelease waits for done. It prefers that to the end of ctx: an Unlock with an ended ctx, of a lock that is given back, is
// no error.
func awaitRelease(ctx context.Context, done <-chan error, ks []*contender) error {
	var why error
	select {
	case why = <-done:
	default:
		select {
		case why = <-done:
		case <-ctx.Done():
			why = whyEnded(ctx)
		}
	}
	if why == nil {
		return nil
	}
	path := cmp.Or(ks[0].path, kind.JoinPath(ks[0].dir, ks[0].prefix))
	return fmt.Errorf("%w: %s is being deleted in the background: %w", ErrReleasePending, path, why)
}

// dropNow deletes, and returns nil when the contenders are known to be gone. If their session ends first it returns that error:
// the nodes go, but nobody has confirmed it. It returns a server's refusal (an access list, say) at once, while the janitor
// goes on trying: lists can be changed.
//
// It does not ask what became of the first request: to delete again is no error, and the names are ours alone, even in a parent
// that was deleted and made again.
func (c *Client) dropNow(ctx context.Context, ks []*contender) error {
	if len(ks) == 0 {
		return nil
	}
	return c.dropped(ks, deleteAll(context.WithoutCancel(ctx), ks))
}

// dropped is what dropNow does when the first request has ended with err.
func (c *Client) dropped(ks []*contender, err error) error {
	if err == nil {
		return nil
	}
	s := ks[0].s
	gone := c.state.janitor(s).remove(ks...)
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
func deleteAll(ctx context.Context, ks []*contender) error {
	b := ks[0].s.Batch()
	b.Delete(paths(ks)...)
	return deleted(ks, b.Do(ctx))
}

// deleted notes how a request that deletes contenders has ended.
func deleted(ks []*contender, err error) error {
	if len(ks) == 1 && isNoNode(err) {
		err = nil
	}
	if err == nil {
		freeAll(ks)
	}
	return err
}

// janitor removes what a session must not leave behind, and knows how many bytes of paths it has. One goroutine per session
// works through all chores until none is left or the session is over: ten thousand failed searches are one goroutine.
type janitor struct {
	s     *Session
	st    *clientState
	bytes atomic.Int64 // of the paths of the session's contenders

	mu      sync.Mutex
	nodes   map[*contender]string    // those that exist, or may; with their paths where these are known
	timers  map[*time.Timer]struct{} // of after
	chores  []*chore
	running bool
	doubted map[*holding]bool // those that want to know of doubts about the session
	kick    chan struct{}     // one has come while there is a doubt

	// Of a session that is lost, guarded by clientState.mu.
	cleared *Session  // through which the nodes that nobody works under were deleted last
	until   time.Time // it is tried to close the session until then; zero before the first try
}

// doubts has h told of doubts about the session, of one that there is already too.
func (j *janitor) doubts(h *holding) {
	j.mu.Lock()
	if j.doubted == nil {
		j.doubted = map[*holding]bool{}
	}
	j.doubted[h] = true
	j.mu.Unlock()
	if j.s.State() != session.StateActive { // looked at behind the entry: a doubt that comes later is told
		select {
		case j.kick <- struct{}{}:
		default:
		}
	}
}

func (j *janitor) doubtless(h *holding) {
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.doubted, h)
}

// exists notes a contender that exists, or may if its path is not known yet.
func (j *janitor) exists(k *contender) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.nodes == nil {
		j.nodes = map[*contender]string{}
	}
	j.nodes[k] = k.path
	if strings.HasPrefix(k.name, k.prefix) { // they are one string from here on
		k.prefix = k.name[:len(k.prefix)]
	}
}

// forget notes that it does not exist any more.
func (j *janitor) forget(k *contender) {
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.nodes, k)
}

// after has f run when d has passed, unless the session is over by then.
func (j *janitor) after(d time.Duration, f func()) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.s.Err() != nil { // else rest comes later
		return
	}
	var timer *time.Timer
	timer = time.AfterFunc(d, func() {
		j.mu.Lock()
		defer j.mu.Unlock()
		if _, runs := j.timers[timer]; runs {
			delete(j.timers, timer)
			j.st.spawn(f)
		}
	})
	if j.timers == nil {
		j.timers = map[*time.Timer]struct{}{}
	}
	j.timers[timer] = struct{}{}
}

// rest stops the timers, which refer to the session and to the client.
func (j *janitor) rest() {
	j.mu.Lock()
	defer j.mu.Unlock()
	for timer := range j.timers {
		timer.Stop()
	}
	j.timers = nil
}

// follow tells holdings of the session's state, until it is over. It takes the channel before the holdings, and these before
// the state, so it meets a change or a holding that comes in between at the next turn. Two changes in quick succession may look
// like none.
func (j *janitor) follow() {
	for {
		changed := j.s.Changed()
		j.mu.Lock()
		doubted := slices.Collect(maps.Keys(j.doubted))
		j.mu.Unlock()
		state := j.s.State()
		for _, h := range doubted {
			h.doubt(state)
		}
		select {
		case <-changed:
		case <-j.kick:
		case <-j.s.Done():
			return
		}
	}
}

// chore is a contender to be deleted, under its name if that is known, or found by its prefix.
type chore struct {
	k    *contender
	done *sync.WaitGroup
}

// remove takes the contenders over; what it returns is done when all are gone, or their session is.
func (j *janitor) remove(ks ...*contender) *sync.WaitGroup {
	j.mu.Lock()
	defer j.mu.Unlock()
	var gone sync.WaitGroup
	for _, k := range ks {
		gone.Add(1)
		j.chores = append(j.chores, &chore{k, &gone})
	}
	if !j.running && len(j.chores) > 0 {
		j.running = true
		j.st.spawn(j.work)
	}
	return &gone
}

// errLeft: not everything could be deleted.
var errLeft = errors.New("nodes are left to be deleted")

// work sweeps until nothing is left. Pauses grow while something is: a parent that does not let us delete may stay like that
// for as long as the session lives. A lost session ends the pause, and makes the next sweep succeed.
func (j *janitor) work() {
	for !j.finished() {
		_ = patiently(context.Background(), j.s, func(error) bool { return true }, j.sweep)
	}
}

// finished says that no chore is there, which ends the worker, in the same hold of mu: a chore that comes later starts
// another one, and none comes in between unseen.
func (j *janitor) finished() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.running = len(j.chores) > 0
	return !j.running
}

// batch is how many nodes the janitor deletes in one request.
const batch = 100

// sweep tries every chore once: many at a time where nothing is in the way.
func (j *janitor) sweep() error {
	j.mu.Lock()
	todo := j.chores
	j.chores = nil
	j.mu.Unlock()
	var left []*chore
	for some := range slices.Chunk(todo, batch) {
		if !j.together(some) {
			left = append(left, j.oneByOne(some)...)
		}
	}
	if len(left) == 0 {
		return nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.chores = append(left, j.chores...) // before those that came meanwhile
	return errLeft
}

// together deletes all in one request, and reports whether that was possible.
func (j *janitor) together(todo []*chore) bool {
	ks := make([]*contender, len(todo))
	for i, c := range todo {
		if ks[i] = c.k; c.k.path == "" {
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

// try deletes one contender; nil when it is known not to exist. Its deadline keeps the janitor free for the others.
func (j *janitor) try(k *contender) error {
	ctx, cancel := detached(context.Background(), j.s)
	defer cancel()
	path := k.path
	if path == "" {
		name, err := find(ctx, j.s, k)
		if err != nil || name == "" {
			return err
		}
		path = kind.JoinPath(k.dir, name)
	}
	if err := j.s.Delete(ctx, path, -1); err != nil && !isNoNode(err) {
		return err
	}
	return nil
}
