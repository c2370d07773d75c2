//go:build linux

package recipes_test

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

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
)

// The soak: so many grants of one mutex, by these programs. A share of a program that is killed is finished by the one
// started in its place.
const (
	soakGo     = 800 // each of three goroutines in two clients
	soakJava   = 800 // each of two processes
	soakPython = 500 // each of two processes
	soakTotal  = 3*soakGo + 2*soakJava + 2*soakPython
	// What the lock waits for after a kill. The others' sessions last longer than a busy machine can make them wait:
	// neither Curator nor kazoo tells a holder in time that it is none any more.
	doomedSession, livingSession = 4 * time.Second, 60 * time.Second
)

// grant is one acknowledged addition to the counter.
type grant struct {
	who   string
	value int64 // of the counter after it
	czxid int64 // of the contender: the fencing token
	node  string
	heir  string // whose name the holder found in the owner node, "-" as a rule
}

// ledger collects what every program acknowledged.
type ledger struct {
	mu      sync.Mutex
	grants  []grant
	by      map[string]int
	waiting map[string]chan struct{} // closed when the program has acknowledged so many
	until   map[string]int
	stopped chan int64 // a counter value written and not acknowledged
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

// after is closed when who has acknowledged n grants.
func (b *ledger) after(who string, n int) <-chan struct{} {
	b.waiting[who], b.until[who] = make(chan struct{}), n
	return b.waiting[who]
}

// books enters what a process says unasked.
func (b *ledger) books(who string) func(string) {
	return func(line string) {
		g := grant{who: who}
		if n, _ := fmt.Sscanf(line, "grant %d %d %s %s", &g.value, &g.czxid, &g.node, &g.heir); n == 4 {
			b.enter(g)
			return
		}
		var value int64
		if n, _ := fmt.Sscanf(line, "stopped %d", &value); n == 1 {
			b.stopped <- value
		}
	}
}

// soak lets Go, Java and Python clients take one mutex that guards a counter, kills a Java process in the worst place,
// between its write and its acknowledgement, and a Python process wherever it happens to be, and starts others in
// their place.
func (l *lab) soak(t *testing.T) {
	s := &soak{lab: l, lock: l.provision(t, mutexes.declare(kind.WireCurator)), owner: "/soak-owner", counter: "/soak-counter",
		ledger: ledger{by: map[string]int{}, waiting: map[string]chan struct{}{}, until: map[string]int{}, stopped: make(chan int64, 1)}}
	l.create(t, s.owner, []byte{}) // nil would be no data at all, which the others tell from empty data
	l.create(t, s.counter, []byte("0"))
	pythonEnd := s.after("python-1", 100+rand.IntN(200))
	java1, python1 := l.startJava(t, "java-1", doomedSession, s.books("java-1")), l.startPython(t, "python-1", doomedSession, s.books("python-1"))
	java2, python2 := l.startJava(t, "java-2", livingSession, s.books("java-2")), l.startPython(t, "python-2", livingSession, s.books("python-2"))

	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	begin := time.Now()
	done := make(chan error, 8)
	go func() { done <- s.peer(ctx, java2, "mutex", soakJava) }()
	go func() { done <- s.peer(ctx, python2, "curator-lock", soakPython) }()
	a, b := l.goClient(t, "go-1", nil), l.goClient(t, "go-2", nil)
	for _, c := range []*recipes.Client{a, a, b} {
		go func() { done <- s.ours(ctx, c, soakGo) }()
	}
	go func() { s.doomed(done, s.peer(ctx, java1, "mutex", soakJava, "stop=250")) }()
	go func() { s.doomed(done, s.peer(ctx, python1, "curator-lock", soakPython)) }()

	killed := map[string]bool{}
	lost := int64(0)
	for left := 7; left > 0; {
		select {
		case lost = <-s.stopped:
			java1.kill()
			killed["java-1"] = true
			heir := l.startJava(t, "java-3", livingSession, s.books("java-3"))
			go func() { done <- s.peer(ctx, heir, "mutex", soakJava-s.of("java-1")) }()
		case <-pythonEnd:
			pythonEnd = nil
			python1.kill()
			killed["python-1"] = true
			heir := l.startPython(t, "python-3", livingSession, s.books("python-3"))
			go func() { done <- s.peer(ctx, heir, "curator-lock", soakPython-s.of("python-1")) }()
		case err := <-done:
			require.NoError(t, err)
			left--
		}
	}
	s.settle(t, killed, lost, time.Since(begin))
}

type soak struct {
	*lab
	ledger
	lock, owner, counter string
}

// peer runs the soak of a process to its end.
func (s *soak) peer(ctx context.Context, p *peer, recipe string, grants int, options ...string) error {
	if _, err := p.call(ctx, "open", "soak", recipe, s.lock); err != nil {
		return err
	}
	_, err := p.call(ctx, append([]string{"soak", "soak", s.owner, s.counter, fmt.Sprint(grants)}, options...)...)
	return err
}

// doomed passes on the error of a process that is to be killed, unless that is what ended it.
func (s *soak) doomed(done chan<- error, err error) {
	if !errors.Is(err, errPeerEnded) {
		done <- fmt.Errorf("this process was to be killed: %w", err)
	}
}

// ours does in Go what Soak.java and soak.py do.
func (s *soak) ours(ctx context.Context, c *recipes.Client, grants int) error {
	m := c.Mutex(s.lock)
	zk, err := c.Session(ctx)
	if err != nil {
		return err
	}
	for range grants {
		if err := m.Do(ctx, func(ctx context.Context, l *recipes.Lease) error { return s.hold(ctx, zk, l) }); err != nil {
			return err
		}
	}
	return nil
}

func (s *soak) hold(ctx context.Context, zk *recipes.Session, l *recipes.Lease) error {
	g := grant{who: "go", czxid: int64(l.Token()), node: l.Node(), heir: "-"}
	before, _, err := zk.Get(ctx, s.owner)
	if err != nil {
		return err
	}
	if len(before) > 0 {
		var node string
		_, _ = fmt.Sscan(string(before), &g.heir, &node)
		if stat, err := zk.Exists(ctx, node); err != nil || stat != nil {
			return fmt.Errorf("overlap: %s still holds (%v)", before, err)
		}
	}
	mine, err := zk.Set(ctx, s.owner, []byte("go "+g.node), -1)
	if err != nil {
		return err
	}
	old, _, err := zk.Get(ctx, s.counter)
	if err != nil {
		return err
	}
	if _, err := fmt.Sscan(string(old), &g.value); err != nil {
		return err
	}
	g.value++
	if _, err := zk.Set(ctx, s.counter, fmt.Append(nil, g.value), -1); err != nil {
		return err
	}
	s.enter(g)
	if _, err := zk.Set(ctx, s.owner, []byte{}, mine.Version); err != nil {
		return fmt.Errorf("overlap: somebody entered while %s held: %w", g.node, err)
	}
	return nil
}

// settle compares the books with the counter. A killed holder may have added one that nobody acknowledged: that is
// allowed exactly where the next holder found its name in the owner node, and nowhere else.
func (s *soak) settle(t *testing.T, killed map[string]bool, lost int64, took time.Duration) {
	grants := slices.SortedFunc(slices.Values(s.grants), func(a, b grant) int { return int(a.value - b.value) })
	require.Len(t, grants, soakTotal)
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
	unacknowledged := next - 1 - soakTotal
	require.Equal(t, fmt.Sprint(next-1), string(data), "the counter is what the books say")
	require.Contains(t, heirs, "java-1", "it was killed while it held")
	require.NotContains(t, valuesOf(grants), lost, "its last addition was never acknowledged")
	data, _, err = s.admin.Get(s.owner)
	require.NoError(t, err)
	require.Empty(t, data)
	s.awaitContenders(t, s.lock, 0)
	t.Logf("%d grants in %v (%.0f a second), %v, %d changes of language, killed %v, of them while holding %v, "+
		"counter %d = grants + %d unacknowledged of the killed, no overlap, order by sequence and by token",
		soakTotal, took.Round(time.Millisecond), soakTotal/took.Seconds(), byLanguage, handOvers, killed, heirs, next-1, unacknowledged)
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
