package session

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/recipes/internal/jute"
)

func readData(path string) *op { return &op{name: "get", code: jute.OpGetData, path: path, read: true} }
func readACL(path string) *op {
	return &op{name: "getACL", code: jute.OpGetACL, path: path, read: true}
}
func readStat(path string) *op {
	return &op{name: "exists", code: jute.OpExists, path: path, read: true}
}
func readList(path string) *op {
	return &op{name: "children", code: jute.OpGetChildren2, path: path, read: true}
}

func write(path string, data []byte, version int32) *op {
	return &op{name: "set", code: jute.OpSetData, path: path, request: &zk.SetDataRequest{Path: path, Data: data, Version: version}}
}

func remove(path string, version int32) *op {
	return &op{name: "delete", code: jute.OpDelete, path: path, request: &zk.DeleteRequest{Path: path, Version: version}}
}

// The operations are those of recipes.Session, which says more of them.

// Get returns a node's data and stat.
func (s *Session) Get(ctx context.Context, path string) ([]byte, *zk.Stat, error) {
	r, err := s.run(ctx, readData(path))
	return r.data, r.stat, err
}

// Exists returns a node's stat, nil when there is no such node.
func (s *Session) Exists(ctx context.Context, path string) (*zk.Stat, error) {
	return existing(s.run(ctx, readStat(path)))
}

func existing(r *reply, err error) (*zk.Stat, error) {
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	}
	return r.stat, err
}

// Children returns the names of a node's children, and its stat.
func (s *Session) Children(ctx context.Context, path string) ([]string, *zk.Stat, error) {
	r, err := s.run(ctx, readList(path))
	return r.names, r.stat, err
}

// GetACL returns a node's ACL, and its stat.
func (s *Session) GetACL(ctx context.Context, path string) ([]zk.ACL, *zk.Stat, error) {
	r, err := s.run(ctx, readACL(path))
	return r.acl, r.stat, err
}

// SetACL replaces a node's ACL, if its Aversion is version, or that is -1.
func (s *Session) SetACL(ctx context.Context, path string, acl []zk.ACL, version int32) (*zk.Stat, error) {
	r, err := s.run(ctx, &op{name: "setACL", code: jute.OpSetACL, path: path, request: &setACL{acl, version}})
	return r.stat, err
}

// Create creates a node and returns its path. Containers are refused: they need an opcode of their own, without which the server
// creates a persistent node, and a lock's parent must not be reaped between two holders anyway.
func (s *Session) Create(ctx context.Context, path string, data []byte, flags int32, acl []zk.ACL) (string, error) {
	r, err := s.run(ctx, &op{name: "create", code: jute.OpCreate, path: path,
		request: &zk.CreateRequest{Path: path, Data: data, Acl: acl, Flags: flags}})
	return r.path, err
}

// Container is an operation of a transaction: it creates a container node, without data, which the servers delete some time after
// its last child has gone. Older servers than 3.5.3, and a ClickHouse Keeper, know none. It is of this package, so programs, which
// must not hang locks on a node that goes by itself, cannot make one.
type Container struct {
	Path string
	ACL  []zk.ACL
}

// Set replaces a node's data, if its Version is version, or that is -1.
func (s *Session) Set(ctx context.Context, path string, data []byte, version int32) (*zk.Stat, error) {
	r, err := s.run(ctx, write(path, data, version))
	return r.stat, err
}

// Delete deletes a node without children, if its Version is version, or that is -1.
func (s *Session) Delete(ctx context.Context, path string, version int32) error {
	_, err := s.run(ctx, remove(path, version))
	return err
}

// Multi applies all operations or none.
func (s *Session) Multi(ctx context.Context, ops ...any) ([]zk.MultiResponse, error) {
	r, err := s.run(ctx, &op{name: "multi", code: jute.OpMulti, ops: ops})
	return r.results, err
}

// Sync makes the server that the session is connected to catch up with its leader, for reads that follow.
func (s *Session) Sync(ctx context.Context, path string) error {
	_, err := s.run(ctx, &op{name: "sync", code: jute.OpSync, path: path, read: true})
	return err
}

// op presents the identity. It is repeated when its answer was lost, as a read is.
func (a Auth) op() *op {
	return &op{name: "auth", code: jute.OpAuth, path: a.Scheme, request: a, read: true}
}
