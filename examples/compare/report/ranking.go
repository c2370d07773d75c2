//go:build linux

package report

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/locktree/locktree/examples/compare/bench"
	"github.com/locktree/locktree/examples/compare/claims"
	"github.com/locktree/locktree/examples/compare/drivers"
)

// What the articles rank.
const (
	cache = iota
	zooKeeper
	database
	families
)

// contest is a speed test of the articles' families, on stated terms.
type contest struct {
	terms, workload string
	systems         [families][]string
}

var (
	asDocumented = [families][]string{{"redislock"}, {"locktree", "go-zookeeper", "curator"}, {"postgres advisory lock", "postgres row", "mariadb GET_LOCK"}}
	contests     = []contest{
		{"nobody else wants it; each as its documentation recommends", bench.Alone, asDocumented},
		{"the same; all synchronise what they write", bench.Alone, [families][]string{{"redislock, fsync"}, {"locktree", "go-zookeeper", "curator"}, {"postgres row"}}},
		{"the same; nobody synchronises", bench.Alone, [families][]string{{"redislock"}, {"locktree, no fsync"}, {"postgres advisory lock", "postgres row, no fsync", "mariadb GET_LOCK"}}},
		{"the same as the first, 1 ms away", "own lock, 1 worker, 1 ms away", asDocumented},
		{"eight contend; each as its documentation recommends; with polling, some hardly get a turn", bench.Contended, asDocumented},
	}
)

// speeds are cycles as multiples of locktree's, by system: medians over the rounds.
func (r *Report) speeds(workload string) map[string]float64 {
	i := slices.IndexFunc(r.Workloads, func(w bench.Workload) bool { return w.Name == workload })
	if i < 0 {
		return nil
	}
	all := map[string]float64{}
	for _, row := range Rows(r.Results.Samples, r.Workloads[i], r.Systems) {
		switch {
		case row.System == drivers.Ours && row.PerSecond.N > 0:
			all[row.System] = 1
		case row.Ratio.N > 0:
			all[row.System] = 1 / row.Ratio.Median
		}
	}
	return all
}

func (r *Report) ranking(w io.Writer) {
	fmt.Fprint(w, "\n## The articles' ranking\n\nThe articles rank by speed: cache, then ZooKeeper, then database; and by reliability: ZooKeeper, then cache, then database.\n")
	fmt.Fprint(w, "\n### By speed\n\n| terms | measured: cycles, locktree = 1 | holds? |\n|---|---|---|\n")
	for _, c := range contests {
		measured, holds := c.result(r.speeds(c.workload))
		fmt.Fprintf(w, "| %s | %s | %s |\n", c.terms, measured, holds)
	}
	r.reliability(w)
}

// result is the order of a contest, and whether it is the articles'.
func (c contest) result(speeds map[string]float64) (measured, holds string) {
	var names []string
	least, most := [families]float64{}, [families]float64{}
	for family, systems := range c.systems {
		least[family] = math.Inf(1)
		for _, name := range systems {
			v, ok := speeds[name]
			if !ok {
				continue
			}
			names = append(names, name)
			least[family], most[family] = min(least[family], v), max(most[family], v)
		}
		if most[family] == 0 {
			return "not all were measured", "–"
		}
	}
	slices.SortStableFunc(names, func(a, b string) int { return int(math.Copysign(1, speeds[b]-speeds[a])) })
	for i, name := range names {
		names[i] = fmt.Sprintf("%s %s", name, times(speeds[name]))
	}
	var not []string
	for _, pair := range []struct {
		faster, slower int
		text           string
	}{{cache, zooKeeper, "the cache is not before ZooKeeper"}, {cache, database, "the cache is not before every database"}, {zooKeeper, database, "ZooKeeper is not before every database"}} {
		if least[pair.faster] <= most[pair.slower] {
			not = append(not, pair.text)
		}
	}
	holds = "yes"
	if len(not) > 0 {
		holds = "no: " + strings.Join(not, "; ")
	}
	return strings.Join(names, ", "), holds
}

// trials are what can go wrong with a lock, and what a system did: "" where it was not tried.
var trials = []struct {
	name string
	fare func(c *claims.Results, system string) (fared string, bad bool)
}{
	{"its holder is paused, and ignores the loss when it continues: writes accepted by a store that checks tokens", func(c *claims.Results, system string) (string, bool) {
		return fare(c.Paused, func(p claims.Pause) bool { return p.System == system && p.Missing == "" }, func(p claims.Pause) (string, bool) {
			switch {
			case !p.Rival:
				return "none: everybody waits", false
			case !p.Token:
				return "all: no token", true
			}
			return fmt.Sprintf("%d of %d", p.Fenced, p.Writes), p.Fenced > 0
		})
	}},
	{"its holder is killed: the lock is free after, in times to live", func(c *claims.Results, system string) (string, bool) {
		return fare(c.Killed, func(k claims.Killed) bool { return k.System == system && k.Missing == "" }, func(k claims.Killed) (string, bool) {
			if !k.Released {
				return "never", true
			}
			return k.Does(), false
		})
	}},
	{"its server fails: double grants, of the trials", func(c *claims.Results, system string) (string, bool) {
		double, tried := 0, 0
		for _, f := range c.Failover {
			if f.System == system && f.Missing == "" {
				double, tried = double+f.Double, tried+f.Trials
			}
		}
		if tried == 0 {
			return "", false
		}
		return fmt.Sprintf("%d of %d", double, tried), double > 0
	}},
	{"a connection pool is in between: double grants of all grants, and locks kept after all clients have left", func(c *claims.Results, system string) (string, bool) {
		return fare(c.Pooled, func(p claims.Pooled) bool { return p.System == system+", pooled" && p.Missing == "" }, func(p claims.Pooled) (string, bool) {
			fared := fmt.Sprintf("%d of %d, %d kept", p.Double, p.Grants, p.Stranded)
			if of, ok := claims.Transactional(c.Pooled); ok {
				fared += fmt.Sprintf("; a transaction's lock: %d of %d, %d kept", of.Double, of.Grants, of.Stranded)
			}
			return fared, p.Double > 0 || p.Stranded > 0
		})
	}},
	{"two locks in opposite order", func(c *claims.Results, system string) (string, bool) {
		return fare(c.Crossed, func(x claims.Crossed) bool { return x.System == system && x.Missing == "" }, func(x claims.Crossed) (string, bool) {
			switch {
			case x.Refused != "":
				return "an error", false
			case x.Granted > 0:
				return "it expires", true
			}
			return "both wait", true
		})
	}},
}

func fare[Row any](rows []Row, match func(Row) bool, of func(Row) (string, bool)) (string, bool) {
	if i := slices.IndexFunc(rows, match); i >= 0 {
		return of(rows[i])
	}
	return "", false
}

func (r *Report) reliability(w io.Writer) {
	fmt.Fprint(w, "\n### By reliability\n\nThe table shows what each lock does in five failures; a bad outcome is bold, and – was not tried. Nobody tried a fail-over of etcd or of a database, or the effect of a database's restart on locks in its memory. Other cases would give other counts.\n\n|")
	systems := [families][]string{{"redislock", "redsync"}, {"locktree", "go-zookeeper", "curator", "kazoo"}, {"postgres advisory lock", "postgres row", "mariadb GET_LOCK"}}
	columns := slices.Concat(systems[zooKeeper], []string{"etcd"}, systems[cache], systems[database])
	for _, s := range append([]string{" "}, columns...) {
		fmt.Fprintf(w, " %s |", strings.TrimSpace(s))
	}
	fmt.Fprint(w, "\n"+strings.Repeat("|---", len(columns)+1)+"|\n")
	bad, tried := map[string]float64{}, map[string]float64{}
	for _, t := range trials {
		fmt.Fprintf(w, "| %s |", t.name)
		for _, s := range columns {
			fared, badly := t.fare(&r.Claims, s)
			if fared == "" {
				fmt.Fprint(w, " – |")
				continue
			}
			tried[s]++
			if badly {
				bad[s]++
				fared = "**" + fared + "**"
			}
			fmt.Fprintf(w, " %s |", fared)
		}
		fmt.Fprintln(w)
	}
	fmt.Fprint(w, "| bad outcomes, of the cases tried |")
	least, most := [families]float64{1, 1, 1}, [families]float64{}
	for _, s := range columns {
		if tried[s] == 0 {
			fmt.Fprint(w, " – |")
			continue
		}
		fmt.Fprintf(w, " %.0f of %.0f |", bad[s], tried[s])
		for family := range systems {
			if slices.Contains(systems[family], s) {
				least[family], most[family] = min(least[family], bad[s]/tried[s]), max(most[family], bad[s]/tried[s])
			}
		}
	}
	fmt.Fprintln(w)
	holds := "The ranking does not hold: the families overlap. The choice of lock within a family matters more."
	if most[zooKeeper] < least[cache] && most[cache] < least[database] {
		holds = "The ranking holds for these cases."
	}
	fmt.Fprintf(w, "\n%s\n", holds)
}

// durability is the claim that a Redis lock is the faster one, on the same terms.
func (r *Report) durability() (v claims.Verdict, measured bool) {
	speeds := r.speeds(bench.Alone)
	v.Claim = "A Redis lock is faster than one of ZooKeeper"
	over := func(a, b string) string {
		if speeds[a] == 0 || speeds[b] == 0 {
			return "–"
		}
		return times(speeds[a] / speeds[b])
	}
	v.Measured = fmt.Sprintf("redislock does %s times the cycles of locktree, as each is usually run: one in memory, the other synchronised to disk; "+
		"%s times where both synchronise, %s times where neither does. Synchronising costs redislock a factor of %s, locktree %s, a row of PostgreSQL %s",
		over("redislock", "locktree"), over("redislock, fsync", "locktree"), over("redislock", "locktree, no fsync"),
		over("redislock", "redislock, fsync"), over("locktree, no fsync", "locktree"), over("postgres row, no fsync", "postgres row"))
	usual, same := speeds["redislock"], speeds["redislock, fsync"]
	switch {
	case usual > 1 && same > 1:
		v.Holds = "yes"
	case usual > 1:
		v.Holds = "yes as each is usually run; not where both synchronise"
	default:
		v.Holds = "no"
	}
	return v, usual > 0 && same > 0
}
