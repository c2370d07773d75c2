package recipes

import (
	"context"
	"errors"
	"fmt"
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
	// Before anything is sent: a session that is full must not find out when the nodes exist.
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
		if err = t.name(names); err != nil { // they exist, under names we cannot work with
			return nil, t.abandon(err)
		}
		if listErr != nil {
			children = nil // no reason to fail: the nodes exist, and can be listed again
		}
		return children, nil
	}
	switch outcomeOf(err) {
	case Definite, NotSent: // none of the nodes exists: a transaction is all or nothing
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
	// The creates come first: by their place their results are found. The deletes could stand anywhere, as nobody sees a
	// state between two operations.
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
		if len(paths[i]) <= len(k.dir) { // an empty one, say, of a result that is none of a create's
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

// resolve finds out what became of a transaction whose reply did not come. A transaction is all or nothing, so any of the
// nodes it creates says that it was applied. All are looked for nevertheless: see errPartly.
//
// Why "absent behind a committed write" is final: the reconnect made the new server the owner of the session, so a
// create still on its way through the old one fails with SESSIONMOVED, and one on the same server is ahead of the
// write in its queue (Leader.revalidateSession, SessionTrackerImpl.checkSession). What a leader that was cut off has not
// committed the others have taken over before they commit anything of their own, or it is gone for good. Once the write
// is answered we have seen its zxid: a server behind it does not let us in (ZooKeeperServer.processConnectRequest), should
// the listing need another connection. A sync proves none of this: a leader that was cut off answers it by itself until it
// notices (Leader.processSync, ZOOKEEPER-1675), and says of what the others have committed that it is not there.
//
// It goes on for as long as the session does, whatever becomes of ctx: then the janitor goes on. Giving up after a few
// failed searches is how go-zookeeper leaves nodes behind that block a lock for everybody.
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

// look searches for the born contenders.
func (t *txn) look(ctx context.Context) (found bool, err error) {
	there := 0
	// A write for each, though one for all would do in one session on one connection: a reconnect in between is met, and
	// this is not what has to be quick.
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

// find returns the name under which the contender exists in this session, or "", behind a committed write. A node of that
// name that belongs to another session is a dying one and counts as absent (CURATOR-498, CURATOR-604).
func find(ctx context.Context, s *Session, k *contender) (string, error) {
	// A refusal is committed like what succeeds (PrepRequestProcessor makes it a transaction of errors). So it says as
	// much where the directory is gone, or not ours to read; but not where the request was shed, or the session moved on.
	if err := s.confirm(ctx, k.dir); err != nil && !isNoNode(err) && !errors.Is(err, zk.ErrNoAuth) {
		return "", err
	}
	children, _, err := s.Children(ctx, k.dir)
	if isNoNode(err) { // nothing stands in what does not exist
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

// pause waits a little before another try; its error says why there must be none. A session that is over ends it at once,
// which is what bounds every loop that pauses.
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
