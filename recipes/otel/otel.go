// Package otel provides OpenTelemetry spans of acquisitions: how long a call waited for a lock, in the trace of its caller,
// with a link to the trace of the holder. Import it under a name of your own:
//
//	import lockotel "github.com/locktree/locktree/recipes/otel"
//
//	spans := lockotel.New(client)
//	m := client.Mutex("/locks/ledger", lockotel.ID(ctx, "worker-1"))
//	l, err := spans.Acquire(ctx, m.Path(), m.Lock)
//
// The span is called locktree.acquire, is internal, and ends when the lock is granted or refused. There is no span for the
// time a lock is held: that may be days, and exporters drop spans that have not ended. Attributes:
//
//	locktree.path      the lock
//	locktree.result    see [recipes.ResultOf]: acquired, timeout, cancelled, held (a Try found the lock held), quota, unreachable or error
//	locktree.node      the contender that was granted
//	locktree.position  contenders ahead of a call that was refused because the lock is held
//	error.type         the result, unless it is acquired or held; the span's status is an error then
//
// # Who was in the way
//
// [ID] writes the trace of the caller's context into the contender, behind its name. Everybody who may read the queue sees it
// there; `locktree status` shows it. A call that has waited for 100 ms and is recorded reads the first contender of the queue,
// with two requests, and links to the trace it finds. A call that is refused takes the trace from the error. Semaphores have
// several holders, and a MultiLock has several queues: for these only the error names a trace.
//
// As every call has an ID of its own, [recipes.WithLocalHandoff] never passes a place on, and the next call gives up a lock
// that [recipes.WithRetention] keeps.
package otel

import (
	"context"
	"errors"
	"strings"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/locktree/locktree/recipes"
)

const scope = "github.com/locktree/locktree/recipes/otel"

// patience is how long a call waits before it asks who is in the way. Most locks are free, or soon.
const patience = 100 * time.Millisecond

// Tracer makes the spans of one client. Safe for use by many goroutines. Obtain it from [New].
type Tracer struct {
	client *recipes.Client
	tracer trace.Tracer
}

// Option changes a Tracer.
type Option func(*Tracer)

// WithTracerProvider replaces the global provider.
func WithTracerProvider(p trace.TracerProvider) Option {
	return func(t *Tracer) { t.tracer = p.Tracer(scope) }
}

// New makes a Tracer.
func New(c *recipes.Client, opts ...Option) *Tracer {
	t := &Tracer{client: c, tracer: otel.Tracer(scope)}
	for _, opt := range opts {
		opt(t)
	}
	return t
}

// ID is recipes.WithID(id), with the trace of ctx behind it, if there is one.
func ID(ctx context.Context, id string) recipes.Option {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return recipes.WithID(strings.TrimSpace(id + " " + carrier["traceparent"]))
}

// holder is the trace that a contender's ID names; invalid if it names none. Anybody may have written it.
func holder(id string) trace.SpanContext {
	carrier := propagation.MapCarrier{"traceparent": id[strings.LastIndexByte(id, ' ')+1:]}
	return trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), carrier))
}

// Acquire calls lock, for example the Lock of the Mutex at path, and makes a span of it. It returns what lock returns. The
// lease's context carries the trace of ctx, not the span.
func (t *Tracer) Acquire(ctx context.Context, path string, lock func(context.Context) (*recipes.Lease, error)) (*recipes.Lease, error) {
	_, span := t.tracer.Start(ctx, "locktree.acquire", trace.WithAttributes(attribute.String("locktree.path", path)))
	defer span.End()
	if !span.IsRecording() {
		return lock(ctx)
	}
	returned, granted := context.WithCancel(context.WithoutCancel(ctx))
	defer granted()
	seen := make(chan trace.SpanContext, 1)
	go func() { seen <- t.look(returned, path) }()
	l, err := lock(ctx)
	granted()
	end(span, l, err, <-seen)
	return l, err
}

// look returns the trace of who is first in the queue when patience is over. What goes wrong here concerns nobody.
func (t *Tracer) look(ctx context.Context, path string) (none trace.SpanContext) {
	select {
	case <-ctx.Done():
		return none
	case <-time.After(patience):
	}
	// Whatever the kind of the lock is: following an election is to read its queue, and whoever is first.
	first, found, err := t.client.Election(path).Leader(ctx)
	if err != nil || !found {
		return none
	}
	return holder(first.ID)
}

// end says how the call ended, and who was in its way: as the error tells, or as was seen before.
func end(span trace.Span, l *recipes.Lease, err error, blocker trace.SpanContext) {
	result := recipes.ResultOf(err)
	var held *recipes.HeldError
	if errors.As(err, &held) {
		span.SetAttributes(attribute.Int("locktree.position", held.Position))
		if told := holder(held.Holder.ID); told.IsValid() {
			blocker = told
		}
	}
	if blocker.IsValid() && blocker.TraceID() != span.SpanContext().TraceID() {
		span.AddLink(trace.Link{SpanContext: blocker, Attributes: []attribute.KeyValue{attribute.String("locktree.link", "holder")}})
	}
	if err == nil {
		span.SetAttributes(attribute.String("locktree.node", l.Node()))
	}
	span.SetAttributes(attribute.String("locktree.result", result))
	if err != nil && result != "held" {
		span.SetAttributes(attribute.String("error.type", result))
		span.SetStatus(codes.Error, err.Error())
	}
}
