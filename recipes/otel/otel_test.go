package otel_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
	lockotel "github.com/locktree/locktree/recipes/otel"
	"github.com/locktree/locktree/recipes/zktest"
)

// lab is an in-memory ZooKeeper with a lock of every kind, and what records the spans, in one bubble of fake time.
type lab struct {
	t        *testing.T
	srv      *zktest.Server
	recorder *tracetest.SpanRecorder
	provider *sdk.TracerProvider
}

func inLab(t *testing.T, f func(t *testing.T, l *lab)) {
	synctest.Test(t, func(t *testing.T) {
		l := &lab{t: t, srv: zktest.Start(t, zktest.WithLatency(time.Millisecond)), recorder: tracetest.NewSpanRecorder()}
		l.provider = sdk.NewTracerProvider(sdk.WithSpanProcessor(l.recorder), sdk.WithSampler(sdk.ParentBased(sdk.AlwaysSample())))
		for path, k := range map[string]*kind.Kind{"/m": kind.Mutex, "/rw": kind.RWLock, "/s": kind.Semaphore, "/e": kind.Election} {
			p := k.New()
			if s, ok := p.(*kind.SemaphoreParams); ok {
				s.Permits = 1
			}
			require.NoError(t, l.srv.Provision(path, &kind.Payload{Params: p}))
		}
		f(t, l)
	})
}

func (l *lab) client() (*recipes.Client, *lockotel.Tracer) {
	l.t.Helper()
	c, err := recipes.Dial(l.t.Context(), recipes.Config{Servers: []string{"zk"}, SessionTimeout: 12 * time.Second, Dialer: l.srv.DialContext})
	require.NoError(l.t, err)
	l.t.Cleanup(func() { _ = c.Close() })
	return c, lockotel.New(c, lockotel.WithTracerProvider(l.provider))
}

// request is what a caller does; its span is the parent of the acquisition's.
func (l *lab) request(name string) context.Context {
	ctx, _ := l.provider.Tracer("test").Start(l.t.Context(), name)
	return ctx
}

// acquired are the spans of the acquisitions that have ended, and forgets them.
func (l *lab) acquired() []sdk.ReadOnlySpan {
	ended := l.recorder.Ended()
	l.recorder.Reset()
	return ended
}

func attributes(s sdk.ReadOnlySpan) map[attribute.Key]string {
	m := map[attribute.Key]string{}
	for _, a := range s.Attributes() {
		m[a.Key] = a.Value.String()
	}
	return m
}

// ways take each kind of lock, with the caller's trace in the ID.
func ways(c *recipes.Client) map[string]func(ctx context.Context) func(context.Context) (*recipes.Lease, error) {
	type lock = func(context.Context) (*recipes.Lease, error)
	return map[string]func(context.Context) lock{
		"/m":  func(ctx context.Context) lock { return c.Mutex("/m", lockotel.ID(ctx, "worker")).Lock },
		"/rw": func(ctx context.Context) lock { return c.RWMutex("/rw", lockotel.ID(ctx, "worker")).Lock },
		"/s": func(ctx context.Context) lock {
			return func(inner context.Context) (*recipes.Lease, error) {
				return c.Semaphore("/s", lockotel.ID(ctx, "worker")).Acquire(inner, 1)
			}
		},
		"/e": func(ctx context.Context) lock {
			return c.Election("/e", lockotel.ID(ctx, "worker")).Campaign
		},
	}
}

// Who was kept waiting sees in its trace by which trace.
func TestAnAcquisitionIsASpanThatLinksToTheHoldersTrace(t *testing.T) {
	for path := range ways(nil) {
		t.Run(path[1:], func(t *testing.T) {
			inLab(t, func(t *testing.T, l *lab) {
				a, tracer := l.client()
				first := l.request("first")
				x, err := tracer.Acquire(first, path, ways(a)[path](first))
				require.NoError(t, err)
				spans := l.acquired()
				require.Len(t, spans, 1)
				require.Equal(t, "locktree.acquire", spans[0].Name())
				require.Equal(t, trace.SpanKindInternal, spans[0].SpanKind())
				require.Equal(t, trace.SpanContextFromContext(first).SpanID(), spans[0].Parent().SpanID())
				require.Empty(t, spans[0].Links(), "nobody was in the way")
				require.Equal(t, map[attribute.Key]string{"locktree.path": path, "locktree.result": "acquired", "locktree.node": x.Node()}, attributes(spans[0]))
				require.Equal(t, trace.SpanContextFromContext(first), trace.SpanContextFromContext(x.Context()))

				b, tracer := l.client()
				second := l.request("second")
				ctx, cancel := context.WithTimeout(second, time.Second)
				defer cancel()
				_, err = tracer.Acquire(ctx, path, ways(b)[path](second))
				require.ErrorIs(t, err, context.DeadlineExceeded)
				refused := l.acquired()[0]
				require.Equal(t, "timeout", attributes(refused)["error.type"])
				require.Equal(t, "1", attributes(refused)["locktree.position"])
				require.Equal(t, codes.Error, refused.Status().Code)
				require.Equal(t, time.Second, refused.EndTime().Sub(refused.StartTime()).Round(time.Millisecond))
				l.linked(refused, first)

				granted := make(chan *recipes.Lease, 1)
				go func() {
					y, err := tracer.Acquire(second, path, ways(b)[path](second))
					if err == nil {
						granted <- y
					}
				}()
				time.Sleep(10 * time.Second)
				require.NoError(t, x.Unlock(t.Context()))
				y := <-granted
				waited := l.acquired()[0]
				require.Equal(t, "acquired", attributes(waited)["locktree.result"])
				if path == "/s" { // which has several holders
					require.Empty(t, waited.Links())
				} else {
					l.linked(waited, first)
				}
				require.NoError(t, y.Unlock(t.Context()))
				require.Empty(t, l.acquired(), "no span of the hold")
			})
		})
	}
}

func (l *lab) linked(s sdk.ReadOnlySpan, to context.Context) {
	l.t.Helper()
	require.Len(l.t, s.Links(), 1)
	require.Equal(l.t, trace.SpanContextFromContext(to).TraceID(), s.Links()[0].SpanContext.TraceID())
	require.Equal(l.t, trace.SpanContextFromContext(to).SpanID(), s.Links()[0].SpanContext.SpanID())
	require.Equal(l.t, []attribute.KeyValue{attribute.String("locktree.link", "holder")}, s.Links()[0].Attributes)
}

func TestResultsOfCallsWithoutALease(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		c, tracer := l.client()
		for _, r := range []struct {
			err    error
			result string
			status codes.Code
		}{
			{&recipes.HeldError{}, "held", codes.Unset},
			{&recipes.HeldError{Cause: context.DeadlineExceeded}, "timeout", codes.Error},
			{&recipes.HeldError{Cause: errors.New("enough")}, "cancelled", codes.Error},
			{context.Canceled, "cancelled", codes.Error},
			{errors.Join(recipes.ErrUnreachable, context.DeadlineExceeded), "unreachable", codes.Error},
			{recipes.ErrDraining, "error", codes.Error},
		} {
			_, err := tracer.Acquire(t.Context(), "/m", func(context.Context) (*recipes.Lease, error) { return nil, r.err })
			require.Equal(t, r.err, err)
			span := l.acquired()[0]
			require.Equal(t, r.result, attributes(span)["locktree.result"])
			require.Equal(t, r.status, span.Status().Code)
		}
		require.NoError(t, c.Close())
	})
}

// The queue is anybody's to write into: a strange name is no link, and no panic.
func TestAStrangeHolderIsNoLink(t *testing.T) {
	for _, id := range []string{"", "worker", "worker ", "00-zz-zz-01", "w 00-00000000000000000000000000000000-0000000000000000-01", "w \xff\x00"} {
		inLab(t, func(t *testing.T, l *lab) {
			a, _ := l.client()
			_, err := a.Mutex("/m", recipes.WithID(id)).Lock(t.Context())
			require.NoError(t, err)
			b, tracer := l.client()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err = tracer.Acquire(ctx, "/m", b.Mutex("/m").Lock)
			require.ErrorIs(t, err, recipes.ErrHeld)
			require.Empty(t, l.acquired()[0].Links())
		})
	}
}

// Who is in the way is asked for once, with two requests, by calls that wait and are recorded.
func TestALookCostsTwoRequestsAndOnlyARecordedCallThatWaitsLooks(t *testing.T) {
	requests := func(sampled bool) (free, waited int) {
		inLab(t, func(t *testing.T, l *lab) {
			if !sampled {
				l.provider = sdk.NewTracerProvider(sdk.WithSampler(sdk.NeverSample()))
			}
			a, _ := l.client()
			b, tracer := l.client()
			session, err := b.Session(t.Context())
			require.NoError(t, err)
			count := func(f func()) int {
				time.Sleep(time.Second) // what is read behind a grant has been
				before := l.srv.SessionCounts(session.ID()).Total
				f()
				time.Sleep(time.Second)
				return l.srv.SessionCounts(session.ID()).Total - before
			}
			free = count(func() {
				x, err := tracer.Acquire(t.Context(), "/m", b.Mutex("/m").Lock)
				require.NoError(t, err)
				time.Sleep(time.Second)
				require.NoError(t, x.Unlock(t.Context()))
			})
			_, err = a.Mutex("/m").Lock(t.Context())
			require.NoError(t, err)
			waited = count(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				_, err := tracer.Acquire(ctx, "/m", b.Mutex("/m").Lock)
				require.ErrorIs(t, err, context.DeadlineExceeded)
			})
		})
		return free, waited
	}
	free, waited := requests(false)
	recordedFree, recordedWaited := requests(true)
	require.Equal(t, free, recordedFree)
	require.Equal(t, waited+2, recordedWaited)
}

// Callers of one client wait for each other in the process, where there is no queue to look at.
func TestCallersOfOneClientSeeEachOthersTrace(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		c, tracer := l.client()
		first, second := l.request("first"), l.request("second")
		lock := ways(c)["/m"]
		_, err := tracer.Acquire(first, "/m", lock(first))
		require.NoError(t, err)
		for most, name := range map[time.Duration]string{10 * time.Millisecond: "before it looked", time.Second: "after"} {
			ctx, cancel := context.WithTimeout(second, most)
			_, err = tracer.Acquire(ctx, "/m", lock(second))
			cancel()
			require.ErrorIs(t, err, context.DeadlineExceeded, name)
		}
		_, err = tracer.Acquire(first, "/m", c.Mutex("/m").TryLock)
		require.ErrorIs(t, err, recipes.ErrHeld)
		spans := l.acquired()
		require.Len(t, spans, 4)
		l.linked(spans[1], first)
		l.linked(spans[2], first)
		require.Empty(t, spans[3].Links(), "nobody is in its own way")
	})
}

func TestIDWithoutATraceIsTheID(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		c, _ := l.client()
		_, err := c.Election("/e", lockotel.ID(t.Context(), "worker-1")).Campaign(t.Context())
		require.NoError(t, err)
		leader, _, err := c.Election("/e").Leader(t.Context())
		require.NoError(t, err)
		require.Equal(t, "worker-1", leader.ID)
	})
}

// What a span costs beside the lock.
func BenchmarkAcquire(b *testing.B) {
	refused := func(context.Context) (*recipes.Lease, error) { return nil, recipes.ErrDraining }
	for name, sampler := range map[string]sdk.Sampler{"not recorded": sdk.NeverSample(), "recorded": sdk.AlwaysSample()} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			tracer := lockotel.New(nil, lockotel.WithTracerProvider(sdk.NewTracerProvider(sdk.WithSampler(sampler))))
			for b.Loop() {
				_, _ = tracer.Acquire(b.Context(), "/m", refused)
			}
		})
	}
}
