package main

import (
	"context"
	"errors"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/apply"
	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes"
)

// denied says who we are where the servers refused something to us, and who could grant it.
func denied(ctx context.Context, c *recipes.Client, err error) error {
	return deniedAt(ctx, c, err, apply.RefusedAt(err))
}

func deniedAt(ctx context.Context, c *recipes.Client, err error, path string) error {
	if !errors.Is(err, zk.ErrNoAuth) {
		return err
	}
	d := &view.Denied{Err: err, Who: apply.WhoWeAre(c)}
	d.At, d.Ask = apply.Administrators(ctx, c, path)
	return d
}

// denied says more where it is the stack's root, or what the tool made in it, that is closed to us.
func (s *stack) denied(ctx context.Context, i int, err error) error {
	err = denied(ctx, s.clients[i], err)
	var d *view.Denied
	if root := s.Ensembles[i].Root; errors.As(err, &d) {
		if at := apply.RefusedAt(err); at == root || strings.HasPrefix(at, plan.ScaffoldPath(root)) {
			d.Root = root
		}
	}
	return err
}
