package recipes_test

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/internal/harness"
	"github.com/locktree/locktree/recipes/internal/seam"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
)

var openACL = zk.WorldACL(zk.PermAll)

// oneWay is the latency of the laboratory's network in each direction.
const oneWay = 20 * time.Millisecond

// lab is an in-memory ZooKeeper and its clients in one bubble of fake time.
type lab struct {
	t     *testing.T
	srv   *zktest.Server
	seams seam.Seams // of the clients made from now on

	clients []*recipes.Client
}

// inLab runs f in a bubble, against a server 20 ms away.
func inLab(t *testing.T, f func(t *testing.T, l *lab)) {
	harness.Bubble(t, func(t *testing.T) {
		f(t, &lab{t: t, srv: zktest.Start(t, zktest.WithLatency(oneWay))})
	})
}

// declare provisions a node.
func (l *lab) declare(path string, p kind.Params, change ...func(*kind.Payload)) {
	l.t.Helper()
	payload := &kind.Payload{Params: p, Owner: kind.Owner{Stack: "test", Addr: "x"}}
	for _, c := range change {
		c(payload)
	}
	require.NoError(l.t, l.srv.Provision(path, payload))
}

// client dials; its session timeout is 12 s, which is six ticks.
func (l *lab) client(id string, change ...func(*recipes.Config)) *recipes.Client {
	l.t.Helper()
	cfg := recipes.Config{Servers: []string{"zk"}, Dialer: l.srv.DialContext, SessionTimeout: 12 * time.Second, ID: id}
	for _, c := range change {
		c(&cfg)
	}
	c, err := recipes.Dial(seam.With(l.t.Context(), l.seams), cfg)
	require.NoError(l.t, err)
	l.t.Cleanup(func() { _ = c.Close() })
	l.clients = append(l.clients, c)
	return c
}

// children lists a node by the server's own hand.
func (l *lab) children(path string) []string {
	l.t.Helper()
	n, ok := l.srv.Get(path)
	require.True(l.t, ok, "no node %s", path)
	return n.Children
}

// changes counts what was created and deleted below a node, ever.
func (l *lab) changes(path string) int32 {
	l.t.Helper()
	n, ok := l.srv.Get(path)
	require.True(l.t, ok, "no node %s", path)
	return n.Stat.Cversion
}

// session is the id of the client's live session.
func (l *lab) session(c *recipes.Client) int64 {
	l.t.Helper()
	s, err := c.Session(l.t.Context())
	require.NoError(l.t, err)
	return s.ID()
}

// mutex declares a mutex at /m.
func (l *lab) mutex() string {
	l.declare("/m", kind.Mutex.New())
	return "/m"
}

// async runs f and returns its result's channel.
func async[T any](f func() (T, error)) <-chan result[T] {
	ch := make(chan result[T], 1)
	go func() {
		v, err := f()
		ch <- result[T]{v, err, time.Now()}
	}()
	return ch
}

type result[T any] struct {
	v   T
	err error
	at  time.Time
}

// locking starts Lock and waits until it is stuck in the queue (or has its answer).
func (l *lab) locking(m *recipes.Mutex) <-chan result[*recipes.Lease] {
	ch := async(func() (*recipes.Lease, error) { return m.Lock(context.Background()) })
	l.settle()
	return ch
}

// settle lets the network deliver everything that is under way.
func (l *lab) settle() {
	time.Sleep(20 * oneWay)
	synctest.Wait()
}

// unlock gives a lease back and requires success.
func (l *lab) unlock(x *recipes.Lease) {
	l.t.Helper()
	require.NoError(l.t, x.Unlock(l.t.Context()))
}

// notYet requires that a result has not come yet.
func notYet[T any](t *testing.T, ch <-chan result[T], why string) {
	t.Helper()
	synctest.Wait()
	select {
	case r := <-ch:
		require.Failf(t, "came too early", "%s: %v, %v", why, r.v, r.err)
	default:
	}
}

// foreign puts a contender of another client into a queue: a node no session owns, which the test removes.
func (l *lab) foreign(dir, name, data string) string {
	l.t.Helper()
	path := kind.JoinPath(dir, name)
	require.NoError(l.t, l.srv.Create(path, []byte(data)))
	return strings.TrimSuffix(path, "/")
}

// queue lists the contenders in a node as paths, in their order.
func (l *lab) queue(dir string) []string {
	l.t.Helper()
	line, _ := kind.SortContenders(l.children(dir))
	paths := make([]string, len(line))
	for i, c := range line {
		paths[i] = kind.JoinPath(dir, c.Name)
	}
	return paths
}

// goroutines counts those of this bubble. runtime.NumGoroutine counts others, too: one that runs finalizers, or has just returned.
func (l *lab) goroutines() int {
	l.t.Helper()
	buf := make([]byte, 16<<20)
	stacks := string(buf[:runtime.Stack(buf, true)])
	header, _, _ := strings.Cut(stacks, "\n") // of this goroutine
	_, bubble, ok := strings.Cut(header, "synctest bubble ")
	require.True(l.t, ok, header)
	return strings.Count(stacks, "synctest bubble "+bubble)
}

// requests are those that the servers got since the counts were reset.
func (l *lab) requests() map[string]int {
	counts := l.srv.Counts().ByOp
	l.srv.ResetCounts()
	delete(counts, "ping")
	return counts
}

// noneLeft waits a little, and requires that nothing of the lock is left, there or here.
func (l *lab) noneLeft(m *recipes.Mutex) {
	l.t.Helper()
	l.settle()
	require.Empty(l.t, l.children(m.Path()))
	require.Empty(l.t, m.Client().Leftovers())
}
