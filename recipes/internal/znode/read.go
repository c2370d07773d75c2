package znode

import (
	"context"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/recipes/internal/retry"
	"github.com/locktree/locktree/recipes/internal/session"
)

// ListChildren lists a node, however often the answer is lost with its connection.
func ListChildren(ctx context.Context, s *session.Session, dir string) (children []string, err error) {
	err = retry.Do(ctx, s, Unanswered, func() error {
		children, _, err = s.Children(ctx, dir)
		return err
	})
	return children, err
}

// ListAll lists several nodes in one round trip, however often the answers are lost. With absent a missing node counts as empty: the gate
// of a key is created when a caller has to wait.
func ListAll(ctx context.Context, s *session.Session, dirs []string, absent bool) ([][]string, error) {
	b := s.Batch()
	sent := make([]*session.Reply, len(dirs))
	for i, dir := range dirs {
		sent[i] = b.List(dir)
	}
	lists, err := [][]string(nil), b.Send(ctx)
	if err == nil {
		lists, err = awaitLists(ctx, sent, absent)
	}
	if err != nil {
		lists, err = ListAllAgain(ctx, s, dirs, absent)
	}
	return lists, err
}

// ListAllAgain lists several nodes, one after the other: it is for lists that were lost.
func ListAllAgain(ctx context.Context, s *session.Session, dirs []string, absent bool) (lists [][]string, err error) {
	lists = make([][]string, len(dirs))
	for i, dir := range dirs {
		if lists[i], err = ListChildren(ctx, s, dir); err != nil && !(absent && IsNoNode(err)) {
			return nil, err
		}
	}
	return lists, nil
}

// GetCalledPersistent is GetCalled until it is answered.
func GetCalledPersistent(ctx context.Context, s *session.Session, path string, call func()) (data []byte, stat *zk.Stat, w *session.Watch, err error) {
	for t := (retry.Tries{}); ; {
		if data, stat, w, err = s.GetCalled(ctx, path, call); t.Over(ctx, s, Unanswered, &err) {
			return data, stat, w, err
		}
	}
}

// ChildrenCalledPersistent is ChildrenCalled until it is answered.
func ChildrenCalledPersistent(ctx context.Context, s *session.Session, path string, call func()) (children []string, w *session.Watch, err error) {
	err = retry.Do(ctx, s, Unanswered, func() error {
		children, _, w, err = s.ChildrenCalled(ctx, path, call)
		return err
	})
	return children, w, err
}
