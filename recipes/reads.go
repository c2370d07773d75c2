package recipes

import (
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/recipes/session"
)

// listChildren lists a node, however often the answer is lost with its connection.
func listChildren(ctx context.Context, s *Session, dir string) (children []string, err error) {
	err = persist(ctx, s, func() error {
		children, _, err = s.Children(ctx, dir)
		return err
	})
	return children, err
}

// listAllAgain lists several nodes, one after the other: it is for lists that were lost.
func listAllAgain(ctx context.Context, s *Session, dirs ...string) (lists [][]string, err error) {
	lists = make([][]string, len(dirs))
	for i, dir := range dirs {
		if lists[i], err = listChildren(ctx, s, dir); err != nil {
			return nil, err
		}
	}
	return lists, nil
}

// persist repeats a read until it is answered. A session bounds how often it asks again; who waits in a queue must not
// lose its place to a network that cuts a fourth connection while session and context live.
func persist(ctx context.Context, s *Session, read func() error) error {
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		err := read()
		if err == nil {
			return nil
		}
		if err := pauseOr(ctx, s, wait, err); err != nil {
			return err
		}
	}
}

// getWPersistent is GetW as persist does it.
func getWPersistent(ctx context.Context, s *Session, path string) (data []byte, stat *zk.Stat, w *session.Watch, err error) {
	err = persist(ctx, s, func() error {
		data, stat, w, err = s.GetW(ctx, path)
		return err
	})
	return data, stat, w, err
}

// childrenWPersistent is ChildrenW as persist does it.
func childrenWPersistent(ctx context.Context, s *Session, path string) (children []string, w *session.Watch, err error) {
	err = persist(ctx, s, func() error {
		children, _, w, err = s.ChildrenW(ctx, path)
		return err
	})
	return children, w, err
}

// pauseOr waits before another try after cause; its error is final. Hopeless is what will be no other the next time: a
// server's answer, and what this side refuses to send. Of a lost session transient says that another one may do; here it
// is the session that ends the trying, by pause.
// A request that was shed was not looked at: a place in the queue, or a grant, is too much to pay for it.
func pauseOr(ctx context.Context, s *Session, d time.Duration, cause error) error {
	answered := session.OutcomeOf(cause) == session.OutcomeDefinite && !errors.Is(cause, session.ErrThrottled)
	hopeless := answered || session.OutcomeOf(cause) == session.OutcomeNotSent && !transient(cause) || errors.Is(cause, ErrClosed)
	if hopeless || ctx.Err() != nil {
		return cause
	}
	return pause(ctx, s, d)
}
