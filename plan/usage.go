package plan

import (
	"cmp"
	"fmt"
	"strings"
)

// Usage is who used a lock when it was read.
//
// It informs people and warns in advance. Whether a lock is idle when it is deleted is decided by
// ZooKeeper, which deletes no node that has children.
type Usage struct {
	// Holders and Waiters are in the order of the queue.
	Holders []Holder `json:"holders"`
	Waiters []Holder `json:"waiters"`
	// Junk are children that are not contenders of any known client, sorted. Like every
	// child they prevent deletion.
	Junk []string `json:"junk,omitempty"`
}

// Holder is one contender: a holder or a waiter.
type Holder struct {
	Name    string `json:"name"`              // the child name, below the lock
	ID      string `json:"id"`                // who it says it is; "" when it wrote nothing readable
	Session int64  `json:"session"`           // the ZooKeeper session it belongs to; 0 when not read
	Token   uint64 `json:"token"`             // fencing token: the czxid of the contender; 0 when not read
	SinceMs int64  `json:"since_ms"`          // when it queued, by the server's clock; 0 when not read
	HeldMs  int64  `json:"held_ms,omitempty"` // when it was granted, which only our clients write, after a wait; else 0
	Shared  bool   `json:"shared,omitempty"`  // a reader
	// RetainMs is for how long its client may keep the lock while nobody there uses it and nobody else queues.
	RetainMs int64 `json:"retain_ms,omitempty"`
	// Permits is how many permits of a semaphore it holds or waits for; 0 if that is not known, or if
	// another of its nodes has the number.
	Permits int `json:"permits,omitempty"`
}

// Busy reports whether there is anything in the lock's queues. A nil Usage is idle. Junk counts,
// because ZooKeeper deletes no node with children of any sort.
func (u *Usage) Busy() bool {
	return u != nil && len(u.Holders)+len(u.Waiters)+len(u.Junk) > 0
}

// String counts: "2 holders (host-a/4121, host-b/77) and 1 waiter".
func (u *Usage) String() string {
	if !u.Busy() {
		return "nobody"
	}
	var parts []string
	holders := Clients(u.Holders)
	for _, g := range []struct {
		n    int
		noun string
		who  []Holder
	}{{len(holders), "holder", holders}, {len(Clients(u.Waiters)), "waiter", nil}, {len(u.Junk), "foreign child node", nil}} {
		if g.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s%s%s", g.n, g.noun, plural(g.n), names(g.who)))
		}
	}
	return strings.Join(parts, " and ")
}

// List names everybody: "held by host-a/4121, session 0x1000123".
func (u *Usage) List() (out []string) {
	for _, h := range u.Holders {
		out = append(out, "held by "+h.String())
	}
	for _, h := range u.Waiters {
		out = append(out, "waited for by "+h.String())
	}
	for _, junk := range u.Junk {
		out = append(out, "foreign child "+junk)
	}
	return out
}

// String writes "host-a/4121, session 0x1000123".
func (h Holder) String() string {
	who := cmp.Or(h.ID, h.Name)
	if h.Session != 0 {
		who += fmt.Sprintf(", session %#x", uint64(h.Session))
	}
	return who
}

func plural(n int) string {
	if n == 1 {
		return ""
	}
	return "s"
}

// Clients returns the first of each client's contenders: one for each permit is in the queue of a semaphore. A contender
// whose session was not read may be anybody's.
func Clients(all []Holder) (out []Holder) {
	type client struct {
		session int64
		id      string
	}
	seen := map[client]bool{}
	for _, h := range all {
		if key := (client{h.Session, h.ID}); h.Session == 0 || !seen[key] {
			seen[key] = true
			out = append(out, h)
		}
	}
	return out
}

// names lists the first three, which fit on a line.
func names(who []Holder) string {
	var ids []string
	for _, h := range who {
		if h.ID != "" && len(ids) < 3 {
			ids = append(ids, h.ID)
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
