package recipes

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/recipes/internal/declare"
	"github.com/locktree/locktree/recipes/internal/held"
	"github.com/locktree/locktree/recipes/internal/znode"
	"github.com/locktree/locktree/recipes/kind"
)

// Declaration has what is declared for a lock. If nothing is declared, Params are the parameters that the options give.
type Declaration struct {
	Path    string
	Params  kind.Params
	Since   time.Time       // when a job's schedule was declared, by the ensemble's clock; zero for another kind, or if nothing is declared
	Changed <-chan struct{} // closed when the caller should call Declaration again
	ID      string          // the name of the holder or waiter; the handle writes it into its nodes
	Timeout time.Duration   // the session timeout

	read *declare.Declaration
}

// Declaration returns what is declared for the lock of kind k at path.
func (c *Client) Declaration(ctx context.Context, k *kind.Kind, path string, opts ...Option) (*Declaration, error) {
	q := c.handle(k, path, false, opts)
	if q.Wrong != nil {
		return nil, q.Wrong
	}
	e, err := c.state.Live(ctx)
	if err != nil {
		return nil, err
	}
	if q, err = q.atPresentPath(ctx, e); err != nil {
		return nil, err
	}
	d, err := e.Decl.Of(ctx, &q.Name)
	if err != nil {
		return nil, err
	}
	return &Declaration{Path: q.Path, Params: d.Params, Since: d.Since, Changed: d.Changed, ID: q.ID, Timeout: e.Session.Timeout(), read: d}, nil
}

// Now returns the time of the client's clock.
func (c *Client) Now() time.Time { return c.now() }

// Logger returns Config.Logger, or a logger that discards everything.
func (c *Client) Logger() *slog.Logger { return c.log }

// AfterGrant marks an error of work done under a lease: Retryable is false for it.
func AfterGrant(err error) error { return held.AfterGrant(err) }

// Lacks is called after zk.ErrNoNode for the lock's node, or for a child node that the lock's kind needs. opts are the options with
// which the caller read d. Lacks returns true if it created the missing node (opts contain WithCreate), or if the declaration
// has changed: then look again. The error says why the lock is not declared.
func (c *Client) Lacks(ctx context.Context, d *Declaration, opts ...Option) (again bool, err error) {
	q := c.handle(d.Params.Kind(), d.Path, false, opts)
	e, err := c.state.Live(ctx)
	if err != nil {
		return false, err
	}
	err = q.Complete(ctx, e.Session, zk.ErrNoNode)
	switch {
	case errors.Is(err, znode.ErrNotApplied):
		return true, nil
	case !znode.IsNoNode(err):
		return false, err
	}
	e.Decl.Outdated(d.read)
	now, err := e.Decl.Of(ctx, &q.Name)
	return err == nil && now.Mzxid != d.read.Mzxid, err
}
