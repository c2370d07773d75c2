package recipes

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/locktree/locktree/recipes/internal/session"
	"github.com/locktree/locktree/recipes/internal/znode"
	"github.com/locktree/locktree/recipes/kind"
)

// EventType says what an Event is about. Later versions may have more types: ignore a type that you do not know.
type EventType = session.EventType

// To add an event, declare it here and in loggedEvents, and send it: for a call or a lease in ask.go, for a session in package
// session. Count it in tally (observer_ends_test.go), and in package prom if it needs a metric. docs/reference.md lists the event
// after "make golden".

// Events of a call of a Lock, Try, Acquire or Campaign method: Queued at most once, then Acquired or Refused, exactly once. A
// Downgrade has Acquired if it succeeds. A call that enters a lock again ([WithReentrancy]) has no event, unless Queued was sent
// for it.
const (
	EventQueued   EventType = "queued"   // the call has to wait for another contender, or for a goroutine of this Client
	EventAcquired EventType = "acquired" // the call returns a lease
	EventRefused  EventType = "refused"  // the call returns an error
)

// Events of a lease. A lease begins with Acquired and ends with Released or Lost, exactly once. Downgrade ends the old lease with
// Released.
const (
	EventReleased EventType = "released" // the lease was given back; without a connection its node stays until the next reconnect, or until the session ends
	EventLost     EventType = "lost"     // the lease ended before it was released
)

// Events of the Client's sessions. There is one more, "session connected": the session has a connection again. EventSessionLost
// comes before the EventLost of its leases.
const (
	EventSessionOpened    = session.EventOpened    // the session was granted, and is active
	EventSessionSuspected = session.EventSuspected // nothing proves that the session is alive: no connection, no answer or, while it holds something, no committed write
	EventSessionCleared   = session.EventCleared   // the session is active again
	EventSessionLost      = session.EventLost      // the session is over; Cause is ErrClosed when its Client was closed
	EventHeartbeat        = session.EventHeartbeat // a heartbeat write was committed or has failed; a failure is the first sign that the servers have a problem
)

// Event is what Config.Observer receives. A call ends with one of these results:
//
//	acquired     it returned a lease
//	timeout      its context's deadline, or WithMaxWait, has passed
//	cancelled    its context ended for another reason
//	held         a Try found a contender ahead, which held the lock or waited for it
//	quota        the queue, the session or a quota is full, or the servers shed load
//	unreachable  the servers could not be reached when the call gave up
//	error        anything else, for example a lock that is draining, or a session that was lost
type Event struct {
	Type    EventType
	Time    time.Time       // when the event happened
	Context context.Context // has the values of the caller's context, but never ends
	Call    uint64          // the same in all events of one call and its lease, and unique in this process; 0 for a session's events
	Path    string          // the path of the lock's present node; for a MultiLock the paths of all members, as in [Lease.Path]
	Locks   []EventLock     // the lock that the call wants, or the members of a MultiLock; do not change it
	Node    string          // the path of the call's node: in all events of a lease, and in Queued unless the call waits in the process
	Token   uint64          // the token of the lease; 0 while it is not known
	Wait    time.Duration   // from the call until it was queued, granted or refused; for a heartbeat, from its sending until its answer
	Held    time.Duration   // for a lease, the time from its grant until the event
	Result  string          // how the call ended (Acquired, Refused), as listed above
	Cause   error           // in Queued, a *HeldError that names the contender ahead; in Refused, Lost and the events of sessions, the reason
	Session int64           // the session's id, in the events of leases and sessions; otherwise 0
}

// EventLock is one of the locks that a call is for.
type EventLock struct {
	Path    string
	Kind    *kind.Kind
	Shared  bool // the call is for reading; false for a kind without readers
	Permits int  // how many permits; 0 for a kind without permits
}

// How a call ended: see [Event].
const (
	resultAcquired    = "acquired"
	resultTimeout     = "timeout"
	resultCancelled   = "cancelled"
	resultHeld        = "held"
	resultQuota       = "quota"
	resultUnreachable = "unreachable"
	resultError       = "error"
)

// resultOf returns the result of a call that returned err.
func resultOf(err error) string {
	var held *HeldError
	switch waited := errors.As(err, &held) && held.Cause != nil; {
	case err == nil:
		return resultAcquired
	case errors.Is(err, ErrUnreachable): // even if err also matches others
		return resultUnreachable
	case errors.Is(err, ErrWouldDeadlock):
		return resultError
	case held != nil && !waited:
		return resultHeld
	case errors.Is(err, context.DeadlineExceeded):
		return resultTimeout
	case waited, errors.Is(err, context.Canceled):
		return resultCancelled
	}
	for _, full := range []error{ErrQueueFull, znode.ErrSessionFull, session.ErrQuotaExceeded, session.ErrThrottled} {
		if errors.Is(err, full) {
			return resultQuota
		}
	}
	return resultError
}

// eventQueue holds the events that the Observer has not received yet. Code that holds other mutexes may take this mutex too, so
// any code may add an event. Callbacks run on a goroutine that holds no mutex.
type eventQueue struct {
	mu      sync.Mutex
	pending []Event
	idle    chan struct{} // closed when all events have been delivered; nil while there is none to deliver
}

// observe passes e to the Observer, on a goroutine that holds no mutex. So a callback may panic, block, end its goroutine or call
// the Client.
func (c *Client) observe(e Event) {
	q := &c.events
	q.mu.Lock()
	defer q.mu.Unlock()
	e.Time = time.Now()
	q.pending = append(q.pending, e)
	if q.idle == nil {
		q.idle = make(chan struct{})
		go c.callback()
	}
}

// callback delivers all pending events, then ends.
func (c *Client) callback() {
	returned := true
	defer func() {
		if returned {
			return
		}
		why := recover() // nil: runtime.Goexit, which a test's FailNow calls
		go c.callback()
		c.log.Error("Config.Observer panicked, or ended its goroutine; the lock is not affected", "panic", why, "stack", string(debug.Stack()))
	}()
	for e, more := c.events.next(); more; e, more = c.events.next() {
		returned = false
		c.cfg.Observer(e)
		returned = true
	}
}

func (q *eventQueue) next() (e Event, more bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.pending) == 0 {
		close(q.idle)
		q.idle, q.pending = nil, nil
		return e, false
	}
	e, q.pending[0] = q.pending[0], e // the old array no longer refers to the event
	q.pending = q.pending[1:]
	return e, true
}

// wait waits until all events are delivered, for no longer than limit.
func (q *eventQueue) wait(limit time.Duration) {
	q.mu.Lock()
	idle := q.idle
	q.mu.Unlock()
	if idle == nil {
		return
	}
	select {
	case <-idle:
	case <-time.After(limit):
	}
}

// LogEvents makes a Config.Observer that logs events for people, one line each. LevelError is for a lease that was lost.
// LevelWarn is for a session in doubt, and for one that was lost without Close. LevelWarn is also for a call with the result
// unreachable, quota or error. LevelInfo is for a session that is no longer in doubt. LevelDebug is for a session that Close
// ended, and for all other grants, waits, refusals and releases. Heartbeats, new sessions and new connections are not logged.
// Config.Logger says which servers cannot be reached, and why. It may be the same logger.
func LogEvents(log *slog.Logger) func(Event) {
	return func(e Event) {
		level, text := levelOf(e)
		if text == "" || !log.Enabled(e.Context, level) {
			return
		}
		args := []any{}
		add := func(set bool, key string, value any) {
			if set {
				args = append(args, key, value)
			}
		}
		add(e.Path != "", "lock", e.Path)
		add(e.Token != 0, "token", e.Token)
		add(e.Session != 0, "session", fmt.Sprintf("%#x", uint64(e.Session)))
		add(e.Type == EventRefused, "result", e.Result)
		add(e.Type == EventAcquired || e.Type == EventRefused, "wait", e.Wait)
		add(e.Type == EventReleased || e.Type == EventLost, "held", e.Held)
		add(e.Cause != nil, "cause", e.Cause)
		log.Log(e.Context, level, text, args...)
	}
}

// loggedEvents are the events that LogEvents logs.
var loggedEvents = map[EventType]struct {
	level slog.Level
	text  string
}{
	EventLost:             {slog.LevelError, "lock lost"},
	EventSessionLost:      {slog.LevelWarn, "session lost"},
	EventSessionSuspected: {slog.LevelWarn, "session in doubt: the connection ended, or ZooKeeper does not answer or commits nothing"},
	EventSessionCleared:   {slog.LevelInfo, "session not in doubt any more: ZooKeeper answers"},
	EventRefused:          {slog.LevelDebug, "lock not granted"},
	EventQueued:           {slog.LevelDebug, "waiting for a lock"},
	EventAcquired:         {slog.LevelDebug, "lock granted"},
	EventReleased:         {slog.LevelDebug, "lock released"},
}

// levelOf returns the level and the text of an event. An event without a text is not logged.
func levelOf(e Event) (slog.Level, string) {
	how := loggedEvents[e.Type]
	switch {
	case e.Type == EventSessionLost && errors.Is(e.Cause, ErrClosed):
		return slog.LevelDebug, "session closed"
	case e.Result == resultUnreachable, e.Result == resultQuota, e.Result == resultError:
		how.level = slog.LevelWarn
	}
	return how.level, how.text
}
