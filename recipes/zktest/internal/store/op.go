package store

import "github.com/locktree/locktree/recipes/zktest/internal/wire"

// Rules are the server's configuration, and the differences of its release from 3.8.0.
type Rules struct {
	TTLNodes          bool // clients may create TTL nodes (extendedTypesEnabled)
	EnforceQuota      bool // hard limits refuse writes (enforceQuota)
	X509, SASL        bool // access lists may have entries of these schemes
	ExistsNeedsRead   bool // ZOOKEEPER-2590
	MultiDecodesModes bool // a multi with an unknown mode of creation cannot be decoded, as of 3.9.0
}

// Caller is the client that asks.
type Caller struct {
	Session    int64 // the session that owns the ephemeral nodes of the caller
	Identities []Identity
}

// Stamp is the number and the time that a transaction leaves on the nodes that it changes. The caller takes a new zxid for each
// transaction, even if the transaction then fails.
type Stamp struct {
	Zxid   int64
	Millis int64 // since the epoch
}

// Op is one write: Create, Delete, SetData, SetACL or Check.
type Op interface{ apply(t *txn) Result }

// Create makes a node.
type Create struct {
	Path  string
	Data  []byte // the tree keeps this slice, so the caller must not change it
	ACL   []wire.ACL
	Flags int32    // whether the node is sequential, ephemeral, ... (CreateMode.fromFlag)
	Kind  Lifetime // by the operation: Container for createContainer, Timed for createTTL, otherwise Persistent
	TTL   int64    // milliseconds, for createTTL
}

// Delete removes a node that has no children. Version -1 means any version, here and in the types below.
type Delete struct {
	Path    string
	Version int32
}

// SetData replaces a node's data.
type SetData struct {
	Path    string
	Data    []byte // the tree keeps this slice, so the caller must not change it
	Version int32
}

// SetACL replaces a node's access list. A client's multi cannot contain it.
type SetACL struct {
	Path    string
	ACL     []wire.ACL
	Version int32 // the version of the list
}

// Check changes nothing, and fails if the node has another version.
type Check struct {
	Path    string
	Version int32
}

// Result is the answer to one write. If Code is not OK, only Code is set.
type Result struct {
	Code     wire.Code
	Path     string    // the node's path; after Create, with the sequence number
	Stat     wire.Stat // set after Create, SetData and SetACL
	Lifetime Lifetime  // the lifetime of the node that Create made
}

// Change is a change that a watch may report.
type Change struct {
	Path string
	Type wire.EventType
	Zxid int64
	acl  []wire.ACL
}

// VisibleTo reports whether a client may be told of the change: clients that cannot read the node get no event. ZooKeeper has checked this
// since CVE-2024-23944 (3.8.4, and Debian's 3.8.0).
func (c Change) VisibleTo(by Caller) bool { return by.hasRight(permRead, c.acl) }
