//go:build linux

package interop_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes/internal/hostile"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest/effort"
)

// The soak is these numbers of grants of one mutex, by these programs. If a program is killed, the one started in its place finishes its
// share.
const (
	soakGo     = 600 // each of two goroutines of one process, and of two more processes
	soakJava   = 800 // each of two processes
	soakPython = 500 // each of two processes
	soakTotal  = 4*soakGo + 2*soakJava + 2*soakPython
	// After a kill, the lock waits for doomedSession. The other timeout, livingSession, is longer than any wait on a busy machine. It must
	// be: neither Curator nor kazoo tells a holder in time that it has lost the lock.
	doomedSession, livingSession = 20 * time.Second, 60 * time.Second
)

// grant is one acknowledged addition to the counter.
type grant struct {
	who   string
	value int64 // of the counter after it
	czxid int64 // of the contender: the fencing token
	node  string
	heir  string // the name that the holder found in the owner node, "-" as a rule
}

// stop is a counter value that was written and not acknowledged.
type stop struct {
	who   string
	value int64
}

// ledger collects what every program acknowledged.
type ledger struct {
	mu      sync.Mutex
	grants  []grant
	by      map[string]int
	waiting map[string]chan struct{} // closed when the program has acknowledged so many
	until   map[string]int
	stopped chan stop
}

func (b *ledger) enter(g grant) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.grants = append(b.grants, g)
	b.by[g.who]++
	if b.by[g.who] == b.until[g.who] {
		close(b.waiting[g.who])
	}
}

func (b *ledger) of(who string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.by[who]
}

// after returns a channel that is closed when who has acknowledged n grants.
func (b *ledger) after(who string, n int) <-chan struct{} {
	b.waiting[who], b.until[who] = make(chan struct{}), n
	return b.waiting[who]
}

// books returns a function that enters what a process says unasked.
func (b *ledger) books(who string) func(string) {
	return func(line string) {
		g := grant{who: who}
		if n, _ := fmt.Sscanf(line, "grant %d %d %s %s", &g.value, &g.czxid, &g.node, &g.heir); n == 4 {
			b.enter(g)
			return
		}
		var value int64
		if n, _ := fmt.Sscanf(line, "stopped %d", &value); n == 1 {
			b.stopped <- stop{who, value}
		}
	}
}

// Go, Java and Python programs take one mutex that guards a counter. A Java and a Go process are killed in the worst place, between the
// write and its acknowledgement. A Python process is killed wherever it happens to be. Others are started in their place.
func TestInteropSoak(t *testing.T) {
	effort.Proof(t, effort.Raced)
	t.Parallel()
	l := newLab(t)
	l.build(t)
	s := &soak{realLab: l, lock: l.provision(t, mutexes.declare(kind.WireCurator)), owner: "/soak-owner", counter: "/soak-counter",
		ledger: ledger{by: map[string]int{}, waiting: map[string]chan struct{}{}, until: map[string]int{}, stopped: make(chan stop, 2)}}
	l.create(t, s.owner, []byte{}) // nil would be no data at all, and the others tell that from empty data
	l.create(t, s.counter, []byte("0"))
	pythonEnd := s.after("python-1", 100+rand.IntN(200))
	start := func(in func(*testing.T, string, time.Duration, func(string)) *peer, id string, session time.Duration) *peer {
		return in(t, id, session, s.books(id))
	}
	java1, python1, go1 := start(l.startJava, "java-1", doomedSession), start(l.startPython, "python-1", doomedSession), start(l.startGo, "go-1", doomedSession)
	java2, python2, go2, go3 := start(l.startJava, "java-2", livingSession), start(l.startPython, "python-2", livingSession),
		start(l.startGo, "go-2", livingSession), start(l.startGo, "go-3", livingSession)

	ctx := hostile.Within(t, 3*hostile.Patience)
	begin := time.Now()
	done := make(chan error, 16)
	living := func(p *peer, handle, recipe string, grants int) {
		go func() { done <- s.peer(ctx, p, handle, recipe, grants) }()
	}
	doomed := func(p *peer, recipe string, grants int, options ...string) {
		go func() { s.doomed(done, s.peer(ctx, p, "soak", recipe, grants, options...)) }()
	}
	living(java2, "soak", "mutex", soakJava)
	living(python2, "soak", "curator-lock", soakPython)
	living(go2, "one", "mutex", soakGo)
	living(go2, "two", "mutex", soakGo) // they take turns in the process
	living(go3, "soak", "mutex", soakGo)
	doomed(java1, "mutex", soakJava, "stop=250")
	doomed(go1, "mutex", soakGo, "stop=200")
	doomed(python1, "curator-lock", 100*soakPython) // it has not finished when we come to kill it

	killed, lost := map[string]bool{}, map[string]int64{}
	kill := func(p *peer) {
		p.kill()
		killed[p.name] = true
	}
	for left := 8; left > 0; {
		select {
		case at := <-s.stopped:
			lost[at.who] = at.value
			if at.who == java1.name {
				kill(java1)
				living(start(l.startJava, "java-3", livingSession), "soak", "mutex", soakJava-s.of("java-1"))
			} else {
				kill(go1)
				living(start(l.startGo, "go-4", livingSession), "soak", "mutex", soakGo-s.of("go-1"))
			}
		case <-pythonEnd:
			pythonEnd = nil
			kill(python1)
			living(start(l.startPython, "python-3", livingSession), "soak", "curator-lock", max(0, soakPython-s.of("python-1")))
		case err := <-done:
			require.NoError(t, err)
			left--
		}
	}
	s.settle(t, killed, lost, time.Since(begin))
}

type soak struct {
	*realLab
	ledger
	lock, owner, counter string
}

// peer runs the soak of a process, or of one handle in it, to its end.
func (s *soak) peer(ctx context.Context, p *peer, handle, recipe string, grants int, options ...string) error {
	if _, err := p.call(ctx, "open", handle, recipe, s.lock); err != nil {
		return err
	}
	_, err := p.call(ctx, append([]string{"soak", handle, s.owner, s.counter, fmt.Sprint(grants)}, options...)...)
	return err
}

// doomed passes on the error of a process that is to be killed, unless the kill ended it.
func (s *soak) doomed(done chan<- error, err error) {
	if !errors.Is(err, errPeerEnded) {
		done <- fmt.Errorf("this process was to be killed: %w", err)
	}
}

// settle compares the books with the counter. A killed holder may have added one without an acknowledgement, but only if the next
// holder found its name in the owner node.
func (s *soak) settle(t *testing.T, killed map[string]bool, lost map[string]int64, took time.Duration) {
	grants := slices.SortedFunc(slices.Values(s.grants), func(a, b grant) int { return int(a.value - b.value) })
	total := soakTotal + max(0, s.by["python-1"]-soakPython) // it may have lived longer than planned
	require.Len(t, grants, total)
	byLanguage, handOvers, heirs := map[string]int{}, 0, []string{}
	next := int64(1)
	for i, g := range grants {
		language, _, _ := strings.Cut(g.who, "-")
		byLanguage[language]++
		if g.heir != "-" {
			require.True(t, killed[g.heir], "grant %d found %s in the owner node, who was not killed", g.value, g.heir)
			require.NotContains(t, heirs, g.heir, "a program dies once")
			heirs = append(heirs, g.heir)
			if g.value == next+1 {
				next++ // the dead one's addition
			}
		}
		require.Equal(t, next, g.value, "counter value %d was written twice, or by nobody", next)
		next++
		if i > 0 {
			before := grants[i-1]
			require.Greater(t, g.czxid, before.czxid, "tokens rise: %+v after %+v", g, before)
			require.Greater(t, sequenceOf(t, g.node), sequenceOf(t, before.node), "granted by sequence: %+v after %+v", g, before)
			if was, _, _ := strings.Cut(before.who, "-"); was != language {
				handOvers++
			}
		}
	}
	data, _, err := s.admin.Get(s.counter)
	require.NoError(t, err)
	unacknowledged := next - 1 - int64(total)
	require.Equal(t, fmt.Sprint(next-1), string(data), "the counter is what the books say")
	require.Len(t, killed, 3)
	for _, who := range []string{"java-1", "go-1"} {
		require.Contains(t, heirs, who, "it was killed while it held")
		require.NotContains(t, valuesOf(grants), lost[who], "its last addition was never acknowledged")
	}
	data, _, err = s.admin.Get(s.owner)
	require.NoError(t, err)
	require.Empty(t, data)
	s.awaitContenders(t, s.lock, 0)
	t.Logf("%d grants in %v (%.0f a second), %v, %d changes of language, killed %v, of them while holding %v, "+
		"counter %d = grants + %d unacknowledged of the killed, no overlap, order by sequence and by token",
		total, took.Round(time.Millisecond), float64(total)/took.Seconds(), byLanguage, handOvers, killed, heirs, next-1, unacknowledged)
}

func sequenceOf(t *testing.T, node string) int32 {
	c, ok := kind.ParseContender(node[strings.LastIndexByte(node, '/')+1:])
	require.True(t, ok, node)
	return c.Seq
}

func valuesOf(grants []grant) []int64 {
	values := make([]int64, len(grants))
	for i, g := range grants {
		values[i] = g.value
	}
	return values
}
