package check

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/locktree/locktree/recipes/inspect"
	"github.com/locktree/locktree/recipes/inspect/scan"
	"github.com/locktree/locktree/recipes/inspect/words"
)

const (
	largeSession  = 512 << 10 // bytes of paths; the library keeps its own sessions below this size
	soonRollOver  = 7 * 24 * time.Hour
	shortestTrack = time.Minute // the shortest time over which the use of transaction ids is measured
)

// Ensemble returns the conditions of the ensemble as a whole, which no single server shows.
func Ensemble(snap *scan.Snapshot) []Condition {
	return []Condition{checkSessions(snap), checkConnections(snap), checkZxid(snap)}
}

// unknownCondition is a condition that cannot be judged without the answer to the given four-letter word.
func (k Condition) unknownCondition(what, word string) Condition {
	k.Verdict, k.What, k.Next = Unsure, what, "add "+word+" to 4lw.commands.whitelist of every server, and see that each of them answers"
	return k
}

// checkSessions looks for a session too large to be closed: closing it is one transaction, which names all its nodes.
func checkSessions(snap *scan.Snapshot) Condition {
	k := Condition{Name: "session sizes", Why: "a session ends in one transaction that names all its ephemeral nodes; if that is longer than jute.maxbuffer and zookeeper.jute.maxbuffer.extrasize together, 2 MiB unless set, servers may be unable to restart (ZOOKEEPER-4306)"}
	if !snap.Dump {
		return k.unknownCondition("how many ephemeral nodes each session owns is not known", "dump")
	}
	most := &words.Session{}
	for _, s := range snap.Sessions {
		if size(s) > size(most) || size(s) == size(most) && s.ID < most.ID {
			most = s
		}
	}
	k.What = "no session owns a node"
	if most.Nodes > 0 {
		k.What = fmt.Sprintf("the largest session is %#x%s, with %d ephemeral nodes, %d bytes of paths", uint64(most.ID), from(most.Address), most.Nodes, size(most)) //nolint:gosec // as the servers print it
	}
	if size(most) > largeSession {
		k.Verdict, k.Next = Unsure, "spread its nodes over several sessions, or raise jute.maxbuffer on every server before it ends"
	}
	return k
}

// size is the length of the list of nodes in the transaction that closes the session.
func size(s *words.Session) int { return s.Bytes + 4*s.Nodes }

func from(addr string) string {
	if addr == "" {
		return ""
	}
	return " of " + addr
}

// checkConnections names the hosts with the most connections.
func checkConnections(snap *scan.Snapshot) Condition {
	k := Condition{Name: "connections", Why: "a server accepts at most maxClientCnxns connections from one address (60 unless set): programs that leak connections keep others out"}
	all := 0
	for _, at := range snap.Servers {
		all += max(0, at.Connections)
	}
	if len(snap.Unasked) > 0 {
		u := snap.Unasked[0]
		if k = k.unknownCondition(fmt.Sprintf("the sessions of some servers are not known: %s: %s", u.Server, u.Why), "cons"); !u.Forbids {
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

// checkZxid says when the leader will run out of transaction ids of its epoch. It finds the rate of their use from the oldest contender of
// this epoch, whose token is the id of the transaction that created it.
func checkZxid(snap *scan.Snapshot) Condition {
	k := Condition{Name: "transaction ids", Why: "when the ids of an epoch are used up, the leader steps down, and every client waits for the election and reconnects"}
	used, sure := EpochUsed(snap)
	if !sure { // EpochUsed then assumes 32 bits, with which the ids are used up sooner
		k.What = "if the servers count with 32 bits (with zookeeper.wideCounterZxidEnabled the ids last for decades), "
	}
	left := (1 - used) * epochIDs
	k.What += fmt.Sprintf("%.0f%% of this epoch's are used", used*100)
	var first *inspect.Contender
	for _, in := range snap.Locks {
		for c := range in.Contenders {
			if int64(c.Token)/epochIDs == snap.Zxid/epochIDs && !c.Since.IsZero() && (first == nil || c.Token < first.Token) { //nolint:gosec // a zxid
				first = c
			}
		}
	}
	soon := left < epochIDs/10
	if first == nil || snap.At.Sub(first.Since) < shortestTrack || snap.Zxid < int64(first.Token) { //nolint:gosec // a zxid
		k.What += "; how long the rest will last is not known, because no holder or waiter of this epoch is a minute old"
	} else {
		track := snap.At.Sub(first.Since)
		rate := max(1, float64(snap.Zxid-int64(first.Token))) / track.Seconds() //nolint:gosec // a zxid
		soon = left/rate < soonRollOver.Seconds()
		k.What += fmt.Sprintf("; the rest lasts %s at the rate of the last %v", days(left/rate), track.Truncate(time.Second))
	}
	if soon {
		k.Verdict, k.Next = Unsure, "restart the leader at a quiet hour, which begins a new epoch, and find out who writes so much"
	}
	if soon && !sure {
		k.Next = "see whether the servers set zookeeper.wideCounterZxidEnabled; if not, " + k.Next
	}
	return k
}

// epochIDs is how many transaction ids an epoch has in every release so far. In a coming release an epoch may have 2^40 ids
// (ZOOKEEPER-2789), if zookeeper.wideCounterZxidEnabled is set.
const epochIDs = 1 << 32

// EpochUsed returns how much of the leader's epoch is used up, as a share of its transaction ids. No server says how many bits it gives the
// count of these ids. The result known is true if a server's release or the newest id shows how many bits the count has. Releases before
// 3.10 give the count 32 bits. With zookeeper.wideCounterZxidEnabled the count has 40 bits, so the ids of epoch 1 begin at 2^40. An id of
// 2^40 or more is possible with either count: with 32 bits it belongs to epoch 256 or later. For such an id EpochUsed assumes 32 bits,
// because with 32 bits the ids are used up sooner.
func EpochUsed(snap *scan.Snapshot) (ratio float64, known bool) {
	ratio, known = float64(snap.Zxid%epochIDs)/epochIDs, snap.Zxid < 1<<40
	for _, at := range snap.Servers {
		if v := words.ParseVersion("version: " + at.Version); v != nil && slices.Compare(v, []int{3, 10}) < 0 {
			return ratio, true
		}
	}
	return ratio, known
}

func days(seconds float64) string {
	if n := seconds / (24 * 60 * 60); n < 1000 {
		return fmt.Sprintf("%.1f days", n)
	}
	return "more than 1000 days"
}
