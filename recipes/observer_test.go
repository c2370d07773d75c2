package recipes_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"runtime"
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
	"github.com/locktree/locktree/recipes/zktest/effort"
)

// misbehaving is an Observer that does harm at one event.
func misbehaving(what recipes.EventType, harm func()) func(recipes.Event) {
	return func(e recipes.Event) {
		if e.Type == what {
			harm()
		}
	}
}

// inside runs f as net/http runs a handler: what panics in it is nobody's concern.
func inside(f func()) {
	defer func() { _ = recover() }()
	f()
}

// throughEveryEvent lets c refuse, wait, hold, release, and lose what it holds.
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

// grantedSoon requires that another client is granted the lock, whatever is in the way, within two seconds.
func (l *lab) grantedSoon(way harness.Way, when string) {
	l.T.Helper()
	for _, take := range []taking{way.Take(l.Client("next")), way.Block(l.Client("next"))} {
		ctx, cancel := context.WithTimeout(l.T.Context(), 2*time.Second)
		x, err := take(ctx)
		cancel()
		require.NoError(l.T, err, when)
		l.Unlock(x)
	}
}

// within runs f, which must come to an end in that (fake) time.
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

// The list of results in the documentation of the metrics lacked one: its reader took an outage for another error.
func TestTheMetricsNameEveryResult(t *testing.T) {
	source, err := os.ReadFile("observe.go")
	require.NoError(t, err)
	results := regexp.MustCompile(`(?m)^\tresult\w+ += "(\w+)"`).FindAllStringSubmatch(string(source), -1)
	require.Greater(t, len(results), 6)
	for page, names := range map[string]string{"prom/doc.go": `(?m)^//   - %s: `, "otel/otel.go": `(?m)^//\tlocktree\.result .*\b%s\b`} {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, r := range results {
			require.Regexp(t, fmt.Sprintf(names, r[1]), string(text), page)
		}
	}
}

// A panic in a callback, recovered by the caller of Lock, left the turn and the contender behind: nobody was granted the lock
// any more, and Close waited for ever. A callback that did not return kept the lock from everybody.
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
					observer := misbehaving(event, func() {
						harmed.Store(true)
						<-dialled // a session's first events come before Dial returns
						harm(c, way.Path, over)
					})
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
