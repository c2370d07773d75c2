// Package otel provides OpenTelemetry spans of acquisitions. A span shows how long a call waited for a lock, in the trace of its
// caller, with a link to the trace of the holder. An [Observer] makes the spans from a Client's events, so every call that takes
// a lock has a span: Lock, Try, Acquire, Campaign, Do and Lead. Import it under a name of your own:
//
//	import lockotel "github.com/locktree/locktree/recipes/otel"
//
//	c, err := recipes.Dial(ctx, recipes.Config{Servers: servers, Observer: lockotel.New().Observe})
//	...
//	err = c.Mutex("/locks/ledger", lockotel.ID(ctx, "worker-1")).Do(ctx, work)
//
// To have metrics and a log as well, set Config.Observer to a function that calls several observers.
//
// The span is called locktree.acquire, is internal, and ends when the lock is granted or refused. There is no span for the time a
// lock is held: that may be days, and exporters drop spans that have not ended. Entering a lock again ([recipes.WithReentrancy])
// has no span either. Attributes:
//
//	locktree.path      the path of the lock; of a MultiLock, the paths of all members
//	locktree.kind      mutex, rwlock, semaphore, election, once, or multilock
//	locktree.result    see [recipes.Event]: acquired, timeout, cancelled, held (a Try found a contender ahead), quota, unreachable or error
//	locktree.node      the contender that was granted
//	locktree.position  contenders ahead of a call that was refused because the lock is held
//	error.type         the result, unless it is acquired or held; the span's status is an error then
//
// # Who was in the way
//
// [ID] writes the trace of the caller's context into the contender, after its name. Every client that may read the queue sees the
// trace there; `locktree status` shows it. When a recorded call has waited for 100 ms, the Observer reads, with one request, the
// contender that was first when the wait began. The span links to the trace that the contender names. A call that is refused
// takes the trace from the error.
package otel

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/locktree/locktree/recipes"
)

const scope = "github.com/locktree/locktree/recipes/otel"

// patience is how long a call waits before the Observer asks who is in the way. Most locks are free, or soon will be.
const patience = 100 * time.Millisecond

// Observer makes spans of the recipes' calls. Give its Observe to [recipes.Config]. Obtain it from [New].
type Observer struct {
	tracer trace.Tracer

	mu      sync.Mutex
	waiting map[uint64]*wait // the calls that wait, by Event.Call
}

// wait is a call that waits.
type wait struct {
	span   trace.Span
	end    context.CancelFunc // ends the look at who is in the way
	holder trace.SpanContext  // the holder's trace once it is known; the Observer's mu guards it
}

// Option changes an Observer.
type Option func(*Observer)

// WithTracerProvider replaces the global provider.
func WithTracerProvider(p trace.TracerProvider) Option {
	return func(o *Observer) { o.tracer = p.Tracer(scope) }
}

// New makes an Observer. It serves any number of Clients.
func New(opts ...Option) *Observer {
	o := &Observer{tracer: otel.Tracer(scope), waiting: map[uint64]*wait{}}
	for _, opt := range opts {
		opt(o)
	}
	return o
}

// ID is recipes.WithID(id), followed by the trace of ctx if there is one.
func ID(ctx context.Context, id string) recipes.Option {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return recipes.WithID(strings.TrimSpace(id + " " + carrier["traceparent"]))
}

// holder is the trace that a contender's ID names; invalid if it names none. Any program may have written that ID.
func holder(id string) trace.SpanContext {
	carrier := propagation.MapCarrier{"traceparent": id[strings.LastIndexByte(id, ' ')+1:]}
	return trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), carrier))
}

// Observe makes a span for the call of an event. It is for Config.Observer.
func (o *Observer) Observe(e recipes.Event) {
	switch e.Type {
	case recipes.EventQueued:
		o.beginQueued(e)
	case recipes.EventAcquired, recipes.EventRefused:
		span, blocker := o.takeSpan(e)
		conclude(span, e, blocker)
		span.End(trace.WithTimestamp(e.Time))
	}
}

// start makes the span of a call. The span begins when the call began.
func (o *Observer) start(e recipes.Event) trace.Span {
	kindOf := "multilock"
	if len(e.Locks) == 1 {
		kindOf = e.Locks[0].Kind.Name
	}
	_, span := o.tracer.Start(e.Context, "locktree.acquire", trace.WithTimestamp(e.Time.Add(-e.Wait)),
		trace.WithAttributes(attribute.String("locktree.path", e.Path), attribute.String("locktree.kind", kindOf)))
	return span
}

// beginQueued begins the span of a call that has to wait, and looks who is in the way if the call waits for long.
func (o *Observer) beginQueued(e recipes.Event) {
	w := &wait{span: o.start(e), end: func() {}}
	var held *recipes.HeldError
	if w.span.IsRecording() && errors.As(e.Cause, &held) {
		ctx, end := context.WithCancel(e.Context)
		ahead := *held // a copy, because other Observers share the event
		timer := time.AfterFunc(patience, func() {
			if ahead.Holder.ID == "" {
				_ = ahead.Identify(ctx) // the caller needs nothing from this, so a failure is ignored
			}
			o.mu.Lock()
			defer o.mu.Unlock()
			w.holder = holder(ahead.Holder.ID)
		})
		w.end = func() { timer.Stop(); end() }
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.waiting[e.Call] = w
}

// takeSpan returns the span of a call that has returned, and the trace that was in its way, as far as that is known.
func (o *Observer) takeSpan(e recipes.Event) (trace.Span, trace.SpanContext) {
	o.mu.Lock()
	defer o.mu.Unlock()
	w := o.waiting[e.Call]
	if w == nil {
		return o.start(e), trace.SpanContext{}
	}
	delete(o.waiting, e.Call)
	w.end()
	return w.span, w.holder
}

// conclude notes in the span how the call ended, and who was in its way: by the error, or otherwise by the parameter blocker.
func conclude(span trace.Span, e recipes.Event, blocker trace.SpanContext) {
	var held *recipes.HeldError
	if errors.As(e.Cause, &held) {
		span.SetAttributes(attribute.Int("locktree.position", held.Position))
		if told := holder(held.Holder.ID); told.IsValid() {
			blocker = told
		}
	}
	if blocker.IsValid() && blocker.TraceID() != span.SpanContext().TraceID() {
		span.AddLink(trace.Link{SpanContext: blocker, Attributes: []attribute.KeyValue{attribute.String("locktree.link", "holder")}})
	}
	if e.Type == recipes.EventAcquired {
		span.SetAttributes(attribute.String("locktree.node", e.Node))
	}
	span.SetAttributes(attribute.String("locktree.result", e.Result))
	if e.Cause != nil && e.Result != "held" {
		span.SetAttributes(attribute.String("error.type", e.Result))
		span.SetStatus(codes.Error, e.Cause.Error())
	}
}
