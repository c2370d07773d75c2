package session

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"
)

// Get returns a node's data and stat.
func (s *Session) Get(ctx context.Context, path string) ([]byte, *zk.Stat, error) {
	n, err := s.get(ctx, op{name: "get", path: path, read: true}, (*zk.Conn).Get)
	return n.data, n.stat, err
}

// Exists returns a node's stat, nil when there is no such node. Servers before 3.8.4 and 3.9.2 tell everybody. Later
// ones take READ of a node that is there, and of none that is not (ZOOKEEPER-2590): zk.ErrNoAuth proves that it is there.
func (s *Session) Exists(ctx context.Context, path string) (*zk.Stat, error) {
	o := op{name: "exists", path: path, read: true}
	if err := s.checkPath(o, false); err != nil {
		return nil, err
	}
	return run(ctx, s, o, func(c *zk.Conn) (*zk.Stat, error) {
		// go-zookeeper says true together with errors of the connection: the error counts first.
		there, stat, err := c.Exists(path)
		if err != nil || !there {
			return nil, err
		}
		return stat, nil
	})
}

// Children returns the names (not paths) of a node's children, in no particular order, and its stat.
func (s *Session) Children(ctx context.Context, path string) ([]string, *zk.Stat, error) {
	l, err := s.children(ctx, op{name: "children", path: path, read: true}, (*zk.Conn).Children)
	return l.names, l.stat, err
}

// GetACL returns a node's ACL, as the server stored it, and its stat.
func (s *Session) GetACL(ctx context.Context, path string) ([]zk.ACL, *zk.Stat, error) {
	type result struct {
		acl  []zk.ACL
		stat *zk.Stat
	}
	o := op{name: "getACL", path: path, read: true}
	if err := s.checkPath(o, false); err != nil {
		return nil, nil, err
	}
	r, err := run(ctx, s, o, func(c *zk.Conn) (r result, err error) {
		r.acl, r.stat, err = c.GetACL(path)
		return r, err
	})
	return r.acl, r.stat, err
}

// SetACL replaces a node's ACL. version is compared with Stat.Aversion; -1 is any.
func (s *Session) SetACL(ctx context.Context, path string, acl []zk.ACL, version int32) (*zk.Stat, error) {
	o := op{name: "setACL", path: path}
	if err := errors.Join(s.checkPath(o, false), s.checkACL(o, acl), s.checkSize(o, 12+len(path)+aclSize(acl))); err != nil {
		return nil, first(err)
	}
	return run(ctx, s, o, func(c *zk.Conn) (*zk.Stat, error) { return c.SetACL(path, acl, version) })
}

// Create creates a node and returns its path, which a sequential flag makes longer. flags: 0, zk.FlagEphemeral,
// zk.FlagSequence or both. The parent must exist. Containers are refused: a server makes a persistent node of one that
// does not come with an opcode of its own, and a lock's parent must not be reaped between two holders anyway.
func (s *Session) Create(ctx context.Context, path string, data []byte, flags int32, acl []zk.ACL) (string, error) {
	r := &zk.CreateRequest{Path: path, Data: data, Acl: acl, Flags: flags}
	o := op{name: "create", path: path}
	if err := s.checkCreate(o, r); err != nil {
		return "", err
	}
	return s.create(ctx, o, r)
}

func (s *Session) checkCreate(o op, r *zk.CreateRequest) error {
	if r.Flags < 0 || r.Flags > zk.FlagEphemeralSequential {
		return s.refuse(o, fmt.Errorf("%w: %d", zk.ErrInvalidFlags, r.Flags), "use 0, ephemeral, sequence, or both")
	}
	err := errors.Join(s.checkPath(o, r.Flags&zk.FlagSequence != 0), s.checkACL(o, r.Acl), s.checkSize(o, opSize(r)))
	return first(err)
}

func (s *Session) create(ctx context.Context, o op, r *zk.CreateRequest) (string, error) {
	return run(ctx, s, o, func(c *zk.Conn) (string, error) {
		return c.Create(r.Path, r.Data, r.Flags, r.Acl)
	})
}

// Set replaces a node's data. version is compared with Stat.Version; -1 is any.
func (s *Session) Set(ctx context.Context, path string, data []byte, version int32) (*zk.Stat, error) {
	o := op{name: "set", path: path}
	err := errors.Join(s.checkPath(o, false), s.checkSize(o, opSize(&zk.SetDataRequest{Path: path, Data: data})))
	if err != nil {
		return nil, first(err)
	}
	return run(ctx, s, o, func(c *zk.Conn) (*zk.Stat, error) { return c.Set(path, data, version) })
}

// Delete deletes a node without children. version is compared with Stat.Version; -1 is any. The permission it needs
// is DELETE on the parent.
func (s *Session) Delete(ctx context.Context, path string, version int32) error {
	o := op{name: "delete", path: path}
	if err := s.checkPath(o, false); err != nil {
		return err
	}
	_, err := run(ctx, s, o, func(c *zk.Conn) (struct{}, error) { return struct{}{}, c.Delete(path, version) })
	return err
}

// Multi applies all operations or none: *zk.CreateRequest (no container, no TTL), *zk.SetDataRequest,
// *zk.DeleteRequest, *zk.CheckVersionRequest. When a server refused it, results says of each operation why it failed
// or that it was rolled back, and the error's Path is the first one that failed.
func (s *Session) Multi(ctx context.Context, ops ...any) ([]zk.MultiResponse, error) {
	return s.multi(ctx, op{name: "multi"}, ops)
}

func (s *Session) multi(ctx context.Context, o op, ops []any) ([]zk.MultiResponse, error) {
	if err := s.checkMulti(&o, ops); err != nil {
		return nil, err
	}
	return s.transact(ctx, o, ops)
}

// transact is multi for operations that were checked.
func (s *Session) transact(ctx context.Context, o op, ops []any) ([]zk.MultiResponse, error) {
	type result struct {
		responses []zk.MultiResponse
		err       error
	}
	// The rolled-back results must reach the caller beside the error: run drops values of failed operations.
	r, err := run(ctx, s, o, func(c *zk.Conn) (result, error) {
		responses, err := c.Multi(ops...)
		if err != nil && len(responses) == len(ops) {
			return result{responses, err}, nil
		}
		return result{responses, nil}, err
	})
	if err == nil && r.err != nil {
		// Those before the one that failed have no error, those behind it say that they were rolled back.
		for i, response := range r.responses {
			if response.Error != nil && response.Error.Error() != rolledBack {
				o.path = pathOf(ops[i])
				o.need = needOf(ops[i])
				r.err = response.Error
				break
			}
		}
		err = s.failed(o, r.err)
	}
	return r.responses, err
}

// rolledBack is what go-zookeeper makes of the code (-2) of operations that failed because another one did.
const rolledBack = "unknown error: -2"

// Sync makes the server this session is connected to catch up with its leader, for reads that follow. It is NOT a
// quorum operation: an isolated leader answers it (ZOOKEEPER-1675).
func (s *Session) Sync(ctx context.Context, path string) error {
	o := op{name: "sync", path: path, read: true}
	if err := s.checkPath(o, false); err != nil {
		return err
	}
	_, err := run(ctx, s, o, func(c *zk.Conn) (string, error) { return c.Sync(path) })
	return err
}

// node and listing are what a read answers with, in one value for run.
type node struct {
	data []byte
	stat *zk.Stat
}

type listing struct {
	names []string
	stat  *zk.Stat
}

func (s *Session) get(ctx context.Context, o op, fn func(*zk.Conn, string) ([]byte, *zk.Stat, error)) (node, error) {
	if err := s.checkPath(o, false); err != nil {
		return node{}, err
	}
	return run(ctx, s, o, func(c *zk.Conn) (n node, err error) {
		n.data, n.stat, err = fn(c, o.path)
		return n, err
	})
}

func (s *Session) children(ctx context.Context, o op, fn func(*zk.Conn, string) ([]string, *zk.Stat, error)) (listing, error) {
	if err := s.checkPath(o, false); err != nil {
		return listing{}, err
	}
	return run(ctx, s, o, func(c *zk.Conn) (l listing, err error) {
		l.names, l.stat, err = fn(c, o.path)
		return l, err
	})
}

// addAuth presents an identity. go-zookeeper repeats it on later connections only after it has succeeded once, so a
// lost answer is asked again, as for a read.
func (s *Session) addAuth(ctx context.Context, a Auth) error {
	_, err := run(ctx, s, op{name: "auth", path: a.Scheme, read: true}, func(c *zk.Conn) (struct{}, error) {
		return struct{}{}, c.AddAuth(a.Scheme, []byte(a.Credentials))
	})
	return err
}
