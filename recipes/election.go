package recipes

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/recipes/inspect"
	"github.com/locktree/locktree/recipes/internal/errs"
	"github.com/locktree/locktree/recipes/internal/held"
	"github.com/locktree/locktree/recipes/internal/retry"
	"github.com/locktree/locktree/recipes/internal/session"
	"github.com/locktree/locktree/recipes/internal/znode"
	"github.com/locktree/locktree/recipes/kind"
)

// Election chooses one of several candidates: the first leads, and when it leaves the next one leads. In ZooKeeper it is
// Curator's LeaderLatch; the data of a candidate's node is its ID alone.
type Election struct{ q *handle }

// Election returns a handle on the election at path; see Client.Mutex.
func (c *Client) Election(path string, opts ...Option) *Election {
	return &Election{c.handle(kind.Election, path, false, opts)}
}

// Path returns the election's path.
func (e *Election) Path() string { return e.q.Path }

// Campaign makes this program a candidate and returns when it leads. The lease is the leadership: Unlock gives it up. ctx bounds
// the wait; when ctx ends, the candidacy is withdrawn. Errors are those of Mutex.Lock.
func (e *Election) Campaign(ctx context.Context) (*Lease, error) { return e.q.lock(ctx, 0, false) }

// Lead campaigns and runs fn while this candidate leads. When the leadership is lost or revoked, Lead cancels fn's context and
// waits for fn to return. Then it gives the leadership up and campaigns again, whatever fn returned. If fn returns while this
// candidate still leads, Lead gives the leadership up, returns fn's error, and does not campaign again. Lead returns ctx's error
// when ctx ends. If a campaign fails with an error that is not [Retryable], Lead returns that error. WithMaxWait bounds each
// campaign.
func (e *Election) Lead(ctx context.Context, fn func(context.Context, *Lease) error) error {
	for {
		var l *Lease
		err := retry.Patiently(ctx, nil, Retryable, func() (err error) {
			l, err = e.Campaign(ctx)
			return err
		})
		if err != nil {
			return err
		}
		var ran, ended error // the error of fn, and the cause of ctx's end if ctx ended before fn returned
		var again bool
		err = l.Do(ctx, func(inner context.Context, l *Lease) error {
			ran = fn(inner, l)
			// fn has returned. Only a loss or a revocation before this line makes Lead campaign again.
			deposed := context.Cause(l.Context())
			again = errors.Is(deposed, ErrLost) || errors.Is(deposed, ErrRevoked)
			if ctx.Err() != nil {
				ended = retry.WhyEnded(ctx)
			}
			return ran
		})
		switch {
		case ended != nil:
			return errors.Join(ended, err)
		case again:
			continue
		case errors.Is(context.Cause(l.Context()), ErrLost):
			return held.AfterGrant(ran)
		}
		return err
	}
}

// Leader returns the leader; false if there is no candidate. This is the view of the connected server, which may lag behind. The
// candidate perhaps does not know yet that it leads. Use inspect.Lock for the other candidates.
func (e *Election) Leader(ctx context.Context) (Contender, bool, error) {
	if e.q.Wrong != nil {
		return Contender{}, false, e.q.Wrong
	}
	at, err := e.q.c.state.Live(ctx)
	if err != nil {
		return Contender{}, false, err
	}
	q, err := e.q.atPresentPath(ctx, at) // Leader writes nothing, so it also reads an undeclared election
	if errors.Is(err, ErrKindMismatch) {
		return Contender{}, false, err
	}
	for {
		children, _, err := at.Session.Children(ctx, q.Dir())
		if znode.IsNoNode(err) {
			return Contender{}, false, errs.Errorf("%w: %s does not exist: %w", ErrNotProvisioned, q.Path, err)
		}
		line, _ := kind.SortContenders(children)
		if err != nil || len(line) == 0 {
			return Contender{}, false, err
		}
		leader, err := inspect.ReadContender(ctx, at.Session, q.Dir(), line[0])
		if err != nil {
			return Contender{}, false, err
		}
		if leader != nil { // nil: this candidate has resigned meanwhile, and another may lead
			return *leader, true, nil
		}
	}
}

// Observe follows the leader: it yields the present leader, and then every change, until the loop breaks or ctx ends. A zero
// Contender means that there is no leader. Changes that come faster than they can be read are combined, but the last state is
// never missed, not even across a lost session. After a temporary error (a lost session) Observe yields further states; a
// permanent one ends the loop.
func (e *Election) Observe(ctx context.Context) iter.Seq2[Contender, error] {
	return func(yield func(Contender, error) bool) {
		var last *Contender // nil until Observe has yielded a leader, or has yielded that there is none
		for ctx.Err() == nil {
			leader, s, w, err := e.leader(ctx)
			if err != nil {
				if ctx.Err() != nil || !yield(Contender{}, err) {
					return
				}
				if !errors.Is(err, ErrSessionLost) || errors.Is(err, ErrClosed) || retry.Pause(ctx, nil, 100*time.Millisecond) != nil {
					return
				}
				continue
			}
			// Leaders are compared by the names of their nodes: a leader that resigned and leads again is yielded again. A candidate
			// that took over the node of another goroutine writes its own ID into the node when it leads. A revocation also changes
			// the data, but makes no new leader.
			if last == nil || leader.Name != last.Name || leader.ID != last.ID && !leader.Revoked {
				last = &leader
				if !yield(leader, nil) {
					w.Stop()
					return
				}
			}
			awaitLook(ctx, s, w, nil) // the next look reports any error
		}
	}
}

// leader finds the leader at the election's present path, and watches the leader's node in session s. leader also works while the
// election is draining, so observers can follow it until it is gone.
func (e *Election) leader(ctx context.Context) (leader Contender, s *session.Session, w *session.Watch, err error) {
	now, err := e.q.c.state.Live(ctx)
	if err != nil {
		return Contender{}, nil, nil, err
	}
	at, err := e.q.atPresentPath(ctx, now)
	if err != nil && !errors.Is(err, ErrDraining) {
		return Contender{}, nil, nil, err
	}
	for {
		children, err := znode.ListChildren(ctx, now.Session, at.Dir())
		if err != nil {
			return Contender{}, nil, nil, err
		}
		leader, w, err := (&Election{at}).follow(ctx, now.Session, children)
		if w != nil || err != nil {
			return leader, now.Session, w, err
		}
	}
}

// follow watches the node of the first of the candidates listed. It watches the list of candidates if there is no candidate, or
// if the servers do not let us read that node. In the second case we know only the candidate's name. If both the watch and the
// error are nil, the list has changed.
func (e *Election) follow(ctx context.Context, s *session.Session, children []string) (Contender, *session.Watch, error) {
	var leader Contender
	if line, _ := kind.SortContenders(children); len(line) > 0 {
		leader = inspect.NewContender(e.q.Dir(), line[0], nil, nil)
		data, stat, w, err := znode.GetCalledPersistent(ctx, s, leader.Path, nil)
		switch {
		case err == nil:
			return inspect.NewContender(e.q.Dir(), line[0], data, stat), w, nil
		case znode.IsNoNode(err):
			return Contender{}, nil, nil
		case !errors.Is(err, zk.ErrNoAuth):
			return Contender{}, nil, err
		}
	}
	now, w, err := znode.ChildrenCalledPersistent(ctx, s, e.q.Dir(), nil)
	if err != nil {
		return Contender{}, nil, err
	}
	first := ""
	if line, _ := kind.SortContenders(now); len(line) > 0 {
		first = line[0].Name
	}
	if first != leader.Name {
		w.Stop()
		return Contender{}, nil, nil
	}
	return leader, w, nil
}

// awaitLook waits until w fires or the declaration has changed, but for a session timeout at most, because a server can forget a
// watch. It is for waits without a place in a queue.
func awaitLook(ctx context.Context, s *session.Session, w *session.Watch, declared <-chan struct{}) {
	defer w.Stop()
	select {
	case <-w.C():
	case <-declared:
	case <-time.After(s.Timeout()):
	case <-ctx.Done():
	}
}
