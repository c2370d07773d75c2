package claims

import (
	"fmt"
	"io"
	"strings"

	"github.com/locktree/locktree/examples/compare/drivers"
)

var yes = map[bool]string{true: "yes", false: "no"}

// Write renders the tables of all experiments.
func (r *Results) Write(w io.Writer) {
	section(w, "One release, and who is woken", fmt.Sprintf("Each client waits in one of three ways: all watch the parent, or each watches the one before it. "+
		"Where %d or more wait, the chain of clients that each watch the one before has already handed the lock on %d times, so that the next client joined a queue of that length. "+
		"Not every event wakes a waiter: with locktree, one goes to the client that releases, because its own node is gone. "+
		"In a short queue one goes to the second in line, which then lists the queue before its turn comes. "+
		"The next holder marks its node as held, at once in a long queue, otherwise after 100 ms: that sends an event to itself and to the one behind it, which then need not list the queue when its turn comes.", crowd, handed), herdTable(r.Herd))
	section(w, "A lock from hand to hand", fmt.Sprintf("Eight clients contend for one lock and keep it for %v each. "+
		"Jain's index is 1 if all get the same, and 1/8 if one gets everything. The longest wait is counted in grants to others; seven is an even share. A wait that had not ended with the window counts, too. redislock retries every 100 ms and redsync every 50 to 250 ms, "+
		"as their documentation recommends; a row and *sleep and retry* retry every 10 ms, as their drivers choose.", held), fairTable(r.Fair))
	section(w, "A holder that is paused", fmt.Sprintf("A holder is stopped (SIGSTOP) for longer than the lock may outlive it, and then continued. It writes every 5 ms. The table counts its writes after a rival's grant until it learns that the lock is lost, %d at most. It learns of the loss by the lease's context in locktree, by the session's end in go-zookeeper, WriteLock and etcd, and by the listeners that Curator and kazoo recommend; redislock and redsync report the time to live only when asked. Then a holder that has a token writes %d times more, like one that ignores the loss, for the last column.", enough, deaf), pausedTable(r.Paused))
	section(w, "A holder that is killed", fmt.Sprintf("It is killed with kill -9, and a rival waits. A session or key may outlive its holder by %v here.", r.TTL), killedTable(r.Killed))
	section(w, "A server that fails", "A holder has the lock and never releases it: every further grant is a double grant. Redis replicates after it has answered, and "+
		"redislock does not WAIT for the replica. The holder with redsync has its key on all three servers; a holder that has it on only two, one of which forgets it, would be less lucky. Redlock requires that a server that has forgotten its keys stays away for one time to live. ZooKeeper's leader is killed once, under all libraries together.", failoverTable(r.Failover))
	section(w, "A pool of connections before the database", "Four workers, each with a connection to the pool, contend for one lock.", pooledTable(r.Pooled))
	section(w, "Two locks in opposite order", fmt.Sprintf("Two clients each hold a lock and ask for the other's; they are observed for %v. The table shows only the drivers in Go: those in Java and Python only generate loads, with one lock.", 3*r.TTL), crossedTable(r.Crossed))
	section(w, "Locks that are held and not used", fmt.Sprintf("One program holds them for %v, which is the time to live here. The server counts the requests; if it has no counter, a proxy in front of it does. A pool has the connections that it needed when the locks were taken, 32 at a time. "+
		"In a database, one connection holds them all: that is enough for a program that never asks twice for the same lock. The table shows only the drivers in Go.", r.TTL), idleTable(r.Idle))
}

func section(w io.Writer, title, text, table string) {
	if table == "" {
		return
	}
	fmt.Fprintf(w, "\n### %s\n\n", title)
	if text != "" {
		fmt.Fprintf(w, "%s\n\n", text)
	}
	fmt.Fprint(w, table)
}

// table renders rows under a head, nothing for none. What is missing is said in the place of the second cell.
func table[R any, P interface {
	*R
	row() *Row
}](head string, rows []R, cells func(P) []string) string {
	if len(rows) == 0 {
		return ""
	}
	var b strings.Builder
	columns := strings.Count(head, "|") - 1
	b.WriteString(head + "\n" + strings.Repeat("|---", columns) + "|\n")
	for i := range rows {
		row := P(&rows[i])
		rest := append([]string{"not measured: " + oneLine(row.row().Missing)}, make([]string, columns-2)...)
		if row.row().Missing == "" {
			rest = cells(row)
		}
		fmt.Fprintf(&b, "| %s | %s |\n", row.row().System, strings.Join(rest, " | "))
	}
	return b.String()
}

func oneLine(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(strings.Join(strings.Fields(s), " "), ""), "|", "\\|")
}

func herdTable(all []Release) string {
	return table("| how they wait | clients that wait | of them woken by a release | events | requests | bytes to and fro |", all, func(r *Release) []string {
		return []string{fmt.Sprint(r.Waiters), fmt.Sprint(r.Woken), fmt.Sprint(r.Events), fmt.Sprint(r.Requests), fmt.Sprint(r.Bytes)}
	})
}

func fairTable(all []Fair) string {
	var ours Fair
	for _, f := range all {
		if f.System == drivers.Ours && f.Missing == "" {
			ours = f
		}
	}
	return table("| | requests a grant | Jain's index | grants of the least and the most lucky | longest wait | from release to grant, locktree = 1 |", all, func(f *Fair) []string {
		requests, handover := "–", "–"
		if f.Requests >= 0 {
			requests = fmt.Sprintf("%.1f", f.Requests)
		}
		if ours.Handover > 0 {
			handover = fmt.Sprintf("%.1f", float64(f.Handover)/float64(ours.Handover))
		}
		least, most := extremes(f.Each)
		return []string{requests, fmt.Sprintf("%.2f", jain(f.Each)), fmt.Sprintf("%d and %d", least, most), fmt.Sprintf("%.0f", f.waited()), handover}
	})
}

// waited is the longest wait in grants to others.
func (f Fair) waited() float64 {
	if f.Window == 0 {
		return 0
	}
	all := int64(0)
	for _, n := range f.Each {
		all += n
	}
	return f.Longest.Seconds() / f.Window.Seconds() * float64(all)
}

func extremes(each []int64) (least, most int64) {
	for i, n := range each {
		if i == 0 || n < least {
			least = n
		}
		most = max(most, n)
	}
	return least, most
}

func pausedTable(all []Pause) string {
	return table("| | a rival has the lock | the holder is told | stale writes before that | accepted by a store that checks tokens |", all, func(p *Pause) []string {
		stale := fmt.Sprint(p.Stale)
		if p.Stale == enough {
			stale += " and more"
		}
		switch {
		case !p.Rival:
			return []string{"no: everybody waits until the holder goes on", "–", "0", "–"}
		case !p.Token:
			return []string{"yes", yes[p.Told], stale, "all: there are no tokens"}
		}
		return []string{"yes", yes[p.Told], stale, fmt.Sprintf("%d of %d", p.Fenced, p.Writes)}
	})
}

func killedTable(all []Killed) string {
	return table("| | the next has the lock after, in times to live |", all, func(k *Killed) []string {
		return []string{k.does()}
	})
}

// does is when the lock was free, in times to live.
func (k Killed) does() string {
	switch lives := k.After.Seconds() / k.TTL.Seconds(); {
	case !k.Released:
		return fmt.Sprintf("never: nobody has it after %.0f", lives)
	case lives < 0.1:
		return "at once"
	default:
		return fmt.Sprintf("%.1f", lives)
	}
}

func failoverTable(all []Failover) string {
	return table("| | what happens | trials | double grants | the holder keeps the lock |", all, func(f *Failover) []string {
		return []string{f.Server, fmt.Sprint(f.Trials), fmt.Sprint(f.Double), fmt.Sprint(f.Kept)}
	})
}

func pooledTable(all []Pooled) string {
	return table("| | grants | double grants | what the first error says | locks that stay after all clients have left |", all, func(p *Pooled) []string {
		first := oneLine(p.First)
		if p.Stuck {
			first += "; in the end nobody is granted the lock"
		}
		return []string{fmt.Sprint(p.Grants), fmt.Sprint(p.Double), strings.TrimPrefix(first, "; "), fmt.Sprint(p.Stranded)}
	})
}

func crossedTable(all []Crossed) string {
	return table("| | what becomes of them |", all, func(c *Crossed) []string {
		does := oneLine(c.does())
		if c.Deadlock {
			does += "; `locktree status` names the deadlock"
		}
		if c.Together {
			does += "; MultiLock, which takes both at once, cannot come into it: fifty times in opposite orders, each was granted"
		}
		return []string{does}
	})
}

func idleTable(all []Idle) string {
	return table("| | locks | requests a second | for a time to live | connections | after one time to live |", all, func(i *Idle) []string {
		locks := fmt.Sprint(i.Kept)
		if i.Kept < i.Locks {
			locks += fmt.Sprintf(" of %d: %s", i.Locks, oneLine(i.Refused))
		}
		after := "held"
		if i.Gone {
			after = "gone: the program has to renew each (Refresh, Extend)"
		}
		return []string{locks, fmt.Sprintf("%.1f", i.Requests), fmt.Sprintf("%.0f", i.PerTTL), fmt.Sprint(i.Connections), after}
	})
}
