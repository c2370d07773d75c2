package recipes

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/recipes/internal/session"
	"github.com/locktree/locktree/recipes/kind"
)

// Once is a job that runs once for each slot: an instant of its declared schedule, or a name that the program gives. A mutex alone
// does not do that: it excludes only while a job runs, so a short job runs on every machine whose clock differs a little.
//
// Who starts a slot holds the job's lock, so that one run is under way at a time, and has written the slot into the job's record, in
// one transaction that is guarded by the record's version and by the lock. That decides, and no clock has a part in it. With
// success = "start", which is the default, a slot is started at most once: if its holder dies, the work is not done to its end. With
// success = "end" it is started again, with a larger token, by another one who wants it, until a run has succeeded. At most one success
// is recorded. But the work may be done to its end more than once, by a holder that lost the lock without stopping, unless its store
// refuses old tokens.
//
// Clocks say when to try. A slot is not started more than 30 s before its instant by the clock of the ensemble, as the stat of this
// session's own contender shows it: a client whose clock is ahead waits. A client whose clock is behind starts late, if nobody else has, and
// not at all once the instant is longer ago, by the ensemble's clock, than catch_up says. So a slot is missed only if no client lives
// whose clock is less than catch_up behind. docs/once.md says the rest.
type Once struct{ q *queue }

// Once returns a handle on the job at path; see Client.Mutex. WithLocalHandoff, WithRetention and WithReentrancy are refused: each start
// has a token of its own.
func (c *Client) Once(path string, opts ...Option) *Once {
	q := c.queue(kind.Once, path, false, opts)
	if q.wrong == nil && (q.opts.maxHandoffs > 0 || q.opts.reentrant) {
		q.wrong = fmt.Errorf("recipes: once %s: WithLocalHandoff and WithReentrancy would give several starts one token: leave them out", path)
	}
	return &Once{q}
}

// Path returns the job's path.
func (o *Once) Path() string { return o.q.path }

// Of the slots of a [Once].
var (
	// ErrSlotTaken: the slot was started by somebody, with success = "start"; or a run of it has succeeded; or a person skipped it. It
	// arrives as a *SlotError.
	ErrSlotTaken = errors.New("recipes: slot taken")
	// ErrSlotTooOld: the slot sorts before those that are recorded, so whether it was run is not known; or its instant is before the job
	// was declared, or longer ago than catch_up allows. It is not run.
	ErrSlotTooOld = errors.New("recipes: slot too old")
	// ErrNoSlot: the job has no such slot: its instant is not in the schedule, or its name is empty, longer than 128 bytes, or not
	// printable.
	ErrNoSlot = errors.New("recipes: no such slot")
)

// SlotError says what became of a slot. It matches ErrSlotTaken.
type SlotError struct {
	Path string        // of the job
	Slot string        // its name
	Run  *kind.SlotRun // as recorded; nil if it is before the end of a pause
}

func (e *SlotError) Error() string {
	what := "is skipped: it is before the end of a pause"
	if e.Run != nil {
		what = fmt.Sprintf("is %s, by %s", e.Run.State, kind.Visible(e.Run.By))
	}
	return fmt.Sprintf("%v: %s of %s %s", ErrSlotTaken, e.Slot, e.Path, what)
}

func (*SlotError) Unwrap() error { return ErrSlotTaken }

// Start waits until it may start a slot, and starts it. An empty slot is the newest one of the schedule, by this machine's clock, if
// its instant is no longer ago than catch_up. The caller ends it with [Start.End]. ctx bounds the wait.
//
// While somebody else runs the job, Start waits, unless the record says already what becomes of the slot: then it returns a *SlotError
// at once. Other errors are ErrSlotTooOld, ErrNoSlot, kind.ErrUnknownZone where this machine does not know the declared time zone, and those
// of Mutex.Lock. If the lease is lost before the record is written, or before that is known, the error is ErrLost; with
// success = "start" the slot may count as started then, although nobody runs it.
func (o *Once) Start(ctx context.Context, slot string) (*Start, error) {
	return o.start(ctx, slot, slot == "", false)
}

// TryStart is Start, but does not wait for others: while somebody runs the job or waits to, it returns a *HeldError.
func (o *Once) TryStart(ctx context.Context, slot string) (*Start, error) {
	return o.start(ctx, slot, slot == "", true)
}

// Do runs fn for a slot, as Start and End do: fn's error is its result. It returns what fn returned, and what Start and End did. fn's
// context ends with the lease, as in Mutex.Do. If fn panics nothing is recorded, as if this process had died.
func (o *Once) Do(ctx context.Context, slot string, fn func(context.Context, *Lease) error) error {
	s, err := o.Start(ctx, slot)
	if err != nil {
		return err
	}
	return s.do(ctx, fn)
}

// start takes the job's lock, and starts the slot in its record. late means that it must not be later than catch_up.
func (o *Once) start(ctx context.Context, slot string, late, try bool) (*Start, error) {
	for {
		asked := time.Now()
		p, name, err := o.resolve(ctx, slot)
		if err != nil {
			return nil, err
		}
		l, err := o.lock(ctx, p, name, try)
		if err != nil {
			return nil, err
		}
		s := &Start{Lease: l, Slot: name, record: recordOf(l.Path()), params: l.h.d.params.(*kind.OnceParams)}
		early, err := s.begin(late, o.q)
		if err == nil && early == 0 {
			return s, nil
		}
		unlock, done := l.releasing(ctx)
		pending := l.Unlock(unlock)
		done()
		if err != nil {
			return nil, errors.Join(err, pending)
		}
		// The contender that showed the ensemble's time was created when we asked, or later.
		if err := pause(ctx, nil, early-time.Since(asked)+stagger(p)); err != nil {
			return nil, fmt.Errorf("recipes: once %s: %s is %v ahead of the ensemble's clock: %w", o.q.path, name, early+ahead, whyEnded(ctx))
		}
	}
}

func recordOf(path string) string { return kind.JoinPath(path, kind.Once.Record) }

// resolve finds the declaration, and the slot that is meant.
func (o *Once) resolve(ctx context.Context, slot string) (*kind.OnceParams, string, error) {
	_, d, err := o.declared(ctx)
	if err != nil {
		return nil, "", err
	}
	p := d.params.(*kind.OnceParams)
	if slot == "" && p.Schedule == "" {
		return nil, "", fmt.Errorf("%w: %s has no schedule, and so no newest slot: name one", ErrNoSlot, o.q.path)
	}
	if slot == "" {
		times, err := p.Times()
		if err != nil {
			return nil, "", fmt.Errorf("recipes: once %s: %w", o.q.path, err)
		}
		slot = kind.SlotAt(times.Prev(o.q.c.now()))
	}
	switch err := p.CheckSlot(slot); {
	case errors.Is(err, kind.ErrUnknownZone):
		return nil, "", fmt.Errorf("recipes: once %s: %w", o.q.path, err)
	case err != nil:
		return nil, "", fmt.Errorf("%w: %s: %w", ErrNoSlot, o.q.path, err)
	}
	return p, slot, nil
}

// declared is the declaration, where the job is by now.
func (o *Once) declared(ctx context.Context) (*queue, *declaration, error) {
	if o.q.wrong != nil {
		return nil, nil, o.q.wrong
	}
	e, err := o.q.c.epoch(ctx)
	if err != nil {
		return nil, nil, err
	}
	q, err := o.q.present(ctx, e)
	if err != nil {
		return nil, nil, err
	}
	d, err := e.declared(ctx, q)
	return q, d, err
}

// lock takes the job's lock, unless the record says before that what becomes of the slot.
func (o *Once) lock(ctx context.Context, p *kind.OnceParams, slot string, try bool) (*Lease, error) {
	waiting, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	changed, err := o.glance(waiting, p, slot)
	if err != nil {
		return nil, err
	}
	watching := make(chan struct{})
	go func() {
		defer close(watching)
		o.watch(waiting, p, slot, changed, stop)
	}()
	l, err := o.q.lock(waiting, 0, try)
	why := context.Cause(waiting)
	stop(nil)
	<-watching
	if err != nil && errors.Is(why, ErrSlotTaken) {
		return nil, why
	}
	return l, err
}

// watch looks at the record whenever it changes, and ends the wait when the slot is decided.
func (o *Once) watch(waiting context.Context, p *kind.OnceParams, slot string, changed <-chan struct{}, stop context.CancelCauseFunc) {
	for changed != nil {
		select {
		case <-changed:
		case <-waiting.Done():
			return
		}
		var decided error
		if changed, decided = o.glance(waiting, p, slot); decided != nil {
			stop(decided)
			return
		}
	}
}

// glance looks at the record without the lock. The error says that the slot is decided; changed is closed when it is to be asked again, nil if
// that cannot be known: the holder of the lock finds out in any case.
func (o *Once) glance(ctx context.Context, p *kind.OnceParams, slot string) (changed <-chan struct{}, decided error) {
	q, _, err := o.declared(ctx)
	if err != nil {
		return nil, nil
	}
	s, err := q.c.Session(ctx)
	if err != nil {
		return nil, nil
	}
	data, _, changed, err := s.GetW(ctx, recordOf(q.path))
	if err != nil {
		return nil, nil
	}
	record, err := kind.ParseRecord(data)
	if err != nil {
		return nil, nil
	}
	return changed, judge(q, q.path, record, slot, p)
}

// judge is the error of a slot that must not be started.
func judge(q *queue, path string, r *kind.Record, slot string, p *kind.OnceParams) error {
	switch r.Judge(slot, p) {
	case kind.SlotTaken:
		return &SlotError{path, slot, r.Run(slot)}
	case kind.SlotSkip:
		if !q.opts.skipped {
			return &SlotError{path, slot, r.Run(slot)}
		}
	case kind.SlotForgotten:
		return fmt.Errorf("%w: %s of %s sorts before the %d slots that are recorded", ErrSlotTooOld, slot, path, len(r.Slots))
	}
	return nil
}

// Run runs fn for each slot of the schedule, until ctx ends: within a second of its instant, and if nobody has started it by then, later,
// up to catch_up, the oldest one first. fn's context and lease are those of Do. What fn returns is recorded and logged to Config.Logger, and Run goes
// on: it does not try a slot again for which its own fn has returned an error while the lease was held; other clients do, with
// success = "end". If the lease was lost, it may try the slot again itself.
//
// Run outlasts what is worth another try: a lost session, servers that cannot be reached, an apply that drains the job. It returns ctx's error, or
// why there is nothing to wait for: ErrNotProvisioned, ErrKindMismatch, ErrNoSlot if the job has no schedule, and other errors that [Retryable] reports
// false for.
func (o *Once) Run(ctx context.Context, fn func(ctx context.Context, slot time.Time, l *Lease) error) error {
	settled := time.Time{} // slots up to this one are not this client's to start, by what it knows
	for try := (tries{longest: 5 * time.Second}); ; {
		settledTo, err := o.turn(ctx, settled, fn)
		if settledTo.After(settled) {
			settled, try = settledTo, tries{longest: 5 * time.Second}
		}
		if ctx.Err() != nil {
			return whyEnded(ctx)
		}
		if err != nil && try.over(ctx, nil, outlasted, &err) {
			return err
		}
	}
}

// outlasted is what Run outlasts, also behind a grant: whatever was done then, the record says it.
func outlasted(err error) bool {
	for _, reason := range []error{ErrLost, ErrSessionLost, ErrReleasePending, ErrDraining} {
		if errors.Is(err, reason) {
			return !errors.Is(err, ErrClosed)
		}
	}
	return Retryable(err) || session.Retryable(err) || unanswered(err)
}

// turn starts the oldest slot that is due, or waits for the next one.
func (o *Once) turn(ctx context.Context, settled time.Time, fn func(context.Context, time.Time, *Lease) error) (time.Time, error) {
	q, d, err := o.declared(ctx)
	if err != nil {
		return settled, err
	}
	p := d.params.(*kind.OnceParams)
	if p.Schedule == "" {
		return settled, fmt.Errorf("%w: %s has no schedule, so there is nothing to wait for: call Do with a slot", ErrNoSlot, o.q.path)
	}
	record, stat, err := o.record(ctx, q)
	if err != nil {
		return settled, err
	}
	look, err := record.Look(p, declaredAt(d, stat), o.q.c.now(), 0)
	if err != nil {
		return settled, fmt.Errorf("recipes: once %s: %w", o.q.path, err)
	}
	for _, at := range look.Due {
		if at.After(settled) {
			if o.standBy(ctx, q, p, stat.Version) {
				return settled, nil
			}
			return o.attempt(ctx, at, settled, fn)
		}
	}
	times, _ := p.Times()                                    // Look has read them
	return settled, o.await(ctx, d, times.Next(o.q.c.now())) // one that is skipped, too: the pause may have ended by then
}

// stagger is by how long a client delays what others do at the same moment. When most of them look, the first one has written the record.
func stagger(p *kind.OnceParams) time.Duration { return rand.N(min(time.Second, p.Late()/8) + 1) }

// standBy keeps this client out of a queue in which one holds, and another one waits in case that one dies or fails: the record tells what
// they do. All clients would queue for each slot without it. It reports whether the record is another one than that seen. If it is not for a
// while, those two may be there for something else, and this client is to queue.
func (o *Once) standBy(ctx context.Context, q *queue, p *kind.OnceParams, seen int32) bool {
	s, err := o.q.c.Session(ctx)
	if err != nil {
		return false
	}
	children, _, err := s.Children(ctx, q.dir())
	if line, _ := kind.SortContenders(children); err != nil || len(line) < 2 {
		return false
	}
	waiting, stop := context.WithTimeout(ctx, min(recheck, p.Late()/8)) // it closes changed, too
	defer stop()
	_, stat, changed, err := s.GetW(waiting, recordOf(q.path))
	if err != nil {
		return false
	}
	if stat.Version == seen {
		<-changed
	}
	return waiting.Err() == nil && pause(ctx, nil, stagger(p)) == nil
}

// record reads the record without the lock.
func (o *Once) record(ctx context.Context, q *queue) (*kind.Record, *zk.Stat, error) {
	s, err := o.q.c.live(ctx)
	if err != nil {
		return nil, nil, err
	}
	data, stat, err := s.Get(ctx, recordOf(q.path))
	if err = q.complete(ctx, s, err); errors.Is(err, errNotApplied) {
		data, stat, err = s.Get(ctx, recordOf(q.path))
	}
	if isNoNode(err) {
		return nil, nil, noRecord(recordOf(q.path), err)
	}
	if err != nil {
		return nil, nil, err
	}
	record, err := kind.ParseRecord(data)
	return record, stat, err
}

func noRecord(node string, err error) error {
	return fmt.Errorf("%w: %s, which has the record of its slots, does not exist; run apply: %w", ErrNotProvisioned, node, err)
}

// attempt starts a slot that is due, and runs fn. It returns the slot if this client has done with it.
func (o *Once) attempt(ctx context.Context, at, settled time.Time, fn func(context.Context, time.Time, *Lease) error) (time.Time, error) {
	s, err := o.start(ctx, kind.SlotAt(at), true, false)
	switch {
	case errors.Is(err, ErrSlotTaken), errors.Is(err, ErrSlotTooOld), errors.Is(err, ErrNoSlot): // the schedule may have changed
		return at, nil
	case err != nil:
		return settled, err
	}
	err = s.do(ctx, func(ctx context.Context, l *Lease) error { return fn(ctx, at, l) })
	if err == nil {
		return at, nil
	}
	o.q.c.log.Warn("a run has failed", "once", o.q.path, "slot", s.Slot, "error", err)
	if errors.Is(context.Cause(s.Context()), ErrLost) {
		return settled, err
	}
	return at, nil
}

// recheck is how often who waits for a slot looks at its clock, which may have been put.
const recheck = time.Minute

// await waits until a slot is due by this machine's clock, and a little longer, or until something else is declared.
func (o *Once) await(ctx context.Context, d *declaration, next time.Time) error {
	for {
		left := next.Sub(o.q.c.now())
		if left <= 0 && !next.IsZero() {
			return pause(ctx, nil, stagger(d.params.(*kind.OnceParams)))
		}
		if next.IsZero() {
			left = recheck
		}
		timer := time.NewTimer(min(left, recheck))
		select {
		case <-timer.C:
		case <-d.w.C():
			timer.Stop()
			return nil
		case <-d.dropped:
			timer.Stop()
			return nil
		case <-ctx.Done():
			timer.Stop()
			return whyEnded(ctx)
		}
	}
}

// Skip records that a slot is not to be run: it is for people. A slot that was started or has succeeded is a *SlotError; while the job runs, or
// somebody waits to run it, the error is a *HeldError.
func (o *Once) Skip(ctx context.Context, slot string) error {
	_, slot, err := o.resolve(ctx, slot)
	if err != nil {
		return err
	}
	l, err := o.q.lock(ctx, 0, true)
	if err != nil {
		return err
	}
	s := &Start{Lease: l, Slot: slot, record: recordOf(l.Path()), params: l.h.d.params.(*kind.OnceParams)}
	err = s.change(ctx, func(r *kind.Record, stat *zk.Stat) (*kind.Record, error) {
		run := kind.SlotRun{Slot: slot, State: kind.SlotSkipped, By: o.q.id(), Started: o.q.c.now().UnixMilli()}
		if was := r.Run(slot); was != nil && was.State == kind.SlotSkipped {
			return nil, nil
		}
		if err := judge(o.q, s.Path(), r, slot, s.params); err != nil {
			return nil, err
		}
		return r.Counts(s.params, declaredAt(l.h.d, stat)).Put(run, s.params.Keep), nil
	})
	return errors.Join(err, l.Unlock(ctx))
}

// Pause skips the slots before resume that are not started yet, also those of the past: it is for people. To end a pause early, call it
// with the next slot.
func (o *Once) Pause(ctx context.Context, resume string) error {
	_, resume, err := o.resolve(ctx, resume)
	if err != nil {
		return err
	}
	q, _, err := o.declared(ctx)
	if err != nil {
		return err
	}
	for try := (tries{}); ; {
		s, err := o.q.c.live(ctx)
		if err != nil {
			return err
		}
		record, stat, err := o.record(ctx, q)
		if err != nil || record.Resume == resume {
			return err
		}
		record.Resume = resume
		_, err = s.Set(ctx, recordOf(q.path), record.Encode(), stat.Version)
		if try.over(ctx, s, unwritten, &err) {
			return err
		}
	}
}
