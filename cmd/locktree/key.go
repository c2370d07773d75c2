package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/inspect"
	"github.com/locktree/locktree/recipes/kind"
)

// keyFlag is -key, which may be empty: so may a key.
type keyFlag struct {
	key   string
	given bool
}

func (f *keyFlag) register(c *cobra.Command) {
	c.Flags().Var(f, "key", "the `KEY` of a lock in a family of keyed locks")
}
func (f *keyFlag) String() string { return f.key }
func (f *keyFlag) Type() string   { return "string" }
func (f *keyFlag) Set(key string) error {
	f.key, f.given = key, true
	return nil
}

// keyPath is the path of a key's node in the family at path.
func keyPath(ctx context.Context, client *recipes.Client, path, key string) (string, error) {
	in, err := inspect.Lock(ctx, client, path)
	if err != nil {
		return "", err
	}
	if in.Payload == nil || in.Kind.Key == nil {
		return "", notAFamily(path, in)
	}
	node, err := in.Payload.Params.(*kind.KeyedParams).Path(path, key)
	if err != nil {
		return "", view.Failf("Bad key", "-key: %v.", err)
	}
	return node, nil
}

func notAFamily(path string, in *inspect.Report) error {
	what := "has no declaration"
	if in.Payload != nil {
		what = "is declared as " + in.Kind.Name
	}
	return view.Failf("Not a family", "%s %s: only a family of keyed locks has keys. Leave -key out, or name a family.", path, what)
}

// families looks at the keys of the families of each tree.
func (s *stack) families(ctx context.Context, trees []*plan.Tree) ([]map[string]*inspect.Report, error) {
	out := make([]map[string]*inspect.Report, len(trees))
	for i, tree := range trees {
		var paths []string
		for _, n := range tree.Nodes {
			if n.Payload != nil && n.Kind().Key != nil {
				paths = append(paths, n.Path)
			}
		}
		if len(paths) == 0 {
			continue
		}
		err := s.look(ctx, i, func(*recipes.Session) error {
			snap, err := inspect.Look(ctx, s.clients[i], inspect.ScanOptions{Declared: paths})
			if err != nil {
				return err
			}
			out[i] = map[string]*inspect.Report{}
			for _, in := range snap.Locks {
				out[i][in.Path] = in
			}
			return nil
		})
		if err != nil {
			return out, err
		}
	}
	return out, nil
}
