package harness

import (
	"context"
	"fmt"
	"maps"
	"net"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/internal/seam"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest"
)

// OneWay is the latency of a Lab's network in each direction.
const OneWay = 20 * time.Millisecond

// A Lab is an in-memory ZooKeeper and its clients in one bubble of fake time. Its methods fail the test when something goes wrong.
type Lab struct {
	T       *testing.T
	Srv     *zktest.Server
	Seams   seam.Seams // the replacements for the clients made from now on
	Clients []*recipes.Client
}

// NewLab starts a server 20 ms away, unless an option says otherwise. The test must already be in a bubble.
func NewLab(t *testing.T, options ...zktest.Option) *Lab {
	return &Lab{T: t, Srv: zktest.Start(t, append([]zktest.Option{zktest.WithLatency(OneWay)}, options...)...)}
}

// InLab runs f in a Bubble.
func InLab(t *testing.T, f func(t *testing.T, l *Lab), options ...zktest.Option) {
	Bubble(t, func(t *testing.T) { f(t, NewLab(t, options...)) })
}

// Declare provisions a node.
func (l *Lab) Declare(path string, p kind.Params, change ...func(*kind.Payload)) {
	l.T.Helper()
	payload := &kind.Payload{Params: p, Owner: kind.Owner{Stack: "test", Addr: "x"}}
	for _, c := range change {
		c(payload)
	}
	require.NoError(l.T, l.Srv.Provision(path, payload))
}

// Mutex declares a mutex at /m, and returns that path, as the next three methods do.
func (l *Lab) Mutex() string {
	l.Declare("/m", kind.Mutex.New())
	return "/m"
}

// RWLock declares a read-write lock at /rw.
func (l *Lab) RWLock() string {
	l.Declare("/rw", kind.RWLock.New())
	return "/rw"
}

// Semaphore declares a semaphore at /s.
func (l *Lab) Semaphore(permits int) string {
	p := kind.Semaphore.New().(*kind.SemaphoreParams)
	p.Permits = permits
	l.Declare("/s", p)
	return "/s"
}

// Election declares an election at /e.
func (l *Lab) Election() string {
	l.Declare("/e", kind.Election.New())
	return "/e"
}

// EveryKind declares one lock of each of the four kinds that Ways take. The semaphore has three permits.
func (l *Lab) EveryKind() {
	l.Mutex()
	l.RWLock()
	l.Semaphore(3)
	l.Election()
}

// Mutexes declares n mutexes, and returns their paths.
func (l *Lab) Mutexes(n int) []string {
	paths := make([]string, n)
	for i := range paths {
		paths[i] = fmt.Sprintf("/m%d", i)
		l.Declare(paths[i], kind.Mutex.New())
	}
	return paths
}

// Client makes a client; its session timeout is 12 s, which is six ticks.
func (l *Lab) Client(id string, change ...func(*recipes.Config)) *recipes.Client {
	l.T.Helper()
	cfg := recipes.Config{Servers: []string{"zk"}, Dialer: l.Srv.DialContext, SessionTimeout: 12 * time.Second, ID: id}
	for _, c := range change {
		c(&cfg)
	}
	c, err := recipes.Dial(seam.With(l.T.Context(), l.Seams), cfg)
	require.NoError(l.T, err)
	l.T.Cleanup(func() { _ = c.Close() })
	l.Clients = append(l.Clients, c)
	return c
}

// Awake makes a client on a machine that never sleeps. That saves the system calls that find out how long the machine slept.
func (l *Lab) Awake(id string, dial func(context.Context, string, string) (net.Conn, error)) *recipes.Client {
	return l.Asleep(id, dial, func() time.Duration { return 0 })
}

// Asleep makes a client on a machine that has slept for as long as the function slept says. Its session timeout is 40 s.
func (l *Lab) Asleep(id string, dial func(context.Context, string, string) (net.Conn, error), slept func() time.Duration) *recipes.Client {
	ctx := seam.With(l.T.Context(), seam.Seams{Slept: slept})
	c, err := recipes.Dial(ctx, recipes.Config{Servers: []string{"zk"}, Dialer: dial, SessionTimeout: 40 * time.Second, ID: id})
	require.NoError(l.T, err)
	l.T.Cleanup(func() { _ = c.Close() })
	return c
}

// SessionID returns the id of the client's live session.
func (l *Lab) SessionID(c *recipes.Client) int64 {
	l.T.Helper()
	s, err := c.Session(l.T.Context())
	require.NoError(l.T, err)
	return s.ID()
}

// Children lists a node in the server, without a client.
func (l *Lab) Children(path string) []string {
	l.T.Helper()
	n, ok := l.Srv.Get(path)
	require.True(l.T, ok, "no node %s", path)
	return n.Children
}

// Changes counts all creations and deletions of a node's children so far.
func (l *Lab) Changes(path string) int32 {
	l.T.Helper()
	n, ok := l.Srv.Get(path)
	require.True(l.T, ok, "no node %s", path)
	return n.Stat.Cversion
}

// Queue lists the contenders in a node as paths, in their order.
func (l *Lab) Queue(dir string) []string {
	l.T.Helper()
	line, _ := kind.SortContenders(l.Children(dir))
	paths := make([]string, len(line))
	for i, c := range line {
		paths[i] = kind.JoinPath(dir, c.Name)
	}
	return paths
}

// Foreign puts a contender of another client into a queue: a node that no session owns, which the test removes.
func (l *Lab) Foreign(dir, name, data string) string {
	l.T.Helper()
	path := kind.JoinPath(dir, name)
	require.NoError(l.T, l.Srv.Create(path, []byte(data)))
	return strings.TrimSuffix(path, "/")
}

// NothingLeft requires that the queues of EveryKind are empty, once all that is under way has arrived.
func (l *Lab) NothingLeft() {
	l.T.Helper()
	l.Settle()
	l.Empty(Queues...)
}

// Settle lets the network deliver everything that is under way.
func (l *Lab) Settle() {
	time.Sleep(20 * OneWay)
	synctest.Wait()
}

// Lock takes a lock and requires success.
func (l *Lab) Lock(take Take, about ...any) *recipes.Lease {
	l.T.Helper()
	x, err := take(l.T.Context())
	require.NoError(l.T, err, about...)
	return x
}

// Got waits for a call that Waiting began, and requires success.
func (l *Lab) Got(ch <-chan Result[*recipes.Lease], about ...any) *recipes.Lease {
	l.T.Helper()
	r := <-ch
	require.NoError(l.T, r.Err, about...)
	return r.V
}

// Granted is Got, for a test that asks when the call came back.
func (l *Lab) Granted(ch <-chan Result[*recipes.Lease], about ...any) Result[*recipes.Lease] {
	l.T.Helper()
	r := <-ch
	require.NoError(l.T, r.Err, about...)
	return r
}

// Refused tries to take a lock. It requires that the error matches the argument with (errors.Is), and returns the error.
func (l *Lab) Refused(take Take, with error, about ...any) error {
	l.T.Helper()
	_, err := take(l.T.Context())
	require.ErrorIs(l.T, err, with, about...)
	return err
}

// Leaving is Waiting, and returns a function leave that makes the caller give up.
func (l *Lab) Leaving(f Take) (w <-chan Result[*recipes.Lease], leave context.CancelFunc) {
	ctx, leave := context.WithCancel(l.T.Context())
	l.T.Cleanup(leave)
	return l.Waiting(func(context.Context) (*recipes.Lease, error) { return f(ctx) }), leave
}

// Within is a context that ends after d, or with the test.
func (l *Lab) Within(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(l.T.Context(), d)
	l.T.Cleanup(cancel)
	return ctx
}

// Unlock gives a lease back and requires success.
func (l *Lab) Unlock(x *recipes.Lease) {
	l.T.Helper()
	require.NoError(l.T, x.Unlock(l.T.Context()))
}

// Waiting begins to take a lock, and returns when the call stands in the queue, or has its answer.
func (l *Lab) Waiting(f Take) <-chan Result[*recipes.Lease] {
	ch := Async(func() (*recipes.Lease, error) { return f(context.Background()) })
	l.Settle()
	return ch
}

// Locking is Waiting for a mutex.
func (l *Lab) Locking(m *recipes.Mutex) <-chan Result[*recipes.Lease] { return l.Waiting(m.Lock) }

// Listing lets a fault befall the next listing of a queue.
func (l *Lab) Listing(dir string, f zktest.Fault) *zktest.Injection {
	return l.Srv.Inject(zktest.Once(func(r zktest.Request) bool { return r.Op == "getChildren2" && r.Path == dir }), f)
}

// By matches requests of the client's present session, of these kinds.
func (l *Lab) By(c *recipes.Client, ops ...string) func(zktest.Request) bool {
	l.T.Helper()
	id, on := l.SessionID(c), zktest.On(ops...)
	return func(r zktest.Request) bool { return r.Session == id && on(r) }
}

// CutOff ends the connection of a session, or of all sessions if the id is 0. From then on the server refuses every connection.
func (l *Lab) CutOff(session int64) {
	l.Srv.RefuseDials(true)
	l.Srv.Disconnect(session)
}

// Empty requires that nothing is in these nodes.
func (l *Lab) Empty(dirs ...string) {
	l.T.Helper()
	for _, dir := range dirs {
		require.Empty(l.T, l.Children(dir), dir)
	}
}

// Goroutines counts the goroutines of this bubble. runtime.NumGoroutine counts other goroutines too: one that runs finalizers, or one that
// has just returned.
func (l *Lab) Goroutines() int {
	l.T.Helper()
	buf := make([]byte, 16<<20)
	stacks := string(buf[:runtime.Stack(buf, true)])
	header, _, _ := strings.Cut(stacks, "\n") // the header of this goroutine's stack
	_, bubble, ok := strings.Cut(header, "synctest bubble ")
	require.True(l.T, ok, header)
	return strings.Count(stacks, "synctest bubble "+bubble)
}

// Spent is the cost of an operation: the round trips that its caller waited for, and the requests.
type Spent struct {
	Trips int
	Ops   string // "create delete getData 2getChildren2"
}

// Cost runs f and returns its cost, which includes the requests that f leaves to the background.
func (l *Lab) Cost(f func()) Spent {
	l.T.Helper()
	l.Settle()
	l.Srv.ResetCounts()
	start := time.Now()
	f()
	took := time.Since(start)
	l.Settle()
	require.Zero(l.T, took%(2*OneWay), "an operation takes whole round trips")
	return Spent{int(took / (2 * OneWay)), Operations(l.Srv.Counts().ByOp)}
}

// Operations returns the counts of operations as text, sorted by the names of the operations.
func Operations(by map[string]int) string {
	var out []string
	for _, op := range slices.Sorted(maps.Keys(by)) {
		text := op
		if by[op] > 1 {
			text = fmt.Sprint(by[op], op)
		}
		out = append(out, text)
	}
	return strings.Join(out, " ")
}

// A Result is what a call returned, and when.
type Result[T any] struct {
	V   T
	Err error
	At  time.Time
}

// Async runs f in a goroutine, and returns the channel that brings its result.
func Async[T any](f func() (T, error)) <-chan Result[T] {
	ch := make(chan Result[T], 1)
	go func() {
		v, err := f()
		ch <- Result[T]{v, err, time.Now()}
	}()
	return ch
}

// NotYet requires that a result has not come yet.
func NotYet[T any](t *testing.T, ch <-chan Result[T], why string) {
	t.Helper()
	synctest.Wait()
	select {
	case r := <-ch:
		require.Failf(t, "came too early", "%s: %v, %v", why, r.V, r.Err)
	default:
	}
}
