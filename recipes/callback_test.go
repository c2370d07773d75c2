package recipes_test

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/internal/session"
	"github.com/locktree/locktree/recipes/kind"
)

// handler is a slog.Handler that is a function.
type handler func(slog.Record)

func (handler) Enabled(context.Context, slog.Level) bool { return true }

func (h handler) Handle(_ context.Context, line slog.Record) error {
	h(line)
	return nil
}

func (h handler) WithAttrs([]slog.Attr) slog.Handler { return h }
func (h handler) WithGroup(string) slog.Handler      { return h }

// user is an Observer and a log handler that use their client each time they are called.
type user struct {
	client atomic.Pointer[recipes.Client] // nil while it is being dialled
	mu     sync.Mutex
	seen   map[string]int
}

// use does what needs the client's own locks, its session and a lock of its own.
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
	if e.Path != "/aside" { // else each event makes two more
		u.use(string(e.Type))
	}
}

// A loss that Client.Session finds called the log handler under the client's mutex. One that a server tells called it on the
// goroutine that reads from the server, for whose end the next session waits.
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
