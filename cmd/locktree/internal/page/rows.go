package page

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/locktree/locktree/cmd/locktree/internal/view"
	"github.com/locktree/locktree/cmd/locktree/internal/view/lockview"
	"github.com/locktree/locktree/plan/document"
	"github.com/locktree/locktree/recipes/inspect"
	"github.com/locktree/locktree/recipes/kind"
)

// person is a holder or a waiter, as the page shows it.
type person struct {
	kind.Sight
	At   time.Time // since when it holds or waits
	Over bool      // for longer than declared
}

// row is one lock in a table.
type row struct {
	Ensemble, Path, Addr, Stack, Kind, State string
	Link                                     string
	Holders, Waiters                         []person
	More, MoreWaiting                        int // how many holders and waiters are not listed
	Permits                                  int
	Limits                                   kind.Limits
	Held, Longest                            time.Duration
	HeldOver, LongestOver                    *lockview.Excess // nil while no declared limit is exceeded
	Use, Look                                string           // Look is the command that shows the lock
	Junk                                     []string
	Key, Family, FamilyLink                  string // of a key
	IsFamily                                 bool
	Keys                                     []keyRow    // of a family: the busiest key, and the one held for longest
	Slots                                    [][2]string // of a job that runs once for each slot
}

// keyRow is a key of a family that stands out.
type keyRow struct {
	Why, Key, Link, Use, For, Holder string
	Over                             bool
}

// keys are the busiest key and the one held for longest.
func (r *row) keys(e *Ensemble, k *inspect.Keys) {
	for _, one := range []struct {
		why string
		in  *inspect.Report
	}{{"most waiters", k.Busiest}, {"held for longest", k.Longest}} {
		if one.in == nil {
			continue
		}
		shown := keyRow{Why: one.why, Key: lockview.KeyName(one.in.Key), Link: lockLink(e.Name, one.in.Path), Use: lockview.Use(one.in)}
		if held, _ := ages(one.in, e.Snapshot.At); held > 0 {
			shown.For = held.Truncate(time.Second).String()
			over, _ := exceeded(one.in, e.Snapshot.At)
			shown.Over = over != nil
		}
		if holders, _ := lockview.Parties(one.in); len(holders) > 0 {
			shown.Holder = e.sight(holders[0]).Line()
		}
		r.Keys = append(r.Keys, shown)
	}
}

// list has the rows that /locks shows, and which part of all rows they are.
type list struct {
	Rows         []row
	Total, Page  int
	Pages        int
	Before, Next int // the numbers of the pages beside this one, 0 where there is none
	Query        string
	Show, Sort   string
	Several      bool // there are several ensembles
}

const rowsPerPage = 100

// entry is a lock on its way into the list.
type entry struct {
	e             *Ensemble
	in            *inspect.Report
	held, longest time.Duration
	waiters       int // of a family, those of the busiest key
}

// sorts are the orders of the table.
var sorts = map[string]func(a, b entry) int{
	"use": func(a, b entry) int {
		return cmp.Or(b.waiters-a.waiters, cmp.Compare(b.held, a.held), len(b.in.Holders)-len(a.in.Holders))
	},
	"path":    func(entry, entry) int { return 0 },
	"held":    func(a, b entry) int { return cmp.Compare(b.held, a.held) },
	"waiting": func(a, b entry) int { return cmp.Compare(b.longest, a.longest) },
}

// locks filters and sorts. The query of the address says how, so an address can be passed on.
func locks(ensembles []Ensemble, q url.Values) list {
	l := list{Query: clip(q.Get("q")), Show: q.Get("show"), Sort: q.Get("sort"), Several: len(ensembles) > 1}
	if l.Show != "all" {
		l.Show = "used"
	}
	order, ok := sorts[l.Sort]
	if !ok {
		l.Sort, order = "use", sorts["use"]
	}
	var rows []entry
	words := wordsOf(l.Query)
	for i := range ensembles {
		e := &ensembles[i]
		if e.Snapshot == nil {
			continue
		}
		for _, in := range e.Snapshot.Locks {
			if l.Show == "used" && !in.Busy() && lockview.SlotsUse(in, e.Snapshot.At) == "" || !matches(e, in, words) {
				continue
			}
			r := entry{e: e, in: in, waiters: len(in.Waiters)}
			if r.held, r.longest = ages(in, e.Snapshot.At); in.Keys != nil && in.Keys.Busiest != nil {
				r.waiters = len(in.Keys.Busiest.Waiters)
			}
			rows = append(rows, r)
		}
	}
	slices.SortStableFunc(rows, order)
	l.Total, l.Pages = len(rows), max(1, (len(rows)+rowsPerPage-1)/rowsPerPage)
	_, _ = fmt.Sscan(q.Get("page"), &l.Page) // without a number, the first page is shown
	l.Page = min(max(l.Page, 1), l.Pages)
	if l.Before = l.Page - 1; l.Page < l.Pages {
		l.Next = l.Page + 1
	}
	for _, r := range rows[(l.Page-1)*rowsPerPage : min(l.Page*rowsPerPage, len(rows))] {
		l.Rows = append(l.Rows, r.e.row(r.in, 3))
	}
	return l
}

// ages says for how long the first holder has held, and the first waiter waited. A family has the longest times of its keys.
func ages(in *inspect.Report, now time.Time) (held, waited time.Duration) {
	for one := range in.Locks {
		for _, c := range one.Holders {
			held = max(held, lockview.Age(c, now))
		}
		for _, c := range one.Waiters {
			waited = max(waited, lockview.Age(c, now))
		}
	}
	return held, waited
}

// mostWords limits the words of a query: the search compares each with every lock, and other readers wait meanwhile.
const mostWords = 8

// wordsOf are the words of a query, each once.
func wordsOf(query string) []string {
	words := slices.Compact(slices.Sorted(slices.Values(strings.Fields(strings.ToLower(query)))))
	return words[:min(len(words), mostWords)]
}

// matches reports whether all words occur in the texts about the lock.
func matches(e *Ensemble, in *inspect.Report, words []string) bool {
	if len(words) == 0 {
		return true
	}
	texts := []string{in.Path, in.Kind.Name}
	if in.Payload != nil {
		texts = append(texts, in.Payload.Owner.Addr, in.Payload.Owner.Stack)
	}
	for one := range in.Locks {
		texts = append(texts, one.Key)
		for _, c := range slices.Concat(one.Holders, one.Waiters) {
			texts = append(texts, c.ID, c.Host, document.Session(c.Session))
			if s := e.Snapshot.Sessions[c.Session]; s != nil {
				texts = append(texts, s.Address)
			}
		}
	}
	said := strings.ToLower(strings.Join(texts, "\n"))
	return !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(said, word) })
}

// find returns a lock of the newest snapshot, or a key that was looked at; nil if the path is neither.
func (e *Ensemble) find(path string) *inspect.Report {
	if e.Snapshot == nil {
		return nil
	}
	for dir := path; strings.HasPrefix(dir, "/") && dir != "/"; dir = kind.ParentPath(dir) {
		at, ok := slices.BinarySearchFunc(e.Snapshot.Locks, dir, func(in *inspect.Report, p string) int { return cmp.Compare(in.Path, p) })
		if !ok {
			continue
		}
		in := e.Snapshot.Locks[at]
		if dir == path {
			return in
		}
		if in.Keys != nil {
			for _, key := range append(slices.Clip(in.Keys.Read), in.Keys.Busiest) {
				if key != nil && key.Path == path {
					return key
				}
			}
		}
	}
	return nil
}

// exceeded are the limits of a lock that are exceeded; nil for the others.
func exceeded(in *inspect.Report, now time.Time) (hold, wait *lockview.Excess) {
	over := map[string]*lockview.Excess{}
	for _, x := range lockview.Exceeded(in, now) {
		over[x.Limit] = &x
	}
	return over["max_hold"], over["max_wait"]
}

// row is a lock with its first holders and waiters.
func (e *Ensemble) row(in *inspect.Report, most int) row {
	held, waited := ages(in, e.Snapshot.At)
	r := row{Ensemble: e.Name, Path: in.Path, Kind: in.Kind.Name, Link: lockLink(e.Name, in.Path), State: "not declared",
		Held: held.Truncate(time.Second), Longest: waited.Truncate(time.Second), Junk: in.Junk[:min(len(in.Junk), most)]}
	if in.Family != "" {
		r.Key, r.Family, r.FamilyLink = lockview.KeyName(in.Key), in.Family, lockLink(e.Name, in.Family)
	}
	if in.Keys != nil {
		r.IsFamily = true
		r.keys(e, in.Keys)
	}
	if in.Payload != nil {
		r.Addr, r.Stack, r.State = in.Payload.Owner.Addr, in.Payload.Owner.Stack, string(in.Payload.State)
		r.Limits = in.Payload.Limits()
		if in.Kind.Permits != nil {
			r.Permits = in.Kind.Permits(in.Payload.Params)
		}
	}
	holders, waiters := lockview.Parties(in)
	r.HeldOver, r.LongestOver = exceeded(in, e.Snapshot.At)
	r.Holders, r.More = e.people(holders, most, r.Limits.Hold())
	r.Waiters, r.MoreWaiting = e.people(waiters, most, r.Limits.Wait())
	r.Use, r.Look = lockview.Use(in)+lockview.SlotsUse(in, e.Snapshot.At), e.look(in.Path)
	r.Slots = lockview.SlotLines(in, e.Snapshot.At)
	return r
}

// people returns the first contenders and the number of the others. The parameter longest is the declared limit of their time, 0
// for none.
func (e *Ensemble) people(cs []inspect.Contender, most int, longest time.Duration) (out []person, more int) {
	for i, c := range cs[:min(len(cs), most)] {
		p := e.person(c, longest)
		p.Position = i + 1
		out = append(out, p)
	}
	return out, len(cs) - len(out)
}

func (e *Ensemble) person(c inspect.Contender, longest time.Duration) person {
	s := e.sight(c)
	return person{s, lockview.Since(c), longest > 0 && time.Duration(s.ForMs)*time.Millisecond > longest}
}

// who is a contender by name.
func who(x inspect.Contender) string { return clip(cmp.Or(x.ID, x.Name)) }

// sight is a contender as it was seen, with its texts clipped.
func (e *Ensemble) sight(c inspect.Contender) kind.Sight {
	c.ID, c.Host = who(c), clip(c.Host)
	s := e.Snapshot.Sight(c, e.Snapshot.At)
	s.ClientAddress, s.Format = clip(s.ClientAddress), clip(s.Format)
	return s
}

func lockLink(ensemble, path string) string {
	return "/lock?" + url.Values{"ensemble": {ensemble}, "path": {path}}.Encode()
}

// longestText is how much of a foreign text is shown.
const longestText = 300

// clip makes the invisible characters of a foreign text visible, and cuts a long text.
func clip(s string) string {
	if r := []rune(s[:min(len(s), 8*longestText)]); len(r) > longestText {
		s = string(r[:longestText]) + "…"
	}
	return kind.Visible(s)
}

// look is the command that shows a lock.
func (e *Ensemble) look(path string) string { return e.command("status", path) }

// command is a command about a lock. Without a configuration, it names the servers.
func (e *Ensemble) command(verb, path string) string {
	text := "locktree " + verb + " " + shellWord(path)
	if e.Stack == "" && e.Servers != "" {
		text += " -servers=" + shellWord(e.Servers)
	}
	return text
}

// evict is the command that asks a holder to give a lock back, or takes a place away. It names the session if the contender's
// name is hard to type.
func (e *Ensemble) evict(verb, path string, c inspect.Contender) string {
	whom := c.ID
	if whom == "" || clip(whom) != whom || len(whom) > 60 {
		whom = document.Session(c.Session)
	}
	return e.command(verb, path) + " -holder=" + shellWord(whom)
}

// shellWord quotes a word that a shell would split or expand.
func shellWord(s string) string {
	if s = kind.Visible(s); strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-:,") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// waitLine is one contender that waits, in words.
type waitLine struct {
	Lock, Link, Text, For string
	Over                  bool // longer than declared
}

// maxWaits is how many waits are listed.
const maxWaits = 500

// waitLines are the waits outside of deadlocks, in words.
func waitLines(e *Ensemble) (out []waitLine) {
	in := map[inspect.Step]bool{}
	for _, d := range e.Snapshot.Waits.Deadlocks {
		for _, s := range d {
			in[inspect.Step{Owner: s.Owner, Waits: s.Waits}] = true
		}
	}
	for _, w := range e.Snapshot.Waits.All {
		if len(out) == maxWaits {
			break
		}
		if in[inspect.Step{Owner: w.Waiter.Session, Waits: w.Lock}] {
			continue
		}
		verb, held := " waits for ", w.Held
		if w.Any {
			verb, held = " waits for one of ", kind.PerClient(w.Held)
		}
		var names []string
		for _, c := range held {
			names = append(names, who(c))
		}
		if len(names) == 0 {
			verb = " waits"
		}
		text := who(w.Waiter) + verb + view.FirstFew(names)
		if n := len(w.Behind); n > 0 {
			text += fmt.Sprintf(", behind %d more", n)
		}
		most := time.Duration(0)
		if in := e.find(w.Lock); in != nil {
			most = in.Payload.Limits().Wait()
		}
		p := e.person(w.Waiter, most)
		out = append(out, waitLine{w.Lock, lockLink(e.Name, w.Lock), text, p.For(), p.Over})
	}
	return out
}

// party is a step of a deadlock, with its holder and waiter.
type party struct {
	inspect.Step
	Holder, Waiter       person // the same client, as a contender of the lock that it holds and of the lock that it waits for
	HoldsLink, WaitsLink string
	waiter               inspect.Contender
}

// circle is a deadlock with its parties.
func circle(e *Ensemble, d inspect.Deadlock) (out []party) {
	of := func(cs []inspect.Contender, s inspect.Step) (c inspect.Contender) {
		if i := slices.IndexFunc(cs, func(c inspect.Contender) bool { return c.Session == s.Owner && (s.Owner != 0 || who(c) == clip(s.Who)) }); i >= 0 {
			c = cs[i]
		}
		return c
	}
	for _, s := range d {
		p := party{Step: s, HoldsLink: lockLink(e.Name, s.Holds), WaitsLink: lockLink(e.Name, s.Waits)}
		if in := e.find(s.Holds); in != nil {
			held, most := in.Holders, in.Payload.Limits().Hold()
			if s.Ahead {
				held, most = in.Waiters, 0
			}
			p.Holder = e.person(of(held, s), most)
		}
		if in := e.find(s.Waits); in != nil {
			p.waiter = of(in.Waiters, s)
			p.Waiter = e.person(p.waiter, in.Payload.Limits().Wait())
		}
		p.Who = clip(s.Who)
		out = append(out, p)
	}
	return out
}
