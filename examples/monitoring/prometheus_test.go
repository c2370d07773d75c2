//go:build linux

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/prom"
	"github.com/locktree/locktree/recipes/zktest"
)

// hanging is the time after which a wait counts as hung.
const hanging = 3 * time.Minute

// eventually waits until f, which says what is missing, returns "".
func eventually(t *testing.T, f func() string) {
	t.Helper()
	missing := ""
	for end := time.Now().Add(hanging); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if missing = f(); missing == "" {
			return
		}
	}
	require.Fail(t, "it does not come", missing)
}

// until waits until holds is true.
func until(t *testing.T, missing string, holds func() bool) {
	t.Helper()
	eventually(t, func() string {
		if holds() {
			return ""
		}
		return missing
	})
}

// fetch asks a server for a page.
func fetch(t *testing.T, url string) (code int, text string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), hanging)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(body)
}

// server is Debian's Prometheus.
type server struct {
	t   *testing.T
	url string
}

// sample is one series of an answer.
type sample struct {
	Metric map[string]string
	Value  [2]any
}

func (s sample) value() float64 {
	text, _ := s.Value[1].(string)
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return math.NaN()
	}
	return f
}

// scraping starts Prometheus with the alerts. It scrapes these programs as job shop.
func scraping(t *testing.T, programs map[string]string) *server {
	dir := t.TempDir()
	rules, err := filepath.Abs("alerts/locktree.yml")
	require.NoError(t, err)
	config := "global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}\nrule_files: [" + rules + "]\n" +
		"scrape_configs:\n  - job_name: shop\n    static_configs:\n"
	for _, name := range slices.Sorted(maps.Keys(programs)) {
		config += fmt.Sprintf("      - {targets: [%q], labels: {instance: %s}}\n", programs[name], name)
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "prometheus.yml"), []byte(config), 0o644))
	cmd := exec.Command("prometheus", "--config.file="+dir+"/prometheus.yml", "--storage.tsdb.path="+dir+"/data", "--web.listen-address=127.0.0.1:0")
	out, err := cmd.StderrPipe()
	require.NoError(t, err)
	start(t, cmd, "Debian's package prometheus has it")
	var log strings.Builder
	for lines := bufio.NewScanner(out); lines.Scan(); {
		log.WriteString(lines.Text() + "\n")
		if m := regexp.MustCompile(`msg="Listening on" address=(\S+)`).FindStringSubmatch(lines.Text()); m != nil {
			go func() { _, _ = io.Copy(io.Discard, out) }()
			return &server{t, "http://" + m[1]}
		}
	}
	require.Fail(t, "prometheus ended", log.String())
	return nil
}

// start starts a process that ends with the test, even if the test is killed. The error names the program's package.
func start(t *testing.T, cmd *exec.Cmd, from string) {
	t.Helper()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(t, cmd.Start(), from)
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // also one that is stopped
		_ = cmd.Wait()         // killed
	})
}

// query asks for an expression's value now.
func (s *server) query(expr string) []sample {
	s.t.Helper()
	var answer struct {
		Status, Error string
		Data          struct{ Result []sample }
	}
	code, text := fetch(s.t, s.url+"/api/v1/query?query="+url.QueryEscape(expr))
	if code == http.StatusServiceUnavailable { // it is starting
		return nil
	}
	require.NoError(s.t, json.Unmarshal([]byte(text), &answer), text)
	require.Equal(s.t, "success", answer.Status, "%s: %s", expr, answer.Error)
	return answer.Data.Result
}

// scraped waits until every program has been scraped once more, from beginning to end.
func (s *server) scraped(programs int) {
	s.t.Helper()
	rounds := func() map[string]float64 {
		n := map[string]float64{}
		for _, x := range s.query("count_over_time(up[1h])") {
			n[x.Metric["instance"]] = x.value()
		}
		return n
	}
	before := rounds()
	eventually(s.t, func() string {
		now := rounds()
		for name, n := range now {
			if n < before[name]+2 {
				return name + " is not scraped"
			}
		}
		if len(now) < programs {
			return "not all are scraped"
		}
		return ""
	})
}

// program is a program that Prometheus scrapes.
type program struct {
	locks  *prom.Observer
	client *recipes.Client
	addr   string
}

func startProgram(t *testing.T, c recipes.Config, opts ...prom.Option) *program {
	locks := prom.New(opts...)
	c.Observer = locks.Observe
	return &program{locks, member(t, c), exporting(t, locks)}
}

// exporting serves metrics, and returns the address.
func exporting(t *testing.T, locks *prom.Observer) string {
	reg := prometheus.NewRegistry()
	reg.MustRegister(locks)
	web := httptest.NewServer(promhttp.HandlerFor(reg, promhttp.HandlerOpts{}))
	t.Cleanup(web.Close)
	return strings.TrimPrefix(web.URL, "http://")
}

// member is a Go program's client.
func member(t *testing.T, c recipes.Config) *recipes.Client {
	c.ConnectTimeout, c.Servers = hanging, slices.Clone(c.Servers)
	client, err := recipes.Dial(t.Context(), c)
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func declare(t *testing.T, srv *zktest.Server, path string, params kind.Params, state kind.State) {
	data, err := (&kind.Payload{Params: params, State: state}).Encode()
	require.NoError(t, err)
	require.NoError(t, srv.Create(path, data))
}

// scenario is what happens to two programs, a and b, and to c, which uses more locks than its metrics tell apart.
type scenario struct {
	t       *testing.T
	srv     *zktest.Server
	all     recipes.Config // of each program
	a, b, c *program
	page    string // the address of a "locktree serve"
	lost    *recipes.Lease
}

func startScenario(t *testing.T) *scenario {
	srv := zktest.Start(t)
	all := recipes.Config{Servers: []string{srv.Addr()}, SessionTimeout: 40 * time.Second}
	s := &scenario{t: t, srv: srv, all: all, a: startProgram(t, all), b: startProgram(t, all), c: startProgram(t, all, prom.WithMaxLocks(1))}
	for _, name := range []string{"quiet", "lost", "timeouts"} {
		declare(t, srv, "/"+name, kind.Mutex.New(), "")
	}
	held := &kind.MutexParams{}
	held.MaxHold, held.MaxWait, held.Owner = "1s", "1s", "a@example.com"
	declare(t, srv, "/held", held, "")
	declare(t, srv, "/errors", kind.Mutex.New(), kind.StateDraining)
	declare(t, srv, "/leaderless", kind.Election.New(), "")
	declare(t, srv, "/led", kind.Election.New(), "")
	foreign := member(t, all)
	for _, lock := range []func(context.Context) (*recipes.Lease, error){foreign.Mutex("/timeouts").Lock, s.a.client.Mutex("/held").Lock} {
		_, err := lock(t.Context())
		require.NoError(t, err)
	}
	var err error
	s.lost, err = s.a.client.Mutex("/lost").Lock(t.Context())
	require.NoError(t, err)
	for c, path := range map[*recipes.Client]string{foreign: "/leaderless", s.a.client: "/led"} {
		_, err = c.Election(path).Campaign(t.Context())
		require.NoError(t, err)
		go func() { _, _ = s.b.client.Election(path).Campaign(t.Context()) }()
	}
	go func() { _, _ = s.b.client.Mutex("/held").Lock(t.Context()) }()
	// ZooKeeper does not let two programs hold a mutex.
	for _, p := range []*program{s.a, s.b} {
		p.locks.Observe(event(recipes.EventAcquired, "/twice"))
	}
	s.page = servePage(t, srv.Addr())
	s.again()
	return s
}

// again plays what happens all the time.
func (s *scenario) again() {
	t := s.t
	for range 10 {
		require.NoError(t, s.a.client.Mutex("/quiet").Do(t.Context(), func(context.Context, *recipes.Lease) error { return nil }))
		_, err := s.b.client.Mutex("/errors").Lock(t.Context())
		require.ErrorIs(t, err, recipes.ErrDraining)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		_, err = s.b.client.Mutex("/timeouts").Lock(ctx)
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded)
		for _, what := range []recipes.EventType{recipes.EventAcquired, recipes.EventReleased} {
			slow := event(what, "/slow") // a real one would take long
			slow.Wait = 100 * time.Second
			s.a.locks.Observe(slow)
		}
	}
}

// event returns an event of a call for a mutex.
func event(what recipes.EventType, path string) recipes.Event {
	result := map[recipes.EventType]string{recipes.EventAcquired: "acquired", recipes.EventRefused: "held"}
	return recipes.Event{Type: what, Path: path, Locks: []recipes.EventLock{{Path: path, Kind: kind.Mutex}}, Result: result[what]}
}

// trouble plays what happens once.
func (s *scenario) trouble(p *server) {
	t := s.t
	require.NoError(t, s.srv.Delete(s.lost.Node()))
	<-s.lost.Context().Done()
	for range 3 {
		of, err := s.a.client.Session(t.Context())
		require.NoError(t, err)
		s.srv.RefuseDials(true)
		s.srv.Disconnect(of.ID())
		p.doubted("a", 1)
		s.srv.RefuseDials(false)
		_, err = of.Multi(t.Context(), &zk.CheckVersionRequest{Path: "/", Version: -1})
		require.NoError(t, err) // a commit ends the doubt
		p.doubted("a", 0)
	}
	// Programs that export nothing wait for each other.
	for _, paths := range [][2]string{{"/page/ledger", "/page/stock"}, {"/page/stock", "/page/ledger"}} {
		c := member(t, s.all)
		_, err := c.Mutex(paths[0]).Lock(t.Context())
		require.NoError(t, err)
		defer func() { go func() { _, _ = c.Mutex(paths[1]).Lock(t.Context()) }() }()
	}
	// Of the declared locks, one is gone, another is closed, and an interrupted apply has drained a third.
	require.NoError(t, s.srv.Delete("/page/gone"))
	live, err := member(t, s.all).Session(t.Context())
	require.NoError(t, err)
	_, err = live.SetACL(t.Context(), "/page/closed", zk.DigestACL(zk.PermAll, "nobody", "nothing"), -1)
	require.NoError(t, err)
	node, _ := s.srv.Get("/page/closed")
	require.NoError(t, s.srv.Set("/page/closed", node.Data)) // otherwise the last look at it stays true
	node, _ = s.srv.Get("/page/drained")
	declared, err := kind.Decode(node.Data)
	require.NoError(t, err)
	declared.State = kind.StateDraining
	data, err := declared.Encode()
	require.NoError(t, err)
	require.NoError(t, s.srv.Set("/page/drained", data))
	for _, path := range []string{"/one", "/two", "/three"} {
		s.c.locks.Observe(event(recipes.EventRefused, path))
	}
}

func buildLocktree(t *testing.T) string {
	t.Helper()
	locktree := filepath.Join(t.TempDir(), "locktree")
	build := exec.Command("go", "build", "-o", locktree, "./cmd/locktree")
	build.Dir = "../.."
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))
	return locktree
}

// ofThePage is the configuration of "locktree serve", which also looks at all other locks.
const ofThePage = `
locktree { stack = "page" }
ensemble "local" {
  servers         = ["%s"]
  root            = "/page"
  session_timeout = "7s" # doctor wants four ticks of 2 s
}
principal "anyone" { scheme = "world" }
acl "open" {
  allow_world = true
  grant {
    to    = [principal.anyone]
    allow = "admin"
  }
}
mutex "ledger" { acl = acl.open }
mutex "stock" { acl = acl.open }
mutex "gone" { acl = acl.open }
mutex "closed" { acl = acl.open }
mutex "drained" { acl = acl.open }
election "idle" { acl = acl.open }
semaphore "pool" {
  acl     = acl.open
  permits = 3
}
`

// servePage applies ofThePage, starts "locktree serve" on it, and returns the address.
func servePage(t *testing.T, zookeeper string) string {
	locktree, dir := buildLocktree(t), t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "page.locktree.hcl"), fmt.Appendf(nil, ofThePage, zookeeper), 0o600))
	said, err := exec.CommandContext(t.Context(), locktree, "-chdir="+dir, "apply", "-auto-approve").CombinedOutput()
	require.NoError(t, err, string(said))
	return serving(t, locktree, os.Environ(), "-chdir="+dir, "serve", "-prefix=/", "-listen=127.0.0.1:0", "-interval=1s", "-drift-interval=1s")
}

// serving starts a "locktree serve", and returns its address.
func serving(t *testing.T, locktree string, env []string, args ...string) string {
	cmd := exec.Command(locktree, args...)
	cmd.Env = env
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	start(t, cmd, "buildLocktree makes it")
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	return strings.Trim(strings.TrimPrefix(line, "http://"), "/\n")
}

// doubted waits until Prometheus has seen this number of a program's sessions in doubt.
func (s *server) doubted(instance string, sessions float64) {
	until(s.t, "sessions of "+instance+" in doubt", func() bool {
		return slices.ContainsFunc(s.query(`locktree_sessions{state="suspect", instance="`+instance+`"}`), func(x sample) bool { return x.value() == sessions })
	})
}

// whom lists the locks, or programs, that each alert must name after the trouble.
var whom = map[string][]string{
	"LocktreeLostLocks":       {"/lost"},
	"LocktreeTwoHolders":      {"/twice"},
	"LocktreeLeaderless":      {"/leaderless"},
	"LocktreeCallsFail":       {"/errors", "/timeouts"},
	"LocktreeSessionsInDoubt": {"a"},

	"LocktreeLongerThanDeclared": {"/held", "/held"}, // held and waited for
	"LocktreeDeadlock":           {"page"},
	"LocktreeDrift":              {"page"},
	"LocktreeApplyIncomplete":    {"page"},
	"LocktreeNotSeen":            {"page"},
}

// later are the alerts that must be silent before the trouble.
var later = []string{"LocktreeLostLocks", "LocktreeSessionsInDoubt", "LocktreeDeadlock", "LocktreeDrift", "LocktreeApplyIncomplete", "LocktreeNotSeen"}

// A real Prometheus scrapes the scenario. Every expression of the alerts is true of its locks, and of no other lock. Every expression of
// the dashboard has a value.
func TestPrometheusSeesWhatHappens(t *testing.T) {
	s := startScenario(t)
	p := scraping(t, map[string]string{"a": s.a.addr, "b": s.b.addr, "c": s.c.addr, "page": s.page})
	p.scraped(4)
	until(t, "drift and conditions", func() bool {
		return len(p.query("locktree_condition")) > 0 && len(p.query("locktree_drift_changes")) > 0
	})
	for _, a := range alerts(t) {
		if slices.Contains(later, a.Alert) {
			require.Empty(t, p.query(a.Expr), "%s before the trouble", a.Alert)
		}
	}
	s.trouble(p)
	s.again()
	p.scraped(4)
	for _, a := range alerts(t) {
		t.Run(a.Alert, func(t *testing.T) {
			eventually(t, func() string {
				var got []string
				for _, x := range p.query(a.Expr) {
					who := x.Metric["lock"]
					for _, other := range []string{"instance", "job"} {
						if who == "" {
							who = x.Metric[other]
						}
					}
					got = append(got, who)
				}
				if slices.Sort(got); slices.Equal(got, whom[a.Alert]) {
					return ""
				}
				return fmt.Sprintf("%v, should be %v", got, whom[a.Alert])
			})
		})
	}
	exact := map[string]float64{"Held now": 4, "Waiting now": 3, "Leaders": 1, "Deadlocks": 1, "Longer than declared": 1, "Changes due": 3, "Not seen": 2}
	variables := strings.NewReplacer("$__rate_interval", "5m", "$__range", "5m", "$lock", ".*")
	for _, panel := range panels(t) {
		t.Run(panel.Title, func(t *testing.T) {
			for _, target := range panel.Targets {
				expr := variables.Replace(target.Expr)
				until(t, "no value of "+expr, func() bool {
					return slices.ContainsFunc(p.query(expr), func(x sample) bool {
						v, known := exact[panel.Title]
						return !math.IsNaN(x.value()) && (!known || x.value() == v)
					})
				})
			}
		})
	}
}

// The program runs with the locks declared in the file beside it, and promtool finds no fault in its metrics.
func TestPromtoolAcceptsTheProgramsMetrics(t *testing.T) {
	srv := zktest.Start(t)
	locktree := buildLocktree(t)
	for _, args := range [][]string{{"fmt", "-check"}, {"apply", "-auto-approve"}} {
		cmd := exec.CommandContext(t.Context(), locktree, args...)
		cmd.Env = append(os.Environ(), `LOCKTREE_VAR_servers=["`+srv.Addr()+`"]`)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
	}
	t.Setenv("ZOOKEEPER_SERVERS", srv.Addr())
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go func() { ended <- run(ctx, l) }()
	var text string
	eventually(t, func() string {
		_, text = fetch(t, "http://"+l.Addr().String()+"/metrics")
		for _, want := range []string{`locktree_hold_seconds_count{end="released",kind="mutex",lock="/shop/ledger"}`,
			`locktree_acquire_seconds_count{kind="semaphore",lock="/shop/api",result="acquired"}`, `locktree_leader{lock="/shop/mailer"}`} {
			if !strings.Contains(text, want) {
				return want
			}
		}
		return ""
	})
	tool(t, text, "check", "metrics")
	stop()
	require.ErrorIs(t, <-ended, context.Canceled)
}
