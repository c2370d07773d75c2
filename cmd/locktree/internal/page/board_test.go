package page

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/apply/history"
	"github.com/locktree/locktree/cmd/locktree/internal/view/lockview"
	"github.com/locktree/locktree/plan"
	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/inspect"
	"github.com/locktree/locktree/recipes/inspect/check"
	"github.com/locktree/locktree/recipes/inspect/scan"
	"github.com/locktree/locktree/recipes/inspect/words"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/kind/slots"
)

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// evil is a text that a foreign client may write into a node: markup, the end of an attribute, a terminal's colour, marks of direction.
const evil = "<script>alert(1)</script>\" onmouseover='x' \x1b[31m\u202egnp\u2066 {{.}} ]]> javascript:alert(1) \x00\xff\u0085<img src=x>"

func declared(path string, k *kind.Kind, holders, waiters []inspect.Contender) *inspect.Report {
	p := k.New()
	return &inspect.Report{Path: path, Kind: k, Payload: &kind.Payload{Params: p, Owner: kind.Owner{Stack: "shop", Addr: k.Name + "." + kind.BaseName(path)}, State: kind.StateActive},
		Holders: holders, Waiters: waiters}
}

func contender(path, id string, session int64) inspect.Contender {
	return inspect.Contender{Path: path + "/" + id, Name: id, ID: id, Host: "h-" + id, PID: 7, Writer: "curator", Session: session,
		Token: uint64(session) + 100, Since: noon.Add(-90 * time.Second)}
}

// scene is a snapshot with one problem of each sort.
func scene() *scan.Snapshot {
	a, b := contender("/locks/ledger", "app-a", 1), contender("/locks/stock", "app-b", 2)
	locks := []*inspect.Report{
		declared("/locks/election", kind.Election, nil, []inspect.Contender{contender("/locks/election", "cand", 4)}),
		declared("/locks/idle", kind.Mutex, nil, nil),
		declared("/locks/ledger", kind.Mutex, []inspect.Contender{a}, []inspect.Contender{contender("/locks/ledger", "app-b", 2)}),
		declared("/locks/stock", kind.Mutex, []inspect.Contender{b}, []inspect.Contender{contender("/locks/stock", "app-a", 1)}),
		{Path: "/python/jobs", Kind: kind.Mutex, Guessed: true, Junk: []string{"/python/jobs/stray"},
			Holders: []inspect.Contender{{Path: "/python/jobs/x__lock__0000000001", Name: "x__lock__0000000001", Writer: "kazoo", Session: 3, Token: 9}}},
	}
	// Every contender of a declared lock has been there for 90 seconds.
	locks[2].Payload.Params.(*kind.MutexParams).Limits = kind.Limits{MaxHold: "1m", MaxWait: "5m", Owner: "ledger@example.com", Runbook: "https://wiki.example.com/ledger?a=1&b=2"}
	locks[3].Payload.Params.(*kind.MutexParams).Limits = kind.Limits{MaxWait: "30s"}
	snap := &scan.Snapshot{At: noon, Took: 12 * time.Millisecond, Zxid: 0x100000007,
		Certificates: []check.Certificate{{Ours: true, Subject: "CN=locktree-page", Expires: noon.Add(9 * 24 * time.Hour)}, {Subject: "CN=zk1", Expires: noon.AddDate(1, 0, 0)}},
		Dump:         true, Locks: locks, Waits: inspect.WaitsFor(locks...),
		Sessions: map[int64]*words.Session{
			1: {ID: 1, Address: "10.0.0.1:4000"}, 2: {ID: 2, Address: "10.0.0.2:4000"}, 4: {ID: 4},
			3: {ID: 3, Away: true, Expires: noon.Add(8 * time.Second)}, 5: {ID: 5, Nodes: 40_000, Bytes: 2 << 20, Address: "10.0.0.9:1"},
		},
		Servers: []words.Server{{Name: "zk1:2181", Here: true, Mode: "leader", Connections: 5}, {Name: "zk2:2181", Connections: -1, Error: "connection refused"}},
		Unread:  []scan.Unread{{Path: "/locks/gone", Err: zk.ErrNoNode}, {Path: "/locks/secret", Err: errors.New("not ours")}}}
	snap.Cost.Reads, snap.Cost.Words, snap.Cost.WordBytes = 3, 4, 900
	return snap
}

func boardOf(t testing.TB, snaps ...*scan.Snapshot) *board {
	t.Helper()
	b := newBoard(Options{Version: "1.2.3", Interval: 2 * time.Second, Now: func() time.Time { return noon.Add(time.Second) }},
		Ensemble{Name: "main", Servers: "zk1:2181", Prefix: "/", Stack: "shop"})
	for _, s := range snaps {
		b.publishLook("main", s)
	}
	return b
}

func problemsAt(b *board, now time.Time) []problem {
	return problems(b.sources, b.ensembles, now, b.opts.Interval)
}

func get(t testing.TB, h http.Handler, target string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1:7676"+target, nil)
	guard(h, nil).ServeHTTP(w, r)
	return w
}

func body(t testing.TB, b *board, target string) string {
	return get(t, b.handler(), target).Body.String()
}

var allPages = map[string]string{
	"problems": "/", "locks": "/locks?show=all&sort=path", "lock": "/lock?ensemble=main&path=/locks/ledger", "gone": "/lock?ensemble=main&path=/nowhere",
	"waits": "/waits", "drift": "/drift", "doctor": "/doctor", "job": "/lock?ensemble=main&path=/locks/hourly", "family": "/lock?ensemble=main&path=/orders",
	"key": "/lock?ensemble=main&path=%2Forders%2F%253Cb%3E", "unread": "/lock?ensemble=main&path=/orders/other",
}

// own matches the parts of a page that are its own: its title, the marked tab, and its content.
var own = regexp.MustCompile(`(?s)<title>.*?</title>|<a [^>]*aria-current="page">.*?</a>|<main.*</main>`)

func TestEachPageShowsWhatIsKnown(t *testing.T) {
	snap := scene()
	taken := declared("/locks/workers", kind.Semaphore, nil, nil)
	taken.Payload.Made, taken.Payload.Owner.Addr = kind.MadeElsewhere, `semaphore.workers["a"]`
	snap.Locks = append(snap.Locks, hourly(), orders(), taken)
	slices.SortFunc(snap.Locks, func(a, b *inspect.Report) int { return strings.Compare(a.Path, b.Path) })
	b := boardOf(t, snap, snap)
	b.change("main", func(e *Ensemble) {
		e.Compare, e.DriftAt, e.Plan = true, noon, "  + mutex \"new\" {\n  ~ owner = <b>\n-/+ x\nPlan: 1 to add, 0 to change, 0 to destroy."
		e.Drift = &plan.Plan{
			Changes: []plan.Change{{Action: plan.Update, Path: "/locks/a", Before: &plan.Node{Live: &plan.Live{ModifiedMs: noon.Add(-time.Hour).UnixMilli()}}}},
			Drifted: []plan.Drift{{Path: "/locks/a", Attributes: []plan.Attribute{{Name: "owner"}}}, {Path: "/locks/b", Attributes: []plan.Attribute{{Name: "acl"}}}},
		}
		e.adopt([]history.Entry{{Operation: "break", Lock: "/locks/a"}, {At: noon.Add(-2 * time.Hour), Operation: "apply", Who: "ann@desk<b>", ID: "0123", Plan: "4567", Version: "1.0", Changes: &history.Changes{Add: 3}}}, nil)
		e.CheckAt, e.Checkup = noon, &lockview.CheckupOf{Root: "/locks", Servers: []lockview.CheckupServer{{Server: "zk1:2181", Conditions: []check.Condition{
			{Name: "clock", What: "it runs"}, {Name: "session timeout", Verdict: check.Fails, What: "4s", Next: "set 8s"}}}}}
	})
	for name, target := range allPages {
		w := get(t, b.handler(), target)
		want := http.StatusOK
		if name == "gone" || name == "unread" { // only some keys of a family are looked at
			want = http.StatusNotFound
		}
		require.Equal(t, want, w.Code, name)
		page := w.Body.String()
		if name != "problems" { // this page shows the parts that all pages share
			page = strings.Join(own.FindAllString(page, -1), "\n") + "\n"
		}
		golden(t, name+".html", page)
	}
	b.show([]lockview.Source{{Path: "/etc/locktree", Files: 2, Fingerprint: "8b1a9953", Read: noon}}, b.ensembles)
	golden(t, "metrics.txt", body(t, b, "/metrics"))
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if os.Getenv("GOLDEN") != "" {
		require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), got, "make golden rewrites it; read the difference")
}

// hourly is a job with two missed slots and a failed one.
func hourly() *inspect.Report {
	in := declared("/locks/hourly", kind.Once, nil, nil)
	p := in.Payload.Params.(*kind.OnceParams)
	p.Schedule, p.CatchUp = "30 * * * *", "30m"
	r := &slots.Record{}
	r = r.Put(slots.Run{Slot: slots.At(noon.Add(-90 * time.Minute)), State: slots.Failed, By: "<app-a>", Token: 7, Tries: 1,
		Started: noon.Add(-90 * time.Minute).UnixMilli(), Took: 61_000, Result: "no ink"}, 30)
	in.Job = inspect.NewJob(r.Encode(), noon.Add(-4*time.Hour), noon.Add(-4*time.Hour))
	return in
}

func TestAJobWhoseSlotsAreUnknownIsAProblem(t *testing.T) {
	for want, change := range map[string]func(*inspect.Report){
		"unknown time zone": func(in *inspect.Report) { in.Payload.Params.(*kind.OnceParams).Timezone = "Nowhere/AtAll" },
		"no longer runs " + slots.At(noon.Add(-90*time.Minute)) + " and recorded no result": func(*inspect.Report) {},
	} {
		lost := hourly()
		lost.Job.Record.Slots[0].State = slots.Running
		change(lost)
		require.Contains(t, body(t, boardOf(t, looked(lost), looked(lost)), "/"), want)
	}
}

// orders is a family with three keys that were looked at.
func orders() *inspect.Report {
	in := declared("/orders", kind.Keyed, nil, nil)
	in.Payload.Params.(*kind.KeyedParams).Limits = kind.Limits{MaxHold: "1m"}
	key := func(name, key string, waiters ...inspect.Contender) *inspect.Report {
		one := declared("/orders/"+name, kind.Mutex, []inspect.Contender{contender("/orders/"+name, "app-a", 1)}, waiters)
		one.Family, one.Key, one.Payload.Params = in.Path, key, kind.Keyed.Key(in.Payload.Params)
		return one
	}
	read := []*inspect.Report{key("%3Cb>", "<b>"), key("7", "7", contender("/orders/7", "app-b", 2)), key("stuck", "stuck", contender("/orders/stuck", "app-c", 3))}
	read[2].Holders = nil
	in.Keys = &inspect.Keys{InUse: 10_000, Queues: 3, Looked: 3, Waited: 2, Read: read, Busiest: read[1], Longest: read[0]}
	return in
}

func TestAFamilyIsOneRowOfThePage(t *testing.T) {
	in := orders()
	snap := looked(in)
	snap.Waits = inspect.WaitsFor(in.Keys.Read...)
	snap.Dump = false
	b := boardOf(t, snap, snap)
	require.Contains(t, body(t, b, "/locks?q=app-b"), ">/orders</a>")
	var found []string
	for _, p := range problemsAt(b, noon) {
		found = append(found, p.What+" "+p.Locks[0]+" "+p.Text)
	}
	require.Equal(t, []string{"stuck /orders/stuck 1 waiter, and no holder.",
		`longer than declared /orders/%3Cb> app-a (h-app-a/7, since 2026-11-22T11:58:30Z (1m30s), connection not asked) has held it for 1m30s (key "<b>", one of 2 that are beyond it); max_hold is 1m.`}, found)
}

func TestASnapshotThatIsOldIsAProblem(t *testing.T) {
	b := boardOf(t, scene())
	b.publishFailure("main", errors.New("no answer\x1b[2J"))
	require.Equal(t, "stale", problemsAt(b, noon)[0].What)
	require.NotContains(t, problemsAt(b, noon)[0].Text, "\x1b")
	require.Contains(t, body(t, b, "/locks"), "main is stale.</b> Last updated at 12:00:00 UTC: No answer", "on every page")
	require.Equal(t, "stale", problemsAt(boardOf(t, scene()), noon.Add(time.Minute))[0].What, "without a word")
	require.Equal(t, "starting", problemsAt(boardOf(t), noon)[0].What)
}

// An election without a leader is an incident if it had one before.
func TestAnElectionThatLostItsLeaderIsAProblemNow(t *testing.T) {
	vacant := looked(declared("/locks/mailer", kind.Election, nil, nil))
	leader := contender("/locks/mailer", "app-a", 1)
	leader.Candidate = true
	led := looked(declared("/locks/mailer", kind.Election, []inspect.Contender{leader}, nil))
	require.Contains(t, body(t, boardOf(t, led), "/lock?ensemble=main&path=/locks/mailer"), "candidate since <time")
	require.Contains(t, body(t, boardOf(t, led), "/locks"), "1m30s <small>as a candidate</small>")
	for want, looks := range map[severity][]*scan.Snapshot{Watch: {vacant, vacant}, Now: {led, vacant, vacant}} {
		problems := problemsAt(boardOf(t, looks...), noon)
		require.Len(t, problems, 1)
		require.Equal(t, "leaderless", problems[0].What)
		require.Equal(t, want, problems[0].Severity)
	}
}

// The page said "dump is not allowed" when the servers refused its own certificate.
func TestThePageSaysWhyAServerDidNotAnswer(t *testing.T) {
	const expired = "our certificate, of CN=page, expired on 2026-03-01T09:30:00Z: remote error: tls: expired certificate"
	snap := scene()
	snap.Dump, snap.Servers[0].Connections, snap.Servers[0].Error = false, -1, expired
	snap.Unasked = []words.Unasked{{Server: "zk1:2181", Why: expired}}
	b := boardOf(t, snap)
	page := body(t, b, "/")
	require.NotContains(t, page, "not allowed")
	require.Contains(t, page, "by their directories: dump was not answered: "+expired)
	require.Contains(t, page, "<b>server without an answer</b>")
	require.Contains(t, page, "For some clients it is not known whether they are connected, and from where. Not reported by zk1:2181 ("+expired+").")

	snap.Servers[0].Forbids, snap.Servers[0].Error = []string{"dump", "cons"}, ""
	snap.Unasked[0].Forbids = true
	page = body(t, boardOf(t, snap), "/")
	require.Contains(t, page, "by their directories: dump is not allowed")
	require.NotContains(t, page, "server without an answer")
}

var (
	tag       = regexp.MustCompile(`<[a-zA-Z/][^>]*>`)
	attribute = regexp.MustCompile(`\s([a-zA-Z-]+)=`)
)

// The content of a node is text on every page: no tag or attribute comes from it. No page has a character that a terminal obeys or
// that turns text around, or inline code that the content security policy would have to allow.
func TestWhatStandsInNodesIsText(t *testing.T) {
	snap := scene()
	snap.Locks[4] = &inspect.Report{Path: "/" + evil, Kind: kind.Mutex, Junk: []string{"/x/" + evil},
		Payload: &kind.Payload{Params: kind.Mutex.New(), Owner: kind.Owner{Stack: evil, Addr: evil}, State: kind.StateActive},
		Holders: []inspect.Contender{{Path: "/" + evil + "/a", Name: evil, ID: evil + strings.Repeat("x", 1<<20), Host: evil, Writer: evil, Session: 3}},
		Waiters: []inspect.Contender{{Path: "/" + evil + "/b", Name: evil, ID: evil, Session: 1}}}
	snap.Locks[4].Payload.Params.(*kind.MutexParams).Limits = kind.Limits{MaxHold: evil, MaxWait: "1s", Owner: evil, Runbook: "javascript:" + evil}
	snap.Locks[3].Holders[0].ID, snap.Locks[2].Waiters[0].ID = evil, evil // in a circle
	snap.Sessions[3].Address = evil
	snap.Servers[1].Error, snap.Servers[1].Name, snap.Servers[0].Mode = evil, evil, "leader"
	snap.Unread = append(snap.Unread, scan.Unread{Path: "/y" + evil, Err: errors.New(evil)})
	snap.Waits = inspect.WaitsFor(snap.Locks...)
	b := boardOf(t, scene(), snap)
	b.change("main", func(e *Ensemble) { e.Trouble = kind.Visible(evil) })
	targets := []string{lockLink("main", "/"+evil), "/locks?q=" + strings.Repeat("%3Cscript%3E%22", 50), "/lock?ensemble=%3Cscript%3E&path=%22%20onclick=%3Cscript%3E", "/nothing/" + url.PathEscape(evil)}
	for _, target := range allPages {
		targets = append(targets, target)
	}
	for _, target := range targets {
		page := body(t, b, target)
		require.NotContains(t, page, "<script>alert", target)
		require.NotContains(t, page, "<img", target)
		require.NotContains(t, page, `href="javascript:`, target)
		require.Less(t, len(page), 1<<18, target)
		isVisible(t, page, target)
		for _, each := range tag.FindAllString(page, -1) {
			if strings.HasPrefix(each, "<script") {
				require.Equal(t, `<script src="/static/app.js" defer>`, each)
			}
			for _, m := range attribute.FindAllStringSubmatch(regexp.MustCompile(`"[^"]*"`).ReplaceAllString(each, `""`), -1) {
				require.Contains(t, known, m[1], "%s: %s", target, each)
			}
		}
	}
	status := body(t, b, "/api/v1/status")
	require.True(t, json.Valid([]byte(status)))
	isVisible(t, status, "status")
	metrics := body(t, b, "/metrics")
	require.NotContains(t, strings.ReplaceAll(metrics, `\"`, ""), `" onmouseover`)
	isVisible(t, metrics, "metrics") // which may be read in a terminal
	checkExposition(t, metrics)
}

func isVisible(t *testing.T, text, of string) {
	t.Helper()
	require.True(t, utf8.ValidString(text), of)
	for _, r := range text {
		require.True(t, r == '\n' || unicode.IsPrint(r), "%s: %q", of, r)
	}
}

// known are the attributes that the template has. None is "style" or an event handler.
var known = []string{"lang", "charset", "name", "content", "rel", "href", "src", "class", "id", "type", "aria-label", "aria-pressed", "aria-current", "aria-sort",
	"aria-hidden", "role", "tabindex", "data-version", "data-label", "datetime", "scope", "colspan", "action", "method", "value"}

// checkExposition checks the format of the text: types before samples, one of each series, names and labels as allowed.
func checkExposition(t *testing.T, text string) {
	t.Helper()
	sample := regexp.MustCompile(`^([a-z_]+)(\{(?:[a-z_]+="(?:[^"\\\n]|\\[\\n"])*",?)*\})? (-?[0-9.e+-]+|NaN)$`)
	kinds, seen, current := map[string]string{}, map[string]bool{}, ""
	for line := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
		switch {
		case strings.HasPrefix(line, "# HELP "):
			current = strings.Fields(line)[2]
			require.NotContains(t, kinds, current, "families stand together")
		case strings.HasPrefix(line, "# TYPE "):
			kinds[current] = strings.Fields(line)[3]
		default:
			m := sample.FindStringSubmatch(line)
			require.NotNil(t, m, line)
			require.Equal(t, current, m[1])
			require.False(t, seen[m[1]+m[2]], "twice: %s", line)
			seen[m[1]+m[2]] = true
			require.Equal(t, kinds[current] == "counter", strings.HasSuffix(current, "_total"), current)
		}
	}
	require.Greater(t, len(kinds), 15)
}

func TestMetricsAreWellFormed(t *testing.T) {
	snap := scene()
	twin := *snap.Locks[2]
	twin.Path = "/other/ledger" // of the same address
	snap.Locks = append(snap.Locks, &twin)
	text := body(t, boardOf(t, snap), "/metrics")
	checkExposition(t, text)
	require.Contains(t, text, `locktree_lock_waiters{ensemble="main",stack="shop",lock="/locks/ledger",kind="mutex"} 1`)
	require.Contains(t, text, `locktree_lock_waiters{ensemble="main",stack="shop",lock="/other/ledger",kind="mutex"} 1`)
	require.Contains(t, text, `locktree_lock_oldest_hold_seconds{ensemble="main",stack="shop",lock="mutex.stock",kind="mutex"} 90`)

	var many []*inspect.Report
	for i := range manyLocks + 1 {
		many = append(many, declared(fmt.Sprintf("/locks/l%05d", i), kind.Mutex, nil, nil))
	}
	many[7].Holders = []inspect.Contender{contender(many[7].Path, "a", 1)}
	text = body(t, boardOf(t, &scan.Snapshot{At: noon, Locks: many, Waits: &inspect.Waits{}}), "/metrics")
	require.Equal(t, 1, strings.Count(text, "\nlocktree_lock_holders{"), "of very many locks those in use")
}

// With more than 5,000 locks, an idle job and an election without a candidate had no series. The alert LocktreeSlotNotRun and
// the dashboard's "Locks that somebody should hold" stayed silent about them.
func TestIdleJobAndElectionAmongManyLocksHadNoSeries(t *testing.T) {
	job := declared("/locks/hourly", kind.Once, nil, nil)
	job.Job = inspect.NewJob(nil, noon, noon)
	locks := []*inspect.Report{job, declared("/locks/leader", kind.Election, nil, nil)}
	for i := range manyLocks {
		locks = append(locks, declared(fmt.Sprintf("/locks/l%05d", i), kind.Mutex, nil, nil))
	}
	text := body(t, boardOf(t, &scan.Snapshot{At: noon, Locks: locks, Waits: &inspect.Waits{}}), "/metrics")
	require.Contains(t, text, "\nlocktree_once_known{ensemble=\"main\",stack=\"shop\",lock=\"once.hourly\"")
	require.Contains(t, text, "\nlocktree_lock_kept{ensemble=\"main\",stack=\"shop\",lock=\"election.leader\"")
	require.NotContains(t, text, "mutex.l")
}

// A page stays short however much doctor finds, and explains a failure in the words of the command.
func TestManyFindingsAreFewRows(t *testing.T) {
	b := boardOf(t, scene())
	b.change("main", func(e *Ensemble) {
		e.Checkup = &lockview.CheckupOf{Root: "/locks"}
		for i := range 5000 {
			e.Checkup.Locks = append(e.Checkup.Locks, check.Condition{Name: "access", What: fmt.Sprint(i), Verdict: check.Fails})
			e.Checkup.Together = append(e.Checkup.Together, check.Condition{Name: fmt.Sprint("access /a", i), What: "the same", Verdict: check.Fails})
		}
	})
	page := body(t, b, "/")
	require.Equal(t, mostListed+1, strings.Count(page, `<b>condition</b>`))
	require.Contains(t, body(t, b, "/doctor"), "access /a0, access /a1, access /a2 and 4997 more")
	require.Equal(t, 1, strings.Count(page, "the same"))
	require.Contains(t, page, "4951 more conditions fail.")
	b.publishFailure("main", fmt.Errorf("%w: no session within 5s", recipes.ErrUnreachable))
	page = body(t, b, "/")
	require.Contains(t, page, "Cannot reach ZooKeeper: No session within 5s. Check that these servers run")
	require.NotContains(t, page, "recipes:")
}

func TestListsAreFilteredSortedAndPaged(t *testing.T) {
	var locks []*inspect.Report
	for i := range 250 {
		path := fmt.Sprintf("/locks/l%03d", i)
		c := contender(path, fmt.Sprintf("app-%d", i%10), int64(i))
		c.Since = noon.Add(-time.Duration(i) * time.Second)
		locks = append(locks, declared(path, kind.Mutex, []inspect.Contender{c}, nil))
	}
	locks = append(locks, declared("/locks/zz-idle", kind.Mutex, nil, nil))
	b := boardOf(t, &scan.Snapshot{At: noon, Locks: locks, Waits: &inspect.Waits{}, Sessions: map[int64]*words.Session{}})
	rows := func(query string) (out []string) {
		for _, m := range regexp.MustCompile(`<th scope="row"[^>]*><a [^>]*>(/locks/[^<]*)`).FindAllStringSubmatch(body(t, b, "/locks?"+query), -1) {
			out = append(out, m[1])
		}
		return out
	}
	require.Len(t, rows(""), 100)
	require.Len(t, rows("page=3"), 50)
	require.Equal(t, "/locks/l000", rows("sort=path")[0])
	require.Equal(t, "/locks/l249", rows("sort=held")[0])
	require.Equal(t, []string{"/locks/l007", "/locks/l017"}, rows("sort=path&q=APP-7")[:2])
	require.Equal(t, []string{"/locks/l017"}, rows("q=app-7+l017"))
	require.Equal(t, []string{"/locks/zz-idle"}, rows("show=all&q=idle"))
	require.Empty(t, rows("q=idle"))
	require.Len(t, wordsOf(strings.Repeat("l ", 100)), 1)
	require.Len(t, wordsOf("a b c d e f g h i j"), mostWords)
	for _, odd := range []string{"page=-1", "page=x", "page=999999999999999999999", "sort=%00", "show=%3C", "unknown=1"} {
		require.NotEmpty(t, rows(odd), odd)
	}
}

// Each permit of a semaphore is a node, and a client that is granted some leaves its place in the gate. The page shows people one client
// that queued, was granted permits, and released them.
func TestPermitsOfOneClientAreOne(t *testing.T) {
	at := func(holders, waiters []inspect.Contender) *scan.Snapshot {
		in := declared("/locks/workers", kind.Semaphore, holders, waiters)
		return &scan.Snapshot{At: noon, Waits: inspect.WaitsFor(in), Locks: []*inspect.Report{in}, Sessions: map[int64]*words.Session{}}
	}
	node := func(name, id string, permits int) inspect.Contender {
		return inspect.Contender{Path: "/locks/workers/" + name, Name: name, ID: id, Session: int64(id[0]), Permits: permits}
	}
	b := boardOf(t, at(nil, nil), at([]inspect.Contender{node("leases/1", "a", 1), node("leases/2", "a", 1)}, []inspect.Contender{node("locks/3", "b", 2)}))
	page := body(t, b, "/locks")
	require.Equal(t, 1, strings.Count(page, "<div>a"))
	require.Contains(t, body(t, b, "/waits"), "b waits for one of a</td>")
	b.publishLook("main", at([]inspect.Contender{node("leases/4", "b", 1), node("leases/5", "b", 1)}, nil))
	require.Equal(t, 1, strings.Count(body(t, b, "/locks"), "<div>b"))
}

func TestTheScriptIsShortAndOurs(t *testing.T) {
	script, err := files.ReadFile("static/app.js")
	require.NoError(t, err)
	require.LessOrEqual(t, strings.Count(string(script), "\n"), 200)
	require.NotRegexp(t, `innerHTML|insertAdjacent|document\.write|eval\(|https?:`, string(script))
}

func TestAnOutageIsToldOnce(t *testing.T) {
	now := noon
	b := newBoard(Options{Interval: 2 * time.Second, Now: func() time.Time { return now }}, Ensemble{Name: "main"})
	require.Empty(t, b.publishLook("main", scene()))
	refused, expired := errors.New("connection refused"), errors.New("certificate has expired")
	now = noon.Add(4 * time.Second)
	require.Equal(t, "Ensemble main does not answer since 2026-11-22T12:00:00Z: Connection refused.", b.publishFailure("main", refused), "it was well when it was seen last")
	require.Empty(t, b.publishFailure("main", refused))
	require.Empty(t, b.publishFailure("main", expired), "servers may fail in turn")
	now = noon.Add(2 * time.Minute)
	require.Equal(t, "Ensemble main does not answer since 2026-11-22T12:00:00Z: Connection refused.", b.publishFailure("main", refused), "the reason is another one")
	next := *scene()
	next.At = noon.Add(3 * time.Minute)
	require.Equal(t, "Ensemble main answers again, after 3m0s.", b.publishLook("main", &next))
	require.Empty(t, b.publishLook("main", &next))
}

// Drift may be an apply that was interrupted. Then a draining lock grants nothing new, and nodes have old access lists.
func TestAnUnfinishedApplyIsTold(t *testing.T) {
	lock := func(state kind.State) *plan.Node {
		return &plan.Node{Path: "/l", Payload: &kind.Payload{Params: kind.Mutex.New(), State: state}}
	}
	for _, c := range []struct {
		drift plan.Plan
		want  string
	}{
		{plan.Plan{Changes: []plan.Change{{Action: plan.Create}, {Action: plan.Update, Before: lock(kind.StateActive)}}}, "0"},
		{plan.Plan{Resumes: "0123456789abcdef"}, "1"},
		{plan.Plan{Changes: []plan.Change{{Action: plan.Update, Before: lock(kind.StateDraining)}}}, "1"},
	} {
		b := boardOf(t, scene())
		b.change("main", func(e *Ensemble) { e.Drift, e.DriftAt = &c.drift, noon })
		require.Contains(t, body(t, b, "/metrics"), `locktree_apply_incomplete{ensemble="main",stack="shop"} `+c.want+"\n")
		require.Equal(t, c.want == "1", strings.Contains(body(t, b, "/"), "apply unfinished"))
	}
}

// A comparison that ended before the first look met a nil pointer, and the page stopped answering requests.
func TestAComparisonBeforeTheFirstLookIsShown(t *testing.T) {
	b := boardOf(t)
	b.change("main", func(e *Ensemble) {
		e.Drift, e.DriftAt = &plan.Plan{Changes: []plan.Change{{Action: plan.Create, Path: "/l"}}}, noon
	})
	require.Contains(t, body(t, b, "/"), "The tree differs from the configuration: 1 to add")
}

// A comparison that never succeeded is exported with the time 0, or no alert would see that it is missing.
func TestAComparisonThatNeverSucceededIsExported(t *testing.T) {
	metric := func(e Ensemble) string {
		page := body(t, newBoard(Options{Now: func() time.Time { return noon }}, e), "/metrics")
		return regexp.MustCompile(`(?m)^locktree_drift_checked.*$`).FindString(page)
	}
	require.Equal(t, `locktree_drift_checked_timestamp_seconds{ensemble="main"} 0`, metric(Ensemble{Name: "main", Compare: true, Trouble: "not authorized"}))
	require.Empty(t, metric(Ensemble{Name: "main", Trouble: "not authorized"}), "there is no configuration")
}

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

// If there are many causes, not each has a row, but each row has all consequences of its cause.
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
		b.publishLook("main", looked())
	}
	require.Contains(t, body(t, b, "/lock?ensemble=other&path=/gone"), "<code>locktree status /gone</code>")
	e.Stack = "shop"
	require.Equal(t, "locktree revoke /a -holder='it'\\''s me'", e.evict("revoke", "/a", inspect.Contender{ID: "it's me", Session: 7}))
}

// The page kept every node of the compared tree: with 100,000 locks, more memory than its unit allows.
func TestAComparisonKeepsWhatDiffers(t *testing.T) {
	p := &plan.Plan{Pins: make([]plan.Pin, 3), Drifted: []plan.Drift{{Path: "/edited"}}, Changes: []plan.Change{
		{Path: "/same"}, {Path: "/edited"}, {Path: "/renamed", PreviousAddr: "mutex.a"}, {Path: "/mark", Unsealed: true}, {Path: "/new", Action: plan.Create}}}
	for i := range p.Changes[:4] {
		p.Changes[i].Action = plan.NoOp
	}
	kept := dropUnchanged(p)
	var paths []string
	for c := range kept.Each() {
		paths = append(paths, c.Path)
	}
	require.Equal(t, []string{"/edited", "/renamed", "/mark", "/new"}, paths)
	require.Empty(t, kept.Pins)
	require.Len(t, p.Changes, 5)
}

func TestDriftSaysWhyItIsNotKnownWhoApplied(t *testing.T) {
	for want, failed := range map[string]error{"the stack has no history.": nil, "the history of the stack could not be read: ": zk.ErrNoAuth} {
		b := boardOf(t, scene())
		b.change("main", func(e *Ensemble) { e.Drift, e.DriftAt = &plan.Plan{}, noon; e.adopt(nil, failed) })
		require.Contains(t, body(t, b, "/drift"), "Who applied last is not known: "+want)
	}
}

// Such a change was noticed only after the interval of comparisons.
func TestAFileThatChangesWhileItsConfigurationIsPutInForceIsReadOnceMore(t *testing.T) {
	files := "before"
	stamps := func() string { return files }
	read := func() (*Setup, error) { return &Setup{Stamps: stamps}, nil }
	s := &Service{setups: []*Setup{{Source: lockview.Source{Error: "once"}, Stamps: stamps}}, stamps: []string{files},
		Read: []func() (*Setup, error){read}, Say: func(string) { files = "after" }}
	s.rereadOne(t.Context(), 0)
	require.NotEqual(t, files, s.stamps[0])
}
