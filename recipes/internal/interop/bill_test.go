//go:build linux

package interop_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
	"github.com/locktree/locktree/recipes/zktest/realzk"
)

// How the requests of other people's programs are counted: on the in-memory server, over a network of 20 ms in each
// direction, which tells what was waited for from what was sent along.

const (
	billLatency = 20 * time.Millisecond
	billTrip    = 2 * billLatency
	// Of so many runs the cheapest counts: a heartbeat, or a pause of the machine, falls into one and not into all. Both
	// can only make it dearer. So where it is dearer than the page says, there are more of them.
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

// asked is one request, when it left its client: the server reads it at once, and executes it later.
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

// dearest is what anything is cheaper than.
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
	var err error
	b.classes, err = javaProgram()
	require.NoError(t, err)
	b.java = b.startJava(t, "java", livingSession, b.hear)
	b.python = b.startPython(t, "python", livingSession, b.hear)
	return b
}

// measured says whether so many runs are enough for what they say: the cell of a row and a column.
func (b *biller) measured(runs int, row string, column int, cell string) bool {
	return runs >= mostRuns || runs >= billRuns && (b.page == nil || len(b.page[row]) > column && b.page[row][column] == cell)
}

// bill counts what one session asks for from now until f has returned and, where something is left to be asked for or
// done behind f's back, after has.
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
		// What leaves before the first reply can be back goes along with it; what leaves later than a round trip before
		// f returned was not waited for.
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

// await polls the server until its nodes are as they should be, which no client may be asked to wait for.
func (b *biller) await(what string, done func() bool) {
	deadline := time.Now().Add(patience)
	for !done() {
		require.True(b.t, time.Now().Before(deadline), what)
		time.Sleep(pollEvery)
	}
}

// line is the contenders below a lock, whatever its layout.
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

// cycles are some acquisitions and releases of a free lock, after one that is not counted: what each finds and learns.
func (b *biller) cycles(p party, path string, column int, acquireRow, cycleRow string) (acquire, cycle charge) {
	ctx := within(b.t, patience)
	e := p.enter(b.t, b.realLab, path)
	acquire, cycle = dearest, dearest
	for i := 0; !b.measured(i-1, acquireRow, column, acquire.String()) || !b.measured(i-1, cycleRow, column, cycle.String()); i++ {
		a := b.bill(e, func() { require.NoError(b.t, e.acquire(ctx)) }, func() {
			if e.lease != nil {
				e.lease.Token() // a read for it would be part of the price
			}
		})
		r := b.bill(e, func() { require.NoError(b.t, e.release(ctx)) }, func() {
			b.await("a release leaves nothing", func() bool { return len(b.line(path)) == 0 })
		})
		if i > 0 {
			acquire = acquire.cheaper(a)
			cycle = cycle.cheaper(charge{a.requests + r.requests, a.trips + r.trips, a.bytes + r.bytes})
		}
	}
	return acquire, cycle
}

// try is an attempt while somebody holds, from the call to its last trace; and whether a watch on the holder's
// contender stays behind.
func (b *biller) try(p, holder party, path string, enough func(int, charge) bool) (s charge, watching bool) {
	ctx := within(b.t, patience)
	h, e := holder.enter(b.t, b.realLab, path), p.enter(b.t, b.realLab, path)
	require.NoError(b.t, h.acquire(ctx))
	held := len(b.line(path))
	s = dearest
	for i := 0; !enough(i, s); i++ {
		s = s.cheaper(b.bill(e, func() { require.True(b.t, isHeld(e.try(ctx))) }, func() {
			b.await("a try leaves nothing", func() bool { return len(b.line(path)) == held })
		}))
	}
	events := b.srv.SessionCounts(sessionOf(b.t, e)).WatchEvents
	require.NoError(b.t, h.release(ctx))
	require.NoError(b.t, e.answers(ctx)) // an event comes before any later answer
	return s, b.srv.SessionCounts(sessionOf(b.t, e)).WatchEvents > events
}

// behind is how many others stand behind the one who waits.
const behind = 100

// handOff is what a waiter spends between its predecessor's release and its grant.
func (b *biller) handOff(p, holder party, path string, enough func(int, charge) bool) charge {
	ctx := within(b.t, patience)
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

// twins are goroutines, or threads, of one program that want the same lock: what the hand-off between two of them
// costs their session, release included, and how many contenders five of them keep.
func (b *biller) twins(p party, path string, enough func(int, charge) bool) (pass charge, contenders int) {
	ctx := within(b.t, patience)
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
				b.await("it waits", func() bool { return b.waiting(e, path) == i })
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

// waiting is how many wait. Our goroutines wait in the process: one that asks and has no time to wait is told how many
// are ahead of it, and asks no server.
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
