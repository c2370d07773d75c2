//go:build linux

package interop_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/internal/hostile"
	"github.com/locktree/locktree/recipes/kind"
)

func TestInterop(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	for _, g := range grids {
		t.Run(g.recipe, func(t *testing.T) { l.matrix(t, g) })
	}
	t.Run("semaphore", l.semaphores)
	t.Run("order", l.order)
	t.Run("multilock", l.together)
	t.Run("leaver", l.leavers)
	t.Run("seen", l.seen)
	t.Run("blamed", l.blamed)
	t.Run("keys", l.keys)
	t.Run("adopted", l.adopted)
	t.Run("revocation", l.revocations)
	t.Run("downgrade", l.downgrades)
	t.Run("access", l.access)
	t.Run("killed", l.killed)
}

func (l *realLab) matrix(t *testing.T, g grid) {
	g.check(t)
	for i, holder := range g.parties {
		t.Run("holder="+holder.name, func(t *testing.T) {
			for j, waiter := range g.parties {
				if v := g.verdict(i, j); v != untried {
					t.Run("waiter="+waiter.name, func(t *testing.T) {
						path := l.provision(t, g.declare(wireOf(holder, waiter)))
						l.meet(t, path, holder.enter(t, l, path), waiter.enter(t, l, path), v)
					})
				}
			}
		})
	}
}

// meet lets one program hold and another one ask, and checks the verdict.
func (l *realLab) meet(t *testing.T, path string, h, w *entry, v verdict) {
	ctx := hostile.Within(t, hostile.Patience)
	require.NoError(t, h.acquire(ctx))
	held := l.awaitContenders(t, path, 1)[0]
	if w.try != nil {
		err := w.try(ctx)
		if v == blocks {
			require.True(t, isHeld(err), "a try while somebody holds: %v", err)
		} else {
			require.NoError(t, err)
			require.NoError(t, w.release(ctx))
		}
	}
	granted := l.request(ctx, w)
	if v == blocks {
		// The server knows that the waiter watches the holder's contender, so the waiter has decided to wait. And the test has read
		// what the program said up to then.
		l.awaitWatch(t, w.session, kind.JoinPath(path, held))
		stillWaits(t, ctx, w, granted)
		line := l.awaitContenders(t, path, 2)
		require.Equal(t, held, line[0])
		require.NoError(t, h.release(ctx))
		require.NoError(t, <-granted, "after the holder's release")
		require.Equal(t, line[1:], l.contenders(t, path), "granted with the contender that was seen to wait")
	} else {
		require.NoError(t, <-granted)
		require.Contains(t, l.contenders(t, path), held, "the holder holds on")
		if h.lease != nil {
			require.NoError(t, h.lease.Verify(ctx))
		}
		require.NoError(t, h.release(ctx))
	}
	require.NoError(t, w.release(ctx))
	l.awaitContenders(t, path, 0)
}

// order proves that programs of all three languages are served in the order of their sequence numbers.
func (l *realLab) order(t *testing.T) {
	goM, javaM, pythonM := mutexes.parties[0], mutexes.parties[1], mutexes.parties[2]
	t.Run("mutex", func(t *testing.T) {
		l.queue(t, l.provision(t, mutexes.declare(kind.WireCurator)), []party{goM, javaM, pythonM, javaM, goM, goM, pythonM, pythonM, javaM, javaM, goM},
			[]int{0}, []int{1}, []int{2}, []int{3}, []int{4}, []int{5}, []int{6}, []int{7}, []int{8}, []int{9}, []int{10})
	})
	goK, kazoo, goZK := mutexes.parties[4], mutexes.parties[5], mutexes.parties[3]
	t.Run("mutex of kazoo's wire", func(t *testing.T) {
		l.queue(t, l.provision(t, mutexes.declare(kind.WireKazoo)), []party{kazoo, goK, goZK, goK, kazoo, kazoo, goK},
			[]int{0}, []int{1}, []int{2}, []int{3}, []int{4}, []int{5}, []int{6})
	})
	r, w := func(i int) party { return rwlocks.parties[2*i] }, func(i int) party { return rwlocks.parties[2*i+1] }
	t.Run("readers do not pass writers", func(t *testing.T) {
		l.queue(t, l.provision(t, rwlocks.declare(kind.WireCurator)),
			[]party{w(0), r(1), r(2), w(0), r(0), w(1), w(2), r(2), r(0), r(1), w(0)},
			[]int{0}, []int{1, 2}, []int{3}, []int{4}, []int{5}, []int{6}, []int{7, 8, 9}, []int{10})
	})
	g, c, k := elections.parties[0], elections.parties[1], elections.parties[2]
	t.Run("election", func(t *testing.T) {
		l.queue(t, l.provision(t, elections.declare(kind.WireCurator)), []party{c, g, k, c, k, g, g, c},
			[]int{0}, []int{1}, []int{2}, []int{3}, []int{4}, []int{5}, []int{6}, []int{7})
	})
}

// queue lets the parties queue up one after the other and leave again. Each of groups holds together, in order: while a group holds, no
// party of a later group does.
func (l *realLab) queue(t *testing.T, path string, parties []party, groups ...[]int) {
	ctx := hostile.Within(t, 2*hostile.Patience)
	type member struct {
		*entry
		node    string
		granted <-chan error
	}
	var line []member
	for i, p := range parties {
		m := member{entry: p.enter(t, l, path)}
		m.granted = l.request(ctx, m.entry)
		children := l.awaitContenders(t, path, i+1)
		m.node = children[i] // the newest: the others were in line before
		line = append(line, m)
	}
	for g, group := range groups {
		for _, i := range group {
			select {
			case err := <-line[i].granted:
				require.NoError(t, err, "%s, place %d", parties[i].name, i)
			case <-time.After(hostile.Patience):
				t.Fatalf("%s at place %d has the lock and does not know", parties[i].name, i)
			}
		}
		for _, later := range groups[g+1:] {
			for _, i := range later {
				stillWaits(t, ctx, line[i].entry, line[i].granted)
			}
		}
		for _, i := range group {
			require.Contains(t, l.contenders(t, path), line[i].node)
			require.NoError(t, line[i].release(ctx))
		}
	}
	l.awaitContenders(t, path, 0)
}

// together puts a multi-lock of ours among programs that each take one of its members.
func (l *realLab) together(t *testing.T) {
	ctx := hostile.Within(t, hostile.Patience)
	a, b, rw := l.provision(t, mutexes.declare(kind.WireCurator)), l.provision(t, mutexes.declare(kind.WireKazoo)), l.provision(t, rwlocks.declare(kind.WireCurator))
	java, kazoo, reader := mutexes.parties[1], mutexes.parties[5], rwlocks.parties[4]
	before := []*entry{java.enter(t, l, a), kazoo.enter(t, l, b), reader.enter(t, l, rw)}
	for _, e := range before {
		require.NoError(t, e.acquire(ctx))
	}
	all := ours("go", "", func(c *recipes.Client, _ string) goLock {
		m := c.MultiLock(c.Mutex(a), c.Mutex(b), c.RWMutex(rw))
		return goLock{m.Lock, m.TryLock}
	}).enter(t, l, "")
	require.True(t, isHeld(all.try(ctx)))
	for _, path := range []string{a, b, rw} {
		l.awaitContenders(t, path, 1) // the nodes of a try are deleted in the background
	}
	granted := l.request(ctx, all)
	after := []*entry{java.enter(t, l, a), kazoo.enter(t, l, b), reader.enter(t, l, rw)}
	later := make([]<-chan error, len(after))
	for i, path := range []string{a, b, rw} {
		l.awaitContenders(t, path, 2)
		later[i] = l.request(ctx, after[i])
		ours := l.awaitContenders(t, path, 3)[1]
		l.awaitWatch(t, after[i].session, kind.JoinPath(path, ours))
	}
	for i, e := range before {
		stillWaits(t, ctx, all, granted)
		stillWaits(t, ctx, after[i], later[i])
		require.NoError(t, e.release(ctx))
	}
	require.NoError(t, <-granted)
	for i, e := range after {
		stillWaits(t, ctx, e, later[i])
	}
	require.NoError(t, all.release(ctx))
	for i, e := range after {
		require.NoError(t, <-later[i])
		require.NoError(t, e.release(ctx))
	}
}

// verdict is what happens to a waiter while a holder holds.
type verdict string

const (
	blocks  verdict = "blocks"  // it waits, and gets the lock when the holder gives it back
	shares  verdict = "shares"  // it is admitted beside the holder, rightly
	ignores verdict = "ignores" // it is admitted beside the holder, wrongly: neither sees the other's contenders
	untried verdict = ""        // they cannot meet, or are not tested
)

// grid is a matrix: who holds, who waits, what must happen.
type grid struct {
	recipe  string
	declare func(string) kind.Params
	parties []party
	cells   string // holders down, waiters across, in the order of parties: B, S, I or - for the verdicts
}

// grids are the matrices of recipes with one queue. The semaphore, which has two, has tests of its own.
var grids = []grid{mutexes, rwlocks, elections}

func (g grid) verdict(holder, waiter int) verdict {
	rows := strings.Split(strings.TrimSpace(g.cells), "\n")
	cell := strings.Fields(rows[holder+1])[waiter+1]
	return map[string]verdict{"B": blocks, "S": shares, "I": ignores, "-": untried}[cell]
}

// check requires that cells names the parties in their order.
func (g grid) check(t *testing.T) {
	rows := strings.Split(strings.TrimSpace(g.cells), "\n")
	require.Len(t, rows, len(g.parties)+1)
	for i, p := range g.parties {
		require.Equal(t, p.name, strings.Fields(rows[0])[i], "column %d", i)
		require.Equal(t, p.name, strings.Fields(rows[i+1])[0], "row %d", i)
		require.Len(t, strings.Fields(rows[i+1]), len(g.parties)+1)
	}
}

// wireOf returns the wire format to declare for some programs: that of a Go program among them.
func wireOf(parties ...party) string {
	for _, p := range parties {
		if p.wire != "" {
			return p.wire
		}
	}
	return kind.WireCurator
}

// mutexes is the matrix of one queue with one holder. A stock kazoo client works only where the lock is declared with wire = "kazoo". It
// does not see Curator, and Curator does not see it. The I cells record this, and show that these tests can tell exclusion from its
// absence. ZooKeeper's WriteLock counts every name that has a dash before its number.
var mutexes = grid{
	recipe:  "mutex",
	declare: func(w string) kind.Params { return &kind.MutexParams{Common: kind.Common{Wire: w}} },
	parties: []party{
		ours("go", kind.WireCurator, goMutex),
		foreign("curator", java, "mutex"),
		foreign("kazoo-subclass", python, "curator-lock"),
		{name: "go-zookeeper", enter: goZookeeper},
		ours("go-kazoo-wire", kind.WireKazoo, goMutex),
		foreign("kazoo", python, "lock"),
		foreign("kazoo-patterns", python, "patterned"),
		withoutTry(foreign("writelock", java, "writelock")),
	},
	cells: `
	                 go   curator   kazoo-subclass   go-zookeeper   go-kazoo-wire   kazoo   kazoo-patterns   writelock
	go               B    B         B                B              -               I       B                B
	curator          B    B         B                B              B               I       B                B
	kazoo-subclass   B    B         B                B              B               I       B                B
	go-zookeeper     B    B         B                B              B               I       B                B
	go-kazoo-wire    -    I         I                B              B               B       B                I
	kazoo            B    I         I                B              B               B       B                I
	kazoo-patterns   B    I         I                B              B               B       B                I
	writelock        B    I         I                -              B               I       I                -
	`,
}

// rwlocks is the matrix of readers and writers. Readers of both naming schemes share by chance where the rest of their row ignores.
var rwlocks = grid{
	recipe:  "rwlock",
	declare: func(w string) kind.Params { return &kind.RWLockParams{Common: kind.Common{Wire: w}} },
	parties: []party{
		ours("go-reader", kind.WireCurator, goRead),
		ours("go-writer", kind.WireCurator, goWrite),
		foreign("curator-reader", java, "read"),
		foreign("curator-writer", java, "write"),
		foreign("subclass-reader", python, "curator-read"),
		foreign("subclass-writer", python, "curator-write"),
		ours("gokazoo-reader", kind.WireKazoo, goRead),
		ours("gokazoo-writer", kind.WireKazoo, goWrite),
		foreign("kazoo-reader", python, "read"),
		foreign("kazoo-writer", python, "write"),
	},
	cells: `
	                  go-reader   go-writer   curator-reader   curator-writer   subclass-reader   subclass-writer   gokazoo-reader   gokazoo-writer   kazoo-reader   kazoo-writer
	go-reader         S           B           S                B                S                 B                 -                -                S              I
	go-writer         B           B           B                B                B                 B                 -                -                I              I
	curator-reader    S           B           S                B                S                 B                 S                B                S              I
	curator-writer    B           B           B                B                B                 B                 B                B                I              I
	subclass-reader   S           B           S                B                S                 B                 S                B                S              I
	subclass-writer   B           B           B                B                B                 B                 B                B                I              I
	gokazoo-reader    -           -           S                I                S                 I                 S                B                S              B
	gokazoo-writer    -           -           I                I                I                 I                 B                B                B              B
	kazoo-reader      S           B           S                I                S                 I                 S                B                S              B
	kazoo-writer      B           B           I                I                I                 I                 B                B                B              B
	`,
}

// elections is the matrix of leaders and candidates.
var elections = grid{
	recipe:  "election",
	declare: func(w string) kind.Params { return &kind.ElectionParams{Common: kind.Common{Wire: w}} },
	parties: []party{
		ours("go", kind.WireCurator, goElection),
		withoutTry(foreign("curator", java, "latch")),
		withoutTry(foreign("kazoo-subclass", python, "curator-election")),
		ours("go-kazoo-wire", kind.WireKazoo, goElection),
		withoutTry(foreign("kazoo", python, "election")),
	},
	cells: `
	                 go   curator   kazoo-subclass   go-kazoo-wire   kazoo
	go               B    B         B                -               I
	curator          B    B         B                B               I
	kazoo-subclass   B    B         B                B               I
	go-kazoo-wire    -    I         I                B               B
	kazoo            B    I         I                B               B
	`,
}

// TestInteropReadmeShowsTheMatrix checks that testdata/interop/README.md says what the tests prove. With GOLDEN=1 it writes the
// tables instead.
func TestInteropReadmeShowsTheMatrix(t *testing.T) {
	interopReadme(t, func(text string) string {
		for _, g := range grids {
			g.check(t)
			text = inBlock(t, text, g.recipe, g.markdown())
		}
		return text
	})
}

// The page for Python teams shows classes that the tests use.
func TestImportShowsTheClassesThatAreTested(t *testing.T) {
	python, err := os.ReadFile("../../../testdata/interop/python/curator_locks.py")
	require.NoError(t, err)
	page, err := os.ReadFile("../../../docs/import.md")
	require.NoError(t, err)
	shown := 0
	for class := range strings.SplitSeq(string(page), "```python\n") {
		if code, _, ok := strings.Cut(class, "```"); ok && strings.HasPrefix(code, "class ") {
			shown++
			for line := range strings.Lines(code) {
				require.Contains(t, string(python), line, "the classes shown are not the classes tested")
			}
		}
	}
	require.Equal(t, 3, shown)
}

// interopReadme compares the page with the text that it should have, or writes it.
func interopReadme(t *testing.T, should func(string) string) {
	const name = interop + "/README.md"
	file, err := os.ReadFile(name)
	require.NoError(t, err)
	text := should(string(file))
	if os.Getenv("GOLDEN") != "" {
		require.NoError(t, os.WriteFile(name, []byte(text), 0o644))
		return
	}
	require.Equal(t, text, string(file), "run this test with GOLDEN=1")
}

// inBlock returns the page with the table in its place.
func inBlock(t *testing.T, text, block, table string) string {
	before, rest, found := strings.Cut(text, fmt.Sprintf("<!-- %s -->\n", block))
	_, after, closed := strings.Cut(rest, fmt.Sprintf("<!-- end of %s -->", block))
	require.True(t, found && closed, "the page has no place for the table of %s", block)
	return before + fmt.Sprintf("<!-- %s -->\n", block) + table + fmt.Sprintf("<!-- end of %s -->", block) + after
}

// markdown draws the grid: rows hold, columns wait.
func (g grid) markdown() string {
	var b strings.Builder
	b.WriteString("| holder ↓ waiter → |")
	for _, p := range g.parties {
		b.WriteString(" " + p.name + " |")
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(g.parties)) + "\n")
	for i, holder := range g.parties {
		b.WriteString("| **" + holder.name + "** |")
		for j := range g.parties {
			b.WriteString(" " + map[verdict]string{blocks: "blocks", shares: "shares", ignores: "✗ ignores", untried: "–"}[g.verdict(i, j)] + " |")
		}
		b.WriteString("\n")
	}
	return b.String()
}

// permits is the size of the semaphores here.
const permits = 2

// semaphores is the matrix of the semaphore. A test can watch other queues from outside, but not this one. The first waiter waits for any
// change of the leases, and the server does not list watches on children. So the programs say themselves that they wait: the Java thread is
// in Curator's wait loop, and the Go library has told its Observer.
func (l *realLab) semaphores(t *testing.T) {
	for i, a := range semaphoreParties(1) {
		for _, b := range semaphoreParties(1) {
			for j, w := range semaphoreParties(1) {
				t.Run(fmt.Sprintf("holders=%s+%s,waiter=%s", a.name, b.name, w.name), func(t *testing.T) { l.oneOfTwo(t, a, b, w) })
				t.Run(fmt.Sprintf("holder=%s,next=%s,wantsBoth=%s", a.name, b.name, w.name), func(t *testing.T) {
					l.bothOfTwo(t, semaphoreParties(1)[i], b, semaphoreParties(permits)[j])
				})
			}
		}
	}
	t.Run("Curator takes one by one", l.oneByOne)
}

// semaphoreParties take n permits with each acquisition.
func semaphoreParties(n int) []party {
	return []party{
		ours("go", kind.WireCurator, goSemaphore(n)),
		foreign("curator", java, "semaphore", fmt.Sprint(permits), fmt.Sprint(n)),
	}
}

func semaphoreOf(permits int) kind.Params {
	return &kind.SemaphoreParams{Permits: permits}
}

// oneOfTwo lets two programs hold a permit each at the same time. A third waits until one of them leaves, while the other stays.
func (l *realLab) oneOfTwo(t *testing.T, first, second, third party) {
	ctx := hostile.Within(t, hostile.Patience)
	path := l.provision(t, semaphoreOf(permits))
	leases := path + "/leases"
	a, b, w := first.enter(t, l, path), second.enter(t, l, path), third.enter(t, l, path)

	require.NoError(t, a.acquire(ctx))
	require.NoError(t, b.acquire(ctx), "the second permit is free")
	held := l.contenders(t, leases)
	require.Len(t, held, permits)
	require.True(t, isHeld(w.try(ctx)), "a try for a third permit of two")

	granted := l.request(ctx, w)
	l.stillWaits(t, ctx, w, granted)
	require.Subset(t, l.contenders(t, leases), held)
	require.NoError(t, a.release(ctx))
	require.NoError(t, <-granted, "after one permit came back")
	require.Contains(t, l.contenders(t, leases), held[1], "the other holder holds on")

	require.True(t, isHeld(a.try(ctx)), "both permits are taken again")
	require.NoError(t, b.release(ctx))
	require.NoError(t, w.release(ctx))
	l.awaitContenders(t, leases, 0)
	l.awaitContenders(t, path+"/locks", 0)
}

// bothOfTwo lets a program that wants both permits wait while one is taken. It gets both once that one is back. Then another program that
// wants a permit has to wait.
func (l *realLab) bothOfTwo(t *testing.T, first, next, both party) {
	ctx := hostile.Within(t, hostile.Patience)
	path := l.provision(t, semaphoreOf(permits))
	leases := path + "/leases"
	a, n, w := first.enter(t, l, path), next.enter(t, l, path), both.enter(t, l, path)

	require.NoError(t, a.acquire(ctx))
	granted := l.request(ctx, w)
	l.stillWaits(t, ctx, w, granted)
	require.NoError(t, a.release(ctx))
	require.NoError(t, <-granted)
	require.Len(t, l.contenders(t, leases), permits)

	last := l.request(ctx, n)
	l.stillWaits(t, ctx, n, last)
	require.NoError(t, w.release(ctx))
	require.NoError(t, <-last)
	require.Len(t, l.awaitContenders(t, leases, 1), 1)
	require.NoError(t, n.release(ctx))
	l.awaitContenders(t, leases, 0)
	l.awaitContenders(t, path+"/locks", 0)
}

// request lets a program acquire, and returns a channel for the outcome.
func (l *realLab) request(ctx context.Context, e *entry) <-chan error {
	granted := make(chan error, 1)
	go func() { granted <- e.acquire(ctx) }()
	return granted
}

// stillWaits returns once the program has decided to wait. It fails if the program was granted, or failed, before that.
func (l *realLab) stillWaits(t *testing.T, ctx context.Context, e *entry, granted <-chan error) {
	t.Helper()
	require.NoError(t, e.waits(ctx))
	stillWaits(t, ctx, e, granted)
}

// stillWaits fails if the program has been granted, or has failed.
func stillWaits(t *testing.T, ctx context.Context, e *entry, granted <-chan error) {
	t.Helper()
	require.NoError(t, e.answers(ctx)) // all that it said before this answer has been read
	select {
	case err := <-granted:
		t.Fatalf("it returned (error: %v) while others hold", err)
	default:
	}
}

// oneByOne shows what our side cannot cure: Curator takes several permits one after the other, and queues again for each. So two programs
// that want both permits can wait for each other, after one of them has got one permit. Only the Go program's deadline ends that.
func (l *realLab) oneByOne(t *testing.T) {
	ctx := hostile.Within(t, hostile.Patience)
	path := l.provision(t, semaphoreOf(permits))
	both := semaphoreParties(permits)
	holder, c, g := both[0].enter(t, l, path), both[1].enter(t, l, path), both[0].enter(t, l, path)
	require.NoError(t, holder.acquire(ctx))
	second := l.request(ctx, c)
	require.NoError(t, c.waits(ctx))
	third := l.request(ctx, g)
	place := l.awaitContenders(t, path+"/locks", 2)[1]
	require.NoError(t, holder.release(ctx))
	l.awaitWatch(t, c.session, path+"/locks/"+place) // it has its first permit, and stands behind us for its second
	require.Len(t, l.contenders(t, path+"/leases"), 1)
	l.stillWaits(t, ctx, g, third)
	g.cancel()
	require.ErrorIs(t, <-third, recipes.ErrHeld)
	require.NoError(t, <-second)
	require.Len(t, l.contenders(t, path+"/leases"), permits)
	require.NoError(t, c.release(ctx))
	l.awaitContenders(t, path+"/leases", 0)
	l.awaitContenders(t, path+"/locks", 0)
}
