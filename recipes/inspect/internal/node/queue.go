package node

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/recipes/inspect/internal/evidence"
	"github.com/locktree/locktree/recipes/internal/errs"
	"github.com/locktree/locktree/recipes/internal/session"
	"github.com/locktree/locktree/recipes/kind"
)

// MaxReads is how many requests for contenders are under way at a time.
const MaxReads = 16

// Together calls f for the numbers 0 to n-1, up to limit calls at a time. When all calls have returned, it returns the first of their
// errors.
func Together(limit, n int, f func(i int) error) error {
	free, errs := make(chan struct{}, limit), make([]error, n)
	var calls sync.WaitGroup
	for i := range n {
		free <- struct{}{}
		calls.Go(func() {
			defer func() { <-free }()
			errs[i] = f(i)
		})
	}
	calls.Wait()
	return cmp.Or(errs...)
}

// Reader reads one contender; nil if it has gone.
type Reader func(kind.Contender) (*kind.Party, error)

// ReadContender reads one contender; nil without an error if it has gone.
func ReadContender(ctx context.Context, s *session.Session, dir string, k kind.Contender) (*kind.Party, error) {
	c := NewContender(dir, k, nil, nil)
	data, stat, err := s.Get(ctx, c.Path)
	if errors.Is(err, zk.ErrNoAuth) {
		// We may not read the node's data. But many servers tell every client that the node exists, and which session owns it.
		if stat, err = s.Exists(ctx, c.Path); errors.Is(err, zk.ErrNoAuth) {
			return &c, nil // this server tells only that the node exists: its name is all we know
		}
	}
	if errors.Is(err, zk.ErrNoNode) || err == nil && stat == nil {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	c = NewContender(dir, k, data, stat)
	return &c, nil
}

// Contenders reads the holders and the waiters of the lock at path, and finds its junk. The function children lists the children of a node;
// it lists none if the node does not exist. Contenders reads all queues before it judges any. In a semaphore, it reads the permits first,
// and then the gate, where clients wait for permits. A Curator client creates its permits while it is at the gate, and leaves the gate when
// they are granted. If the client leaves between the two readings, its permits count as held.
func Contenders(path string, f evidence.Found, children func(dir string) ([]string, error), read func(dir string) Reader) (holders, waiters []kind.Party, junk []string, err error) {
	queue := func(dir string) ([]kind.Party, error) {
		names, err := children(dir)
		if err != nil {
			return nil, err
		}
		line, others := kind.SortContenders(names)
		junk = append(junk, Junk(f.Kind, path, dir, others)...)
		return readAll(dir, line, read(dir))
	}
	if f.Kazoo > 0 {
		taken, err := children(path)
		if err != nil {
			return nil, nil, nil, err
		}
		var permits []kind.Contender
		for _, name := range taken {
			permits = append(permits, kind.Contender{Name: name, Marker: "__lock__"})
		}
		if holders, err = readAll(path, permits, read(path)); err != nil {
			return nil, nil, nil, err
		}
		slices.SortFunc(holders, func(a, b kind.Party) int { return cmp.Compare(a.Token, b.Token) })
		waiters, err = queue(path + evidence.KazooQueue)
		for _, line := range [][]kind.Party{holders, waiters} {
			for i := range line {
				line[i].Permits = 1
			}
		}
		return holders, waiters, junk, err
	}
	lines := make([][]kind.Party, len(f.Kind.Queues))
	for i, q := range f.Kind.Queues {
		if lines[i], err = queue(q.Dir(path)); err != nil {
			return nil, nil, nil, err
		}
	}
	if !slices.ContainsFunc(f.Kind.Queues, func(q kind.Queue) bool { return q.Child == "" }) {
		names, err := children(path)
		if err != nil {
			return nil, nil, nil, err
		}
		junk = append(junk, Junk(f.Kind, path, path, names)...)
	}
	holders, waiters = Judge(f.Kind, f.Params, lines)
	return holders, waiters, junk, nil
}

func readAll(dir string, queue []kind.Contender, read Reader) ([]kind.Party, error) {
	found := make([]*kind.Party, len(queue))
	err := Together(MaxReads, len(queue), func(i int) (err error) {
		found[i], err = read(queue[i])
		return err
	})
	if err != nil {
		return nil, errs.Errorf("recipes: inspect %s: %w", dir, err)
	}
	var out []kind.Party
	for _, c := range found {
		if c != nil {
			out = append(out, *c)
		}
	}
	return out, nil
}

// Judge sorts the contenders of all queues of a lock into holders and waiters. Without params it judges by the nodes alone.
func Judge(k *kind.Kind, params kind.Params, lines [][]kind.Party) (holders, waiters []kind.Party) {
	seen := make([][]kind.Seen, len(lines))
	for i, line := range lines {
		for _, c := range line {
			parsed, _ := kind.ParseContender(c.Name)
			seen[i] = append(seen[i], kind.Seen{Contender: parsed, Session: c.Session, Data: c.Data})
		}
	}
	for i, verdicts := range k.Judge(params, seen) {
		for j, v := range verdicts {
			c := lines[i][j]
			if c.Permits = v.Permits; v.Holds {
				c.Candidate = k.Kept && c.Held.IsZero()
				holders = append(holders, c)
			} else {
				waiters = append(waiters, c)
			}
		}
	}
	return holders, waiters
}

// Junk returns the paths of those names in dir that are no contenders and no part of the layout of the lock at path. A namespace has no
// junk: its children may have any name.
func Junk(k *kind.Kind, path, dir string, names []string) (junk []string) {
	for _, name := range names {
		if k != nil && (k.Container || dir == path && slices.Contains(k.Children, name)) {
			continue
		}
		junk = append(junk, kind.JoinPath(dir, name))
	}
	return junk
}
