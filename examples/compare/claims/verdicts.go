//go:build linux

package claims

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Verdict is what was measured of a claim, and whether it holds.
type Verdict struct {
	Claim    string `json:"claim"`
	Measured string `json:"measured"`
	Holds    string `json:"holds"`
}

// Verdicts are made of what was measured, and of nothing else: an experiment that did not take place has none.
func (r *Results) Verdicts() (all []Verdict) {
	for _, v := range []func() (Verdict, bool){r.herd, r.polls, r.expires, r.fencing, r.failover, r.election, r.pool, r.killed, r.idle, r.deadlock} {
		if verdict, measured := v(); measured {
			all = append(all, verdict)
		}
	}
	return all
}

// is the usual form of the last cell.
func is(holds bool, where string) string {
	s := map[bool]string{true: "yes", false: "no"}[holds]
	if where != "" {
		s += ": " + where
	}
	return s
}

func find[Row any](rows []Row, match func(Row) bool) (Row, bool) {
	if i := slices.IndexFunc(rows, match); i >= 0 {
		return rows[i], true
	}
	var none Row
	return none, false
}

func (r *Results) herd() (Verdict, bool) {
	v := Verdict{Claim: "If all waiters watch the same node, a release wakes them all (herd effect)"}
	var said []string
	most := 0
	for _, h := range r.Herd {
		if h.Missing == "" {
			most = max(most, h.Waiters)
		}
	}
	naive, others := 0, 0
	for _, h := range r.Herd {
		if h.Missing != "" || h.Waiters != most {
			continue
		}
		said = append(said, fmt.Sprintf("%s: waiters woken %d, events %d, bytes %d", h.System, h.Woken, h.Events, h.Bytes))
		if h.System == "all watch the parent" {
			naive = h.Woken
		} else {
			others = max(others, h.Woken)
		}
	}
	v.Measured = fmt.Sprintf("one release while %d clients wait: %s", most, strings.Join(said, "; "))
	v.Holds = is(naive >= most && others < 10, "and it does not happen where each waiter watches the one before it")
	return v, naive > 0 && others > 0
}

func (r *Results) polls() (Verdict, bool) {
	v := Verdict{Claim: "Polling for a lock wastes requests and starves clients"}
	polling := map[string]bool{"sleep and retry": true, "redislock": true, "redsync": true, "postgres row": true}
	worst := map[bool]Fair{}
	least := map[bool]float64{true: 2, false: 2}
	requests := map[bool][]float64{}
	for _, f := range r.Fair {
		if f.Missing != "" || len(f.Each) == 0 {
			continue
		}
		p := polling[f.System]
		if worst[p].System == "" || f.waited() > worst[p].waited() {
			worst[p] = f
		}
		least[p] = min(least[p], jain(f.Each))
		if f.Requests >= 0 {
			requests[p] = append(requests[p], f.Requests)
		}
	}
	v.Measured = fmt.Sprintf("Jain's index among eight: at least %.2f with a queue, down to %.2f with polling; longest wait, in grants to others: %.0f with a queue (%s), %.0f with polling (%s)",
		least[false], least[true], worst[false].waited(), worst[false].System, worst[true].waited(), worst[true].System)
	where := "it is unfair; but a poller can be faster than a queue, see *from release to grant*"
	if queue, poll := requests[false], requests[true]; len(queue) > 0 && len(poll) > 0 {
		v.Measured += fmt.Sprintf("; requests a grant: %.1f to %.1f with a queue, %.1f to %.1f with polling",
			slices.Min(queue), slices.Max(queue), slices.Min(poll), slices.Max(poll))
		if slices.Min(poll) <= slices.Max(queue) {
			where = "it is unfair; but not every poller sends more requests than every queue, and a poller can be faster, see *from release to grant*"
		}
	}
	v.Holds = is(least[true] < least[false], where)
	return v, least[true] < 2 && least[false] < 2
}

func (r *Results) expires() (Verdict, bool) {
	v := Verdict{Claim: "A lock that expires can be held twice"}
	var twice, told, once []string
	for _, p := range r.Paused {
		switch {
		case p.Missing != "":
		case !p.Rival:
			once = append(once, p.System)
		case p.Told:
			told = append(told, fmt.Sprintf("%s (%d)", p.System, p.Stale))
			fallthrough
		default:
			twice = append(twice, p.System)
		}
	}
	v.Measured = fmt.Sprintf("while a holder is paused, a rival gets the lock in %s; after it continues, the holder learns of the loss in %s (after this many writes); in %s everybody waits until it continues",
		list(twice), list(told), list(once))
	v.Holds = is(len(twice) > 0, "for sessions of ZooKeeper and etcd, including locktree's, and for keys of Redis; not where the lock lasts as long as a connection or a row")
	return v, len(twice)+len(once) > 0
}

func (r *Results) fencing() (Verdict, bool) {
	v := Verdict{Claim: "A fencing token keeps an earlier holder from writing"}
	var with, without []string
	writes, fenced := 0, 0
	for _, p := range r.Paused {
		if p.Missing != "" || !p.Rival {
			continue
		}
		if p.Token {
			with = append(with, p.System)
			writes, fenced = writes+p.Writes, fenced+p.Fenced
		} else {
			without = append(without, p.System)
		}
	}
	v.Measured = fmt.Sprintf("tokens come with the grants of %s, not with those of %s; of %d writes by former holders that ignore the loss, a store that checks tokens took %d",
		list(with), list(without), writes, fenced)
	v.Holds = is(fenced == 0 && writes > 0, "if the store checks it; a store that does not check accepts all")
	return v, len(with)+len(without) > 0
}

func (r *Results) failover() (Verdict, bool) {
	v := Verdict{Claim: "A fail-over of Redis loses the lock"}
	var said []string
	double, trials := 0, 0
	for _, f := range r.Failover {
		if f.Missing == "" && (f.System == "redislock" || f.System == "redsync") {
			said = append(said, fmt.Sprintf("%s: %d double grants in %d trials (%s)", f.System, f.Double, f.Trials, f.Server))
			double, trials = double+f.Double, trials+f.Trials
		}
	}
	v.Measured = strings.Join(said, "; ")
	v.Holds = is(double > 0, "if the replica is behind when the primary dies; a program that WAITs for the replica reduces the risk, but does not remove it")
	return v, trials > 0
}

func (r *Results) election() (Verdict, bool) {
	v := Verdict{Claim: "A fail-over of ZooKeeper keeps it"}
	double, kept, trials := 0, 0, 0
	for _, f := range r.Failover {
		if f.Missing == "" && f.System != "redislock" && f.System != "redsync" {
			double, kept, trials = double+f.Double, kept+f.Kept, trials+f.Trials
		}
	}
	v.Measured = fmt.Sprintf("%d of %d holders, one of each library, keep the lock when the leader of three is killed once, with %d double grants; nobody is granted anything until another leads; etcd has one member here, so its fail-over was not tried", kept, trials, double)
	v.Holds = is(double == 0 && kept == trials, "as far as one election shows")
	return v, trials > 0
}

// Transactional is the row of the lock that ends with its transaction.
func Transactional(rows []Pooled) (Pooled, bool) {
	return find(rows, func(p Pooled) bool { return p.Missing == "" && strings.Contains(p.System, "transaction") })
}

func (r *Results) pool() (Verdict, bool) {
	v := Verdict{Claim: "A lock in the database that you already have is simple"}
	bad, _ := find(r.Pooled, func(p Pooled) bool { return p.Missing == "" && strings.Contains(p.System, "advisory") })
	good, measured := Transactional(r.Pooled)
	v.Measured = fmt.Sprintf("behind PgBouncer in transaction mode, the advisory lock of a session was granted %d times to two at once (of %d grants), and the server kept %d of them when all clients had left; the advisory lock of a transaction: %d and %d",
		bad.Double, bad.Grants, bad.Stranded, good.Double, good.Stranded)
	v.Holds = is(bad.Double+int64(bad.Stranded) == 0, "unless the pool passes sessions through to the database, or the lock ends with the transaction")
	return v, measured && bad.System != ""
}

func (r *Results) killed() (Verdict, bool) {
	v := Verdict{Claim: "The lock of a program that dies is soon free"}
	var atOnce, later, never []string
	for _, k := range r.Killed {
		switch {
		case k.Missing != "":
		case !k.Released:
			never = append(never, k.System)
		case k.Does() == "at once":
			atOnce = append(atOnce, k.System)
		default:
			later = append(later, k.System)
		}
	}
	v.Measured = fmt.Sprintf("at once in %s, whose server sees the connection end; after about a time to live of %v in %s; never in %s", list(atOnce), r.TTL.Round(time.Second), list(later), list(never))
	v.Holds = is(len(never)+len(later) == 0, "at once only where the server sees the connection end; a session or a key first has to expire; where nothing ties the lock to its holder, somebody has to clean up")
	return v, len(atOnce)+len(later)+len(never) > 0
}

func (r *Results) idle() (Verdict, bool) {
	v := Verdict{Claim: "Locks that are held cost heartbeats"}
	var said []string
	holds := true
	for _, i := range r.Idle {
		if i.Missing == "" && !i.Gone {
			said = append(said, fmt.Sprintf("%s %.1f", i.System, i.Requests))
			holds = holds && i.Requests > float64(i.Kept)/r.TTL.Seconds()
		}
	}
	v.Measured = fmt.Sprintf("requests a second for a thousand idle locks of one program, with a time to live of %v: %s", r.TTL, strings.Join(said, ", "))
	v.Holds = is(holds, "a session costs heartbeats, whatever the number of its locks, and a connection costs hardly any; keys with a time to live of their own have to be renewed one by one")
	return v, len(said) > 0
}

func (r *Results) deadlock() (Verdict, bool) {
	v := Verdict{Claim: "Two locks in opposite order: somebody notices"}
	var noticed, expired, hang []string
	for _, c := range r.Crossed {
		switch {
		case c.Missing != "":
		case c.Refused != "":
			noticed = append(noticed, c.System)
		case c.Granted > 0:
			expired = append(expired, c.System)
		default:
			hang = append(hang, c.System)
		}
	}
	v.Measured = fmt.Sprintf("an error in %s; the lock expires under its holder in %s; both wait in %s", list(noticed), list(expired), list(hang))
	if c, ok := find(r.Crossed, func(c Crossed) bool { return c.Deadlock }); ok {
		v.Measured += "; of " + c.System + "'s locks, `locktree status` names the deadlock"
	}
	v.Holds = is(len(hang)+len(expired) == 0, "a program is told by "+list(noticed)+" only")
	return v, len(noticed)+len(expired)+len(hang) > 0
}

// list is names in a sentence.
func list(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	if len(names) == 1 {
		return names[0]
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}
