// Package evict asks a client to give a lock back, or removes the client from the lock, and notes that in the history.
//
//	all := evict.Acquisitions(in) // in is a report of inspect.Lock
//	done, err := evict.Break(ctx, client, history.Author{Who: "ann@desk", Message: "stuck"}, in, all[0])
//
// An [Acquisition] is what one transaction gave a client. The czxid and the session of its nodes identify it, so no other node is
// deleted. [Break] deletes all its nodes in one transaction, and [Revoke] writes the request into the first one. The transaction
// also notes that in the history.
//
// The package relies on inspect for the look at a lock, on history for the entry and on refusal for the errors. It needs no plan
// and no apply lock. Break does not notify the client. The package removes only what its caller named.
package evict

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/apply/history"
	"github.com/locktree/locktree/apply/internal/refusal"
	"github.com/locktree/locktree/apply/internal/wire"
	"github.com/locktree/locktree/plan/record"
	"github.com/locktree/locktree/plan/tx"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/direct"
	"github.com/locktree/locktree/recipes/inspect"
	"github.com/locktree/locktree/recipes/inspect/scan"
	"github.com/locktree/locktree/recipes/kind"
)

// Acquisition is what one transaction gave a client in a lock: a place in a queue, the permits of a semaphore, or one lock of a
// set. The czxid and the session of its nodes identify it. Names alone do not suffice: after a lock's node is deleted and created
// again, names occur again.
type Acquisition struct {
	kind.Party              // the first of its nodes in the lock
	Queued     bool         // it is a place in the queue
	Nodes      []kind.Party // in the lock
	Others     []kind.Party // in other locks, see [Acquisition.Set]
	Blind      bool         // the field Others may be incomplete: not every lock could be looked at
}

// Acquisitions returns the acquisitions in a lock, those of holders first.
func Acquisitions(in *inspect.Report) (out []Acquisition) {
	for _, side := range []struct {
		waits bool
		who   []kind.Party
	}{{false, in.Holders}, {true, in.Waiters}} {
		first := len(out)
		for _, p := range side.who {
			at := first + slices.IndexFunc(out[first:], func(a Acquisition) bool { return a.includes(p, in.Kind.Permits != nil && side.waits) })
			if at < first {
				out, at = append(out, Acquisition{Party: p, Queued: side.waits}), len(out)
			}
			a := &out[at]
			if a.Permits == 0 && p.Permits > 0 { // until now, a.Party was the waiter's node in the gate (see includes); p is its first node with permits
				a.Party = p
			}
			a.Nodes = append(a.Nodes, p)
		}
	}
	return out
}

// includes reports whether the node p belongs to the acquisition. A waiter for permits has its place in the gate: a second queue
// directory that grants nothing by itself. A later transaction may have created its nodes for permits.
func (a Acquisition) includes(p kind.Party, gate bool) bool {
	beside := func(q kind.Party) bool { return kind.ParentPath(q.Path) == kind.ParentPath(p.Path) }
	return a.Session == p.Session && a.Session != 0 && (a.Token == p.Token || gate && !slices.ContainsFunc(a.Nodes, beside))
}

// Is reports whether an operator names this acquisition: by its id, its node, its session or its token.
func (a Acquisition) Is(who string) bool {
	return who == a.ID || who == fmt.Sprint(a.Token) || who == fmt.Sprintf("%#x", uint64(a.Session)) ||
		slices.ContainsFunc(a.Nodes, func(p kind.Party) bool { return who == p.Name || who == p.Path })
}

// Set fills in Others: the nodes of the same transaction in other locks, as far as the look found them.
func (a *Acquisition) Set(snap *scan.Snapshot) {
	locks := snap.Locks
	a.Blind = snap.Cut || snap.Pending > 0 || slices.ContainsFunc(snap.Unread, func(u scan.Unread) bool { return !u.Missing() })
	for _, in := range snap.Locks {
		if in.Keys != nil {
			a.Blind = a.Blind || in.Keys.Looked < in.Keys.InUse || in.Keys.Closed > 0
			locks = append(slices.Clip(locks), in.Keys.Read...)
		}
	}
	for _, in := range locks {
		for _, p := range slices.Concat(in.Holders, in.Waiters) {
			a.Blind = a.Blind || p.Token == 0
			same := func(q kind.Party) bool { return q.Path == p.Path }
			if p.Session == a.Session && p.Token == a.Token && a.Session != 0 && !slices.ContainsFunc(a.Nodes, same) && !slices.ContainsFunc(a.Others, same) {
				a.Others = append(a.Others, p)
			}
		}
	}
}

// Evicted is what became of an acquisition.
type Evicted struct {
	Nodes   []string // the nodes that were removed, or written to
	History string   // the path of the history that notes it; "" if none does
	Why     string   // why no history notes it
}

// Gone reports whether the client had left before anything was written.
func (e *Evicted) Gone() bool { return len(e.Nodes) == 0 }

// Break removes one acquisition: all its nodes, in other locks too, in one transaction with the note in the history. Contenders
// behind it keep their places. Break first reads the nodes again, and leaves out nodes that are gone or now belong to another
// client. A client may write into its node meanwhile, which fails the transaction. Break then reads again and retries until ctx
// ends.
//
// The client is not told, and its program runs on until it notices.
func Break(ctx context.Context, c *recipes.Client, by history.Author, in *inspect.Report, a Acquisition) (*Evicted, error) {
	return evict(ctx, c, by, in, a, "break", slices.Concat(a.Nodes, a.Others), func(path string, version int32) tx.Op {
		return tx.Op{Kind: tx.OpDelete, Path: path, Version: version}
	})
}

// Revoke asks for an acquisition back, as [recipes.Client.Revoke] does, but not if another client has taken its place. The client
// decides when to give the lock back.
func Revoke(ctx context.Context, c *recipes.Client, by history.Author, in *inspect.Report, a Acquisition) (*Evicted, error) {
	return evict(ctx, c, by, in, a, "revoke", []kind.Party{a.Party}, func(path string, version int32) tx.Op {
		return tx.Op{Kind: tx.OpSet, Path: path, Data: []byte(kind.RevokeMessage), Version: version}
	})
}

func evict(ctx context.Context, c *recipes.Client, by history.Author, in *inspect.Report, a Acquisition, operation string, nodes []kind.Party, op func(string, int32) tx.Op) (*Evicted, error) {
	s, err := c.Session(ctx)
	if err != nil {
		return nil, err
	}
	e := by.Entry(c, operation, time.Now())
	e.ID, e.Lock, e.Holder, e.Waited, e.Token = history.NewID(), in.Path, a.Party.String(), a.Queued, a.Token
	for _, p := range a.Others {
		e.Others = append(e.Others, kind.ParentPath(p.Path)) // locks that are taken together (a set) are no semaphores, so the parent of each node is its lock
	}
	diary, err := openDiary(ctx, s, in)
	if err != nil {
		return nil, err
	}
	perhaps := &Evicted{} // the result if the last reply was lost, but its transaction was committed
	for {
		if s, err = c.Session(ctx); err != nil {
			return nil, err
		}
		ops, err := operations(ctx, s, nodes, op)
		switch {
		case errors.Is(err, recipes.ErrSessionLost):
			continue // the transaction may have been committed: the next session shows it
		case err == nil && len(ops) == 0 && perhaps.History != "":
			if all, err := history.At(ctx, s, perhaps.History); err == nil && !slices.ContainsFunc(all, func(one history.Entry) bool { return one.ID == e.ID }) {
				return &Evicted{}, nil // the client left by itself
			}
			return perhaps, nil
		case err != nil || len(ops) == 0:
			return perhaps, err
		}
		done := &Evicted{}
		for _, o := range ops {
			done.Nodes = append(done.Nodes, o.Path)
		}
		note, err := diary.note(ctx, s, e)
		if err != nil {
			return nil, err
		}
		if done.History, done.Why = diary.path, diary.why; done.Why != "" {
			done.History = ""
		}
		ops = append(ops, note...)
		results, err := s.Multi(ctx, wire.Requests(ops)...)
		failed, refused := refusal.FirstRefused(results, ops)
		switch {
		case err == nil:
			return done, nil
		case refusal.Unknown(err): // the next look shows whether it was committed
			perhaps = done
		case refused && failed.Path == diary.path && errors.Is(err, zk.ErrNoAuth):
			diary.why = "we may not read and write " + diary.path
		case errors.Is(err, zk.ErrBadVersion), errors.Is(err, zk.ErrNoNode):
		case !refused:
			return nil, refusal.Denied(c, ops[0], err)
		default:
			return nil, refusal.Denied(c, failed, err)
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(evictPause): // pause: a failed transaction also costs the servers a write
		}
	}
}

// evictPause is the pause between two tries of an eviction.
const evictPause = 50 * time.Millisecond

// operations returns the operation for each node that is still the one that was read.
func operations(ctx context.Context, s *direct.Session, nodes []kind.Party, op func(string, int32) tx.Op) (ops []tx.Op, err error) {
	for _, n := range nodes {
		stat, err := s.Exists(ctx, n.Path)
		switch {
		case err != nil:
			return nil, refusal.Read(n.Path, err)
		case stat != nil && uint64(stat.Czxid) == n.Token && stat.EphemeralOwner == n.Session:
			ops = append(ops, op(n.Path, stat.Version))
		}
	}
	return ops, nil
}

// diary is the history of the stack that declares a lock, found without the stack's configuration.
type diary struct {
	path string
	why  string // why nothing can be noted there
}

// openDiary looks for the history in the root of the stack, which is somewhere above the lock.
func openDiary(ctx context.Context, s *direct.Session, in *inspect.Report) (*diary, error) {
	if in.Payload == nil || in.Payload.Owner.Stack == "" {
		return &diary{why: "no stack declares the lock, so there is no history"}, nil
	}
	stack := in.Payload.Owner.Stack
	for root := in.Path; root != "/"; {
		root = kind.ParentPath(root)
		path := record.HistoryPath(root, stack)
		stat, err := s.Exists(ctx, path)
		switch {
		case errors.Is(err, zk.ErrNoAuth):
			return &diary{path: path, why: "we may not read and write " + path}, nil
		case err != nil:
			return nil, refusal.Read(path, err)
		case stat != nil:
			return &diary{path: path}, nil
		}
	}
	return &diary{why: fmt.Sprintf("stack %q has no history yet", stack)}, nil
}

// note returns the operation that writes an entry into the present history.
func (d *diary) note(ctx context.Context, s *direct.Session, e history.Entry) ([]tx.Op, error) {
	if d.why != "" {
		return nil, nil
	}
	h, err := history.Open(ctx, s, d.path)
	switch {
	case err != nil:
		return nil, err
	case h.State == history.Closed:
		d.why = "we may not read and write " + d.path
		return nil, nil
	case h.State == history.Absent:
		d.why = "another client deleted " + d.path
		return nil, nil
	}
	return h.Note(e), nil
}
