// Package document has the JSON documents of plans and locks, as types. A plan and the commands render the same ones; whatever
// is in a document is in its type. Names and meanings are an interface: programs search for them.
package document

import (
	"fmt"
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
	Holders []Party  `json:"holders"`
	Waiters []Party  `json:"waiters"`
	Foreign []string `json:"foreign"`
	Keys    *Keys    `json:"keys,omitempty"`
}

// Keys counts the keys of a family. Its holders and waiters are those of the keys that were looked at.
type Keys struct {
	Nodes  int `json:"nodes"`
	Looked int `json:"looked_at"`
	Used   int `json:"in_use"` // of those that were looked at
}

// NewUsage is who uses a lock; a nil Usage is nobody.
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

func parties(all []kind.Party) []Party {
	out := make([]Party, len(all))
	position := map[string]int{} // in the lock of each key
	for i, p := range all {
		position[p.Key]++
		out[i] = Party{Node: p.Path, ID: p.ID, Shared: p.Shared, Position: position[p.Key], Token: p.Token, Session: Session(p.Session), Permits: p.Permits,
			RetainMs: p.Retains.Milliseconds(), Host: p.Host, PID: p.PID, Since: Stamp{p.Since}, Held: Stamp{p.Held}, Format: p.Writer}
		if p.Writer != "" { // its node was read
			out[i].Revoked = &p.Revoked
		}
		if p.Key != "" {
			key, _ := kind.ParseKeyName(p.Key)
			out[i].Key = &key
		}
	}
	return out
}

// Party is a holder or a waiter. What was not asked is left out.
type Party struct {
	Node           string  `json:"node"`
	Key            *string `json:"key,omitempty"` // of a family
	ID             string  `json:"id"`
	Shared         bool    `json:"shared"`
	Position       int     `json:"position"` // from 1
	Token          uint64  `json:"token,omitempty"`
	Session        string  `json:"session,omitempty"`
	Permits        int     `json:"permits,omitempty"`
	RetainMs       int64   `json:"retain_ms,omitempty"`
	Host           string  `json:"host,omitempty"`
	PID            int     `json:"pid,omitempty"`
	Since          Stamp   `json:"since,omitzero"`
	Held           Stamp   `json:"held,omitzero"`
	Format         string  `json:"format,omitempty"`
	Revoked        *bool   `json:"revoked,omitempty"`
	Connected      *bool   `json:"connected,omitempty"`
	ClientAddress  string  `json:"client_address,omitempty"`
	SessionExpires Stamp   `json:"session_expires,omitzero"`
}

// Session is a session id as ZooKeeper's own tools write it, "" for none.
func Session(id int64) string {
	if id == 0 {
		return ""
	}
	return fmt.Sprintf("%#x", uint64(id))
}

// Stamp is a time. Unlike that of package time it cannot fail: what others wrote may be any year.
type Stamp struct{ time.Time }

// MarshalJSON writes RFC 3339, in UTC.
func (s Stamp) MarshalJSON() ([]byte, error) {
	return s.UTC().AppendFormat(nil, `"`+time.RFC3339Nano+`"`), nil
}

// List is never null.
func List[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}
