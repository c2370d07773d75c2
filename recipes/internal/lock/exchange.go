package lock

import (
	"context"
	"fmt"

	"github.com/locktree/locktree/recipes/internal/held"
	"github.com/locktree/locktree/recipes/internal/wait"
	"github.com/locktree/locktree/recipes/internal/znode"
)

// exchange exchanges a write lock for a read lock, which q is the way to.
func (q *Queue) Exchange(ctx context.Context, u *held.Use, up caller) (*held.Use, error) {
	if err := q.Mine(u); err != nil {
		return nil, err
	}
	old := AboutOf(u)
	t := &wait.Opened{Q: &q.Handle, S: u.H.Session(), D: old.D}
	return u.Exchange(ctx, func() (*znode.Node, error) {
		return q.Contender(t.S, t.D, q.Decides(), znode.HolderSelf(q.Id))
	}, func(next *znode.Node) (held.Grant, held.Listener) {
		b := &about{Path: q.Path, Q: q, D: old.D, places: old.places}
		return held.Grant{Path: q.Path, Keys: b.keys(), S: t.S, Nodes: []*znode.Node{next}, Turns: &turns{c: q.C, of: t}, About: b},
			up.Tenure(next.Path, t.S.S.ID())
	})
}

// mine checks that u is a write lease of this lock.
func (q *Queue) Mine(u *held.Use) error {
	if b := AboutOf(u); b.Q.C != q.C || b.Path != q.Path || b.Q.Shared {
		return fmt.Errorf("recipes: Downgrade needs a write lease of %s from this Client; got another lease, of %s", q.Path, b.Path)
	}
	return nil
}
