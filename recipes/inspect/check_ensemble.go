package inspect

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/locktree/locktree/recipes/internal/session"
)

const (
	largeSession  = 512 << 10 // bytes of paths; the library keeps its own sessions below that
	soonRollOver  = 7 * 24 * time.Hour
	shortestTrack = time.Minute // no rate is taken from less
)

// Conditions returns the conditions of the ensemble as a whole, which no single server shows.
func (snap *Snapshot) Conditions() []Condition {
	if snap.servers == session.Keeper { // nothing is known of limits there, nor whom its answers to the words leave out
		return []Condition{snap.checkZxid()}
	}
	return []Condition{snap.checkSessions(), snap.checkConnections(), snap.checkZxid()}
}

// unknown is a condition that cannot be judged without the answer to word.
func (k Condition) unknown(what, word string) Condition {
	k.Verdict, k.What, k.Next = VerdictUnsure, what, "add "+word+" to 4lw.commands.whitelist of every server, and see that each of them answers"
	return k
}

// checkSessions looks for a session too large to be closed: closing it is one transaction, which names all its nodes.
func (snap *Snapshot) checkSessions() Condition {
	k := Condition{Name: "session sizes", Why: "a session ends in one transaction that names all its ephemeral nodes; if that is longer than jute.maxbuffer, 1 MiB unless set, servers may be unable to restart (ZOOKEEPER-4306)"}
	if !snap.Dump {
		return k.unknown("how many ephemeral nodes each session owns is not known", "dump")
	}
	most := Session{}
	for _, s := range snap.Sessions {
		if s.size() > most.size() || s.size() == most.size() && s.ID < most.ID {
			most = *s
		}
	}
	k.What = "no session owns a node"
	if most.Nodes > 0 {
		k.What = fmt.Sprintf("the largest session is %#x%s, with %d ephemeral nodes, %d bytes of paths", uint64(most.ID), from(most.Address), most.Nodes, most.size()) //nolint:gosec // as the servers print it
	}
	if most.size() > largeSession {
		k.Verdict, k.Next = VerdictUnsure, "spread its nodes over several sessions, or raise jute.maxbuffer on every server before it ends"
	}
	return k
}

// size is the length of the list of nodes in the transaction that closes the session.
func (s Session) size() int { return s.Bytes + 4*s.Nodes }

func from(addr string) string {
	if addr == "" {
		return ""
	}
	return " of " + addr
}

// checkConnections names the hosts with the most connections.
func (snap *Snapshot) checkConnections() Condition {
	k := Condition{Name: "connections", Why: "a server refuses an address more than maxClientCnxns connections, 60 unless set: programs that leak theirs keep others out"}
	all := 0
	for _, at := range snap.Servers {
		all += max(0, at.Connections)
	}
	if len(snap.Unasked) > 0 {
		u := snap.Unasked[0]
		if k = k.unknown(fmt.Sprintf("the sessions of some servers are not known: %s: %s", u.Server, u.Why), "cons"); !u.Forbids {
			k.Next = "name every server of the ensemble, and see that each of them answers"
		}
		return k
	}
	hosts := map[string]int{}
	for _, s := range snap.Sessions {
		if i := strings.LastIndexByte(s.Address, ':'); i > 0 {
			hosts[s.Address[:i]]++
		}
	}
	names := slices.SortedFunc(maps.Keys(hosts), func(a, b string) int { return cmp.Or(hosts[b]-hosts[a], cmp.Compare(a, b)) })
	k.What = fmt.Sprintf("there are %d; the most are from", all)
	for i, host := range names[:min(3, len(names))] {
		k.What += fmt.Sprintf("%s %s (%d)", []string{"", ",", ","}[i], host, hosts[host])
	}
	return k
}

// checkZxid says when the leader will run out of transaction ids, of which an epoch has 2^32. The rate at which they are used
// follows from the oldest contender of this epoch: its token is the id of the transaction that created it.
func (snap *Snapshot) checkZxid() Condition {
	k := Condition{Name: "transaction ids", Why: "when those of an epoch are used up, the leader steps down, and every client waits for the election and reconnects"}
	if snap.servers == session.Keeper {
		k.What = "a ClickHouse Keeper counts them in 63 bits, without epochs"
		return k
	}
	used := snap.Zxid & 0xffffffff
	left := float64(1<<32 - used)
	k.What = fmt.Sprintf("%.0f%% of this epoch's are used", float64(used)/(1<<32)*100)
	var first *Contender
	for _, in := range snap.Locks {
		for c := range in.contenders {
			if int64(c.Token)>>32 == snap.Zxid>>32 && !c.Since.IsZero() && (first == nil || c.Token < first.Token) { //nolint:gosec // a zxid
				first = c
			}
		}
	}
	soon := left < 1<<32/10
	if first == nil || snap.At.Sub(first.Since) < shortestTrack || snap.Zxid < int64(first.Token) { //nolint:gosec // a zxid
		k.What += "; how long the rest will last is not known, because no holder or waiter has been there for a minute of this epoch"
	} else {
		track := snap.At.Sub(first.Since)
		rate := max(1, float64(snap.Zxid-int64(first.Token))) / track.Seconds() //nolint:gosec // a zxid
		soon = left/rate < soonRollOver.Seconds()
		k.What += fmt.Sprintf("; the rest lasts %s at the rate of the last %v", days(left/rate), track.Truncate(time.Second))
	}
	if soon {
		k.Verdict, k.Next = VerdictUnsure, "restart the leader at a quiet hour, which begins a new epoch, and find out who writes so much"
	}
	return k
}

func days(seconds float64) string {
	if n := seconds / (24 * 60 * 60); n < 1000 {
		return fmt.Sprintf("%.1f days", n)
	}
	return "more than 1000 days"
}
