package apply

import (
	"context"
	"errors"
	"slices"
	"strconv"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
)

// readIndex reads the stack's record into the tree. If it cannot be understood, that is noted there, so that a plan writes it
// again. A record written by a newer program is an error.
//
// A damaged record must not stop a plan, least of all a destroy: the nodes themselves say to whom they belong.
func readIndex(ctx context.Context, s *recipes.Session, tree *plan.Tree) error {
	path := plan.IndexPath(tree.Root, tree.Stack)
	head, err := readHead(ctx, s, path)
	if err != nil {
		return err
	}
	tree.Index, tree.IndexPin, tree.IndexTrouble = head.index, head.pin, head.trouble
	if head.children > 0 {
		return readParts(ctx, s, path, tree)
	}
	return nil
}

// head is the node of the record.
type head struct {
	index   *plan.Index // nil when there is none, or none that can be understood
	pin     plan.Pin
	trouble string // why it cannot be understood

	children int32 // in records of former formats
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
	h := head{pin: pinOf(path, "", stat), children: stat.NumChildren}
	h.index, err = plan.DecodeIndex(data)
	var newer *plan.VersionError
	switch {
	// Writing it again would drop what a newer program wrote
	// (TestRecordOfANewerVersionIsLeftAlone).
	case errors.As(err, &newer):
		return head{}, &NodeError{Path: path, Op: "read", Why: bare(err), Err: err}
	case err != nil:
		h.trouble = bare(err)
	default:
		h.index.Found(stampOf(stat))
	}
	return h, nil
}

// readParts reads the parts in which a record of a former format is kept. If the record is written meanwhile, Read notices and starts
// over.
func readParts(ctx context.Context, s *recipes.Session, path string, tree *plan.Tree) error {
	names, err := childrenOf(ctx, s, path)
	if err != nil {
		return err
	}
	// Others are not ours: what they are in the way of says so.
	names = slices.DeleteFunc(names, func(name string) bool { _, err := strconv.Atoi(name); return err != nil })
	slices.Sort(names)
	for _, name := range names {
		data, stat, err := s.Get(ctx, kind.JoinPath(path, name))
		switch {
		case errors.Is(err, zk.ErrNoNode):
			continue
		case err != nil:
			return readError(kind.JoinPath(path, name), err)
		}
		tree.Parts = append(tree.Parts, plan.FormerPart{Name: name, Version: stat.Version})
		if tree.Index != nil {
			tree.Index.AddPart(data)
		}
	}
	if tree.Index != nil {
		slices.Sort(tree.Index.Away)
	}
	return nil
}
