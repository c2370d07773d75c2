//go:build linux

package interop_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/internal/hostile"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
	"github.com/locktree/locktree/recipes/zktest/effort"
	"github.com/locktree/locktree/recipes/zktest/realzk"
)

// libraries are the columns of the table.
var libraries = []string{"ours", "Curator 5.4", "kazoo 2.8", "go-zookeeper"}

// budgetRow is an operation and what it cost each library; "–" if the library does not have the operation.
type budgetRow struct {
	name  string
	cells [4]string
}

// comparison is one recipe in each library. A library without the recipe has a party whose enter is nil.
type comparison struct {
	name    string
	declare func(b *biller, path string, p party)
	by      [4]party
}

func declared(p kind.Params) func(*biller, string, party) {
	return func(b *biller, path string, _ party) { b.declare(path, p) }
}

// declaredPermits declares a semaphore of three permits. kazoo's semaphore has another layout, with its limit as data.
func declaredPermits(b *biller, path string, p party) {
	if p.name == "kazoo" {
		require.NoError(b.t, b.srv.Create(path, []byte("3")))
		return
	}
	b.declare(path, semaphoreOf(3))
}

func declaredThree(b *biller, path string, _ party) {
	for i := range 3 {
		b.declare(fmt.Sprintf("%s-%d", path, i), kind.Mutex.New())
	}
}

// comparisons returns the recipes that the table measures on free locks.
func comparisons() []comparison {
	return []comparison{
		{"mutex", declared(kind.Mutex.New()), [4]party{ours("go", "", goMutex), foreign("curator", java, "mutex"),
			foreign("kazoo", python, "lock"), {name: "go-zookeeper", enter: goZookeeper}}},
		{"reader", declared(kind.RWLock.New()), [4]party{ours("go", "", goRead), foreign("curator", java, "read"),
			foreign("kazoo", python, "read")}},
		{"writer", declared(kind.RWLock.New()), [4]party{ours("go", "", goWrite), foreign("curator", java, "write"),
			foreign("kazoo", python, "write")}},
		{"election", declared(kind.Election.New()), [4]party{ours("go", "", goElection), foreign("curator", java, "latch"),
			foreign("kazoo", python, "election")}},
		{"one permit", declaredPermits, [4]party{ours("go", "", goSemaphore(1)),
			foreign("curator", java, "semaphore", "3", "1"), foreign("kazoo", python, "semaphore", "3")}},
		{"three permits", declaredPermits, [4]party{ours("go", "", goSemaphore(3)),
			foreign("curator", java, "semaphore", "3", "3")}},
		{"three mutexes together", declaredThree, [4]party{ours("go", "", goTogether(3)), foreign("curator", java, "multi", "3")}},
	}
}

// goTogether is a multi-lock of the mutexes at PATH-0, PATH-1 and so on.
func goTogether(n int) func(*recipes.Client, string) goLock {
	return func(c *recipes.Client, path string) goLock {
		var members []recipes.Member
		for i := range n {
			members = append(members, c.Mutex(fmt.Sprintf("%s-%d", path, i)))
		}
		m := c.MultiLock(members...)
		return goLock{m.Lock, m.TryLock}
	}
}

// TestInteropBudget counts what each library asks of a server for the same operations, on the same in-memory server and over the same
// network. It compares the counts with the table of testdata/interop/README.md. With GOLDEN=1 it writes the table instead.
func TestInteropBudget(t *testing.T) {
	effort.Proof(t, effort.Unraced)
	t.Parallel()
	b := newBiller(t)
	var rows []budgetRow
	for _, c := range comparisons() {
		rows = append(rows, b.free(c)...)
	}
	rows = append(rows, b.contended()...)
	table := budgetMarkdown(rows)
	t.Log("\n" + table)
	interopReadme(t, func(text string) string { return inBlock(t, text, "budget", table) })
}

// free returns the two rows of a lock that no other program wants.
func (b *biller) free(c comparison) []budgetRow {
	acquire, cycle := budgetRow{name: c.name + ": acquire"}, budgetRow{name: c.name + ": whole cycle"}
	var prices [4]charge
	for i, p := range c.by {
		acquire.cells[i], cycle.cells[i] = "–", "–"
		if p.enter == nil {
			continue
		}
		path := fmt.Sprintf("/%s-%d", strings.ReplaceAll(c.name, " ", "-"), i)
		c.declare(b, path, p)
		a, whole := b.cycles(p, path, i, acquire.name, cycle.name)
		prices[i] = a
		acquire.cells[i], cycle.cells[i] = a.String(), whole.String()
		require.NotZero(b.t, a.trips, "%s: nothing was counted", path)
		if i == 0 {
			require.Equal(b.t, [2]int{1, 2}, [2]int{a.trips, whole.trips}, "%s: our budget is one round trip, two for the cycle", c.name)
		} else {
			require.Greater(b.t, a.trips, prices[0].trips, "%s against %s", c.name, libraries[i])
		}
	}
	if c.name == "mutex" {
		require.Equal(b.t, "3 / 2", cycle.cells[0])
	}
	return []budgetRow{acquire, cycle}
}

const (
	handOffRow = "mutex: hand-off between processes"
	withinRow  = "mutex: hand-off within a process"
	tryRow     = "mutex: try while held"
	watchStays = ", a watch stays"
)

var bytesRow = fmt.Sprintf("of that, bytes with %d behind", behind)

// contended returns the rows of a mutex that other programs want too.
func (b *biller) contended() []budgetRow {
	rows := []budgetRow{
		{name: handOffRow}, {name: bytesRow}, {name: withinRow}, {name: "contenders of five within a process"}, {name: tryRow},
	}
	for i, p := range comparisons()[0].by {
		m := rival{b, i, p, kind.WireCurator}
		if p.name == "kazoo" {
			m.wire = kind.WireKazoo // its own names: no subclass is measured
		}
		for j, cell := range slices.Concat(m.handedOver(), m.within(), m.refused()) {
			rows[j].cells[i] = cell
		}
	}
	return rows
}

// rival is one library, and a Go program that holds the lock that the library wants, with names that both know.
type rival struct {
	*biller
	i    int // column
	p    party
	wire string
}

func (m rival) mutex(name string) string {
	path := fmt.Sprintf("/%s-%d", name, m.i)
	m.declare(path, &kind.MutexParams{Common: kind.Common{Wire: string(m.wire)}})
	return path
}

func (m rival) holder() party { return ours("holder", m.wire, goMutex) }

// enough returns a function that gets a number of runs and their figures. It turns the figures into the cells of the given rows, and
// reports whether that many runs are enough for each cell.
func (m rival) enough(cells func(charge) []string, rows ...string) func(int, charge) bool {
	return func(runs int, s charge) bool {
		for i, cell := range cells(s) {
			if !m.measured(runs, rows[i], m.i, cell) {
				return false
			}
		}
		return true
	}
}

func price(s charge) []string { return []string{s.String()} }

// weighed returns the price and the bytes. The bytes of our waiter do not grow with the queue.
func (m rival) weighed(s charge) []string {
	if m.i == 0 && s.bytes < behind*10 {
		return []string{s.String(), fmt.Sprintf("< %d", behind*10)}
	}
	return []string{s.String(), fmt.Sprint((s.bytes + 500) / 1000 * 1000)}
}

func (m rival) handedOver() []string {
	s := m.handOff(m.p, m.holder(), m.mutex("next"), m.enough(m.weighed, handOffRow, bytesRow))
	if m.i == 0 {
		require.LessOrEqual(m.t, s.trips, 1, "our budget is one round trip")
		require.Less(m.t, s.bytes, int64(behind*10), "our waiter's bytes do not grow with the queue")
	} else {
		require.Greater(m.t, s.bytes, int64(behind*40), "%s lists everybody", libraries[m.i])
	}
	return m.weighed(s)
}

func (m rival) within() []string {
	if m.p.name == "go-zookeeper" {
		return []string{"–", "–"} // every goroutine has a connection of its own
	}
	s, nodes := m.twins(m.p, m.mutex("twins"), m.enough(price, withinRow))
	if m.i == 0 {
		require.Equal(m.t, 1, s.trips, "our budget is one transaction, one round trip")
		require.Equal(m.t, 1, nodes, "our goroutines share a contender")
	} else {
		require.Equal(m.t, 5, nodes, "%s has one contender for each", libraries[m.i])
	}
	return []string{s.String(), fmt.Sprint(nodes)}
}

func (m rival) refused() []string {
	if m.p.name == "go-zookeeper" {
		return []string{"–"} // it can only wait
	}
	asked := func(s charge) []string { // only the end shows whether a watch stays
		if cells := m.page[tryRow]; len(cells) > m.i && strings.HasSuffix(cells[m.i], watchStays) {
			return []string{s.String() + watchStays}
		}
		return price(s)
	}
	s, watching := m.try(m.p, m.holder(), m.mutex("try"), m.enough(asked, tryRow))
	if !watching {
		require.NotZero(m.t, s.trips)
		if m.i == 0 {
			require.Equal(m.t, 1, s.trips, "our budget is one round trip")
		}
		return []string{s.String()}
	}
	require.NotZero(m.t, m.i, "our budget is no watch left behind")
	return []string{s.String() + watchStays}
}

// budgetPage reads the table that budgetMarkdown has written.
func budgetPage(t *testing.T) map[string][]string {
	if os.Getenv("GOLDEN") != "" {
		return nil
	}
	page, err := os.ReadFile(interop + "/README.md")
	require.NoError(t, err)
	_, table, _ := strings.Cut(string(page), "<!-- budget -->\n")
	table, _, _ = strings.Cut(table, "<!-- end of budget -->")
	rows := map[string][]string{}
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "| "), " | ")
		for i, cell := range cells {
			cells[i] = strings.Trim(cell, "* ")
		}
		rows[cells[0]] = cells[1:]
	}
	return rows
}

func budgetMarkdown(rows []budgetRow) string {
	var b strings.Builder
	b.WriteString("| | " + strings.Join(libraries, " | ") + " |\n|---|" + strings.Repeat("---|", len(libraries)) + "\n")
	for _, r := range rows {
		b.WriteString("| " + r.name + " | **" + r.cells[0] + "** | " + strings.Join(r.cells[1:], " | ") + " |\n")
	}
	return b.String()
}

// The requests of other people's programs are counted on the in-memory server, over a network of 20 ms in each direction. This latency
// tells the requests that a caller waited for from those that were sent along.

const (
	billLatency = 20 * time.Millisecond
	billTrip    = 2 * billLatency
	// The cheapest of billRuns runs counts. A heartbeat, or a pause of the machine, makes a run dearer, but not all runs. So there are
	// more runs, up to mostRuns, where the cheapest is dearer than the page says.
	billRuns, mostRuns = 5, 100
)

// biller is the laboratory with that server in it.
type biller struct {
	*realLab
	t    *testing.T
	srv  *zktest.Server
	page map[string][]string // the cells of the page's table by row; none when it is to be written

	mu    sync.Mutex
	asked []asked
}

// asked is one request, with the time when it left its client: the server reads it at once, and executes it later.
type asked struct {
	session int64
	at      time.Time
}

// charge is what an operation cost one client.
type charge struct {
	requests int
	trips    int   // round trips waited for
	bytes    int64 // both ways
}

func (s charge) String() string { return fmt.Sprintf("%d / %d", s.requests, s.trips) }

// cheaper keeps of each figure the smaller one.
func (s charge) cheaper(o charge) charge {
	return charge{min(s.requests, o.requests), min(s.trips, o.trips), min(s.bytes, o.bytes)}
}

// dearest is dearer than any operation.
var dearest = charge{1 << 30, 1 << 30, 1 << 60}

func newBiller(t *testing.T) *biller {
	srv := zktest.Start(t, zktest.WithLatency(billLatency))
	b := &biller{t: t, srv: srv, page: budgetPage(t), realLab: &realLab{t: t, zk: &realzk.Server{Addr: srv.Addr()}, events: map[string]chan string{}}}
	srv.Inject(func(r zktest.Request) bool {
		if r.Op != "ping" && r.Op != "connect" {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.asked = append(b.asked, asked{r.Session, time.Now()})
		}
		return false
	}, zktest.Fault{})
	b.startPeers(t)
	return b
}

// measured reports whether that number of runs is enough. The parameter cell is the text that they gave for the row and the column.
func (b *biller) measured(runs int, row string, column int, cell string) bool {
	return runs >= mostRuns || runs >= billRuns && (b.page == nil || len(b.page[row]) > column && b.page[row][column] == cell)
}

// bill counts the requests of one session until f has returned. If f leaves requests or work to the background, a second function waits for
// them (the parameter after), and bill counts until that function has returned.
func (b *biller) bill(e *entry, f, after func()) charge {
	session := sessionOf(b.t, e)
	b.mu.Lock()
	b.asked = nil
	b.mu.Unlock()
	before := b.srv.SessionCounts(session)
	f()
	returned := time.Now()
	counts := b.srv.SessionCounts(session)
	if after != nil {
		after()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	s := charge{bytes: counts.BytesIn + counts.BytesOut - before.BytesIn - before.BytesOut}
	var began time.Time
	for _, a := range b.asked {
		if a.session != session {
			continue
		}
		s.requests++
		// A request that leaves before the reply to the first can be back belongs to the same trip. The caller did not wait for a request
		// that left less than a round trip before f returned.
		if began.IsZero() || a.at.Sub(began) >= billTrip {
			began = a.at
			if returned.Sub(began) >= billTrip {
				s.trips++
			}
		}
	}
	return s
}

// declare provisions a lock.
func (b *biller) declare(path string, p kind.Params) {
	require.NoError(b.t, b.srv.Provision(path, &kind.Payload{Params: p, Owner: kind.Owner{Stack: "interop", Addr: "test"}}))
}

// line returns the contenders below a lock of any layout.
func (b *biller) line(path string) (names []string) {
	n, _ := b.srv.Get(path)
	names = inOrder(n.Children)
	for _, child := range n.Children {
		below, _ := b.srv.Get(kind.JoinPath(path, child))
		names = append(names, inOrder(below.Children)...)
	}
	return names
}

func sessionOf(t *testing.T, e *entry) int64 {
	id, err := strconv.ParseInt(strings.TrimPrefix(e.session, "0x"), 16, 64)
	require.NoError(t, err)
	return id
}

// cycles measures acquisitions and releases of a free lock. The first of each is not counted, because a library learns things in it.
func (b *biller) cycles(p party, path string, column int, acquireRow, cycleRow string) (acquire, cycle charge) {
	ctx := hostile.Within(b.t, hostile.Patience)
	e := p.enter(b.t, b.realLab, path)
	acquire, cycle = dearest, dearest
	for i := 0; !b.measured(i-1, acquireRow, column, acquire.String()) || !b.measured(i-1, cycleRow, column, cycle.String()); i++ {
		a := b.bill(e, func() { require.NoError(b.t, e.acquire(ctx)) }, func() {
			if e.lease != nil {
				e.lease.Token() // a read for it would be part of the price
			}
		})
		r := b.bill(e, func() { require.NoError(b.t, e.release(ctx)) }, func() {
			require.Eventually(b.t, func() bool { return len(b.line(path)) == 0 }, hostile.Patience, pollEvery, "a release leaves nothing")
		})
		if i > 0 {
			acquire = acquire.cheaper(a)
			cycle = cycle.cheaper(charge{a.requests + r.requests, a.trips + r.trips, a.bytes + r.bytes})
		}
	}
	return acquire, cycle
}

// try measures a try while another program holds the lock, until the try has left no trace. It also says whether a watch on the holder's
// contender stays behind.
func (b *biller) try(p, holder party, path string, enough func(int, charge) bool) (s charge, watching bool) {
	ctx := hostile.Within(b.t, hostile.Patience)
	h, e := holder.enter(b.t, b.realLab, path), p.enter(b.t, b.realLab, path)
	require.NoError(b.t, h.acquire(ctx))
	held := len(b.line(path))
	s = dearest
	for i := 0; !enough(i, s); i++ {
		s = s.cheaper(b.bill(e, func() { require.True(b.t, isHeld(e.try(ctx))) }, func() {
			require.Eventually(b.t, func() bool { return len(b.line(path)) == held }, hostile.Patience, pollEvery, "a try leaves nothing")
		}))
	}
	events := b.srv.SessionCounts(sessionOf(b.t, e)).WatchEvents
	require.NoError(b.t, h.release(ctx))
	require.NoError(b.t, e.answers(ctx)) // an event comes before any later answer
	return s, b.srv.SessionCounts(sessionOf(b.t, e)).WatchEvents > events
}

// behind is the number of contenders behind the waiter.
const behind = 100

// handOff measures what a waiter spends between its predecessor's release and its grant.
func (b *biller) handOff(p, holder party, path string, enough func(int, charge) bool) charge {
	ctx := hostile.Within(b.t, hostile.Patience)
	h, e := holder.enter(b.t, b.realLab, path), p.enter(b.t, b.realLab, path)
	s := dearest
	for i := 0; !enough(i, s); i++ {
		require.NoError(b.t, h.acquire(ctx))
		node := kind.JoinPath(path, b.line(path)[0])
		granted := b.request(ctx, e)
		b.awaitWatch(b.t, e.session, node)
		var crowd []string
		for j := range behind {
			name := fmt.Sprintf("_c_%08d-0000-0000-0000-000000000000-lock-%010d", j, 1_000_000+i*behind+j)
			if holder.wire == kind.WireKazoo {
				name = fmt.Sprintf("%032x__lock__%010d", j, 1_000_000+i*behind+j)
			}
			crowd = append(crowd, kind.JoinPath(path, name))
			require.NoError(b.t, b.srv.Create(crowd[j], nil))
		}
		s = s.cheaper(b.bill(e, func() {
			require.NoError(b.t, h.release(ctx))
			require.NoError(b.t, <-granted)
		}, nil))
		require.NoError(b.t, e.release(ctx))
		for _, c := range crowd {
			require.NoError(b.t, b.srv.Delete(c))
		}
	}
	return s
}

// twins lets five goroutines, or threads, of one program want the same lock. It returns what a hand-off between two of them costs their
// session, release included, and how many contenders the five keep.
func (b *biller) twins(p party, path string, enough func(int, charge) bool) (pass charge, contenders int) {
	ctx := hostile.Within(b.t, hostile.Patience)
	line := []*entry{p.enter(b.t, b.realLab, path)}
	for c := line[0].client; len(line) < 5; {
		if c != nil {
			line = append(line, goEntry(b.t, c, goMutex(c, path)))
		} else {
			line = append(line, p.enter(b.t, b.realLab, path))
		}
	}
	pass = dearest
	for run := 0; !enough(run, pass); run++ {
		require.NoError(b.t, line[0].acquire(ctx))
		granted := make([]<-chan error, len(line))
		for i, e := range line {
			if i > 0 {
				granted[i] = b.request(ctx, e)
				require.Eventually(b.t, func() bool { return b.waiting(e, path) == i }, hostile.Patience, pollEvery, "it waits")
			}
		}
		contenders = len(b.line(path))
		for i, e := range line[1:] {
			pass = pass.cheaper(b.bill(e, func() {
				require.NoError(b.t, line[i].release(ctx))
				require.NoError(b.t, <-granted[i+1])
			}, nil))
		}
		require.NoError(b.t, line[len(line)-1].release(ctx))
	}
	return pass, contenders
}

// waiting returns how many wait. Our goroutines wait in the process: a call without time to wait learns how many are ahead of it, and
// asks no server.
func (b *biller) waiting(e *entry, path string) int {
	if e.client == nil {
		return len(b.line(path)) - 1
	}
	var held *recipes.HeldError
	for {
		ctx, cancel := context.WithTimeout(b.t.Context(), time.Millisecond)
		_, err := e.client.Mutex(path).Lock(ctx)
		cancel()
		if errors.As(err, &held) {
			break
		}
		require.ErrorIs(b.t, err, context.DeadlineExceeded) // the millisecond was over before it asked
	}
	require.True(b.t, held.Local)
	return held.Position - 1
}
