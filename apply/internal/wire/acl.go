// Package wire turns the operations and access lists of a plan into those of the ZooKeeper client. It also turns access lists of
// that client into lists of a plan. It sends nothing.
//
//	results, err := session.Multi(ctx, wire.Requests(ops)...)
package wire

import (
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/tx"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
)

// ToZK is a list as the client sends it.
func ToZK(in kind.List) []zk.ACL {
	out := make([]zk.ACL, len(in))
	for i, a := range in {
		out[i] = zk.ACL{Perms: int32(a.Perms), Scheme: a.Scheme, ID: a.ID}
	}
	return out
}

// FromZK is a list that the client received.
func FromZK(in []zk.ACL) kind.List {
	out := make(kind.List, len(in))
	for i, a := range in {
		out[i] = kind.ACL{Perms: kind.Perm(a.Perms), Scheme: a.Scheme, ID: a.ID}
	}
	return out
}

// OwnACL is the access list of the tool's own nodes that we create: the set of the root, which is its administrators and readers.
// Without a set, every identity of the connection has all rights; without identities, everybody has all rights. The identities are
// written as "auth", which the server replaces by the identities it knows of us: only the server knows them. It refuses a list of
// only "auth" to a connection that has not authenticated (PrepRequestProcessor, fixupACL).
func OwnACL(c *recipes.Client, set *plan.Access) kind.List {
	if set != nil {
		return set.List()
	}
	if slices.ContainsFunc(c.Identities(), func(id kind.ACL) bool { return id.Scheme != "world" }) {
		return kind.List{{Scheme: "auth", ID: "", Perms: kind.PermAll}}
	}
	return kind.WorldAll()
}

// Requests turns the operations of a plan into what the client sends.
func Requests(ops []tx.Op) []any {
	out := make([]any, len(ops))
	for i, op := range ops {
		switch op.Kind {
		case tx.OpCreate:
			data := op.Data
			if data == nil {
				data = []byte{} // null data is legal, but other clients stumble over it
			}
			out[i] = &zk.CreateRequest{Path: op.Path, Data: data, Acl: ToZK(op.ACL)}
		case tx.OpSet:
			out[i] = &zk.SetDataRequest{Path: op.Path, Data: op.Data, Version: op.Version}
		case tx.OpDelete:
			out[i] = &zk.DeleteRequest{Path: op.Path, Version: op.Version}
		default:
			out[i] = &zk.CheckVersionRequest{Path: op.Path, Version: op.Version}
		}
	}
	return out
}
