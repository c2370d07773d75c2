package recipes_test

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/direct"
	"github.com/locktree/locktree/recipes/internal/seam"
	"github.com/locktree/locktree/recipes/internal/session"
	"github.com/locktree/locktree/recipes/kind"
)

// rival is a program of another library that takes the lock of a key. It creates the node, queues, holds, and leaves, as that library does.
type rival struct {
	w       *simWorld
	habit   habit
	of      simMember
	shared  bool
	crashes bool // while it holds the lock
	patient time.Duration
	hold    time.Duration
	s       *direct.Session

	node  string // the node that shows that it holds
	grant int
	at    int64 // the stamp of the grant
}

// habit is how a library creates the node of a key, and leaves it.
type habit int

const (
	stockCurator habit = iota // creates a container if there is none, and leaves it there
	stockKazoo                // creates a persistent node, as kazoo does, and leaves it there
	helper                    // of testdata/interop: creates it with its contender, and deletes it if no contender is left
)

// found plays one rival.
func (w *simWorld) found(f simFault) {
	r := &rival{w: w, habit: habit(f.n % 3), of: w.locks[f.n/3%len(w.locks)], shared: f.n/64%2 == 0, crashes: f.n/128%4 == 0, patient: f.lasts,
		hold: f.lasts / time.Duration(1+f.n/512%16)}
	resizes := func(f simFault) bool { return f.what == "resize" || f.what == "lower" }
	if !w.keyed(r.of.path) || r.of.recipe == "semaphore" && slices.ContainsFunc(w.plan.faults, resizes) {
		return // Curator's programs have their own number of permits, and do not read the declared one
	}
	if r.of.recipe == "semaphore" && r.habit == stockKazoo {
		r.habit = stockCurator // kazoo's semaphores are another recipe
	}
	ctx := seam.With(context.Background(), seam.Seams{Slept: func() time.Duration { return 0 }})
	ctx, cancel := context.WithTimeout(ctx, 2*w.plan.timeout)
	defer cancel()
	c, err := recipes.Dial(ctx, recipes.Config{Servers: []string{"leader"}, Dialer: w.wire, SessionTimeout: w.plan.timeout, ConnectTimeout: w.plan.timeout, ID: "rival"})
	if err != nil {
		return
	}
	defer c.Close()
	if r.s, err = c.Session(ctx); err != nil {
		return
	}
	for range 1 + f.n/8192%3 {
		if r.once() != nil {
			return // its nodes go with its session
		}
	}
}

var errCrashed = errors.New("crashed")

// once takes the lock and gives it back.
func (r *rival) once() error {
	ctx, cancel := context.WithTimeout(context.Background(), r.patient)
	defer cancel()
	called := r.w.now()
	node, err := r.acquire(ctx)
	if err != nil || node == "" {
		return err
	}
	if !r.admitted(node, called) {
		return r.leave(node)
	}
	time.Sleep(r.hold)
	seen := r.standing()
	if r.crashes {
		r.w.Srv.Expire(r.s.ID())
		err = errCrashed
	} else {
		err = r.leave(node)
	}
	for there := true; there; { // if the outcome is not known, the node goes with the session
		if _, there = r.w.Srv.Get(node); there {
			if err == nil {
				r.w.violated("a rival was told that %s is deleted, and it is there", node)
				return nil
			}
			r.w.Srv.Expire(r.s.ID())
			time.Sleep(r.w.plan.tick)
		}
	}
	r.left(seen)
	return err
}

// acquire returns the node that shows that the rival holds, or "" if it was not patient enough.
func (r *rival) acquire(ctx context.Context) (node string, err error) {
	dir := r.w.node(r.of.path)
	switch r.of.recipe {
	case "semaphore":
		return r.permit(ctx, dir)
	case "rwlock":
		if r.shared {
			return r.first(ctx, dir, "__READ__")
		}
		return r.first(ctx, dir, "__WRIT__")
	}
	return r.first(ctx, dir, "-lock-")
}

// first queues, and waits until no contender that excludes it is ahead.
func (r *rival) first(ctx context.Context, dir, name string) (string, error) {
	node, err := r.queue(ctx, dir, name)
	var turn bool
	if err == nil {
		turn, err = awaitTurn(ctx, r.s, node)
	}
	if node != "" && ctx.Err() != nil {
		return "", r.leave(node)
	}
	if !turn {
		return "", err
	}
	return node, nil
}

// awaitTurn waits as Curator and kazoo do, until no contender ahead of node excludes it. It returns false if node was deleted.
func awaitTurn(ctx context.Context, s *direct.Session, node string) (bool, error) {
	dir := path.Dir(node)
	for {
		names, _, err := s.Children(ctx, dir)
		if err != nil {
			return false, err
		}
		line, _ := kind.SortContenders(names)
		own := slices.IndexFunc(line, func(c kind.Contender) bool { return c.Name == path.Base(node) })
		if own < 0 {
			return false, nil
		}
		ahead := ""
		for _, c := range line[:own] {
			if !line[own].Shared || !c.Shared {
				ahead = c.Name
			}
		}
		if ahead == "" {
			return true, nil
		}
		_, _, changed, err := s.GetW(ctx, kind.JoinPath(dir, ahead))
		if errors.Is(err, zk.ErrNoNode) {
			continue
		}
		if err != nil {
			return false, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}

// permit takes one permit as InterProcessSemaphoreV2 does. While it holds its lock, it adds a lease and waits until the leases do not
// exceed the permits.
func (r *rival) permit(ctx context.Context, dir string) (string, error) {
	lock, err := r.first(ctx, dir+"/locks", "-lock-")
	if err != nil || lock == "" {
		return "", err
	}
	node, err := r.queue(ctx, dir+"/leases", "-lease-")
	for err == nil {
		var names []string
		var changed <-chan struct{}
		if names, _, changed, err = r.s.ChildrenW(ctx, dir+"/leases"); err != nil {
			break
		}
		if line, _ := kind.SortContenders(names); len(line) <= simPermits {
			return node, r.drop(lock)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	if gaveUp := ctx.Err() != nil; gaveUp && node != "" {
		return "", errors.Join(r.drop(lock), r.leave(node))
	} else if gaveUp {
		return "", r.leave(lock)
	}
	return "", err
}

// queue creates a contender, and the missing nodes above it. A stock library tries that once: it fails if the node above is deleted in
// between.
func (r *rival) queue(ctx context.Context, dir, name string) (string, error) {
	u := r.w.now()
	at := fmt.Sprintf("%s/_c_%08x-1111-4111-8111-111111111111%s", dir, u, name)
	if r.habit == stockKazoo {
		at = fmt.Sprintf("%s/%032x%s", dir, u, name)
	}
	above := []string{r.w.node(r.of.path)}
	if above[0] != dir {
		above = append(above, dir)
	}
	var node string
	var err error
	for range []int{2, 2, 20}[r.habit] {
		if node, err = r.s.Create(ctx, at, nil, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll)); !errors.Is(err, zk.ErrNoNode) {
			return node, err
		}
		if r.habit == helper && len(above) == 1 {
			made, err := r.s.Multi(ctx, &session.Container{Path: dir, ACL: zk.WorldACL(zk.PermAll)},
				&zk.CreateRequest{Path: at, Acl: zk.WorldACL(zk.PermAll), Flags: zk.FlagEphemeral | zk.FlagSequence})
			if err == nil {
				return made[1].String, nil
			} else if !errors.Is(err, zk.ErrNodeExists) {
				return "", err
			}
			continue
		}
		for _, path := range above {
			if err := r.make(path); err != nil {
				return "", err
			}
		}
	}
	return "", err
}

// make creates a node above contenders. A container that never has a child stays.
func (r *rival) make(path string) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), r.w.plan.timeout/2)
	defer cancel()
	if r.habit == stockKazoo {
		_, err = r.s.Create(ctx, path, nil, 0, zk.WorldACL(zk.PermAll))
	} else {
		_, err = r.s.Multi(ctx, &session.Container{Path: path, ACL: zk.WorldACL(zk.PermAll)})
	}
	if errors.Is(err, zk.ErrNodeExists) || errors.Is(err, zk.ErrNoNode) { // or the node above it has gone
		return nil
	}
	if err != nil {
		time.Sleep(r.w.plan.tick) // the node may exist, or may be created soon
	}
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	if n, there := r.w.Srv.Get(path); there {
		r.w.foreign[n.Stat.Czxid] = true
	}
	return err
}

// drop deletes a contender.
func (r *rival) drop(node string) error {
	ctx, cancel := context.WithTimeout(context.Background(), r.w.plan.timeout/2)
	defer cancel()
	if err := r.s.Delete(ctx, node, -1); !errors.Is(err, zk.ErrNoNode) {
		return err
	}
	return nil
}

// leave deletes a contender. A helper also deletes the nodes above it, if no contender is left there.
func (r *rival) leave(node string) error {
	if r.habit != helper {
		return r.drop(node)
	}
	ctx, cancel := context.WithTimeout(context.Background(), r.w.plan.timeout/2)
	defer cancel()
	key := r.w.node(r.of.path)
	if r.of.recipe == "semaphore" {
		err := r.drop(node)
		for _, path := range []string{key + "/locks", key + "/leases", key} {
			if err == nil || errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrNotEmpty) {
				err = r.s.Delete(ctx, path, -1)
			}
		}
		return helped(err)
	}
	_, err := r.s.Multi(ctx, &zk.DeleteRequest{Path: node, Version: -1}, &zk.DeleteRequest{Path: key, Version: -1})
	if errors.Is(err, zk.ErrNotEmpty) || errors.Is(err, zk.ErrNoNode) {
		if err = r.drop(node); err == nil {
			err = r.s.Delete(ctx, key, -1)
		}
	}
	return helped(err)
}

// helped drops the error if a contender is in the node of a key, or if the node has gone.
func helped(err error) error {
	if errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrNotEmpty) {
		return nil
	}
	return err
}

// part returns what the rival has of the lock.
func (r *rival) part() *simPart {
	return &simPart{lock: r.of.path, recipe: r.of.recipe, nodes: []string{r.node}, shared: r.shared && r.of.recipe == "rwlock", n: 1}
}

// admitted enters the grant. It returns false if the node was deleted in between.
func (r *rival) admitted(node string, called int64) bool {
	w := r.w
	w.mu.Lock()
	defer w.mu.Unlock()
	n, there := w.Srv.Get(node)
	if !there {
		return false
	}
	w.ids++
	r.node, r.grant, r.at = node, w.ids, w.stamp()
	w.stats.rivals[r.habit]++
	p := r.part()
	// A rival does not look whether the lock is drained.
	w.enter(event{op: opAcquire, client: len(w.plan.scripts), grant: r.grant, token: uint64(n.Stat.Czxid), passed: true, call: called, ret: w.stamp()}, p)
	return true
}

// standing returns a stamp at which the rival certainly held.
func (r *rival) standing() int64 {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	if _, there := r.w.Srv.Get(r.node); there {
		return r.w.stamp()
	}
	return r.at
}

// left enters the end of the grant, which came at some moment after the stamp seen.
func (r *rival) left(seen int64) {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	r.w.enter(event{op: opGone, client: len(r.w.plan.scripts), grant: r.grant, call: seen, ret: r.w.stamp()}, r.part())
}
