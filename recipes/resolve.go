package recipes

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/recipes/kind"
)

// errNotApplied: a transaction whose outcome was unknown is now known never to have happened.
var errNotApplied = errors.New("the transaction was not applied")

// txn creates contenders, and deletes others in the same transaction. After run the outcome is known, or a janitor
// has taken over finding it out and undoing it.
type txn struct {
	c    *Client
	s    *Session
	born []*contender
	gone []*contender
	with []any // further operations, after the creates

	abandoned bool // run failed, and the janitor deletes born and gone
}

// run executes the transaction with the listings pipelined behind it. On an error nothing of it remains, now or after
// the janitor has been: born contenders do not exist, and gone ones, where the outcome is not known (abandoned), are on
// their way out too; else they are what they were.
//
// errors.Is errNotApplied, and an error of Outcome NotSent, allow another try. children is nil when the transaction
// succeeded but its listings did not: list again.
func (t *txn) run(ctx context.Context, lists ...string) (children [][]string, err error) {
	for i, k := range t.born {
		if err := k.reserve(); err != nil {
			for _, done := range t.born[:i] {
				done.free()
			}
			return nil, err
		}
	}
	names, err, children, listErr := t.send(ctx, lists)
	if err == nil {
		if err = t.name(names); err != nil {
			return nil, t.abandon(err)
		}
		if listErr != nil {
			children = nil
		}
		return children, nil
	}
	switch outcomeOf(err) {
	case Definite, NotSent:
		for _, k := range t.born {
			k.free()
		}
		return nil, err
	}
	return nil, t.resolve(ctx, err)
}

// send puts the transaction on the wire: a plain create where that is enough, it is what the pipelining saves most for.
func (t *txn) send(ctx context.Context, lists []string) ([]string, error, [][]string, error) {
	if len(t.born) == 1 && len(t.gone) == 0 && len(t.with) == 0 {
		name, err, children, listErr := t.s.createAndList(ctx, t.born[0].createRequest(), lists...)
		return []string{name}, err, children, listErr
	}
	ops := make([]any, 0, len(t.born)+len(t.with)+len(t.gone))
	for _, k := range t.born {
		ops = append(ops, k.createRequest())
	}
	ops = append(ops, t.with...)
	for _, k := range t.gone {
		ops = append(ops, &zk.DeleteRequest{Path: k.path, Version: -1})
	}
	res, err, children, listErr := t.s.multiAndList(ctx, ops, lists...)
	names := make([]string, 0, len(t.born))
	for i := range t.born {
		if i < len(res) {
			names = append(names, res[i].String)
		}
	}
	return names, err, children, listErr
}

// name gives the born contenders the paths the server answered with.
func (t *txn) name(paths []string) error {
	if len(paths) != len(t.born) {
		return fmt.Errorf("%w: %d results for %d creates", ErrProtocol, len(paths), len(t.born))
	}
	for i, k := range t.born {
		if len(paths[i]) <= len(k.dir) {
			return fmt.Errorf("%w: the server answered a create in %s with the path %q", ErrProtocol, k.dir, paths[i])
		}
		if err := k.found(lastName(paths[i])); err != nil {
			return err
		}
	}
	for _, k := range t.gone {
		k.free()
	}
	return nil
}

// resolve finds out what became of a transaction whose reply did not come. A transaction is all or nothing, so the
// first born contender answers for all of it.
//
// Why "absent after a successful sync" is final: the reconnect made the new server the owner of the session, so a
// create still on its way through the old one fails with SESSIONMOVED, and one on the same server is ahead of the
// sync in its queue (reliability notes; ZooKeeper's Leader.revalidateSession).
func (t *txn) resolve(ctx context.Context, cause error) error {
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		found, err := t.look(ctx)
		switch {
		case err == nil && found:
			for _, k := range t.gone {
				k.free()
			}
			return nil
		case err == nil:
			for _, k := range t.born {
				k.free()
			}
			return fmt.Errorf("%w: %w", errNotApplied, cause)
		case t.s.State() == Lost:
			return t.abandon(fmt.Errorf("%w: %w", t.s.Err(), cause))
		case errors.Is(err, errPartly):
			return t.abandon(lostError(t.born[0].dir, fmt.Errorf("%w: %w", err, cause)))
		}
		if err := pause(ctx, t.s, wait); err != nil {
			return t.abandon(fmt.Errorf("%w: %w", err, cause))
		}
	}
}

// errPartly: of a transaction's nodes some exist and some do not. It was applied, then, and somebody has deleted some.
var errPartly = errors.New("some of the nodes it created have been deleted")

// look searches for the born contenders, behind a sync so that this server has seen all there is to see.
func (t *txn) look(ctx context.Context) (found bool, err error) {
	there := 0
	for _, k := range t.born {
		name, err := find(ctx, t.s, k)
		if err != nil {
			return false, err
		}
		if name == "" {
			continue
		}
		there++
		if err := k.found(name); err != nil {
			return false, err
		}
	}
	if there > 0 && there < len(t.born) {
		return false, errPartly
	}
	return there > 0, nil
}

// abandon leaves what is unknown to the janitor and returns cause.
func (t *txn) abandon(cause error) error {
	t.abandoned = true
	t.c.state.janitor(t.s).remove(append(append([]*contender(nil), t.born...), t.gone...)...)
	return cause
}

// find returns the name under which the contender exists in this session, or "". A node of that name that belongs to
// another session is a dying one and counts as absent (CURATOR-498, CURATOR-604).
func find(ctx context.Context, s *Session, k *contender) (string, error) {
	if err := s.Sync(ctx, k.dir); err != nil {
		return "", err
	}
	children, _, err := s.Children(ctx, k.dir)
	if isNoNode(err) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	name := k.pick(children)
	if name == "" {
		return "", nil
	}
	stat, err := s.Exists(ctx, kind.JoinPath(k.dir, name))
	if errors.Is(err, zk.ErrNoAuth) {
		return name, nil // hidden from us, and there: the prefix was drawn at random, for this session
	}
	if err != nil || stat == nil {
		return "", err
	}
	if stat.EphemeralOwner != s.ID() {
		return "", nil
	}
	return name, nil
}

// pause waits a little before another try; its error says why there must be none.
func pause(ctx context.Context, s *Session, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-s.Done():
		return s.Err()
	}
}

// drop deletes contenders for good: it returns nil when they are known to be gone, else ErrReleasePending: ctx ended
// before, or a server refused, and the deletion goes on; or their session was over first, with which they go.
func (c *Client) drop(ctx context.Context, ks ...*contender) error {
	done := make(chan error, 1)
	c.state.spawn(func() { done <- c.dropNow(ctx, ks) })
	return awaitRelease(ctx, done, ks)
}

// leaveBehind deletes contenders in the background, and calls then when they are gone. It returns as soon as the request
// is on its way, or there is no connection for it: servers obey a session in order, so what this client asks next does
// not meet its own dying contenders as rivals.
func (c *Client) leaveBehind(ctx context.Context, ks []*contender, then func()) {
	if len(ks) == 0 {
		c.state.spawn(then)
		return
	}
	code := opDelete
	if len(ks) > 1 {
		code = opMulti
	}
	s := ks[0].s
	changed := s.stateChanged()
	written, forget := s.guard.onWritten(code, ks[0].path)
	defer forget()
	done := make(chan struct{})
	c.state.spawn(func() {
		defer then()
		defer close(done)
		_ = c.dropNow(context.Background(), ks) // nobody is there to be told; the janitor goes on
	})
	if s.State() != Active {
		return
	}
	select {
	case <-written:
	case <-done:
	case <-changed:
	case <-ctx.Done(): // who gives up is not kept
	case <-s.Done():
	}
}

// awaitRelease prefers what done says to ctx having ended.
func awaitRelease(ctx context.Context, done <-chan error, ks []*contender) error {
	var why error
	select {
	case why = <-done:
	default:
		select {
		case why = <-done:
		case <-ctx.Done():
			why = context.Cause(ctx)
		}
	}
	if why == nil {
		return nil
	}
	return fmt.Errorf("%w: %s is being deleted in the background: %w", ErrReleasePending, ks[0].label(), why)
}

// label is how an error calls the contender.
func (k *contender) label() string {
	if k.path != "" {
		return k.path
	}
	return kind.JoinPath(k.dir, k.prefix)
}

// dropNow deletes, and returns nil when the contenders are known to be gone; when their session is over first, its
// error: the nodes go with it, but nobody has said that they have gone. A server's refusal (of an access
// list that does not let us delete, say) is returned at once, while the janitor goes on trying.
func (c *Client) dropNow(ctx context.Context, ks []*contender) error {
	if len(ks) == 0 {
		return nil
	}
	s := ks[0].s
	work, cancel := detached(ctx, s)
	err := deleteAll(work, s, ks)
	cancel()
	if err == nil {
		for _, k := range ks {
			k.free()
		}
		return nil
	}
	pending := c.state.janitor(s).remove(ks...)
	if errors.Is(err, zk.ErrNoAuth) {
		return err
	}
	for _, done := range pending {
		<-done
	}
	if lost := s.Err(); lost != nil {
		return fmt.Errorf("%w: what was not deleted yet goes within %v", lost, s.Timeout())
	}
	return nil
}

func deleteAll(ctx context.Context, s *Session, ks []*contender) error {
	if len(ks) == 1 {
		err := s.Delete(ctx, ks[0].path, -1)
		if isNoNode(err) {
			return nil
		}
		return err
	}
	ops := make([]any, len(ks))
	for i, k := range ks {
		ops[i] = &zk.DeleteRequest{Path: k.path, Version: -1}
	}
	_, err := s.Multi(ctx, ops...)
	return err
}

// janitor removes what a session must not leave behind. One goroutine per session works through all chores, with
// growing pauses, until none is left or the session is over: ten thousand failed searches are one goroutine.
type janitor struct {
	s       *Session
	st      *clientState
	mu      sync.Mutex
	chores  []*chore
	running bool
}

type chore struct {
	k    *contender
	done chan struct{}
}

// remove takes the contenders over; the channels are closed when each is gone, or its session is.
func (j *janitor) remove(ks ...*contender) []<-chan struct{} {
	j.mu.Lock()
	defer j.mu.Unlock()
	var out []<-chan struct{}
	for _, k := range ks {
		c := &chore{k: k, done: make(chan struct{})}
		j.chores = append(j.chores, c)
		out = append(out, c.done)
	}
	if !j.running && len(j.chores) > 0 {
		j.running = true
		j.st.spawn(j.work)
	}
	return out
}

func (j *janitor) work() {
	wait := 10 * time.Millisecond
	for {
		todo := j.take()
		if todo == nil {
			return
		}
		if left := j.sweep(todo); len(left) > 0 {
			j.back(left)
			_ = pause(context.Background(), j.s, wait) // a lost session makes the next sweep succeed
			wait = min(2*wait, 5*time.Second)
			continue
		}
		wait = 10 * time.Millisecond
	}
}

func (j *janitor) take() []*chore {
	j.mu.Lock()
	defer j.mu.Unlock()
	todo := j.chores
	j.chores = nil
	j.running = len(todo) > 0
	if !j.running {
		return nil
	}
	return todo
}

func (j *janitor) back(left []*chore) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.chores = append(left, j.chores...)
}

// sweep tries every chore once and returns what is left.
func (j *janitor) sweep(todo []*chore) []*chore {
	var left []*chore
	for i, c := range todo {
		switch err := j.try(c.k); {
		case err == nil, j.s.State() == Lost:
			c.k.free()
			close(c.done)
		case outcomeOf(err) == Definite:
			left = append(left, c) // this node's own trouble (its parent's ACL, say); the others may do better
		default:
			return append(append(left, c), todo[i+1:]...) // no connection: none would do better
		}
	}
	return left
}

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
