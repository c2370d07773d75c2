package apply

import (
	"context"
	"errors"
	"strconv"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/session"
)

// readIndex reads the stack's index with its parts into the tree. If something is missing
// or cannot be understood, that is noted there, so that a plan writes it again. An index
// written by a newer program is an error.
//
// A damaged index must not stop a plan, least of all a destroy: the nodes themselves say to whom
// they belong. The plan reports what was lost with it (plan, rebuild.go).
func readIndex(ctx context.Context, s *recipes.Session, tree *plan.Tree) error {
	path := plan.IndexPath(tree.Root, tree.Stack)
	head, err := readHead(ctx, s, path)
	if err != nil {
		return err
	}
	tree.Index, tree.IndexPin, tree.IndexTrouble = head.index, head.pin, head.trouble
	switch {
	case head.trouble != "":
		tree.Strays, err = readStrays(ctx, s, path)
	case head.index != nil && len(head.index.Shards) > 0:
		err = readParts(ctx, s, path, head)
	}
	return err
}

// head is the index node itself.
type head struct {
	index   *plan.Index // nil when there is none, or none that can be understood
	pin     plan.Pin
	zxid    int64  // of the write
	trouble string // why it cannot be understood
}

// of reports whether a transaction wrote it.
func (h head) of(id string) bool { return h.index != nil && h.index.Apply == id }

func readHead(ctx context.Context, s *recipes.Session, path string) (head, error) {
	data, stat, err := s.Get(ctx, path)
	if errors.Is(err, zk.ErrNoNode) {
		return head{pin: plan.Pin{Path: path, Absent: true}}, nil
	}
	if err != nil {
		return head{}, readError(path, err)
	}
	h := head{pin: pinOf(path, "", stat), zxid: stat.Mzxid}
	h.index, err = plan.DecodeIndex(data)
	var newer *plan.VersionError
	switch {
	// Writing it again would drop what a newer program wrote
	// (TestIndexOfANewerVersionIsLeftAlone).
	case errors.As(err, &newer):
		return head{}, &NodeError{Path: path, Op: "read", Why: bare(err), Err: err}
	case err != nil:
		h.trouble = bare(err)
	default:
		h.index.Found(stampOf(stat))
	}
	return h, nil
}

// readParts reads the parts of an index. One that is gone or was replaced by something
// else is lost; the plan finds that its entries are missing. If the index itself is
// written meanwhile, Read notices and starts over.
func readParts(ctx context.Context, s *recipes.Session, path string, h head) error {
	x := h.index
	data, stats := make([][]byte, len(x.Shards)), make([]*zk.Stat, len(x.Shards))
	part := func(i int) string { return kind.JoinPath(path, x.Shards[i].Name) }
	err := each(ctx, s, len(x.Shards),
		func(a *session.Ahead, i int) { a.WillGet(part(i)) },
		func(ctx context.Context, a *session.Ahead, i int) (err error) {
			data[i], stats[i], err = a.Get(ctx, part(i))
			if err != nil && !errors.Is(err, zk.ErrNoNode) {
				return readError(part(i), err)
			}
			return nil
		})
	if err != nil {
		return err
	}
	for i := range x.Shards {
		switch {
		case stats[i] == nil:
			x.Shards[i].Absent = true
		// Lost, but it exists: keep its version for the write that repairs it.
		case x.AddShard(i, data[i], stats[i].Version) != nil:
			x.Shards[i].Lost, x.Shards[i].Version = true, stats[i].Version
		}
		if stats[i] != nil && stats[i].Mzxid > h.zxid { // by hand: its entries are not those of then
			x.Lists.Of = nil
		}
	}
	return nil
}

// readStrays lists the parts of an index that cannot be understood: what they contain is
// unknown, but new parts cannot have their names.
func readStrays(ctx context.Context, s *recipes.Session, path string) (strays []plan.Shard, err error) {
	// If it is gone since it was read, Read notices and starts over.
	names, _, err := s.Children(ctx, path)
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return nil, readError(path, err)
	}
	for _, name := range names {
		if _, err := strconv.Atoi(name); err != nil {
			continue // not ours: what it is in the way of says so
		}
		stat, err := s.Exists(ctx, kind.JoinPath(path, name))
		if err != nil {
			return nil, readError(path, err)
		}
		if stat != nil {
			strays = append(strays, plan.Shard{Name: name, Version: stat.Version})
		}
	}
	return strays, nil
}
