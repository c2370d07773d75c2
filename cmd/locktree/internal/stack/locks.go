package stack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/cmd/locktree/internal/view/lockview"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/direct"
	"github.com/locktree/locktree/recipes/inspect"
	"github.com/locktree/locktree/recipes/inspect/scan"
	"github.com/locktree/locktree/recipes/kind"
)

// Key is the key of a lock in a family of keyed locks. It may be empty, so Given says whether there is one.
type Key struct {
	Key   string
	Given bool
}

// Path is the path of the key's node in the family at path.
func (k Key) Path(ctx context.Context, client *recipes.Client, path string) (string, error) {
	in, err := inspect.Lock(ctx, client, path)
	if err != nil {
		return "", err
	}
	if in.Payload == nil || in.Kind.Key == nil {
		return "", NotAFamily(path, in)
	}
	node, err := in.Payload.Params.(*kind.KeyedParams).Path(path, k.Key)
	if err != nil {
		return "", view.Failf("Bad key", "-key: %v.", err)
	}
	return node, nil
}

// NotAFamily is the error of a key for a lock that has no keys.
func NotAFamily(path string, in *inspect.Report) error {
	what := "has no declaration"
	if in.Payload != nil {
		what = "is declared as " + in.Kind.Name
	}
	return view.Failf("Not a family", "%s %s: only a family of keyed locks has keys. Leave -key out, or name a family.", path, what)
}

// Looks returns a snapshot for each tree: which clients are connected, and the keys of its families. It is nil for a tree without
// locks in use and without families.
func (s *Stack) Looks(ctx context.Context, trees []*plan.Tree) ([]*scan.Snapshot, error) {
	out := make([]*scan.Snapshot, len(trees))
	for i, tree := range trees {
		var at scan.Options
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
		err := s.On(ctx, i, func(*direct.Session) (err error) {
			out[i], err = scan.Look(ctx, s.Clients[i], at)
			return err
		})
		if err != nil {
			return out, err
		}
	}
	return out, nil
}

// Closed returns the error about nodes that a look could not read. AllRead does the same for the trees that Read returned.
func (s *Stack) Closed(ctx context.Context, i int, of lockview.LocksOf) error {
	refused, closed := "", []string(nil)
	for _, u := range of.Snapshot.Unread {
		switch {
		case u.Missing():
		case errors.Is(u.Err, zk.ErrNoAuth):
			refused, closed = cmp.Or(refused, u.Path), append(closed, u.Path)
		default:
			closed = append(closed, fmt.Sprintf("%s (%v)", u.Path, u.Err))
		}
	}
	return s.Unread(ctx, i, closed, refused)
}

// LockAt looks at the lock at a path, or at the lock of a key in the family there, on the ensemble that has it.
func (s *Stack) LockAt(ctx context.Context, path string, key Key) (at int, in *inspect.Report, err error) {
	for i := range s.Config.Ensembles {
		var found *inspect.Report
		err := s.On(ctx, i, func(*direct.Session) (err error) {
			node := path
			if key.Given {
				if node, err = key.Path(ctx, s.Clients[i], path); err != nil {
					return err
				}
			}
			found, err = inspect.Lock(ctx, s.Clients[i], node)
			return err
		})
		switch {
		case errors.Is(err, zk.ErrNoNode):
			continue
		case err != nil:
			return 0, nil, s.Denied(ctx, i, err)
		case in != nil:
			return 0, nil, view.Failf("Several locks", "%s is on %s and on %s. Give the address of the one that you mean, or -servers.", path, s.Config.Ensembles[at].Name, s.Config.Ensembles[i].Name)
		}
		at, in = i, found
	}
	switch {
	case in == nil && key.Given:
		return 0, nil, view.Failf("No contender", "The key %q of %s has no node on %s: its lock has neither a holder nor a waiter.", key.Key, path, strings.Join(Servers(s.Config), " or "))
	case in == nil:
		return 0, nil, view.Failf("Nothing there", "There is no node %s on %s.", path, strings.Join(Servers(s.Config), " or "))
	case in.Kind == nil:
		return 0, nil, view.Failf("No contender", "%s has neither a holder nor a waiter.", path)
	}
	return at, in, Holdable(in.Kind, path)
}

// Holdable refuses a node that is no lock by itself.
func Holdable(k *kind.Kind, path string) error {
	switch {
	case k.Container:
		return view.Failf("Not a lock", "%s is a %s, which no client can hold. Name a lock inside it; \"locktree status %s\" shows them.", path, k.Name, path)
	case k.Key != nil:
		return view.Failf("Key missing", "%s is a family of locks, one for each key. Say which one with -key=KEY.", path)
	}
	return nil
}

// LookAt looks at the locks at and below a path, or at the lock of a key in the family there, on every ensemble that has it. With
// an error, it returns the locks that could be read.
func (s *Stack) LookAt(ctx context.Context, path string, key Key, reads int) ([]lockview.LocksOf, error) {
	var out []lockview.LocksOf
	errs := make([]error, len(s.Config.Ensembles))
	var ours *view.Failure
	servers, closed := Servers(s.Config), error(nil)
	for i := range s.Config.Ensembles {
		of := lockview.LocksOf{Ensemble: s.Config.Ensembles[i].Name, Addresses: servers[i], Path: path}
		stop := s.screen.During("Looking at "+path, nil)
		errs[i] = s.On(ctx, i, func(*direct.Session) (err error) {
			if key.Given {
				of.Key = &lockview.KeyOf{Family: path, Key: key.Key}
				if of.Path, err = key.Path(ctx, s.Clients[i], path); err != nil {
					return s.Denied(ctx, i, err)
				}
			}
			of.Snapshot, err = scan.Look(ctx, s.Clients[i], scan.Options{Prefix: of.Path, Reads: reads})
			return err
		})
		stop()
		switch {
		case ctx.Err() != nil:
			return nil, cmp.Or(errs[i], context.Cause(ctx))
		case errors.As(errs[i], &ours): // the error is about the key: the servers have answered
			return nil, errs[i]
		case errors.Is(errs[i], zk.ErrNoNode): // the family is not there
			errs[i] = nil
			continue
		case errs[i] != nil, of.Key == nil && len(of.Snapshot.Unread) > 0 && of.Snapshot.Unread[0].Missing():
			continue
		}
		closed = cmp.Or(closed, s.Closed(ctx, i, of))
		out = append(out, of)
	}
	s.Lose(errs)
	switch {
	case len(out) > 0:
		out = append(out, lockview.Unread(s.Lost, path)...)
	case len(s.Lost) == 0:
		closed = view.Failf("Nothing there", "There is no node %s on %s.", path, strings.Join(servers, " or "))
	}
	return out, view.Join(s.Lost.Err(), closed)
}

// MaxReads is the limit (scan.Options.Reads) of a look at a path, which may be "/".
const MaxReads = 20_000
