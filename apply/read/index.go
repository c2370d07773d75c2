package read

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/apply/failure"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes"
)

// readIndex reads the stack's record into the tree. If it cannot be understood, that is noted there, so that a plan writes it
// again. A record written by a newer program is an error.
//
// A damaged record must not stop a plan, least of all a destroy: the nodes themselves say to whom they belong.
func readIndex(ctx context.Context, s *recipes.Session, tree *plan.Tree) error {
	path := plan.IndexPath(tree.Root, tree.Stack)
	head, err := HeadAt(ctx, s, path)
	if err != nil {
		return err
	}
	tree.Index, tree.IndexPin, tree.IndexTrouble = head.Index, head.Pin, head.trouble
	return nil
}

// Head is the node of the record.
type Head struct {
	Index   *plan.Index // nil when there is none, or none that can be understood
	Pin     plan.Pin
	trouble string // why it cannot be understood
}

// Of reports whether a transaction wrote it.
func (h Head) Of(id string) bool { return h.Index != nil && h.Index.Apply == id }

// HeadAt reads the node of the record at path. A record of a newer program is an error.
func HeadAt(ctx context.Context, s *recipes.Session, path string) (Head, error) {
	data, stat, err := s.Get(ctx, path)
	if errors.Is(err, zk.ErrNoNode) {
		return Head{Pin: plan.Pin{Path: path, Absent: true}}, nil
	}
	if err != nil {
		return Head{}, failure.Read(path, err)
	}
	h := Head{Pin: PinOf(path, "", stat)}
	h.Index, err = plan.DecodeIndex(data)
	var newer *plan.VersionError
	switch {
	// Writing it again would drop what a newer program wrote
	// (TestRecordOfANewerVersionIsLeftAlone).
	case errors.As(err, &newer):
		return Head{}, &failure.NodeError{Path: path, Op: "read", Why: plan.Plain(err.Error()), Err: err}
	case err != nil:
		h.trouble = plan.Plain(err.Error())
	}
	return h, nil
}
