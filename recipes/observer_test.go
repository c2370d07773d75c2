package recipes_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/inspect"
	"github.com/locktree/locktree/recipes/internal/harness"
	"github.com/locktree/locktree/recipes/internal/session"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/zktest/effort"
)

// inside runs f as net/http runs a handler: it recovers a panic of f.
func inside(f func()) {
	defer func() { _ = recover() }()
	f()
}

// throughEveryEvent takes c through a refusal, a wait, a grant, a release, and the loss of a lease.
func (l *lab) throughEveryEvent(c *recipes.Client, way harness.Way) {
	t := l.T
	t.Helper()
	x := l.Lock(way.Block(l.Client("other")))
	inside(func() {
		ctx := l.Within(time.Second)
		_, err := way.Take(c)(ctx)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
	})
	granted := make(chan *recipes.Lease, 1)
	go inside(func() {
		defer close(granted)
		y, err := way.Take(c)(context.Background())
		if assert.NoError(t, err) {
			granted <- y
		}
	})
	l.Settle()
	l.Unlock(x)
	y := within(t, time.Second, func() *recipes.Lease { return <-granted })
	require.NotNil(t, y, "the waiter is granted")
	time.Sleep(3 * time.Minute)
	require.NoError(t, y.Context().Err(), "its session lives on")
	require.NoError(t, within(t, time.Second, func() error { return y.Unlock(t.Context()) }))
	l.grantedSoon(way, "after the release")

	inside(func() { y = l.Lock(way.Take(c)) })
	l.Srv.Disconnect(l.SessionID(c))
	synctest.Wait()
	within(t, time.Second, func() struct{} { <-ended(y); return struct{}{} })
	require.ErrorIs(t, context.Cause(y.Context()), recipes.ErrLost)
	require.ErrorIs(t, within(t, time.Second, func() error { return y.Unlock(t.Context()) }), recipes.ErrLost)
	inside(func() { y = l.Lock(way.Take(c)) }) // the next session deletes what the lost one has left
	require.NoError(t, within(t, time.Second, func() error { return y.Unlock(t.Context()) }))
	l.grantedSoon(way, "after the loss")
}

// grantedSoon requires that another client is granted the lock within two seconds, with way.Take and with way.Block.
func (l *lab) grantedSoon(way harness.Way, when string) {
	l.T.Helper()
	for _, take := range []taking{way.Take(l.Client("next")), way.Block(l.Client("next"))} {
		x, err := bounded(2*time.Second, take)(l.T.Context())
		require.NoError(l.T, err, when)
		l.Unlock(x)
	}
}

// within runs f, which must return within the (fake) time most.
func within[T any](t *testing.T, most time.Duration, f func() T) T {
	t.Helper()
	done := make(chan T, 1)
	go func() { done <- f() }()
	select {
	case v := <-done:
		return v
	case <-time.After(most):
		require.Failf(t, "it hangs", "for more than %v", most)
		panic("unreachable")
	}
}

func TestEveryErrorHasItsResult(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{nil, "acquired"},
		{&recipes.HeldError{}, "held"},
		{&recipes.HeldError{Cause: context.DeadlineExceeded}, "timeout"},
		{&recipes.HeldError{Cause: context.Canceled}, "cancelled"},
		{&recipes.HeldError{Cause: errors.New("shutting down")}, "cancelled"},
		{fmt.Errorf("recipes: lock /m: %w", context.Canceled), "cancelled"},
		{fmt.Errorf("%w: %w", recipes.ErrUnreachable, context.DeadlineExceeded), "unreachable"},
		{recipes.ErrWouldDeadlock, "error"},
		{recipes.ErrQueueFull, "quota"},
		{recipes.ErrSessionFull, "quota"},
		{session.ErrQuotaExceeded, "quota"},
		{session.ErrThrottled, "quota"},
		{recipes.ErrDraining, "error"},
		{recipes.ErrSessionLost, "error"},
	} {
		require.Equal(t, c.want, recipes.ResultOf(c.err), "%v", c.err)
	}
}

// The documentation of the metrics lacked one of the results, so its readers took an outage for another error.
func TestTheMetricsNameEveryResult(t *testing.T) {
	source := must(os.ReadFile("observe.go"))(t)
	results := regexp.MustCompile(`(?m)^\tresult\w+ += "(\w+)"`).FindAllStringSubmatch(string(source), -1)
	require.Greater(t, len(results), 6)
	for page, names := range map[string]string{"prom/doc.go": `(?m)^//   - %s: `, "otel/otel.go": `(?m)^//\tlocktree\.result .*\b%s\b`} {
		text := must(os.ReadFile(page))(t)
		for _, r := range results {
			require.Regexp(t, fmt.Sprintf(names, r[1]), string(text), page)
		}
	}
}

// A callback panicked, and the caller of Lock recovered. The turn and the contender stayed behind, so no caller was granted the lock any
// more, and Close waited for ever. A callback that did not return kept the lock from all callers.
func TestACallbackCannotDamageALockWhateverItDoes(t *testing.T) {
	for name, harm := range map[string]func(c *recipes.Client, path string, over <-chan struct{}){
		"panics":             func(*recipes.Client, string, <-chan struct{}) { panic("a bug in metrics code") },
		"ends its goroutine": func(*recipes.Client, string, <-chan struct{}) { runtime.Goexit() }, // as a test's FailNow does
		"does not return":    func(_ *recipes.Client, _ string, over <-chan struct{}) { <-over },
		"calls the client": func(c *recipes.Client, path string, _ <-chan struct{}) {
			_, _ = inspect.Lock(context.Background(), c, path)
		},
	} {
		for i, event := range []recipes.EventType{recipes.EventQueued, recipes.EventAcquired, recipes.EventRefused,
			recipes.EventReleased, recipes.EventLost, recipes.EventHeartbeat,
			session.EventOpened, session.EventSuspected, recipes.EventSessionLost} {
			if (i+len(name))%effort.Of(1, 5) != 0 {
				continue
			}
			t.Run(string(event)+" "+name, func(t *testing.T) {
				forEveryRecipe(t, func(t *testing.T, l *lab, way harness.Way) {
					over := make(chan struct{})
					defer close(over)
					var c *recipes.Client
					var harmed atomic.Bool
					dialled := make(chan struct{})
					observer := func(e recipes.Event) {
						if e.Type == event {
							harmed.Store(true)
							<-dialled // a session's first events come before Dial returns
							harm(c, way.Path, over)
						}
					}
					c = l.Client("observed", func(cfg *recipes.Config) { cfg.Observer, cfg.LoseOnSuspect = observer, true })
					close(dialled)
					l.throughEveryEvent(c, way)
					l.grantedSoon(way, "after all of that")
					require.NoError(t, within(t, 2*time.Second, c.Close), "Close waits for what is under way")
					l.grantedSoon(way, "after the client has closed")
					require.True(t, harmed.Load(), "%s was never told", event)
				})
			})
		}
	}
}

// A client that had lost ZooKeeper logged 12 lines a minute, and none when ZooKeeper was back.
func TestTheLogSaysOnceThatZooKeeperIsAwayAndOnceThatItIsBack(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		var out bytes.Buffer
		log := slog.New(slog.NewTextHandler(&out, nil))
		c := l.Client("a", func(cfg *recipes.Config) { cfg.Observer, cfg.Logger = recipes.LogEvents(log), log })
		m := c.Mutex(l.Mutex())
		id := l.SessionID(c)
		x := l.Lock(m.Lock)
		l.Settle()
		require.Empty(t, out.String(), "what goes well is logged at LevelDebug")

		l.CutOff(id)
		time.Sleep(4 * time.Second)
		synctest.Wait()
		require.Equal(t, 1, strings.Count(out.String(), "session in doubt"), out.String())
		require.Equal(t, 2, strings.Count(out.String(), "no connection"), "once for each reason: it ended, and is refused: %s", out.String())
		l.Srv.RefuseDials(false)
		time.Sleep(3 * time.Second)
		synctest.Wait()
		require.Equal(t, 1, strings.Count(out.String(), "not in doubt any more"), out.String())
		require.NoError(t, context.Cause(x.Context()))

		l.CutOff(id)
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, 1, strings.Count(out.String(), `level=ERROR msg="lock lost" lock=/m token=`), out.String())
		require.Contains(t, out.String(), `level=WARN msg="session lost"`)
		l.Srv.RefuseDials(false)
		time.Sleep(3 * time.Second)
		synctest.Wait()
		require.LessOrEqual(t, strings.Count(out.String(), "\n"), 10, out.String())
	})
}

func TestDetachedWorkOutlivesTheLeaseAndMayWaitForTheLock(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		type request struct{}
		c := l.Client("a")
		l.Declare("/n", kind.Mutex.New())
		m, n := c.Mutex(l.Mutex()), c.Mutex("/n")
		var again <-chan result[*recipes.Lease]
		var detached context.Context
		ctx := context.WithValue(t.Context(), request{}, 7)
		require.NoError(t, n.Do(ctx, func(ctx context.Context, _ *recipes.Lease) error {
			return m.Do(ctx, func(ctx context.Context, _ *recipes.Lease) error {
				_, err := m.Lock(ctx)
				require.ErrorIs(t, err, recipes.ErrWouldDeadlock)
				detached = recipes.Detach(ctx)
				again = async(func() (*recipes.Lease, error) { return m.Lock(detached) })
				l.Settle()
				return nil
			})
		}))
		got := l.Granted(again)
		require.NoError(t, detached.Err())
		require.Equal(t, 7, detached.Value(request{}))
		x := must(n.Lock(detached))(t)
		l.Unlock(x)
		l.Unlock(got.V)
	})
}

// handler is a slog.Handler that is a function.
type handler func(slog.Record)

func (handler) Enabled(context.Context, slog.Level) bool { return true }

func (h handler) Handle(_ context.Context, line slog.Record) error {
	h(line)
	return nil
}

func (h handler) WithAttrs([]slog.Attr) slog.Handler { return h }
func (h handler) WithGroup(string) slog.Handler      { return h }

// user is an Observer and a log handler. Both use their client at each call.
type user struct {
	client atomic.Pointer[recipes.Client] // nil while it is being dialled
	mu     sync.Mutex
	seen   map[string]int
}

// use makes calls that need the client's mutexes, its session, and the lock /aside.
func (u *user) use(what string) {
	u.mu.Lock()
	u.seen[what]++
	u.mu.Unlock()
	c := u.client.Load()
	if c == nil {
		return
	}
	c.State()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_, _ = c.Session(ctx)
	if x, err := c.Mutex("/aside").Lock(ctx); err == nil {
		_ = x.Unlock(ctx)
	}
}

func (u *user) saw(what recipes.EventType) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.seen[string(what)] > 0
}

func (u *user) Observe(e recipes.Event) {
	if e.Path != "/aside" { // otherwise each event would cause two more
		u.use(string(e.Type))
	}
}

// When Client.Session found the loss, it called the log handler under the client's mutex. When a server reported the loss, the handler ran
// on the goroutine that reads from the server. The next session waits for the end of that goroutine.
func TestCallbacksUseTheClientFromEveryEvent(t *testing.T) {
	for name, lose := range map[string]func(l *lab, c *recipes.Client, asleep *atomic.Int64){
		"Session finds the loss": func(l *lab, c *recipes.Client, asleep *atomic.Int64) {
			asleep.Add(int64(time.Minute))
			_ = l.session(c)
		},
		"State finds the loss": func(_ *lab, c *recipes.Client, asleep *atomic.Int64) {
			asleep.Add(int64(time.Minute))
			c.State()
		},
		"a server tells the loss": func(l *lab, c *recipes.Client, _ *atomic.Int64) { l.Srv.Expire(l.SessionID(c)) },
		"the deadline passes": func(l *lab, _ *recipes.Client, _ *atomic.Int64) {
			l.Srv.Freeze()
			time.Sleep(20 * time.Second)
			l.Srv.Thaw()
		},
	} {
		runInLab(t, name, func(t *testing.T, l *lab) {
			l.Declare("/aside", kind.Mutex.New())
			path, asleep, u := l.Mutex(), new(atomic.Int64), &user{seen: map[string]int{}}
			l.Seams.Slept = func() time.Duration { return time.Duration(asleep.Load()) }
			c := l.Client("observed", func(cfg *recipes.Config) {
				cfg.Observer, cfg.Logger = u.Observe, slog.New(handler(func(line slog.Record) { u.use("log: " + line.Message) }))
			})
			u.client.Store(c)
			x := l.Lock(l.Client("rival").Mutex(path).Lock)
			waiting := l.Locking(c.Mutex(path))
			l.Unlock(x)
			y := (<-waiting).V
			time.Sleep(time.Minute)
			l.Srv.Disconnect(l.SessionID(c))
			for !u.saw(session.EventConnected) { // a client waits a random time before it connects again
				time.Sleep(oneWay)
			}

			lose(l, c, asleep)
			<-ended(y)
			require.ErrorIs(t, context.Cause(y.Context()), recipes.ErrLost)
			err := within(t, time.Minute, func() error {
				return c.Mutex(path).Do(context.Background(), func(context.Context, *recipes.Lease) error { return nil })
			})
			require.NoError(t, err, "the client goes on")
			require.NoError(t, within(t, time.Minute, c.Close))
			for _, what := range []recipes.EventType{recipes.EventQueued, recipes.EventAcquired, recipes.EventReleased, recipes.EventLost,
				recipes.EventHeartbeat, session.EventSuspected, session.EventConnected, recipes.EventSessionLost} {
				assert.True(t, u.saw(what), what)
			}
			assert.True(t, u.saw("log: session lost"), "the log line")
		})
	}
}
