package page

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/cmd/locktree/internal/view/lockview"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/plan/document"
	"github.com/locktree/locktree/recipes/inspect"
	"github.com/locktree/locktree/recipes/inspect/check"
	"github.com/locktree/locktree/recipes/inspect/words"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/kind/slots"
)

// severity is how soon an operator should look.
type severity int

const (
	Watch  severity = iota // nothing is wrong yet
	Now                    // something is wrong
	Urgent                 // no contender goes on by itself, or a limit is exceeded several times over
)

// problem is one cause with its consequences, for an operator to look at.
type problem struct {
	Severity         severity
	Over             float64 // the time divided by the limit; 0 if no limit is exceeded
	Limit            string  // the name of the limit: max_hold or max_wait
	What             string  // the problem in a word or two, for readers who do not see colours
	Ensemble         string
	Locks            []string // nil if the problem is not about locks
	Text             string
	Also             []string // other observations with the same cause
	Owners, Runbooks []string // of the locks
	Command          string   // the next step
}

const (
	bigSession = 512 << 10 // bytes of paths: the library's limit for its own sessions
	mostListed = 50        // problems of one sort, and locks of one problem
	urgentOver = 3         // a limit exceeded by this factor is urgent
)

// problems lists the problems of all ensembles, the worst first.
func problems(sources []lockview.Source, ensembles []Ensemble, now time.Time, interval time.Duration) (out []problem) {
	for _, s := range sources {
		if s.Error == "" {
			continue
		}
		which, then := "", " again, so the one of "+timeText(s.Read, now)+" stays active"
		if s.Read.IsZero() {
			then = ", so nothing of it is looked at"
		}
		if len(sources) > 1 {
			which = "Stack " + clip(s.Stack) + ". "
		}
		text := fmt.Sprintf("%sSince %s it cannot be read%s: %s", which, timeText(s.Failed, now), then, clip(s.Error))
		out = append(out, problem{Severity: Now, What: "configuration", Text: text, Command: "locktree validate"})
	}
	for i := range ensembles {
		e := &ensembles[i]
		p := problemsOf{e: e, now: now, interval: interval, causes: map[int64]int{}, missing: map[string]bool{}}
		p.connection()
		if e.Snapshot != nil {
			if slices.ContainsFunc(e.Snapshot.Unasked, func(u words.Unasked) bool { return !u.Forbids }) { // a server that forbids four-letter words is no problem to show
				p.add(Watch, "server without an answer", "", clip(lockview.Unasked(e.Snapshot)), "locktree doctor")
			}
			p.deadlocks()
			p.findSilent()
			p.locks()
			p.findUnread()
			p.sessions()
			if all := e.Snapshot.Certificates; len(all) > 0 { // these are of the page's own connection; doctor shows those of every server
				if k := check.Certificates(all, now); k.Verdict != check.Holds {
					p.add(map[check.Verdict]severity{check.Fails: Now}[k.Verdict], "certificate", "", clip(k.What)+".", "locktree doctor")
				}
			}
		}
		p.drift()
		p.conditions()
		for i := range p.found { // the owners of the locks, and their runbooks
			found := &p.found[i]
			for _, path := range found.Locks[:min(len(found.Locks), mostListed)] {
				var l kind.Limits
				if in := e.find(path); in != nil {
					l = in.Payload.Limits()
				} else if e.Drift != nil && p.missing[path] {
					for c := range e.Drift.Each() {
						if c.Path == path && c.After != nil {
							l = c.After.Payload.Limits()
						}
					}
				}
				found.Owners, found.Runbooks = addText(found.Owners, clip(l.Owner)), addText(found.Runbooks, l.Runbook)
			}
		}
		out = append(out, p.found...)
	}
	rank := func(p problem) float64 { return cmp.Or(p.Over, math.Inf(1)) } // problems without a number come first
	slices.SortStableFunc(out, func(a, b problem) int {
		return cmp.Or(cmp.Compare(b.Severity, a.Severity), cmp.Compare(rank(b), rank(a)))
	})
	return out
}

// Beyond is by how far a limit is exceeded, "" where no limit is exceeded.
func (p problem) Beyond() string {
	if p.Over == 0 {
		return ""
	}
	return times(p.Over) + " " + p.Limit
}

// MoreLocks and MoreAlso are how many locks and observations are not listed.
func (p problem) MoreLocks() int { return max(0, len(p.Locks)-3) }
func (p problem) MoreAlso() int  { return max(0, len(p.Also)-5) }

// times is a factor: "1.5 ×".
func times(x float64) string {
	if x >= 10 {
		return fmt.Sprintf("%.0f ×", x)
	}
	return fmt.Sprintf("%.1f ×", x)
}

type problemsOf struct {
	e        *Ensemble
	now      time.Time
	interval time.Duration // between two looks
	found    []problem
	causes   map[int64]int   // sessions that block others, with the index of their problem in found
	missing  map[string]bool // declared locks that do not exist
}

func (p *problemsOf) add(s severity, what, lock, text, command string) *problem {
	found := problem{Severity: s, What: what, Ensemble: p.e.Name, Text: text, Command: command}
	if lock != "" {
		found.Locks = []string{lock}
	}
	p.found = append(p.found, found)
	return &p.found[len(p.found)-1]
}

// addText adds a text, unless it is empty or already there.
func addText(all []string, text string) []string {
	if text == "" || slices.Contains(all, text) {
		return all
	}
	return append(all, text)
}

func (p *problemsOf) connection() {
	switch {
	case p.e.Snapshot == nil && p.e.Error != "":
		p.add(Urgent, "unreachable", "", "Nothing could be read yet: "+p.e.Error, "locktree doctor")
	case p.e.Snapshot == nil:
		p.add(Watch, "starting", "", cmp.Or(p.e.looking, "The first look is under way."), "")
	case p.e.Error != "":
		p.add(Urgent, "stale", "", fmt.Sprintf("Last updated at %s: %s", clock(p.e.Snapshot.At), p.e.Error), "locktree doctor")
	case p.e.looking != "":
		p.add(Watch, "slow look", "", fmt.Sprintf("Last updated at %s. %s", clock(p.e.Snapshot.At), p.e.looking), "")
	case !p.e.isFresh(p.now, p.interval):
		p.add(Urgent, "stale", "", fmt.Sprintf("Last updated at %s; ZooKeeper has not answered since.", clock(p.e.Snapshot.At)), "locktree doctor")
	}
}

func (p *problemsOf) deadlocks() {
	for _, d := range p.e.Snapshot.Waits.Deadlocks {
		c := circle(p.e, d)
		last := slices.MaxFunc(c, func(a, b party) int { return a.Waiter.At.Compare(b.Waiter.At) })
		var steps []string
		for _, s := range d {
			s.Who, s.Holds, s.Waits = clip(s.Who), clip(s.Holds), clip(s.Waits)
			steps = append(steps, s.String())
		}
		text := strings.Join(steps, "; ") + ". None of them goes on until one gives up."
		command := p.e.look(last.Waits)
		if last.waiter.Path != "" {
			command = p.e.evict("break", last.Waits, last.waiter)
			text += " The command takes " + last.Who + ", the last to come, out of the queue of " + clip(last.Waits) + ". It keeps what it holds."
		}
		found := p.add(Urgent, "deadlock", "", text, command)
		for _, s := range d {
			found.Locks = addText(found.Locks, s.Holds)
			p.causes[s.Owner] = len(p.found) - 1
		}
	}
}

// findSilent finds holders that are not connected, each with all that it holds.
func (p *problemsOf) findSilent() {
	at := map[int64]int{}
	for _, lock := range p.e.Snapshot.Locks {
		for in := range lock.Locks {
			for _, c := range in.Holders {
				s := p.e.sight(c)
				i, ok := at[c.Session]
				if !s.Away() || !ok && len(at) == mostListed { // the limit counts sessions: a listed session still shows all that it holds
					continue
				}
				if !ok {
					i = len(p.found)
					at[c.Session] = i
					p.add(Watch, "silent holder", "", "Held by "+s.Line()+".", p.e.look(in.Path))
					if _, ok := p.causes[c.Session]; !ok { // a deadlock is already the cause for this session
						p.causes[c.Session] = i
					}
				}
				found := &p.found[i]
				if n := len(found.Locks); n == 0 || found.Locks[n-1] != in.Path { // a client may hold several permits of a semaphore: list that lock once
					found.Locks = append(found.Locks, in.Path)
				}
				if len(in.Waiters) > 0 {
					found.Severity = Now
				}
			}
		}
	}
}

// locks finds what is wrong with single locks.
func (p *problemsOf) locks() {
	before := map[*inspect.Report]bool{}
	if old := p.e.before; old != nil {
		for _, lock := range old.Locks {
			for in := range lock.Locks {
				if len(in.Waiters) > 0 || in.Kind.Kept {
					before[in] = true
				}
			}
		}
	}
	n := 0
	for _, in := range p.e.Snapshot.Locks {
		size := len(p.found)
		for one := range in.Locks {
			if n+len(p.found)-size >= mostListed {
				return
			}
			p.findMisuse(one, before[one])
		}
		p.limits(in)
		p.slots(in)
		if len(in.Junk) > 0 {
			p.add(Watch, "foreign node", in.Path, "It contains nodes that are not contenders: "+clip(view.FirstFew(in.Junk))+".", "locktree doctor")
		}
		if in.Payload != nil && in.Payload.Made == kind.MadeElsewhere {
			p.add(Watch, "container", in.Path, "Another program created its node, which may be a container: the servers delete it soon after the last program has left. An apply that finds it idle creates it again.",
				"locktree apply -replace="+shellWord(in.Payload.Owner.Addr)+" -drain=10m")
		}
		n += len(p.found) - size
	}
}

// findMisuse finds what is wrong with the holders of a lock, or with their absence. The parameter same is true if the look before
// found the same.
func (p *problemsOf) findMisuse(in *inspect.Report, same bool) {
	switch {
	case len(in.Holders) > 0 || !same: // report a lock without a holder only after two looks: one look may fall between two holders
	case in.Kind.Kept:
		text := "There is no leader and no candidate."
		if n := len(in.Waiters); n > 0 {
			text = fmt.Sprintf("There is no leader; %s.", view.Plural(n, "candidate"))
		}
		severity := Watch
		if len(in.Waiters) > 0 || p.e.held[in.Path] {
			severity = Now
		}
		p.add(severity, "leaderless", in.Path, text, p.e.look(in.Path))
	default:
		p.add(Now, "stuck", in.Path, fmt.Sprintf("%s, and no holder.", view.Plural(len(in.Waiters), "waiter")), p.e.look(in.Path))
	}
}

// slots finds what a job has missed, and a last run that has not succeeded.
func (p *problemsOf) slots(in *inspect.Report) {
	outlook, err := in.Slots(p.e.Snapshot.At)
	if err != nil {
		p.add(Watch, "slots not known", in.Path, clip(err.Error())+".", p.e.look(in.Path))
		return
	}
	if n := len(outlook.Missed); n > 0 {
		text := "A slot was not run, and no program starts it any more: %[2]s."
		if n > 1 {
			text = "%d slots were not run, and no program starts them any more; the last one is %s."
		}
		p.add(Now, "missed slot", in.Path, fmt.Sprintf(text+" Run it by hand, or skip it.", n, slots.At(outlook.Missed[n-1])), p.e.look(in.Path))
	}
	if run := outlook.Last; run != nil {
		switch state := lockview.RunState(run, in); state {
		case "lost":
			p.add(Now, "run lost", in.Path, fmt.Sprintf("%s no longer runs %s and recorded no result. It lost the lock, or died.", clip(run.By), clip(run.Slot)), p.e.look(in.Path))
		case string(slots.Failed):
			p.add(Now, "run failed", in.Path, fmt.Sprintf("The run of %s by %s has failed: %s", clip(run.Slot), clip(run.By), clip(run.Result)), p.e.look(in.Path))
		}
	}
}

// findUnread finds nodes that are missing, and nodes that cannot be read: one problem for each reason.
func (p *problemsOf) findUnread() {
	at := map[string]int{}
	for _, u := range p.e.Snapshot.Unread {
		what, text, command := "unreadable", "", "locktree doctor"
		if u.Missing() {
			what, text, command = "missing", "Declared, but its node does not exist.", "locktree plan"
			p.missing[u.Path] = true
		} else {
			text = clip(u.Err.Error())
		}
		i, ok := at[text]
		if !ok && len(at) == mostListed {
			continue
		}
		if !ok {
			i = len(p.found)
			at[text] = i
			p.add(Now, what, "", text, command)
		}
		p.found[i].Locks = append(p.found[i].Locks, u.Path)
	}
	if p.e.Snapshot.Cut {
		p.add(Watch, "cut", "", "Some nodes below "+p.e.Prefix+" are not read: there are too many, or their paths are too long. Choose a longer -prefix.", "")
	}
}

// sessions finds sessions that are too large, at most the ten with the most bytes of paths.
func (p *problemsOf) sessions() {
	var all []*words.Session
	for _, s := range p.e.Snapshot.Sessions {
		if s.Bytes > bigSession {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(a, b *words.Session) int { return b.Bytes - a.Bytes })
	for _, s := range all[:min(10, len(all))] {
		from := ""
		if s.Address != "" {
			from = " of " + s.Address
		}
		p.add(Now, "oversized session", "", fmt.Sprintf("Session %s%s owns %d ephemeral nodes, %d bytes of paths: when it ends, a server may be unable to restart (ZOOKEEPER-4306).",
			document.Session(s.ID), from, s.Nodes, s.Bytes), "")
	}
}

func (p *problemsOf) conditions() {
	if p.e.Checkup == nil {
		return
	}
	all := merge(slices.DeleteFunc(p.e.Checkup.Findings(), func(k lockview.Finding) bool {
		return k.Verdict != check.Fails || p.missing[strings.TrimPrefix(k.Name, "access ")] // the missing lock is already a problem
	}))
	for _, k := range all[:min(len(all), mostListed)] {
		p.add(Now, "condition", "", clip(k.Where+": "+k.Name+": "+k.What), "locktree doctor")
	}
	if n := len(all) - mostListed; n > 0 {
		p.add(Now, "condition", "", fmt.Sprintf("%d more conditions fail.", n), "locktree doctor")
	}
}

// merge merges findings that say the same of several servers or nodes.
func merge(all []lockview.Finding) (out []lockview.Finding) {
	type same struct {
		verdict    check.Verdict
		what, next string
	}
	at, where, names := map[same]int{}, [][]string{}, [][]string{}
	for _, k := range all {
		key := same{k.Verdict, k.What, k.Next}
		i, ok := at[key]
		if !ok {
			i = len(out)
			at[key], out, where, names = i, append(out, k), append(where, nil), append(names, nil)
		}
		where[i], names[i] = addText(where[i], k.Where), addText(names[i], k.Name)
	}
	for i := range out {
		out[i].Where, out[i].Name = view.FirstFew(where[i]), view.FirstFew(names[i])
	}
	return out
}

func clock(t time.Time) string { return t.UTC().Format("15:04:05 MST") }

// timeText writes the time, with the day unless that is today.
func timeText(t, now time.Time) string {
	if day := t.UTC().Format(time.DateOnly); day != now.UTC().Format(time.DateOnly) {
		return day + " " + clock(t)
	}
	return clock(t)
}

func (p *problemsOf) drift() {
	if p.e.Trouble != "" {
		p.add(Watch, "not checked", "", "Drift and conditions: "+p.e.Trouble, "locktree doctor")
	}
	d := p.e.Drift
	if d == nil {
		return
	}
	if isUnfinished(d) {
		p.add(Now, "apply unfinished", "", fmt.Sprintf("An apply is under way or was interrupted: access lists are still to be set, or locks grant nothing new (checked at %s).", clock(p.e.DriftAt)), "locktree plan")
	}
	c := d.Summary()
	if at := slices.IndexFunc(p.found, func(f problem) bool { return f.What == "missing" }); at >= 0 && d.Applyable() && p.onlyMissing(d, c) {
		p.found[at].Also = append(p.found[at].Also, fmt.Sprintf("An apply would create what is missing (checked at %s).", clock(p.e.DriftAt)))
		return
	}
	if c != (plan.Counts{}) || !d.Applyable() {
		found := p.add(Watch, "drift", "", fmt.Sprintf("The tree differs from the configuration: %d to add, %d to change, %d to destroy (checked at %s).",
			c.Add, c.Change, c.Destroy, clock(p.e.DriftAt)), "locktree plan")
		for _, one := range d.Changes {
			if p.e.find(one.Path) != nil || p.missing[one.Path] { // other locks have no page
				found.Locks = append(found.Locks, one.Path)
			}
		}
	}
}

// onlyMissing reports whether a plan only creates locks that are known to be missing, and the namespaces around them.
func (p *problemsOf) onlyMissing(d *plan.Plan, c plan.Counts) bool {
	return c == plan.Counts{Add: c.Add} && !slices.ContainsFunc(d.Changes, func(one plan.Change) bool {
		return one.Action == plan.Create && !p.missing[one.Path] && !slices.ContainsFunc(slices.Collect(maps.Keys(p.missing)), func(path string) bool { return strings.HasPrefix(path, one.Path+"/") })
	})
}

// isUnfinished reports whether the tree shows an apply that has not come to its end.
func isUnfinished(p *plan.Plan) bool {
	return p.Resumes != "" || slices.ContainsFunc(p.Changes, func(c plan.Change) bool {
		return c.Before != nil && c.Before.Payload != nil && c.Before.Payload.State == kind.StateDraining
	})
}

// limits finds contenders that exceed a declared limit of the lock. If a problem with the same cause is already listed, it adds
// the excess to that problem.
func (p *problemsOf) limits(in *inspect.Report) {
	own := -1
	for _, x := range lockview.Exceeded(in, p.e.Snapshot.At) {
		lock, of := in, ""
		if x.Key != nil {
			lock, of = x.Key, " (key "+lockview.KeyName(x.Key.Key)+")"
		}
		if x.Keys > 1 {
			of = fmt.Sprintf(" (key %s, one of %d that are beyond it)", lockview.KeyName(x.Key.Key), x.Keys)
		}
		s, does := p.e.sight(x.Who), "has held it"
		if x.Limit == "max_wait" {
			does = "has waited"
		}
		text := fmt.Sprintf("%s (%s) %s for %s%s; %s is %s.", s.Who(), s.Details(), does, x.Age, of, x.Limit, x.Declared)
		at, known := p.cause(lock, x)
		if !known && x.Limit == "max_wait" && own >= 0 && slices.Contains(p.found[own].Locks, lock.Path) { // the holder exceeds max_hold, which explains the wait
			at, known = own, true
		}
		if known {
			text = fmt.Sprintf("%s %s for %s%s at %s; %s is %s.", s.Who(), strings.Replace(does, " it", "", 1), x.Age, of, clip(lock.Path), x.Limit, x.Declared)
			p.found[at].Also = append(p.found[at].Also, text)
		} else {
			what, command := "longer than declared", p.e.evict("revoke", lock.Path, x.Who)
			if x.Limit == "max_wait" {
				what, command = "waits longer than declared", p.e.look(lock.Path)
			}
			at = len(p.found)
			p.add(Now, what, lock.Path, text, command)
			own = at
		}
		found := &p.found[at]
		if x.Times > found.Over {
			found.Over, found.Limit = x.Times, x.Limit
		}
		if found.Over >= urgentOver {
			found.Severity = Urgent
		}
	}
}

// cause is the problem that explains why a limit is exceeded: a deadlock, or a holder that is not connected.
func (p *problemsOf) cause(in *inspect.Report, x lockview.Excess) (at int, known bool) {
	if x.Limit == "max_hold" {
		at, known = p.causes[x.Who.Session]
		return at, known
	}
	for _, c := range in.Holders {
		if at, known = p.causes[c.Session]; known {
			return at, true
		}
	}
	at, known = p.causes[x.Who.Session]
	return at, known && p.found[at].What == "deadlock" && slices.Contains(p.found[at].Locks, in.Path)
}
