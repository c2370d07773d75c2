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
	"github.com/locktree/locktree/recipes/internal/harness"
	"github.com/locktree/locktree/recipes/kind"
	lockotel "github.com/locktree/locktree/recipes/otel"
)

// lab is a harness.Lab with a lock of every kind, and a recorder of the spans.
type lab struct {
	*harness.Lab
	recorder *tracetest.SpanRecorder
	provider *sdk.TracerProvider
}

func inLab(t *testing.T, f func(t *testing.T, l *lab)) {
	harness.InLab(t, func(t *testing.T, h *harness.Lab) {
		l := &lab{Lab: h, recorder: tracetest.NewSpanRecorder()}
		l.provider = sdk.NewTracerProvider(sdk.WithSpanProcessor(l.recorder), sdk.WithSampler(sdk.ParentBased(sdk.AlwaysSample())))
		l.EveryKind()
		f(t, l)
	})
}

func (l *lab) client() *recipes.Client {
	l.T.Helper()
	return l.Client("", func(cfg *recipes.Config) {
		cfg.Observer = lockotel.New(lockotel.WithTracerProvider(l.provider)).Observe
	})
}

// request begins a caller's span, the parent of the acquisition's.
func (l *lab) request(name string) context.Context {
	ctx, _ := l.provider.Tracer("test").Start(l.T.Context(), name)
	return ctx
}

// acquired returns the spans of the acquisitions that have ended, and forgets them.
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
	kind, position string
	take           func(context.Context, *recipes.Client) (*recipes.Lease, error)
}

// ways are all that wait for one another. Do hands out no lease: its function waits until it is asked to return.
func ways() map[string]way {
	all := map[string]way{}
	for name, w := range harness.Ways() {
		if name == "reader" {
			continue
		}
		of, position := w.Kind.Name, "1"
		switch name {
		case "set":
			of = "multilock"
		case "semaphore":
			position = "3" // behind three permits
		}
		all[name] = way{of, position, func(ctx context.Context, c *recipes.Client) (*recipes.Lease, error) {
			return w.Take(c, lockotel.ID(ctx, "worker"))(ctx)
		}}
		all[name+", Do"] = way{of, position, func(ctx context.Context, c *recipes.Client) (*recipes.Lease, error) {
			return whileIn(ctx, w.Do(c, lockotel.ID(ctx, "worker")))
		}}
	}
	return all
}

// whileIn returns the lease that do's function gets. The function runs until the lease is released.
func whileIn(ctx context.Context, do func(context.Context, harness.Work) error) (*recipes.Lease, error) {
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
	for name, way := range ways() {
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
				require.Equal(t, way.position, attributes(refused)["locktree.position"])
				require.Equal(t, codes.Error, refused.Status().Code)
				require.Equal(t, time.Second, refused.EndTime().Sub(refused.StartTime()).Round(time.Millisecond))
				l.linked(refused, first)

				granted := harness.Async(func() (*recipes.Lease, error) { return way.take(second, b) })
				time.Sleep(10 * time.Second)
				l.Unlock(x)
				y := l.Got(granted)
				waited := l.acquired()[0]
				require.Equal(t, "acquired", attributes(waited)["locktree.result"])
				require.Equal(t, 10*time.Second, waited.EndTime().Sub(waited.StartTime()).Round(time.Second))
				l.linked(waited, first)
				l.Unlock(y)
				require.Empty(t, l.acquired(), "no span of the hold")
			})
		})
	}
}

func (l *lab) linked(s sdk.ReadOnlySpan, to context.Context) {
	l.T.Helper()
	require.Len(l.T, s.Links(), 1)
	require.Equal(l.T, trace.SpanContextFromContext(to).TraceID(), s.Links()[0].SpanContext.TraceID())
	require.Equal(l.T, trace.SpanContextFromContext(to).SpanID(), s.Links()[0].SpanContext.SpanID())
	require.Equal(l.T, []attribute.KeyValue{attribute.String("locktree.link", "holder")}, s.Links()[0].Attributes)
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

// Any client can write into the queue. A strange name gives no link, and no panic.
func TestAStrangeHolderIsNoLink(t *testing.T) {
	for _, id := range []string{"", "worker", "worker ", "00-zz-zz-01", "w 00-00000000000000000000000000000000-0000000000000000-01", "w \xff\x00"} {
		inLab(t, func(t *testing.T, l *lab) {
			l.Lock(l.client().Mutex("/m", recipes.WithID(id)).Lock)
			l.acquired()
			_, err := l.client().Mutex("/m").Lock(l.Within(time.Second))
			require.ErrorIs(t, err, recipes.ErrHeld)
			require.Empty(t, l.acquired()[0].Links())
		})
	}
}

// A recorded call that waits asks once for the contender in its way, with one request.
func TestALookCostsARequestAndOnlyARecordedCallThatWaitsLooks(t *testing.T) {
	requests := func(sampled bool) (free, waited int) {
		inLab(t, func(t *testing.T, l *lab) {
			if !sampled {
				l.provider = sdk.NewTracerProvider(sdk.WithSampler(sdk.NeverSample()))
			}
			a, b := l.client(), l.client()
			session := l.SessionID(b)
			count := func(f func()) int {
				time.Sleep(time.Second) // the reads after a grant are done
				before := l.Srv.SessionCounts(session).Total
				f()
				time.Sleep(time.Second)
				return l.Srv.SessionCounts(session).Total - before
			}
			free = count(func() {
				x := l.Lock(b.Mutex("/m").Lock)
				time.Sleep(time.Second)
				l.Unlock(x)
			})
			l.Lock(a.Mutex("/m").Lock)
			waited = count(func() {
				_, err := b.Mutex("/m").Lock(l.Within(time.Second))
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
		first, second, take := l.request("first"), l.request("second"), ways()["mutex"].take
		x, err := take(first, c)
		require.NoError(t, err)
		for most, name := range map[time.Duration]string{10 * time.Millisecond: "before it looked", time.Second: "after"} {
			ctx, cancel := context.WithTimeout(second, most)
			_, err = take(ctx, c)
			cancel()
			require.ErrorIs(t, err, context.DeadlineExceeded, name)
		}
		_, err = c.Mutex("/m").TryLock(first)
		require.ErrorIs(t, err, recipes.ErrHeld)
		time.AfterFunc(time.Second, x.Release)
		_, err = take(second, c)
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
		l.Lock(c.Election("/e", lockotel.ID(t.Context(), "worker-1")).Campaign)
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
