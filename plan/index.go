package plan

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/locktree/locktree/recipes/kind"
)

// IndexFormat is the version of the index this package writes. An index of the first has no key, and the nodes of its stack no
// sums: the next apply writes them. A program that knows only the first refuses this one, because it would leave sums as they are.
const IndexFormat = 2

// Index is the data of <root>/.locktree/stacks/<stack>: what the stack owns, as
// the last apply left it. It is written in the same transaction as the nodes.
// It is a help, not the truth: what a node says about itself wins.
//
// The keys of Resources are addresses, followed by the path if the address is not unique:
// see Plan.indexKey.
type Index struct {
	Apply     string                  // id of the apply that wrote it
	Key       string                  // of the sums in the nodes, see [Plan.Keyed]; "" for an index of the first format
	Resources map[string]IndexEntry   // by address
	Pending   []PendingACL            // access lists that apply has still to set
	Outputs   map[string]StoredOutput // by name
	// Access is the list of the tool's own nodes that was declared; nil when none was.
	Access []kind.ACL
	// Lists are stored once none is pending; nil in most indexes.
	Lists *Lists

	// Shards are the parts of an index too large for one node; a read puts their
	// entries into Resources, see [Index.AddShard].
	Shards []Shard

	Extra map[string]json.RawMessage // fields of newer versions, kept
}

// IndexEntry is one node of the stack. What the last apply left there is noted in the node itself, see [kind.Payload].
type IndexEntry struct {
	Path string `json:"path"`
	Type string `json:"type"`
	Gen  int64  `json:"gen"`
}

// PendingACL is an access list to be set on an existing node: the part of an
// apply that ZooKeeper cannot do in a transaction. Without a path, it is to be set on nodes that are not named.
type PendingACL struct {
	Addr Addr       `json:"addr,omitempty"`
	Path string     `json:"path,omitempty"`
	ACL  []kind.ACL `json:"acl"`
}

// maxPending bounds the list of pending access lists, in bytes: it is written as a whole, with the index node. If it would
// be longer, up to maxLists different access lists are noted instead, without the nodes.
const maxPending, maxLists = shardAbove, 16

func pendingOf(steps []ACLStep) (all []PendingACL) {
	size := 0
	for _, s := range steps {
		all = append(all, PendingACL{s.Addr, s.Path, s.ACL})
		size += len(s.Addr) + len(s.Path) + len(`{"addr":"","path":"","acl":[]},`)
		for _, a := range s.ACL {
			size += len(a.Scheme) + len(a.ID) + len(`{"scheme":"","id":"","perms":"cdrwa"},`)
		}
	}
	if size <= maxPending {
		return all
	}
	var lists []PendingACL
	for _, one := range all {
		same := func(l PendingACL) bool { return slices.Equal(l.ACL, one.ACL) }
		if len(lists) < maxLists && !slices.ContainsFunc(lists, same) {
			lists = append(lists, PendingACL{ACL: one.ACL})
		}
	}
	return lists
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

// LockPayload returns the data of the apply lock: the declaration of an ordinary
// mutex. acl is the access list of its contenders.
func LockPayload(stack string, acl []kind.ACL) ([]byte, error) {
	params := kind.Mutex.New()
	params.(*kind.MutexParams).Description = fmt.Sprintf("Held while an apply of stack %s is under way.", stack)
	p := &kind.Payload{Params: params, Owner: kind.Owner{Stack: stack, Addr: "apply lock"}, ChildACL: acl, Gen: 1}
	return p.Encode()
}

// ScaffoldPath returns <root>/.locktree, where the tool keeps its own nodes.
func ScaffoldPath(root string) string { return kind.JoinPath(root, ".locktree") }

// Encode writes the index as JSON with sorted keys: equal indexes give equal bytes.
func (x *Index) Encode() ([]byte, error) {
	doc := make(map[string]any, len(x.Extra)+6)
	for k, v := range x.Extra {
		doc[k] = v
	}
	doc["locktree"], doc["apply"], doc["key"], doc["res"] = IndexFormat, x.Apply, x.Key, x.Resources
	if x.Resources == nil {
		doc["res"] = map[string]IndexEntry{}
	}
	if len(x.Pending) > 0 {
		doc["pending_acl"] = x.Pending
	} else if x.Lists != nil {
		doc["lists"] = x.Lists
	}
	if len(x.Access) > 0 {
		doc["access"] = x.Access
	}
	if len(x.Shards) > 0 {
		doc["shards"] = x.Shards
	}
	if len(x.Outputs) > 0 {
		doc["outputs"] = x.Outputs
	}
	return json.Marshal(doc)
}

// op writes the index where it was read.
func (x *Index) op(at Pin, acl []kind.ACL) (Op, error) {
	data, err := x.Encode()
	if at.Absent {
		return Op{Kind: OpCreate, Path: at.Path, Data: data, ACL: acl}, err
	}
	return Op{Kind: OpSet, Path: at.Path, Data: data, Version: at.Version}, err
}

// DecodeIndex reads what Encode wrote. The error is [ErrNotIndex], a
// [*VersionError] or a [*DamagedError]; no input makes it panic.
func DecodeIndex(data []byte) (*Index, error) {
	var doc map[string]json.RawMessage
	if err := json.Unmarshal(data, &doc); err != nil || doc["locktree"] == nil {
		return nil, ErrNotIndex
	}
	// An index always has these fields, another node's payload does not.
	if doc["res"] == nil || doc["apply"] == nil {
		return nil, ErrNotIndex
	}
	var format int
	x := &Index{}
	for _, f := range []struct {
		key string
		to  any
	}{
		{"locktree", &format}, {"apply", &x.Apply}, {"key", &x.Key},
		{"res", &x.Resources}, {"pending_acl", &x.Pending}, {"outputs", &x.Outputs},
		{"shards", &x.Shards}, {"access", &x.Access}, {"lists", &x.Lists},
	} {
		raw, ok := doc[f.key]
		if !ok {
			continue
		}
		if err := json.Unmarshal(raw, f.to); err != nil {
			return nil, &DamagedError{What: "index", Field: f.key, Err: err}
		}
		// Checked first: what a newer program wrote may look different without being damaged.
		if f.key == "locktree" && format > IndexFormat {
			return nil, &VersionError{Got: format, Reads: IndexFormat}
		}
		delete(doc, f.key)
	}
	if format < 1 {
		return nil, &DamagedError{What: "index", Field: "locktree", Err: fmt.Errorf("%d is not an index format", format)}
	}
	names := map[string]bool{}
	for _, part := range x.Shards {
		err := kind.ValidateName(part.Name)
		if err == nil && names[part.Name] { // a transaction would write it twice, at one version
			err = fmt.Errorf("%q is named twice", part.Name)
		}
		if err != nil {
			return nil, &DamagedError{What: "index", Field: "shards", Err: err}
		}
		names[part.Name] = true
	}
	if len(doc) > 0 {
		x.Extra = doc
	}
	return x, nil
}

// Left reports whether a node is as the last apply left it.
func (x *Index) Left(n *Node) bool {
	if x == nil || n.Payload == nil {
		return false
	}
	e, known := x.Resources[n.Payload.Owner.Addr]
	return known && e.Path == n.Path && n.fits(x.Key)
}
