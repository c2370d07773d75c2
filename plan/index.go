package plan

import (
	"encoding/json"

	"github.com/locktree/locktree/recipes/kind"
)

// IndexFormat is the version of the index this package writes.
const IndexFormat = 1

// Index is the data of <root>/.locktree/stacks/<stack>: what the stack owns, as
// the last apply left it. It is written in the same transaction as the nodes.
// It is a help, not the truth: what a node says about itself wins.
type Index struct {
	Apply     string                  // id of the apply that wrote it
	Config    string                  // hash of the configuration that was applied
	Resources map[string]IndexEntry   // by address
	Pending   []PendingACL            // access lists that apply has still to set
	Outputs   map[string]StoredOutput // by name

	extra map[string]json.RawMessage // fields of newer versions, kept
}

// IndexEntry is one node of the stack.
type IndexEntry struct {
	Path string `json:"path"`
	Type string `json:"type"`
	Gen  int64  `json:"gen"`
	// Hash is of payload and access list as applied: what differs was changed by hand.
	Hash string `json:"hash"`
}

// PendingACL is an access list to be set on an existing node: the part of an
// apply ZooKeeper cannot do in a transaction.
type PendingACL struct {
	Addr string     `json:"addr"`
	Path string     `json:"path"`
	ACL  []kind.ACL `json:"acl"`
}

// StoredOutput is an output value in the index.
type StoredOutput struct {
	Type      json.RawMessage `json:"type,omitempty"`
	Value     json.RawMessage `json:"value,omitempty"`
	Sensitive bool            `json:"sensitive,omitempty"`
}

// IndexPath returns the path of the index of a stack: <root>/.locktree/stacks/<stack>.
func IndexPath(root, stack string) string {
	return kind.JoinPath(kind.JoinPath(ScaffoldPath(root), "stacks"), stack)
}

// LockPath returns the path of the apply lock of a stack: <root>/.locktree/apply/<stack>.
func LockPath(root, stack string) string {
	return kind.JoinPath(kind.JoinPath(ScaffoldPath(root), "apply"), stack)
}

// ScaffoldPath returns <root>/.locktree, where the tool keeps its own nodes.
func ScaffoldPath(root string) string { return kind.JoinPath(root, ".locktree") }

// Encode writes the index as JSON with sorted keys: equal indexes give equal bytes.
func (x *Index) Encode() ([]byte, error) { return encodeIndex(x) }

// DecodeIndex reads what Encode wrote. The error is [ErrNotIndex], a
// [*VersionError] or a [*DamagedError]; no input makes it panic.
func DecodeIndex(data []byte) (*Index, error) { return decodeIndex(data) }
