package serve

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/document"
	"github.com/locktree/locktree/recipes/inspect"
	"github.com/locktree/locktree/recipes/kind"
)

// Problem is something somebody should look at. Bad ones are wrong now; others may become so.
type Problem struct {
	Bad      bool
	What     string // in a word or two: the word says what a colour would
	Ensemble string
	Lock     string // "" when it is about no single lock
	Text     string
	Command  string // to look closer, or to do something about it
}

const (
	lostFor    = 10 * time.Minute // for which a loss is a problem
	bigSession = 512 << 10        // bytes of paths: what the library caps its own at
	mostListed = 50               // of one sort
)

// problems are those of all ensembles, the worst first.
func (b *Board) problems(now time.Time) (out []Problem) {
	var watch []Problem
	if s := b.source; s.Error != "" {
		out = append(out, Problem{Bad: true, What: "configuration", Text: fmt.Sprintf("Since %s it cannot be read again, so the one of %s stays active: %s",
			when(s.Failed, now), when(s.Read, now), clip(s.Error)), Command: "locktree validate"})
	}
	for i := range b.ensembles {
		e := &b.ensembles[i]
		p := problemsOf{b: b, e: e, now: now}
		p.connection()
		if e.Snapshot != nil {
			p.unasked()
			p.deadlocks()
			p.lost()
			p.locks()
			p.unread()
			p.sessions()
			p.certificates()
		}
		p.drift()
		p.conditions()
		for _, found := range p.found {
			if found.Bad {
				out = append(out, found)
			} else {
				watch = append(watch, found)
			}
		}
	}
	return append(out, watch...)
}

// What is said of an ensemble of which nothing is known now.
const stale, unreachable = "stale", "unreachable"

type problemsOf struct {
	b     *Board
	e     *Ensemble
	now   time.Time
	found []Problem
}

func (p *problemsOf) add(bad bool, what, lock, text, command string) {
	p.found = append(p.found, Problem{Bad: bad, What: what, Ensemble: p.e.Name, Lock: lock, Text: text, Command: command})
}

// look is the command that shows a lock.
func look(path string) string { return "locktree status " + shellWord(path) }

// shellWord quotes what a shell would take apart.
func shellWord(s string) string {
	if s = inspect.Visible(s); strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

func (p *problemsOf) connection() {
	switch {
	case p.e.Snapshot == nil && p.e.Error != "":
		p.add(true, unreachable, "", "Nothing could be read yet: "+p.e.Error, "locktree doctor")
	case p.e.Snapshot == nil:
		p.add(false, "starting", "", "The first look is under way.", "")
	case p.e.Error != "":
		p.add(true, stale, "", fmt.Sprintf("Last updated at %s: %s", clock(p.e.Snapshot.At), p.e.Error), "locktree doctor")
	case !p.b.fresh(p.e, p.now):
		p.add(true, stale, "", fmt.Sprintf("Last updated at %s; ZooKeeper has not answered since.", clock(p.e.Snapshot.At)), "locktree doctor")
	}
}

// unasked names servers that did not answer. What they do not allow is their configuration, and no news.
func (p *problemsOf) unasked() {
	if slices.ContainsFunc(p.e.Snapshot.Unasked, func(u inspect.Unasked) bool { return !u.Forbids }) {
		p.add(false, "server without an answer", "", "It is not known of all clients whether they are connected. "+clip(view.Unasked(p.e.Snapshot)), "locktree doctor")
	}
}

func (p *problemsOf) deadlocks() {
	for _, d := range p.e.Snapshot.Waits.Deadlocks {
		p.add(true, "deadlock", d[0].Holds, sentence(d)+". None of them continues until one gives up.", look(d[0].Holds))
	}
}

func (p *problemsOf) lost() {
	n := 0
	for e := range p.b.history.newest {
		if p.now.Sub(e.At) > lostFor || n == mostListed {
			return
		}
		if e.What == "lost" && e.Ensemble == p.e.Name {
			n++
			p.add(true, "lost", e.Lock, fmt.Sprintf("%s lost it with its session %s at %s.", e.Who, document.Session(e.Session), clock(e.At)), look(e.Lock))
		}
	}
}

// locks finds what is wrong with single locks.
func (p *problemsOf) locks() {
	before := map[*inspect.Report]bool{}
	if old := p.e.before; old != nil {
		for _, lock := range old.Locks {
			for _, in := range each(lock) {
				if len(in.Waiters) > 0 || in.Kind.Kept {
					before[in] = true
				}
			}
		}
	}
	n := 0
	for _, in := range p.e.Snapshot.Locks {
		size := len(p.found)
		for _, one := range each(in) {
			if n+len(p.found)-size >= mostListed {
				return
			}
			p.use(one, before[one])
		}
		p.limits(in)
		if len(in.Junk) > 0 {
			p.add(false, "foreign node", in.Path, "It contains nodes that are not contenders: "+clip(view.FirstFew(in.Junk))+".", "locktree doctor")
		}
		if in.Payload != nil && in.Payload.Made == kind.MadeElsewhere {
			p.add(false, "container", in.Path, "Another program created its node, which may be a container: the servers delete it soon after the last program has left.",
				"locktree import -wait-idle=10m "+shellWord(in.Payload.Owner.Addr)+" "+shellWord(in.Path))
		}
		n += len(p.found) - size
	}
}

// each is a lock; of a family, the keys that were looked at.
func each(in *inspect.Report) []*inspect.Report {
	if in.Keys != nil {
		return in.Keys.Read
	}
	return []*inspect.Report{in}
}

// use finds what is wrong with those who hold a lock, or do not. same: the look before found the same.
func (p *problemsOf) use(in *inspect.Report, same bool) {
	switch {
	case len(in.Holders) > 0 || !same: // twice the same is needed: a look may meet a change of hands
	case in.Kind.Kept:
		n := p.b.history.counts[lockKey{p.e.Name, in.Path}] // one that nobody has used yet is no accident
		p.add(len(in.Waiters)+n.granted+n.ended > 0, "leaderless", in.Path, leaderless(len(in.Waiters)), look(in.Path))
	default:
		p.add(true, "stuck", in.Path, fmt.Sprintf("%s, and nobody holds it.", view.Plural(len(in.Waiters), "waiter")), look(in.Path))
	}
	for _, c := range in.Holders {
		if s := p.e.sight(c); s.Away() {
			p.add(len(in.Waiters) > 0, "silent holder", in.Path, "Held by "+s.Line()+".", look(in.Path))
			break
		}
	}
}

func leaderless(candidates int) string {
	if candidates == 0 {
		return "Nobody leads, and there is no candidate."
	}
	return fmt.Sprintf("Nobody leads; %s.", view.Plural(candidates, "candidate"))
}

// limits finds who is beyond what was declared of the lock.
func (p *problemsOf) limits(in *inspect.Report) {
	l := in.Payload.Limits()
	ask := ""
	if l.Owner != "" {
		ask = " Its owner is " + clip(l.Owner) + "."
	}
	for _, x := range view.Exceeded(in, p.e.Snapshot.At) {
		what, does := "longer than declared", "has held it"
		if x.Limit == "max_wait" {
			what, does = "waits longer than declared", "has waited"
		}
		at, of := in.Path, ""
		if x.Key != nil {
			at, of = x.Key.Path, " (key "+view.KeyName(x.Key.Key)+")"
		}
		if x.Keys > 1 {
			of = fmt.Sprintf(" (key %s, one of %d that are beyond it)", view.KeyName(x.Key.Key), x.Keys)
		}
		s := p.e.sight(x.Who)
		p.add(true, what, at, fmt.Sprintf("%s (%s) %s for %s%s; %s is %s.%s", s.Who(), s.Details(), does, x.Age, of, x.Limit, x.Declared, ask), look(at))
	}
}

func (p *problemsOf) unread() {
	for i, u := range p.e.Snapshot.Unread {
		if i == mostListed {
			p.add(true, "unreadable", "", fmt.Sprintf("%d more nodes.", len(p.e.Snapshot.Unread)-i), "locktree doctor")
			return
		}
		if u.Missing() {
			p.add(true, "missing", u.Path, "It is declared and does not exist.", "locktree plan")
			continue
		}
		p.add(true, "unreadable", u.Path, clip(u.Err.Error()), "locktree doctor")
	}
	if p.e.Snapshot.Cut {
		p.add(false, "cut", "", "Some nodes below "+p.e.Prefix+" are not read: there are too many, or their paths are too long. Choose a longer -prefix.", "")
	}
}

// sessions finds the ten with the most bytes of paths, of those that are too large.
func (p *problemsOf) sessions() {
	var all []*inspect.Session
	for _, s := range p.e.Snapshot.Sessions {
		if s.Bytes > bigSession {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(a, b *inspect.Session) int { return b.Bytes - a.Bytes })
	for _, s := range all[:min(10, len(all))] {
		from := ""
		if s.Address != "" {
			from = " of " + s.Address
		}
		p.add(true, "oversized session", "", fmt.Sprintf("Session %s%s owns %d ephemeral nodes, %d bytes of paths: when it ends, a server may be unable to restart (ZOOKEEPER-4306).",
			document.Session(s.ID), from, s.Nodes, s.Bytes), "")
	}
}

// certificates finds those of the page's own connection that expire soon: of each, doctor tells.
func (p *problemsOf) certificates() {
	if len(p.e.Snapshot.Certificates) == 0 {
		return
	}
	if k := inspect.CheckCertificates(p.e.Snapshot.Certificates, p.now); k.Verdict != inspect.VerdictHolds {
		p.add(k.Verdict == inspect.VerdictFails, "certificate", "", clip(k.What)+".", "locktree doctor")
	}
}

func (p *problemsOf) drift() {
	if p.e.Trouble != "" {
		p.add(false, "not checked", "", "Drift and conditions: "+p.e.Trouble, "locktree doctor")
	}
	d := p.e.Drift
	if d == nil {
		return
	}
	if unfinished(d) {
		p.add(true, "apply unfinished", "", fmt.Sprintf("An apply is under way or was interrupted: access lists are still to be set, or locks admit nobody new (checked at %s).", clock(p.e.DriftAt)), "locktree plan")
	}
	if c := d.Summary(); c != (plan.Counts{}) || !d.Applyable() {
		p.add(false, "drift", "", fmt.Sprintf("The tree differs from the configuration: %d to add, %d to change, %d to destroy (checked at %s).",
			c.Add, c.Change, c.Destroy, clock(p.e.DriftAt)), "locktree plan")
	}
}

// unfinished reports whether the tree shows an apply that has not come to its end.
func unfinished(p *plan.Plan) bool {
	return p.Resumes != "" || slices.ContainsFunc(p.Changes, func(c plan.Change) bool {
		return c.Before != nil && c.Before.Payload != nil && c.Before.Payload.State == kind.StateDraining
	})
}

func (p *problemsOf) conditions() {
	if p.e.Checkup == nil {
		return
	}
	n := 0
	for _, k := range p.e.Checkup.Findings() {
		if k.Verdict != inspect.VerdictFails {
			continue
		}
		if n++; n <= mostListed {
			p.add(true, "condition", "", clip(k.Where+": "+k.Name+": "+k.What), "locktree doctor")
		}
	}
	if n > mostListed {
		p.add(true, "condition", "", fmt.Sprintf("%d more conditions fail.", n-mostListed), "locktree doctor")
	}
}

func clock(t time.Time) string { return t.UTC().Format("15:04:05 MST") }

// when is the time, with the day unless that is today.
func when(t, now time.Time) string {
	if day := t.UTC().Format(time.DateOnly); day != now.UTC().Format(time.DateOnly) {
		return day + " " + clock(t)
	}
	return clock(t)
}
