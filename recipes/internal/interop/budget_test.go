//go:build linux

package interop_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest/effort"
)

// libraries are the columns of the table.
var libraries = []string{"ours", "Curator 5.4", "kazoo 2.8", "go-zookeeper"}

// budgetRow is an operation and what it cost each library; "–" where it does not have it.
type budgetRow struct {
	name  string
	cells [4]string
}

// comparison is one recipe in each library; a party without a way in has none.
type comparison struct {
	name    string
	declare func(b *biller, path string, p party)
	by      [4]party
}

func declared(p kind.Params) func(*biller, string, party) {
	return func(b *biller, path string, _ party) { b.declare(path, p) }
}

// declaredPermits is a semaphore of three permits; kazoo's own has another layout, and its limit for data.
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

// comparisons are the free locks of the table.
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

// TestInteropBudget counts what each library asks of a server for the same operations, all on the same
// in-memory server and over the same network, and compares it with the table of testdata/interop/README.md. With
// INTEROP_README=write it writes the table instead.
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

// free is the two rows of a lock that nobody else wants.
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

// contended are the rows of a mutex that others want too.
func (b *biller) contended() []budgetRow {
	rows := []budgetRow{
		{name: handOffRow}, {name: bytesRow}, {name: withinRow}, {name: "contenders of five within a process"}, {name: tryRow},
	}
	for i, p := range comparisons()[0].by {
		m := rival{b, i, p, kind.WireCurator}
		if p.name == "kazoo" {
			m.wire = kind.WireKazoo // its own names: it is not measured under a subclass
		}
		for j, cell := range slices.Concat(m.handedOver(), m.within(), m.refused()) {
			rows[j].cells[i] = cell
		}
	}
	return rows
}

// rival is one library and a Go program that holds what it wants, in names both know.
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

// enough is how many runs it takes to find the cells that the figures make, in these rows.
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

// weighed is the price, and the bytes: those of our waiter do not grow with the queue.
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
		return []string{"–", "–"} // every goroutine brings a connection of its own
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
	asked := func(s charge) []string { // whether a watch stays is known in the end
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
	if os.Getenv("INTEROP_README") == "write" {
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
