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

// denied adds who we are to a refusal of the servers, and who could grant the right.
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

// denied says more if the stack's root is closed to us, or what the tool created in it.
func (s *stack) denied(ctx context.Context, i int, err error) error {
	err = denied(ctx, s.clients[i], err)
	if d, ok := errors.AsType[*view.Denied](err); ok {
		root := s.Ensembles[i].Root
		if at := apply.RefusedAt(err); at == root || strings.HasPrefix(at, plan.ScaffoldPath(root)) {
			d.Root = root
		}
	}
	return err
}
