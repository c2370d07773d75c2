//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
	"github.com/locktree/locktree/recipes/zktest/realzk"
)

const (
	drillPage = "testdata/drill.md"
	password  = "correct-horse"
	atOnce    = 10                         // bound on the looks until the page names a cause that one look can see; three suffice, unless a server is slow to answer
	soon      = "LOCKTREE_VAR_patience=2s" // for commands that get no answer
)

// drill is an ensemble in use, with its monitoring and an operator on call.
type drill struct {
	t        *testing.T
	servers  []*realzk.Server
	connect  string
	locktree string
	classes  string // of the Java program
	dir      string // of the configuration
	env      []string
	hand     *zk.Conn          // reads the truth, and changes nodes by hand
	pages    map[string]string // addresses: one page works, two will have wrong credentials
	expired  []string          // variables of a client whose certificate expired yesterday
	metrics  *server

	leader, deputy, courier *recipes.Client // Go programs that Prometheus scrapes
	leaders, couriers       *network
	legacy                  *peer // created the node of a declared lock

	mu   sync.Mutex
	rows map[string]row
}

// row is a row of the table.
type row struct{ page, status, alert, named string }

// incident is one incident of the drill.
type incident struct {
	*drill
	t       *testing.T
	metrics *server
	row     row
	began   time.Time
	ats     map[string]bool // times of the looks since began
	outages float64         // looks that had failed before
}

// Twelve incidents, with programs of Curator, kazoo and Go on three ZooKeeper servers. For each incident the test types the commands of its
// runbook, and compares what they, the page and the alerts say with the truth. In the table of testdata/drill.md it compares only the
// incidents and the causes that the page names first: GOLDEN=1 writes the rest, from one run.
func TestDrill(t *testing.T) {
	d := startDrill(t)
	incidents := []struct {
		name string
		play func(*incident)
	}{
		{"holder killed", killed}, {"holder paused", paused}, {"holder cut off by the network", partitioned}, {"holder stuck", stuck},
		{"deadlock", deadlock}, {"leader of an election lost", leaderLost}, {"wrong password", wrongPassword},
		{"expired certificate", expiredCertificate}, {"node changed by hand", handEdit}, {"container gone", containerGone},
		{"queue of 200", queueOf200}, {"ensemble away", ensembleAway},
	}
	play := func(n int) {
		t.Run(incidents[n].name, func(t *testing.T) {
			i := &incident{drill: d, t: t, metrics: &server{t, d.metrics.url}}
			incidents[n].play(i)
			d.mu.Lock()
			defer d.mu.Unlock()
			d.rows[incidents[n].name] = i.row
		})
	}
	// Most incidents wait for a session to end: they run side by side, each at a lock of its own. Two cause drift, and run one after the
	// other.
	var together sync.WaitGroup
	for _, several := range [][]int{{0}, {1}, {2}, {3, 4}, {5}, {6, 7, 10}, {8, 9}} {
		together.Go(func() {
			for _, n := range several {
				play(n)
			}
		})
	}
	together.Wait()
	play(11)
	if t.Failed() {
		return
	}
	table := "\n| incident | the page | `locktree` | alert | named after |\n|---|---|---|---|---|\n"
	for _, one := range incidents {
		r := d.rows[one.name]
		table += fmt.Sprintf("| **%s** | %s | %s | %s | %s |\n", one.name, r.page, r.status, r.alert, r.named)
	}
	text, err := os.ReadFile(drillPage)
	require.NoError(t, err)
	block := regexp.MustCompile(`(?s)(<!-- GOLDEN=1 go test [^\n]* -->\n)(.*)(\n<!-- end -->)`)
	require.Regexp(t, block, string(text))
	if os.Getenv("GOLDEN") != "" {
		require.NoError(t, os.WriteFile(drillPage, []byte(block.ReplaceAllString(string(text), "${1}"+strings.ReplaceAll(table, "$", "$$")+"${3}")), 0o644))
		return
	}
	// The rest of a row depends on what servers answer and when. play has checked it.
	causes := regexp.MustCompile(`(?m)^\| \*\*[^*]+\*\* \| \*[^*]+\*`)
	require.Equal(t, causes.FindAllString(string(text), -1), causes.FindAllString(table, -1), "GOLDEN=1 go test -run TestDrill")
}

// ofTheDrill is the configuration. No client may hold a lock with an owner, or wait for it, for longer than two seconds.
func ofTheDrill(cron string) string {
	text := fmt.Sprintf(`
locktree { stack = "shop" }
variable "patience" { default = "60s" }
ensemble "main" {
  root            = "/shop"
  session_timeout = "20s"
  connect_timeout = var.patience
  admins          = [principal.platform]
}
principal "platform" {
  scheme = "digest"
  id     = %q
}
principal "anyone" { scheme = "world" }
acl "open" {
  allow_world = true
  grant {
    to    = [principal.platform, principal.anyone]
    allow = "admin"
  }
}
acl "closed" {
  grant {
    to    = [principal.platform]
    allow = "admin"
  }
}
mutex "ledger" { acl = acl.closed }
election "boss" { acl = acl.open }
mutex "carts" { acl = acl.open }
mutex "stock" { acl = acl.open }
semaphore "pool" {
  acl     = acl.open
  permits = 3
}
namespace "legacy" {
  acl = acl.open
%s}
`, zktest.DigestID("platform:"+password), cron)
	for _, name := range []string{"killed", "paused", "parted", "stuck", "queue"} {
		text += fmt.Sprintf("mutex %q {\n  acl      = acl.open\n  owner    = \"shop@example.com\"\n  max_hold = \"2s\"\n  max_wait = \"2s\"\n}\n", name)
	}
	return text
}

func startDrill(t *testing.T) *drill {
	d := &drill{t: t, dir: t.TempDir(), locktree: buildLocktree(t), rows: map[string]row{}, leaders: &network{}, couriers: &network{}}
	t.Cleanup(func() { d.couriers.set(refused) }) // connections stay open while they are cut off
	certificates := t.TempDir()
	issue(t, certificates)
	d.servers = realzk.StartEnsemble(t, 3, realzk.Options{HeapMiB: 96, Config: map[string]string{
		"maxSessionTimeout":      "60000",
		"serverCnxnFactory":      "org.apache.zookeeper.server.NettyServerCnxnFactory",
		"client.portUnification": "true", // with TLS and without, at one port
		"authProvider.x509":      "org.apache.zookeeper.server.auth.X509AuthenticationProvider",
		"ssl.keyStore.location":  certificates + "/server.pem", "ssl.trustStore.location": certificates + "/ca.pem", "ssl.clientAuth": "need",
	}, Properties: map[string]string{"znode.container.checkIntervalMs": "1000", "zookeeper.forceSync": "no"}})
	var servers []string
	for _, s := range d.servers {
		servers = append(servers, s.Addr)
	}
	d.connect = strings.Join(servers, ",")
	d.env = append(os.Environ(), "ZOOKEEPER_SERVERS="+d.connect, "ZOOKEEPER_USERNAME=platform", "ZOOKEEPER_PASSWORD="+password)
	var err error
	d.hand, _, err = zk.Connect(servers, 40*time.Second, zk.WithLogInfo(false))
	require.NoError(t, err)
	t.Cleanup(d.hand.Close)
	require.NoError(t, d.hand.AddAuth("digest", []byte("platform:"+password)))
	d.configure("")
	first := &incident{drill: d, t: t}
	first.must("apply", "-auto-approve")
	// A program creates the node of a lock that is declared afterwards.
	d.classes = compileCurator(t)
	d.legacy = curator(t, d.classes, d.connect, "legacy", 40*time.Second)
	d.legacy.holds("mutex", "/shop/legacy/cron")
	d.configure("  mutex \"cron\" {}\n")
	first.must("import", "-auto-approve", "namespace.legacy.mutex.cron", "/shop/legacy/cron")

	c := recipes.Config{Servers: servers, SessionTimeout: 20 * time.Second}
	c.ID, c.Dialer = "leader", d.leaders.dial
	leader := startProgram(t, c)
	c.ID, c.Dialer = "deputy", nil
	deputy := startProgram(t, c)
	c.ID, c.Dialer, c.SessionTimeout = "courier", d.couriers.dial, 40*time.Second
	courier := startProgram(t, c)
	d.leader, d.deputy, d.courier = leader.client, deputy.client, courier.client
	targets := map[string]string{"leader": leader.addr, "deputy": deputy.addr, "courier": courier.addr}
	d.expired = []string{soon, "ZOOKEEPER_TLS_ENABLED=true", "ZOOKEEPER_TLS_CA_FILE=" + certificates + "/ca.pem",
		"ZOOKEEPER_TLS_CERT_FILE=" + certificates + "/expired.pem", "ZOOKEEPER_TLS_KEY_FILE=" + certificates + "/expired.pem"}
	d.pages = map[string]string{}
	ports := realzk.FreePorts(t, 3)
	for n, name := range []string{"page", "wrong", "expired"} {
		d.pages[name] = fmt.Sprintf("127.0.0.1:%d", ports[n])
		targets[name] = d.pages[name]
	}
	first.serve("page", "LOCKTREE_VAR_patience=5s")
	d.metrics = scraping(t, targets)
	return d
}

func (d *drill) configure(cron string) {
	require.NoError(d.t, os.WriteFile(filepath.Join(d.dir, "locks.locktree.hcl"), []byte(ofTheDrill(cron)), 0o600))
}

// serve starts a page, with these variables besides the others.
func (i *incident) serve(page string, env ...string) {
	serving(i.t, i.locktree, slices.Concat(i.env, env), "-chdir="+i.dir, "serve", "-listen="+i.pages[page], "-interval=1s", "-drift-interval=1s")
}

// run types a command, with these variables besides the others.
func (i *incident) run(env []string, args ...string) (out string, code int) {
	cmd := exec.CommandContext(i.t.Context(), i.locktree, append([]string{"-chdir=" + i.dir}, args...)...)
	cmd.Env = slices.Concat(i.env, env)
	text, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		require.NoError(i.t, err)
	}
	if !slices.Contains(args, "-json") {
		i.t.Logf("$ locktree %s   # exit code %d\n%s", strings.Join(args, " "), cmd.ProcessState.ExitCode(), text)
	}
	return string(text), cmd.ProcessState.ExitCode()
}

func (i *incident) must(args ...string) string {
	out, code := i.run(nil, args...)
	require.Zero(i.t, code, out)
	return out
}

// typed does the same as must, and requires that the runbook names the command.
func (i *incident) typed(runbook string, args ...string) string {
	i.named(runbook, args[0])
	return i.must(args...)
}

// shown types a command of a runbook until its output matches says, and notes the line. While a server is slow to answer, no command can
// say that a client has no connection.
func (i *incident) shown(runbook, says string, args ...string) {
	i.t.Helper()
	eventually(i.t, func() string {
		out := i.typed(runbook, args...)
		if !regexp.MustCompile(says).MatchString(out) {
			return out
		}
		i.status(out, says)
		return ""
	})
}

func (i *incident) named(runbook, verb string) {
	require.Contains(i.t, runbooks(i.t)[runbook], "`locktree "+verb)
}

// begins is called before the incident that a page sees.
func (i *incident) begins(page string) {
	i.row, i.began, i.ats, i.outages = row{}, time.Now(), map[string]bool{}, i.failures(page)
}

// opens begins an incident by starting a page with wrong credentials.
func (i *incident) opens(page string, env ...string) {
	i.began, i.ats = time.Now(), map[string]bool{}
	i.serve(page, env...)
}

// looks is how often a page has looked since the incident began.
func (i *incident) looks(page string) int {
	var doc struct{ Ensembles []struct{ At time.Time } }
	require.NoError(i.t, json.Unmarshal([]byte(i.get(page, "/api/v1/status")), &doc))
	if at := doc.Ensembles[0].At; at.After(i.began) {
		i.ats[at.String()] = true
	}
	return len(i.ats) + int(i.failures(page)-i.outages)
}

func (i *incident) failures(page string) (n float64) {
	m := regexp.MustCompile(`(?m)^locktree_scan_errors_total\{.*\} (\S+)$`).FindStringSubmatch(i.get(page, "/metrics"))
	require.NotNil(i.t, m)
	_, err := fmt.Sscan(m[1], &n)
	require.NoError(i.t, err)
	return n
}

func (i *incident) get(page, path string) string {
	_, text := fetch(i.t, "http://"+i.pages[page]+path)
	return text
}

var (
	tableRow = regexp.MustCompile(`(?s)<tr[ >].*?</tr>`)
	cell     = regexp.MustCompile(`(?s)data-label="(What|Seen)"[^>]*>(?:<b>)?(.*?)<[/d]`) // without the consequences that follow
	tag      = regexp.MustCompile(`<[^>]*>`)
)

// page waits until a problem of a page contains all of says, notes it, and returns how many looks that took.
func (i *incident) page(page string, says ...string) (looks int) {
	i.t.Helper()
	eventually(i.t, func() string {
		looks = i.looks(page)
		problems, _, _ := strings.Cut(i.get(page, "/"), "<h2>Ensembles")
		for _, problem := range tableRow.FindAllString(problems, -1) {
			if text := plain(problem); !slices.ContainsFunc(says, func(word string) bool { return !strings.Contains(text, word) }) {
				i.noted(problem, looks)
				return ""
			}
		}
		return fmt.Sprintf("no problem says %q: %s", says, plain(problems))
	})
	return looks
}

// noted puts a problem into the table. The first problem of an incident names its cause.
func (i *incident) noted(problem string, looks int) {
	parts := map[string]string{}
	for _, m := range cell.FindAllStringSubmatch(problem, -1) {
		parts[m[1]] = plain(m[2])
	}
	text, after := "*"+parts["What"]+"*: "+steady(parts["Seen"]), fmt.Sprintf("%.0f s", time.Since(i.began).Seconds())
	switch {
	case strings.Contains(i.row.page, text):
		return
	case i.row.page != "":
		i.row.page += "<br>" + text
		return
	case looks == 0:
		after += " without a look"
	case looks == 1:
		after += ", 1 look"
	default:
		after += fmt.Sprintf(", %d looks", looks)
	}
	i.row.page, i.row.named = text, after
}

// plain returns the text of HTML.
func plain(page string) string {
	return strings.Join(strings.Fields(html.UnescapeString(tag.ReplaceAllString(page, " "))), " ")
}

// status notes the line of out that matches says.
func (i *incident) status(out, says string) {
	i.t.Helper()
	line := regexp.MustCompile(`(?m)^.*` + says + `.*$`).FindString(out)
	require.NotEmpty(i.t, line, "%s in\n%s", says, out)
	if i.row.status != "" {
		i.row.status += "<br>"
	}
	i.row.status += "`" + steady(line) + "`"
}

// fires waits until an alert's expression is true with these labels, and notes it.
func (i *incident) fires(name string, labels ...string) {
	i.t.Helper()
	eventually(i.t, func() string {
		samples := i.firing(name)
		for _, x := range samples {
			ok := true
			for n := 0; n < len(labels); n += 2 {
				ok = ok && x.Metric[labels[n]] == labels[n+1]
			}
			if ok {
				i.row.alert = name
				if limit := x.Metric["limit"]; limit != "" {
					i.row.alert += " (" + limit + ")"
				}
				return ""
			}
		}
		return fmt.Sprintf("%s is not so with %v, but with %v", name, labels, samples)
	})
}

func (i *incident) firing(name string) []sample {
	all := alerts(i.t)
	at := slices.IndexFunc(all, func(a alert) bool { return a.Alert == name })
	return i.metrics.query(all[at].Expr)
}

// silent waits until an alert is no longer true.
func (i *incident) silent(name string) {
	until(i.t, "the alert is still true", func() bool { return len(i.firing(name)) == 0 })
}

// seen is a lock as "status -json" shows it.
type seen struct {
	Path             string
	Holders, Waiters []kind.Sight
}

func (i *incident) seen(path string) (lock seen) {
	i.t.Helper()
	eventually(i.t, func() string {
		var doc struct{ Ensembles []struct{ Locks []seen } }
		require.NoError(i.t, json.Unmarshal([]byte(i.must("status", "-json", path)), &doc))
		lock = doc.Ensembles[0].Locks[0]
		if slices.ContainsFunc(lock.Holders, func(s kind.Sight) bool { return s.Connection == kind.NotAsked || s.Connection == kind.Unseen }) {
			return "a server is slow to answer"
		}
		return ""
	})
	return lock
}

// children returns the nodes of a lock's contenders, in the order of arrival.
func (i *incident) children(path string) []string {
	names, _, err := i.hand.Children(path)
	require.NoError(i.t, err)
	slices.SortFunc(names, func(a, b string) int { return strings.Compare(a[len(a)-10:], b[len(b)-10:]) })
	for n := range names {
		names[n] = path + "/" + names[n]
	}
	return names
}

// queued waits until want clients hold the lock or wait for it.
func (i *incident) queued(path string, want int) {
	until(i.t, fmt.Sprintf("not %d in the queue of %s", want, path), func() bool { return len(i.children(path)) == want })
}

// behind starts a Go client that waits for the lock.
func (i *incident) behind(id, path string, before int) <-chan *recipes.Lease {
	c := member(i.t, recipes.Config{Servers: strings.Split(i.connect, ","), ID: id, SessionTimeout: 40 * time.Second})
	granted := make(chan *recipes.Lease, 1)
	go func() {
		if l, err := c.Mutex(path).Lock(i.t.Context()); err == nil {
			granted <- l
		}
	}()
	i.queued(path, before+1)
	return granted
}

// within waits for a value that must come, or for the channel to be closed.
func within[T any](t *testing.T, c <-chan T) (got T) {
	t.Helper()
	select {
	case got = <-c:
	case <-time.After(hanging):
		require.Fail(t, "it does not come")
	}
	return got
}

var varying = [][2]string{
	{`0x[0-9a-f]+`, `0x…`},
	{`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`, `…`},
	{`\d\d:\d\d:\d\d UTC`, `…`},
	{`(max_\w+ (?:is )?2s)|\b(?:\d+[hm])*\d+(?:\.\d+)?m?s\b`, `$1…`}, {`(max_\w+ (?:is )?2s)…`, `$1`},
	{`127\.0\.0\.1:\d+`, `host:port`},
	{` +curator format +token \d+ +session 0x…`, ` …`},
	{`\S*/(\S+_)?_?c_[0-9a-f-]+-lock-\d+`, `…`},
	{`\s+`, ` `},
	{`\|`, `\|`},
}

// steady leaves out text that differs from run to run.
func steady(text string) string {
	host, _ := os.Hostname()
	text = regexp.MustCompile(`\b`+regexp.QuoteMeta(host)+`(/\d+)?`).ReplaceAllString(text, "host/…")
	for _, v := range varying {
		text = regexp.MustCompile(v[0]).ReplaceAllString(text, v[1])
	}
	// Text that repeats for each server is kept once.
	parts := strings.Split(strings.TrimSpace(text), "; ")
	for n := len(parts) - 1; n > 0; n-- {
		if at := strings.LastIndex(parts[n-1], "host:port"); at >= 0 && strings.HasPrefix(parts[n], parts[n-1][at:]) {
			parts[n-1] = parts[n-1][:at] + parts[n]
			parts = slices.Delete(parts, n, n+1)
		}
	}
	return strings.Join(parts, "; ")
}
