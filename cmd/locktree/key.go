package main

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/direct"
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

// looks ask, for each tree, who is connected of those that hold or wait, and look at the keys of its families; nil where there is
// neither.
func (s *stack) looks(ctx context.Context, trees []*plan.Tree) ([]*inspect.Snapshot, error) {
	out := make([]*inspect.Snapshot, len(trees))
	for i, tree := range trees {
		var at inspect.ScanOptions
		for _, n := range tree.Nodes {
			if n.Payload != nil && n.Kind().Key != nil {
				at.Declared = append(at.Declared, n.Path)
			}
			if n.Live != nil && n.Live.Usage != nil {
				for _, c := range slices.Concat(n.Live.Usage.Holders, n.Live.Usage.Waiters) {
					at.Sessions = append(at.Sessions, c.Session)
				}
			}
		}
		if len(at.Declared)+len(at.Sessions) == 0 {
			continue
		}
		err := s.look(ctx, i, func(*direct.Session) (err error) {
			out[i], err = inspect.Look(ctx, s.clients[i], at)
			return err
		})
		if err != nil {
			return out, err
		}
	}
	return out, nil
}
