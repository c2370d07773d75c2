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

func (l *lab) client() *recipes.Client {
	l.t.Helper()
	spans := lockotel.New(lockotel.WithTracerProvider(l.provider))
	c, err := recipes.Dial(l.t.Context(), recipes.Config{Servers: []string{"zk"}, SessionTimeout: 12 * time.Second,
		Dialer: l.srv.DialContext, Observer: spans.Observe})
	require.NoError(l.t, err)
	l.t.Cleanup(func() { _ = c.Close() })
	return c
}

// request is what a caller does; its span is the parent of the acquisition's.
func (l *lab) request(name string) context.Context {
	ctx, _ := l.provider.Tracer("test").Start(l.t.Context(), name)
	return ctx
}

// acquired are the spans of the acquisitions that have ended, and forgets them.
func (l *lab) acquired() []sdk.ReadOnlySpan {
	synctest.Wait() // the Observer has heard of it
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

// way takes a lock, with the caller's trace in the ID.
type way struct {
	path, kind string
	take       func(context.Context, *recipes.Client) (*recipes.Lease, error)
}

// ways are all, and those that hand out no lease, whose function then waits until it is asked to return.
var ways = map[string]way{
	"mutex": {"/m", "mutex", func(ctx context.Context, c *recipes.Client) (*recipes.Lease, error) {
		return c.Mutex("/m", lockotel.ID(ctx, "worker")).Lock(ctx)
	}},
	"rwlock": {"/rw", "rwlock", func(ctx context.Context, c *recipes.Client) (*recipes.Lease, error) {
		return c.RWMutex("/rw", lockotel.ID(ctx, "worker")).Lock(ctx)
	}},
	"semaphore": {"/s", "semaphore", func(ctx context.Context, c *recipes.Client) (*recipes.Lease, error) {
		return c.Semaphore("/s", lockotel.ID(ctx, "worker")).Acquire(ctx, 1)
	}},
	"election": {"/e", "election", func(ctx context.Context, c *recipes.Client) (*recipes.Lease, error) {
		return c.Election("/e", lockotel.ID(ctx, "worker")).Campaign(ctx)
	}},
	"set": {"/m,/rw", "multilock", func(ctx context.Context, c *recipes.Client) (*recipes.Lease, error) {
		id := lockotel.ID(ctx, "worker")
		return c.MultiLock(c.Mutex("/m", id), c.RWMutex("/rw", id)).Lock(ctx)
	}},
	"Do": {"/m", "mutex", func(ctx context.Context, c *recipes.Client) (*recipes.Lease, error) {
		return whileIn(ctx, c.Mutex("/m", lockotel.ID(ctx, "worker")).Do)
	}},
	"Lead": {"/e", "election", func(ctx context.Context, c *recipes.Client) (*recipes.Lease, error) {
		return whileIn(ctx, c.Election("/e", lockotel.ID(ctx, "worker")).Lead)
	}},
}

// whileIn returns the lease that a function is called with, which runs until that is given back.
func whileIn(ctx context.Context, do func(context.Context, func(context.Context, *recipes.Lease) error) error) (*recipes.Lease, error) {
	got, failed := make(chan *recipes.Lease, 1), make(chan error, 1)
	go func() {
		failed <- do(ctx, func(inner context.Context, l *recipes.Lease) error {
			got <- l
			<-l.Context().Done()
			return nil
		})
	}()
	select {
	case l := <-got:
		return l, nil
	case err := <-failed:
		return nil, err
	}
}

// A call that waited links in its trace to the holder's trace.
func TestAnAcquisitionIsASpanThatLinksToTheHoldersTrace(t *testing.T) {
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			inLab(t, func(t *testing.T, l *lab) {
				first := l.request("first")
				x, err := way.take(first, l.client())
				require.NoError(t, err)
				spans := l.acquired()
				require.Len(t, spans, 1)
				require.Equal(t, "locktree.acquire", spans[0].Name())
				require.Equal(t, trace.SpanKindInternal, spans[0].SpanKind())
				require.Equal(t, trace.SpanContextFromContext(first).SpanID(), spans[0].Parent().SpanID())
				require.Empty(t, spans[0].Links(), "nobody was in the way")
				require.Equal(t, map[attribute.Key]string{"locktree.path": x.Path(), "locktree.kind": way.kind,
					"locktree.result": "acquired", "locktree.node": x.Node()}, attributes(spans[0]))

				b, second := l.client(), l.request("second")
				ctx, cancel := context.WithTimeout(second, time.Second)
				defer cancel()
				_, err = way.take(ctx, b)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				refused := l.acquired()[0]
				require.Equal(t, "timeout", attributes(refused)["error.type"])
				require.Equal(t, "1", attributes(refused)["locktree.position"])
				require.Equal(t, codes.Error, refused.Status().Code)
				require.Equal(t, time.Second, refused.EndTime().Sub(refused.StartTime()).Round(time.Millisecond))
				l.linked(refused, first)

				granted := make(chan *recipes.Lease, 1)
				go func() {
					y, err := way.take(second, b)
					if err == nil {
						granted <- y
					}
				}()
				time.Sleep(10 * time.Second)
				require.NoError(t, x.Unlock(t.Context()))
				y := <-granted
				waited := l.acquired()[0]
				require.Equal(t, "acquired", attributes(waited)["locktree.result"])
				require.Equal(t, 10*time.Second, waited.EndTime().Sub(waited.StartTime()).Round(time.Second))
				l.linked(waited, first)
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
		spans := lockotel.New(lockotel.WithTracerProvider(l.provider))
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
			spans.Observe(refusal(t.Context(), r.result, r.err))
			span := l.acquired()[0]
			require.Equal(t, r.result, attributes(span)["locktree.result"])
			require.Equal(t, r.status, span.Status().Code)
		}
	})
}

// refusal is the event of a call for a mutex that returns err.
func refusal(ctx context.Context, result string, err error) recipes.Event {
	return recipes.Event{Type: recipes.EventRefused, Time: time.Now(), Context: ctx, Call: 1, Path: "/m",
		Locks: []recipes.EventLock{{Path: "/m", Kind: kind.Mutex}}, Result: result, Cause: err}
}

// The queue is anybody's to write into: a strange name is no link, and no panic.
func TestAStrangeHolderIsNoLink(t *testing.T) {
	for _, id := range []string{"", "worker", "worker ", "00-zz-zz-01", "w 00-00000000000000000000000000000000-0000000000000000-01", "w \xff\x00"} {
		inLab(t, func(t *testing.T, l *lab) {
			_, err := l.client().Mutex("/m", recipes.WithID(id)).Lock(t.Context())
			require.NoError(t, err)
			l.acquired()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err = l.client().Mutex("/m").Lock(ctx)
			require.ErrorIs(t, err, recipes.ErrHeld)
			require.Empty(t, l.acquired()[0].Links())
		})
	}
}

// Calls that wait and are recorded ask for the contender in their way once, with one request.
func TestALookCostsARequestAndOnlyARecordedCallThatWaitsLooks(t *testing.T) {
	requests := func(sampled bool) (free, waited int) {
		inLab(t, func(t *testing.T, l *lab) {
			if !sampled {
				l.provider = sdk.NewTracerProvider(sdk.WithSampler(sdk.NeverSample()))
			}
			a, b := l.client(), l.client()
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
				x, err := b.Mutex("/m").Lock(t.Context())
				require.NoError(t, err)
				time.Sleep(time.Second)
				require.NoError(t, x.Unlock(t.Context()))
			})
			_, err = a.Mutex("/m").Lock(t.Context())
			require.NoError(t, err)
			waited = count(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				_, err := b.Mutex("/m").Lock(ctx)
				require.ErrorIs(t, err, context.DeadlineExceeded)
			})
		})
		return free, waited
	}
	free, waited := requests(false)
	recordedFree, recordedWaited := requests(true)
	require.Equal(t, free, recordedFree)
	require.Equal(t, waited+1, recordedWaited)
}

// Callers of one client wait for each other in the process, where there is no queue to look at.
func TestCallersOfOneClientSeeEachOthersTrace(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		c := l.client()
		first, second := l.request("first"), l.request("second")
		x, err := ways["mutex"].take(first, c)
		require.NoError(t, err)
		for most, name := range map[time.Duration]string{10 * time.Millisecond: "before it looked", time.Second: "after"} {
			ctx, cancel := context.WithTimeout(second, most)
			_, err = ways["mutex"].take(ctx, c)
			cancel()
			require.ErrorIs(t, err, context.DeadlineExceeded, name)
		}
		_, err = c.Mutex("/m").TryLock(first)
		require.ErrorIs(t, err, recipes.ErrHeld)
		time.AfterFunc(time.Second, x.Release)
		_, err = ways["mutex"].take(second, c)
		require.NoError(t, err)
		spans := l.acquired()
		require.Len(t, spans, 5)
		l.linked(spans[1], first)
		l.linked(spans[2], first)
		require.Empty(t, spans[3].Links(), "nobody is in its own way")
		l.linked(spans[4], first)
	})
}

func TestIDWithoutATraceIsTheID(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		c := l.client()
		_, err := c.Election("/e", lockotel.ID(t.Context(), "worker-1")).Campaign(t.Context())
		require.NoError(t, err)
		leader, _, err := c.Election("/e").Leader(t.Context())
		require.NoError(t, err)
		require.Equal(t, "worker-1", leader.ID)
	})
}

// The cost of a span, on the Observer's goroutine.
func BenchmarkObserve(b *testing.B) {
	e := refusal(b.Context(), "error", recipes.ErrDraining)
	for name, sampler := range map[string]sdk.Sampler{"not recorded": sdk.NeverSample(), "recorded": sdk.AlwaysSample()} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			spans := lockotel.New(lockotel.WithTracerProvider(sdk.NewTracerProvider(sdk.WithSampler(sampler))))
			for b.Loop() {
				spans.Observe(e)
			}
		})
	}
}
