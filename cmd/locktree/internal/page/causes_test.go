package page

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/apply/history"
	"github.com/locktree/locktree/cmd/locktree/internal/view/lockview"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes/inspect"
	"github.com/locktree/locktree/recipes/inspect/check"
	"github.com/locktree/locktree/recipes/inspect/scan"
	"github.com/locktree/locktree/recipes/inspect/words"
	"github.com/locktree/locktree/recipes/kind"
)

// bounded is a mutex with limits, whose holders and waiters came 90 seconds ago.
func bounded(path, hold, wait string, holders, waiters []inspect.Contender) *inspect.Report {
	in := declared(path, kind.Mutex, holders, waiters)
	in.Payload.Params.(*kind.MutexParams).Limits = kind.Limits{MaxHold: hold, MaxWait: wait, Owner: "shop@example.com", Runbook: "https://wiki.example.com/shop"}
	return in
}

func looked(locks ...*inspect.Report) *scan.Snapshot {
	return &scan.Snapshot{At: noon, Dump: true, Locks: locks, Waits: inspect.WaitsFor(locks...), Sessions: map[int64]*words.Session{}}
}

func TestOneCauseIsOneProblem(t *testing.T) {
	is := func(cs ...inspect.Contender) []inspect.Contender { return cs }
	a, b := contender("/locks/a", "one", 1), contender("/locks/b", "two", 2)
	waits := func(path, id string, session int64) []inspect.Contender { return is(contender(path, id, session)) }
	silent := looked(bounded("/locks/a", "1m", "1m", is(a), waits("/locks/a", "three", 3)), bounded("/locks/b", "", "", is(contender("/locks/b", "one", 1)), nil))
	silent.Sessions[1] = &words.Session{ID: 1, Away: true, Expires: noon.Add(time.Second)}
	missing := looked()
	for _, path := range []string{"/locks/x", "/locks/y"} {
		missing.Unread = append(missing.Unread, scan.Unread{Path: path, Err: zk.ErrNoNode})
	}
	missing.Unread = append(missing.Unread, scan.Unread{Path: "/locks/z", Err: errors.New("not ours")})
	declaredX := &plan.Node{Payload: bounded("/locks/x", "", "", nil, nil).Payload}
	for name, c := range map[string]struct {
		snap  *scan.Snapshot
		drift *plan.Plan
		want  []string
	}{
		"a hold, and who waits for its end": {looked(bounded("/locks/a", "1m", "30s", is(a), waits("/locks/a", "two", 2))), nil, []string{
			"2 3.0 × max_wait longer than declared /locks/a: locktree revoke /locks/a -holder=one; two has waited for 1m30s at /locks/a; max_wait is 30s."}},
		"a hold that is a little too long": {looked(bounded("/locks/a", "80s", "", is(a), nil)), nil, []string{"1 1.1 × max_hold longer than declared /locks/a: locktree revoke /locks/a -holder=one"}},
		"the worse one first": {looked(bounded("/locks/a", "80s", "", is(a), nil), bounded("/locks/b", "5s", "", is(b), nil)), nil, []string{
			"2 18 × max_hold longer than declared /locks/b: locktree revoke /locks/b -holder=two", "1 1.1 × max_hold longer than declared /locks/a: locktree revoke /locks/a -holder=one"}},
		"a wait alone": {looked(bounded("/locks/a", "", "1m", is(a), waits("/locks/a", "two", 2))), nil, []string{"1 1.5 × max_wait waits longer than declared /locks/a: locktree status /locks/a"}},
		"a deadlock, and who waits for one in it": {looked(bounded("/locks/a", "1m", "1m", is(a), append(waits("/locks/a", "two", 2), contender("/locks/a", "three", 3))), bounded("/locks/b", "1m", "1m", is(b), waits("/locks/b", "one", 1)),
			bounded("/locks/c", "", "80s", waits("/locks/c", "one", 1), waits("/locks/c", "three", 3))), nil, []string{
			"2 1.5 × max_hold deadlock /locks/b /locks/a: locktree break /locks/a -holder=two; one has held for 1m30s at /locks/a; max_hold is 1m.; two has waited for 1m30s at /locks/a; max_wait is 1m.; " +
				"two has held for 1m30s at /locks/b; max_hold is 1m.; one has waited for 1m30s at /locks/b; max_wait is 1m.; three has waited for 1m30s at /locks/c; max_wait is 80s."}},
		"a holder that is gone, with all that it holds": {silent, nil, []string{
			"1 1.5 × max_hold silent holder /locks/a /locks/b: locktree status /locks/a; one has held for 1m30s at /locks/a; max_hold is 1m.; three has waited for 1m30s at /locks/a; max_wait is 1m."}},
		"locks that are missing": {missing, &plan.Plan{Changes: []plan.Change{{Action: plan.Create, Path: "/locks"}, {Action: plan.Create, Path: "/locks/x", After: declaredX}, {Action: plan.Create, Path: "/locks/y", After: declaredX}}}, []string{
			"1  missing /locks/x /locks/y: locktree plan; An apply would create what is missing (checked at 12:00:00 UTC).", "1  unreadable /locks/z: locktree doctor"}},
		"and more than that": {missing, &plan.Plan{Changes: []plan.Change{{Action: plan.Create, Path: "/locks/x", After: declaredX}, {Action: plan.Create, Path: "/other", After: declaredX}}}, []string{
			"1  missing /locks/x /locks/y: locktree plan", "1  unreadable /locks/z: locktree doctor", "0  drift /locks/x: locktree plan"}},
		"a lock that was changed by hand": {looked(bounded("/locks/a", "", "", nil, nil)), &plan.Plan{Changes: []plan.Change{{Action: plan.Update, Path: "/locks/a", Before: declaredX, After: declaredX}}}, []string{"0  drift /locks/a: locktree plan"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := boardOf(t, c.snap)
			b.change("main", func(e *Ensemble) {
				e.Drift, e.DriftAt = c.drift, noon
				if c.drift != nil && c.snap == missing {
					e.Checkup = &lockview.CheckupOf{Root: "/locks"}
					e.Checkup.Locks = []check.Condition{{Name: "access /locks/x", What: "there is no such node", Verdict: check.Fails}}
				}
			})
			var got []string
			for _, p := range problemsAt(b, noon) {
				head := strings.TrimSpace(fmt.Sprintf("%d %s %s %s", p.Severity, p.Beyond(), p.What, strings.Join(p.Locks, " ")))
				got = append(got, strings.Join(append([]string{head + ": " + p.Command}, p.Also...), "; "))
				if len(p.Locks) > 0 && p.Locks[0] != "/locks/z" {
					require.Equal(t, []string{"shop@example.com"}, p.Owners)
					require.Equal(t, []string{"https://wiki.example.com/shop"}, p.Runbooks)
				}
			}
			require.Equal(t, c.want, got)
		})
	}
}

// Not every cause is a row where there are many, but each row has all that comes of its cause.
func TestOfManyCausesEachIsToldWhole(t *testing.T) {
	held := looked()
	for i := range mostListed + 2 {
		session := int64(i%(mostListed+1) + 1) // the first one also holds the last lock
		path := fmt.Sprintf("/locks/%03d", i)
		held.Locks = append(held.Locks, declared(path, kind.Mutex, []inspect.Contender{contender(path, fmt.Sprint("p", session), session)}, nil))
		held.Sessions[session] = &words.Session{ID: session, Away: true}
	}
	problems, both := problemsAt(boardOf(t, held), noon), 0
	require.Len(t, problems, mostListed)
	for _, p := range problems {
		require.Equal(t, "silent holder", p.What)
		if len(p.Locks) > 1 {
			both++
			require.ElementsMatch(t, []string{"/locks/000", fmt.Sprintf("/locks/%03d", mostListed+1)}, p.Locks)
		}
	}
	require.Equal(t, 1, both)
}

func TestCommandsSayWhichServersWhereThereIsNoConfiguration(t *testing.T) {
	e := Ensemble{Name: "main", Servers: "zk1:2181,zk2:2181"}
	require.Equal(t, "locktree status '/a b' -servers=zk1:2181,zk2:2181", e.look("/a b"))
	require.Equal(t, "locktree break /a -servers=zk1:2181,zk2:2181 -holder=0x7", e.evict("break", "/a", inspect.Contender{ID: "\x1b[31m", Session: 7}))
	b := newBoard(Options{Now: time.Now}, e)
	for _, look := range []string{"nothing was seen yet", "the lock is not there"} {
		require.Contains(t, body(t, b, "/lock?ensemble=main&path=/gone"), "<code>locktree status /gone -servers=zk1:2181,zk2:2181</code>", look)
		b.saw("main", looked())
	}
	require.Contains(t, body(t, b, "/lock?ensemble=other&path=/gone"), "<code>locktree status /gone</code>")
	e.Stack = "shop"
	require.Equal(t, "locktree revoke /a -holder='it'\\''s me'", e.evict("revoke", "/a", inspect.Contender{ID: "it's me", Session: 7}))
}

func TestWhatIsBeyondALimitIsMarkedEverywhere(t *testing.T) {
	b := boardOf(t, looked(bounded("/locks/a", "1m", "30s", []inspect.Contender{contender("/locks/a", "one", 1)}, []inspect.Contender{contender("/locks/a", "two", 2)})))
	const mark = `<span class="bad">&#9650; `
	for target, want := range map[string]int{"/locks": 2, "/waits": 1, "/lock?ensemble=main&path=/locks/a": 4} {
		require.Equal(t, want, strings.Count(body(t, b, target), mark), target)
	}
	require.Contains(t, body(t, b, "/lock?ensemble=main&path=/locks/a"), "<dd>30s "+mark+"exceeded: 1m30s, 3.0 × 30s</span>")
}

// The page kept every node of the tree that it had compared: with 100,000 locks more than its unit allows.
func TestAComparisonKeepsWhatDiffers(t *testing.T) {
	p := &plan.Plan{Pins: make([]plan.Pin, 3), Drifted: []plan.Drift{{Path: "/edited"}}, Changes: []plan.Change{
		{Path: "/same"}, {Path: "/edited"}, {Path: "/renamed", PreviousAddr: "mutex.a"}, {Path: "/mark", Unsealed: true}, {Path: "/new", Action: plan.Create}}}
	for i := range p.Changes[:4] {
		p.Changes[i].Action = plan.NoOp
	}
	kept := lean(p)
	var paths []string
	for c := range kept.Each() {
		paths = append(paths, c.Path)
	}
	require.Equal(t, []string{"/edited", "/renamed", "/mark", "/new"}, paths)
	require.Empty(t, kept.Pins)
	require.Len(t, p.Changes, 5)
}

func TestDriftSaysWhoAndWhenAsFarAsThatIsKnown(t *testing.T) {
	page := func(set func(*Ensemble)) string {
		b := boardOf(t, scene())
		b.change("main", func(e *Ensemble) {
			e.Drift, e.DriftAt, e.Plan = &plan.Plan{
				Changes: []plan.Change{{Action: plan.Update, Path: "/locks/a", Before: &plan.Node{Live: &plan.Live{ModifiedMs: noon.Add(-time.Hour).UnixMilli()}}}},
				Drifted: []plan.Drift{{Path: "/locks/a", Attributes: []plan.Attribute{{Name: "owner"}}}, {Path: "/locks/b", Attributes: []plan.Attribute{{Name: "acl"}}}},
			}, noon, "  + mutex \"new\" {\n  ~ owner = <b>\n-/+ x\nPlan: 1 to add"
			set(e)
		})
		return body(t, b, "/drift")
	}
	known := page(func(e *Ensemble) {
		e.adopt([]history.Entry{{Operation: "break", Lock: "/locks/a"}, {At: noon.Add(-2 * time.Hour), Operation: "apply", Who: "ann@desk<b>", ID: "0123", Plan: "4567", Version: "1.0", Changes: &history.Changes{Add: 3}}}, nil)
	})
	require.Contains(t, known, `<time datetime="2026-11-22T10:00:00Z">2026-11-22 10:00:00 UTC</time> apply by ann@desk&lt;b&gt;: 3 added, 0 changed, 0 destroyed; apply 0123 of plan 4567`)
	require.NotContains(t, known, "not known: the")
	require.Contains(t, known, `/locks/a</th><td data-label="What">owner</td><td class="s" data-label="Data last written"><time datetime="2026-11-22T11:00:00Z">`)
	require.Contains(t, known, `/locks/b</th><td data-label="What">acl</td><td class="s" data-label="Data last written">not known</td>`)
	require.Contains(t, known, "<span class=\"good\">  &#43; mutex &#34;new&#34; {</span>\n<span class=\"warn\">  ~ owner = &lt;b&gt;</span>\n<span class=\"bad\">-/&#43; x</span>\nPlan: 1 to add")
	require.Contains(t, page(func(e *Ensemble) { e.adopt(nil, nil) }), "Who applied last is not known: the stack has no history.")
	require.Contains(t, page(func(e *Ensemble) { e.adopt(nil, zk.ErrNoAuth) }), "Who applied last is not known: the history of the stack could not be read: ")
}
