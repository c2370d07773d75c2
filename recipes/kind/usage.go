package kind

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

// Party is a contender as it was seen: a holder or a waiter.
type Party struct {
	Path   string
	Name   string // as it was found, like Path and Data; all other strings have control characters escaped
	GUID   string // the id by which its client recognises the node
	Seq    int32
	Shared bool      // a reader
	Writer string    // the library whose names it uses: "curator", "kazoo", "go-zookeeper", "writelock"
	ID     string    // the name that it gives itself
	Host   string    // where it runs
	PID    int       // the id of its process
	Since  time.Time // when it queued
	Held   time.Time // when it was granted; zero unless its client wrote that (see [Holder])
	// Candidate: it leads an election, and Since is when it became a candidate. When it was elected is not known.
	Candidate bool
	Session   int64  // the session that owns the node; 0 if it was not read
	Token     uint64 // czxid: the fencing token it has, or will have
	Revoked   bool   // it has been asked to release the lock
	// At a semaphore: how many permits it holds or waits for; 0 if the number is not known, or if another node of the same client
	// has the number.
	Permits int
	Key     string // in a family, the name of the key's node, see [KeyName]; otherwise ""
	Data    []byte // the node's data as they were found
	Written uint64 // mzxid: the transaction id of the last write of Data
}

// String writes "host-a/4121, session 0x1000123".
func (p Party) String() string {
	who := cmp.Or(p.ID, p.Name)
	if p.Session != 0 {
		who += fmt.Sprintf(", session %#x", uint64(p.Session))
	}
	return who
}

// Usage has the users of a lock at the time of a look.
//
// A Usage informs people and warns in advance. When a lock is deleted, ZooKeeper decides whether the lock is idle: it deletes no
// node with children.
type Usage struct {
	// Holders and Waiters are in the order of the queue.
	Holders, Waiters []Party
	// Junk are children that are not contenders of any known client, sorted. Like every child they prevent deletion. In a family
	// Junk are the nodes that are no keys.
	Junk []string
	// Keys counts the keys of a family. Holders and Waiters are then those of the used keys that were looked at. Keys is zero for
	// other locks.
	Keys Keys
}

// Keys counts the nodes of keys in a family. A look at a large family reads only some of them.
type Keys struct {
	Nodes  int // how many exist
	Looked int // how many of these nodes were looked at
	// How many of the nodes that were looked at have contenders. A crash leaves nodes without contenders, until the servers
	// collect them.
	Used int
}

// unseenNodes are the nodes that were not looked at.
func (k Keys) unseenNodes() int { return k.Nodes - k.Looked }

// String counts: "12 keys in use", or "40 keys, of which 20 were looked at (18 in use)".
func (k Keys) String() string {
	switch {
	case k.unseenNodes() > 0:
		return fmt.Sprintf("%d keys, of which %d were looked at (%d in use)", k.Nodes, k.Looked, k.Used)
	case k.Used == 1:
		return "1 key in use"
	}
	return fmt.Sprintf("%d keys in use", k.Used)
}

// Busy reports whether there is anything in the lock's queues. A nil Usage is idle. A key that was not looked at counts as used.
func (u *Usage) Busy() bool {
	return u != nil && len(u.Holders)+len(u.Waiters)+len(u.Junk)+u.Keys.Used+u.Keys.unseenNodes() > 0
}

// String counts: "2 holders (host-a/4121, host-b/77) and 1 waiter", of a family "12 keys in use: 12 holders (...) and 1 waiter".
func (u *Usage) String() string {
	if !u.Busy() {
		return "nobody"
	}
	var parts []string
	count := func(n int, noun, who string) {
		switch {
		case n == 1:
			parts = append(parts, "1 "+noun+who)
		case n > 1:
			parts = append(parts, fmt.Sprintf("%d %ss%s", n, noun, who))
		}
	}
	holders := PerClient(u.Holders)
	count(len(holders), "holder", ids(holders))
	count(len(PerClient(u.Waiters)), "waiter", "")
	count(len(u.Junk), "foreign child node", "")
	text := strings.Join(parts, " and ")
	switch {
	case u.Keys.Used+u.Keys.unseenNodes() == 0:
		return text
	case text == "":
		return u.Keys.String()
	}
	return u.Keys.String() + ": " + text
}

// List names all holders and waiters, each as [Sight.Line], and everything in the way of a deletion: "held by host-a/4121, since
// 2026-11-02T08:00:00Z, connection not asked".
func (u *Usage) List() (out []string) {
	for _, p := range u.Holders {
		out = append(out, p.keyOf()+"held by "+NewSight(p, time.Time{}).Line())
	}
	for _, p := range u.Waiters {
		out = append(out, p.keyOf()+"waited for by "+NewSight(p, time.Time{}).Line())
	}
	for _, junk := range u.Junk {
		out = append(out, "foreign child "+junk)
	}
	if n := u.Keys.unseenNodes(); n > 0 {
		out = append(out, fmt.Sprintf("%d more keys, which were not looked at", n))
	}
	return out
}

// keyOf returns the key of a party in a family, as text for a list; "" outside a family.
func (p Party) keyOf() string {
	if p.Key == "" {
		return ""
	}
	key, _ := ParseKeyName(p.Key)
	return fmt.Sprintf("key %q ", key)
}

// PerClient keeps the first node of each client, in a family the first for each key. It adds up the permits of a client's nodes: a
// semaphore has one node for each permit. A node with an unknown session counts alone.
func PerClient(all []Party) (out []Party) {
	type client struct {
		session int64
		id, key string
	}
	at := map[client]int{}
	for _, p := range all {
		key := client{p.Session, p.ID, p.Key}
		if i, seen := at[key]; seen && p.Session != 0 {
			out[i].Permits += p.Permits
			continue
		}
		at[key] = len(out)
		out = append(out, p)
	}
	return out
}

// ids lists the first three, which fit on a line.
func ids(who []Party) string {
	var ids []string
	for _, p := range who {
		if p.ID != "" && len(ids) < 3 {
			ids = append(ids, p.ID)
		}
	}
	if len(ids) == 0 {
		return ""
	}
	more := ""
	if len(who) > len(ids) {
		more = ", ..."
	}
	return " (" + strings.Join(ids, ", ") + more + ")"
}
