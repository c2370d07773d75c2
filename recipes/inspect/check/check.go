package check

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/recipes/inspect/internal/node"
	"github.com/locktree/locktree/recipes/inspect/words"
	"github.com/locktree/locktree/recipes/internal/session"
	"github.com/locktree/locktree/recipes/kind"
)

// Verdict says whether a Condition holds.
type Verdict int

const (
	// Holds: the condition holds.
	Holds Verdict = iota
	// Unsure: the check could not find out whether the condition holds, or found a risk but no violation.
	Unsure
	// Fails: the condition does not hold. Condition.Why says what depends on it.
	Fails
)

// String returns "holds", "unsure" or "fails".
func (v Verdict) String() string { return [...]string{"holds", "unsure", "fails"}[v] }

// Condition is what a check found about one condition for the guarantees of package recipes, or for the health of clients and
// servers.
type Condition struct {
	Name    string // such as "session timeout", or "access /locks/a" with a path
	Verdict Verdict
	What    string // what was found
	Why     string // what depends on the condition
	Next    string // what to do; "" when the condition holds
}

// Client judges the server that this client is connected to, the certificates of this connection, and this client's access to the locks at
// paths. Most of the conditions on the server protect exclusion: if one fails, two processes may believe that they hold the same lock.
// Client asks that server with the four-letter words conf, srvr and mntr, where the server allows them. If the server does not allow conf,
// Client opens and closes one session with the shortest possible timeout, which reveals the tick. Client writes nothing into the tree. An
// error means that there was no session, or that ctx ended.
//
// No client can check that the clocks of all machines run at the right rate. Client also cannot check that the other servers have the same
// configuration as this one.
func Client(ctx context.Context, c session.Source, paths ...string) ([]Condition, error) {
	s, err := session.Live(ctx, c)
	if err != nil {
		return nil, err
	}
	found := checkServer(ctx, s)
	for _, path := range paths {
		access, err := checkAccess(ctx, s, path)
		if err != nil {
			return nil, err
		}
		found = append(found, access)
	}
	return found, ctx.Err()
}

func checkServer(ctx context.Context, s *session.Session) []Condition {
	conf, srvr, mntr := word(ctx, s, "conf"), word(ctx, s, "srvr"), word(ctx, s, "mntr")
	tick, how := number(conf, `tickTime=(\d+)`), "its configuration"
	if tick == 0 {
		tick, how = s.ShortestTimeout(ctx)/2, "the shortest session it grants, which is two ticks unless minSessionTimeout is set"
	}
	standalone := strings.Contains(srvr, "standalone")
	found := []Condition{
		checkTimeout(s.Timeout(), time.Duration(tick)*time.Millisecond, how),
		checkStaleness(s.Timeout(), time.Duration(tick)*time.Millisecond, number(conf, `syncLimit=(\d+)`), standalone),
		checkLease(s.Timeout(), sessionsOf(conf, mntr)), checkClock(runtime.GOOS), checkVersion(srvr, standalone), checkReplica(mntr, standalone),
	}
	if s.TLS() {
		found = append(found, Certificates(s.Certificates(), time.Now()))
	}
	return found
}

// checkTimeout compares a tick of the servers with the session timeout t. The type proof in package session says why a tick may be up to a
// quarter of the timeout.
func checkTimeout(t, tick time.Duration, how string) Condition {
	k := Condition{Name: "session timeout", Why: "a lease lasts half a session timeout; that is safe only if a tick is at most a quarter of the session timeout",
		What: fmt.Sprintf("the servers granted %v; a tick is %v, by %s", t, tick, how)}
	switch {
	case tick <= 0:
		k.Verdict, k.What = Unsure, fmt.Sprintf("the servers granted %v; their tick could not be learnt", t)
		k.Next = "add conf to 4lw.commands.whitelist, or make sure that tickTime is at most " + (t / 4).String()
	case t < 4*tick:
		k.Verdict, k.Next = Fails, fmt.Sprintf("set the session timeout to %v or more, or lower tickTime to %v", 4*tick, t/4)
	}
	return k
}

// sessions has the session timeouts that a server grants, and the elections that the server has seen. A field is zero if the server does
// not say.
type sessions struct {
	shortest, longest time.Duration // the shortest and the longest session timeout that the server grants
	elections         int           // the number of elections that the server has seen since it started
	slowest           time.Duration // the time that the slowest of these elections took
}

func sessionsOf(conf, mntr string) sessions {
	ms := func(text, pattern string) time.Duration {
		return time.Duration(number(text, pattern)) * time.Millisecond
	}
	return sessions{ms(conf, `minSessionTimeout=(\d+)`), ms(conf, `maxSessionTimeout=(\d+)`), number(mntr, `zk_cnt_election_time\s(\d+)`), ms(mntr, `zk_max_election_time\s(\d+)`)}
}

// jobSession is the session timeout that "locktree exec" asks for, unless its user sets another one.
const jobSession = time.Minute

// checkLease says what a session timeout of t means on a server: for programs, which try again, and for jobs, which do not try again.
func checkLease(t time.Duration, of sessions) Condition {
	tenth := func(d time.Duration) time.Duration { return d.Round(100 * time.Millisecond) }
	k := Condition{Name: "lease", Why: "the session timeout decides how long an outage may last, and how long a lock stays taken after a crash: programs that try again want it short, jobs of hours want it long",
		What: fmt.Sprintf("with a session timeout of %v, a client that hears nothing gives up its leases after %v, and the lock of one that crashed comes free after about %v", t, tenth(t/2), t)}
	if of.longest > 0 {
		job := min(jobSession, of.longest)
		k.What += fmt.Sprintf("; the server grants %v to %v, so a job of \"locktree exec\", which asks for %v, gets %v and is told to end after %v", of.shortest, of.longest, jobSession, job, tenth(job/3))
	}
	if of.elections > 0 {
		k.What += fmt.Sprintf("; elections that it has seen since it started: %d, the slowest took %v", of.elections, of.slowest)
	}
	if of.slowest >= t/2 {
		k.Verdict, k.Next = Unsure, fmt.Sprintf("such an election ends every lease: set the session timeout to more than %v, or find out why elections are slow", 2*of.slowest)
	}
	return k
}

// checkStaleness compares how long a server may serve old data with how long the leader waits for a session (T is the session timeout). A
// follower that is cut off drops its clients after syncLimit ticks. A client pings every T/3, and its server tells the leader within half a
// tick. So when the follower is cut off, the leader's last news of a client is at most T/3 plus half a tick old. Hence the leader expires
// the client's session no earlier than (2T/3 - half a tick) after the cut. So 2T/3 should be at least (syncLimit + 1/2) ticks. No promise
// depends on this condition: grants and leases need commits, and a server that is cut off commits nothing.
func checkStaleness(t, tick time.Duration, syncLimit int, standalone bool) Condition {
	k := Condition{Name: "stale servers", Why: "a server cut off from its leader serves old data for syncLimit ticks; if the leader expires the sessions of its clients earlier, the clients learn of that only from their own clocks"}
	least := time.Duration(syncLimit)*tick*3/2 + tick*3/4
	switch {
	case standalone:
		k.What = "the server is standalone"
	case syncLimit == 0 || tick == 0:
		k.Verdict, k.What = Unsure, "syncLimit is not known"
		k.Next = "add conf to 4lw.commands.whitelist, or compare: the session timeout should be 1.5 x (syncLimit + 1/2) ticks or more"
	case t < least:
		k.Verdict, k.What = Unsure, fmt.Sprintf("syncLimit is %d, which needs a session timeout of %v; the session timeout is %v", syncLimit, least, t)
		k.Next = fmt.Sprintf("set the session timeout to %v or more, or lower syncLimit", least)
	default:
		k.What = fmt.Sprintf("syncLimit is %d: %v or more is enough, the session timeout is %v", syncLimit, least, t)
	}
	return k
}

// checkClock says whether the clock of this system counts the time for which the machine is suspended; see sleepSinceStart in package
// clock.
func checkClock(system string) Condition {
	k := Condition{Name: "clock", What: "deadlines follow the monotonic clock, and count the time the machine is suspended",
		Why: "a lease must end in time by this machine's own clock; setting the date changes nothing"}
	if system != "linux" {
		k.Verdict, k.What = Unsure, "deadlines follow the monotonic clock; on "+system+" the time the machine is suspended is not counted"
		k.Next = "do not suspend this machine while it holds locks, or let a store refuse old tokens"
	}
	return k
}

// checkVersion judges a server by the known faults that can lose a committed write, because a lock is a committed write. Before 3.9.3, a
// follower that synchronises with its leader may lose committed writes (ZOOKEEPER-4394, ZOOKEEPER-4643, ZOOKEEPER-4646). Releases up to 3.8
// never got the cure. The cure brought a fault to 3.9.3: a follower's log of committed transactions may have a hole, and the follower may
// become leader (ZOOKEEPER-4925, cured in 3.9.4). A standalone server has neither fault, because it has no leader.
func checkVersion(srvr string, standalone bool) Condition {
	k := Condition{Name: "server version", Why: "a lock is a committed write: a server that can lose one can let two hold a lock"}
	v := words.ParseVersion(srvr)
	if v == nil { // a server that does not say its version does not say whether it is standalone
		k.Verdict, k.What, k.Next = Unsure, "the server does not say its version", "add srvr to 4lw.commands.whitelist, or make sure that it is 3.9.4 or later"
		return k
	}
	k.What = fmt.Sprintf("it is %d.%d.%d", v[0], v[1], v[2])
	switch {
	case standalone:
		k.What += ", standalone"
	case slices.Compare(v, []int{3, 9, 4}) >= 0:
	case slices.Compare(v, []int{3, 9, 3}) == 0:
		k.Verdict, k.Next = Unsure, "plan an upgrade to 3.9.4 or later"
		k.What += ", whose followers can miss committed writes and then lead (ZOOKEEPER-4925, of 3.9.3 alone)"
	default:
		k.Verdict, k.Next = Unsure, "plan an upgrade to 3.9.4 or later"
		k.What += ", whose followers can lose committed writes when they synchronise with the leader (ZOOKEEPER-4394, ZOOKEEPER-4643, ZOOKEEPER-4646; cured in 3.9.3)"
		if slices.Compare(v, []int{3, 9}) < 0 {
			k.Next += fmt.Sprintf("; no release of %d.%d has the cure", v[0], v[1])
		}
	}
	return k
}

// checkReplica asks whether the server's data has differed from the leader's since the server started. From 3.6 on, servers compare a
// digest after each transaction, and only count and log the differences (ZOOKEEPER-3512). In TestServersWithFullDisksGrantNoLockTwice,
// one of about forty servers with a full disk came back with the nodes of an ended session, and kept them (ZOOKEEPER-4541).
func checkReplica(mntr string, standalone bool) Condition {
	k := Condition{Name: "replica", Why: "a server whose data differs shows contenders that have left, so that locks stay held, or hides some, so that two may hold a lock"}
	m := regexp.MustCompile(`zk_digest_mismatches_count\s(\d+)`).FindStringSubmatch(mntr)
	switch {
	case standalone:
		k.What = "the server is standalone"
	case m == nil:
		k.Verdict, k.What = Unsure, "the server does not say whether its data differs from the leader's"
		k.Next = "add mntr to 4lw.commands.whitelist; servers before 3.6 do not compare their data"
	case m[1] != "0":
		k.Verdict, k.What = Fails, fmt.Sprintf("its data differed from the leader's after %s transactions since it started", m[1])
		k.Next = "if the other servers report no difference, stop this one, delete version-2 in its dataDir and dataLogDir, and start it: it copies the data of the leader"
	default:
		k.What = "its data has not differed from the leader's since it started"
	}
	return k
}

// checkAccess compares a lock's declaration and ACL with our identities.
func checkAccess(ctx context.Context, s *session.Session, path string) (Condition, error) {
	k := Condition{Name: "access " + path, Why: "clients create and delete contenders in the lock node, and their heartbeats check the contenders, which needs READ"}
	acl, _, err := s.GetACL(ctx, path)
	var data []byte
	if err == nil {
		data, _, err = s.Get(ctx, path)
	}
	if session.OutcomeOf(err) == session.OutcomeDefinite {
		// An answer of a server is a finding, even "no such node". No answer is an error: nothing is known.
		k.Verdict, k.What, k.Next = Fails, err.Error(), "grant read access to "+s.Whoami()
		if errors.Is(err, zk.ErrNoNode) {
			k.What, k.Next = "there is no such node", "declare the lock and run apply"
		}
		return k, nil
	}
	if err != nil {
		return k, err
	}
	payload, why := kind.Decode(data)
	if why != nil {
		k.Verdict, k.What, k.Next = Unsure, why.Error(), "declare the lock and run apply"
		return k, nil
	}
	lacking := missingRight(s, node.List(acl), "CREATE", kind.PermCreate) + missingRight(s, node.List(acl), "DELETE", kind.PermDelete)
	// Without child_acl, a client that may create contenders may also read them.
	if payload.ChildACL != nil {
		if heartbeat := missingRight(s, payload.ChildACL, "READ", kind.PermRead); heartbeat != "" {
			lacking += heartbeat + "(on contenders, by child_acl) "
		}
	}
	if k.What = "we are " + s.Whoami(); lacking != "" {
		k.Verdict, k.What, k.Next = Fails, k.What+", and lack "+strings.TrimSpace(lacking), "declare these rights for this identity, or check the credentials"
	}
	return k, nil
}

// missingRight returns the name of a right if no entry of the list can grant it to us. It never reports a right that we have.
func missingRight(s *session.Session, list kind.List, name string, perm kind.Perm) string {
	var us kind.List
	for _, id := range s.Identities() {
		us = append(us, kind.ACL{Scheme: id.Scheme, ID: id.ID})
	}
	if sure, maybe := list.Ours(us...); (sure|maybe)&perm != 0 {
		return ""
	}
	return name + " "
}

// word sends a four-letter word to the server that the session is connected to; the answer is "" if the server does not answer.
func word(ctx context.Context, s *session.Session, word string) (answer string) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	_ = s.Aside(ctx, s.At(), []byte(word), func(r io.Reader) error { // after a failure the condition is judged without the answer
		b, err := io.ReadAll(io.LimitReader(r, 64<<10))
		answer = string(b)
		return err
	})
	return answer
}

// number returns the number that the first group of a pattern matches; 0 if the pattern does not match.
func number(text, pattern string) int {
	if m := regexp.MustCompile(pattern).FindStringSubmatch(text); m != nil {
		n, _ := strconv.Atoi(m[1]) // the pattern matches digits; a number that overflows is of no use
		return n
	}
	return 0
}
