// Package document has the JSON documents of plans and locks. Commands render these types, and a type has all that is in
// its document. Names and meanings are an interface: programs search for them.
//
//	err := json.NewEncoder(os.Stdout).Encode(document.Of(version, cfg.Checks, p)) // as "locktree show -json"
//
// [Of] makes a [Plan], and [OfTrees] a [State]. The package relies on plan and kind, and reads nothing. No document has the hash of a
// password, nor the value of a sensitive output.
package document

import (
	"time"

	"github.com/locktree/locktree/recipes/kind"
)

// Live is a node as it is in ZooKeeper.
type Live struct {
	Czxid       int64 `json:"czxid"`
	DataVersion int32 `json:"data_version"`
	ACLVersion  int32 `json:"acl_version"`
	Generation  int64 `json:"generation"`
	Usage
}

// Usage is who uses a lock.
type Usage struct {
	Holders []kind.Sight `json:"holders"`
	Waiters []kind.Sight `json:"waiters"`
	Foreign []string     `json:"foreign"`
	Keys    *Keys        `json:"keys,omitempty"`
}

// Keys counts the keys of a family. Its holders and waiters are those of the keys that were looked at.
type Keys struct {
	Nodes  int `json:"nodes"`
	Looked int `json:"looked_at"`
	Used   int `json:"in_use"` // how many of the keys that were looked at are in use
}

// NewUsage is who uses a lock; a nil Usage has no users.
func NewUsage(u *kind.Usage) Usage {
	if u == nil {
		u = &kind.Usage{}
	}
	out := Usage{Holders: parties(u.Holders), Waiters: parties(u.Waiters), Foreign: List(u.Junk)}
	if u.Keys != (kind.Keys{}) {
		keys := Keys(u.Keys)
		out.Keys = &keys
	}
	return out
}

func parties(all []kind.Party) []kind.Sight {
	out := make([]kind.Sight, len(all))
	for i, p := range all {
		out[i] = kind.NewSight(p, time.Time{})
	}
	return Placed(out, all)
}

// Placed gives each contender its position in the queue of its key.
func Placed(sights []kind.Sight, all []kind.Party) []kind.Sight {
	position := map[string]int{}
	for i, p := range all {
		position[p.Key]++
		sights[i].Position = position[p.Key]
	}
	return sights
}

// Session is a session id as ZooKeeper's own tools write it, "" for none.
func Session(id int64) string { return kind.SessionID(id) }

// Stamp is a time in a document.
type Stamp = kind.Stamp

// List returns s, or an empty list for nil, so that JSON has no null.
func List[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}
