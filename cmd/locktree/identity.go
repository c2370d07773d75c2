package main

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/apply"
	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/session"
)

// whoWeAre are the names the servers know the connection by, without hashes.
func whoWeAre(c *recipes.Client) []string {
	var out []string
	for _, id := range identities(c) {
		if id.Scheme != "world" {
			out = append(out, id.String())
		}
	}
	if len(out) == 0 {
		return []string{"world:anyone"}
	}
	return out
}

// denied says who we are where the servers refused something to us, and who could grant it.
func denied(ctx context.Context, c *recipes.Client, err error) error {
	return deniedAt(ctx, c, err, refusedAt(err))
}

func deniedAt(ctx context.Context, c *recipes.Client, err error, path string) error {
	if !errors.Is(err, zk.ErrNoAuth) {
		return err
	}
	d := &view.Denied{Err: err, Who: whoWeAre(c)}
	d.At, d.Ask = administrators(ctx, c, path)
	return d
}

// denied says more where it is the stack's root, or what the tool made in it, that is closed to us.
func (s *stack) denied(ctx context.Context, i int, err error) error {
	err = denied(ctx, s.clients[i], err)
	var d *view.Denied
	if root := s.Ensembles[i].Root; errors.As(err, &d) {
		if at := refusedAt(err); at == root || strings.HasPrefix(at, plan.ScaffoldPath(root)) {
			d.Root = root
		}
	}
	return err
}

// refusedAt is the node whose access list refused a request: creating and deleting are rights of the parent.
func refusedAt(err error) string {
	var node *apply.NodeError
	var op *session.OpError
	path, verb := "", ""
	switch {
	case errors.As(err, &node):
		path, verb = node.Path, node.Op
	case errors.As(err, &op):
		path, verb = op.Path, op.Op
	}
	if verb == "create" || verb == "delete" {
		return kind.ParentPath(path)
	}
	return path
}

// administrators are those who may change the access list of the node at path, where we may read it. Otherwise it is the
// list of the nearest node above, whose administrators most often know.
func administrators(ctx context.Context, c *recipes.Client, path string) (at string, who []string) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	s, err := c.Session(ctx)
	for at = path; err == nil && at != "" && at != "/"; at = kind.ParentPath(at) {
		var acl []zk.ACL
		acl, _, err = s.GetACL(ctx, at)
		if errors.Is(err, zk.ErrNoAuth) || errors.Is(err, zk.ErrNoNode) {
			err = nil
			continue
		}
		for _, a := range acl {
			if a.Perms&zk.PermAdmin != 0 && a.Scheme != "world" {
				who = append(who, plan.Identity{Scheme: a.Scheme, ID: a.ID}.String())
			}
		}
		return at, who
	}
	return "", nil
}
