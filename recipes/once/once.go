// Package once runs a job once a slot: see [Once].
package once

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/internal/errs"
	"github.com/locktree/locktree/recipes/internal/retry"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/kind/slots"
)

// Once is a job that runs once for each slot. A slot is an instant of the declared schedule, or a name that the program gives. A
// mutex alone is not enough, because it excludes other clients only while the job runs. A client whose clock is a little late
// would run a short job again.
//
// A client that starts a slot holds the job's lock, so one run is under way at a time. The client writes the slot into the job's
// record, in a transaction that fails if the record has changed or the lock is lost. The record, and no clock, decides which
// slots were started. With success = "start", the default, a slot is started at most once. If the client that started it dies,
// the work is not finished. With success = "end" other clients start the slot again, with a larger token, until a run has
// succeeded. At most one success is recorded. But a holder that lost the lock without stopping may finish the work a second time,
// unless its store refuses old tokens.
//
// Clocks only say when to try. A slot is not started more than 30 s before its instant, by the clock of the ensemble. The stat of
// the client's own node in the queue shows that clock. A client with a fast clock waits. A client with a slow clock starts late,
// if no other client has started. No client starts a slot whose instant is more than catch_up ago, by the ensemble's time of the
// start. Only a slot that the program names may be older. So a slot of the schedule is missed if no client can start it in that
// time. For example, no client runs, the servers cannot be reached, an apply drains the job, or a run of another slot takes too
// long. Or the clock of every live client is at least catch_up slow. A client that waits for an instant looks at its clock again
// every minute, so a clock may be set at any time. Only a wait for the job's lock can be longer. clock.go lists each wait;
// docs/once.md says the rest.
type Once struct {
	c    *recipes.Client
	path string
	opts []recipes.Option
}

// New returns a handle on the job at path; see [recipes.Client.Mutex]. WithReentrancy has no effect: each start has a token of its own.
func New(c *recipes.Client, path string, opts ...recipes.Option) *Once {
	return &Once{c: c, path: path, opts: opts}
}

// Path returns the job's path.
func (o *Once) Path() string { return o.path }

// Errors of the slots of a [Once].
var (
	// ErrSlotTaken: the slot was started, with success = "start"; or a run of it has succeeded; or a person skipped it. A
	// *SlotError wraps it.
	ErrSlotTaken = errors.New("recipes: slot taken")
	// ErrSlotTooOld: the slot sorts before the recorded ones, so it may have been run. Or its instant is before the job was
	// declared. Or its instant is more than catch_up ago, and the program has not named the slot. The slot is not run.
	ErrSlotTooOld = errors.New("recipes: slot too old")
	// ErrNoSlot: the job has no such slot. The instant is not in the schedule, or the name is empty, longer than 128 bytes, or not
	// printable.
	ErrNoSlot = errors.New("recipes: no such slot")
)

// SlotError says what became of a slot. It matches ErrSlotTaken.
type SlotError struct {
	Path string     // the path of the job
	Slot string     // the name of the slot
	Run  *slots.Run // the slot's entry in the record
}

func (e *SlotError) Error() string {
	return fmt.Sprintf("%v: %s of %s is %s, by %s", ErrSlotTaken, e.Slot, e.Path, e.Run.State, kind.Visible(e.Run.By))
}

func (*SlotError) Unwrap() error { return ErrSlotTaken }

// Start waits until it may start a slot, and starts it. An empty name means the newest slot of the schedule, by this machine's
// clock. That slot is too old if its instant is more than catch_up ago. The caller ends the start with [Start.End]. ctx bounds
// the wait.
//
// While another client runs the job, Start waits. If the record decides the slot already, Start returns a *SlotError at once.
// Other errors are ErrSlotTooOld, ErrNoSlot, slots.ErrUnknownZone where this machine does not know the declared time zone, and
// those of Mutex.Lock. If the lease is lost before the write of the record is confirmed, the error is recipes.ErrLost. With
// success = "start" the slot may then count as started without a run.
func (o *Once) Start(ctx context.Context, slot string) (*Start, error) {
	return o.start(ctx, slot, slot == "", false)
}

// TryStart is Start, but does not wait for others: while another client runs the job or waits to run it, TryStart returns a
// *recipes.HeldError.
func (o *Once) TryStart(ctx context.Context, slot string) (*Start, error) {
	return o.start(ctx, slot, slot == "", true)
}

// Do runs fn for a slot, as Start and End do: the error of fn is the result of the run. Do returns the errors of fn, Start and
// End. fn's context ends with the lease, as in Mutex.Do. If fn panics nothing is recorded, as if this process had died.
func (o *Once) Do(ctx context.Context, slot string, fn func(context.Context, *recipes.Lease) error) error {
	s, err := o.Start(ctx, slot)
	if err != nil {
		return err
	}
	_, err = s.do(ctx, fn)
	return err
}

// start starts a slot as soon as it is due. If this machine's clock is ahead, the newest slot is perhaps not due yet by the
// ensemble's clock. start keeps to that slot unless the clock is set meanwhile.
func (o *Once) start(ctx context.Context, slot string, late, try bool) (*Start, error) {
	own, newest := clock{now: o.c.Now}, time.Time{}
	for {
		if now, set := own.read(); set {
			newest = now
		}
		s, wait, err := o.startNow(ctx, slot, newest, nil, late, try)
		if s != nil || err != nil {
			return s, err
		}
		if retry.Pause(ctx, nil, wait) != nil {
			return nil, errs.Errorf("recipes: once %s: its slot is not due yet by the ensemble's clock: %w", o.path, retry.WhyEnded(ctx))
		}
	}
}

// startNow takes the job's lock, and starts the slot in its record. An empty name means the newest slot at moment. If the
// parameter late is true, startNow refuses a slot that is more than catch_up ago. If the slot is not due, or if the clock that
// chose it (chooser) was wrong, startNow returns neither a start nor an error. Then the caller waits, and looks at everything
// again.
func (o *Once) startNow(ctx context.Context, slot string, moment time.Time, chooser *clock, late, try bool) (s *Start, wait time.Duration, err error) {
	asked := time.Now()
	p, name, err := o.resolve(ctx, slot, moment)
	if err != nil {
		return nil, 0, err
	}
	l, err := o.lock(ctx, p, name, try)
	if err != nil {
		return nil, 0, err
	}
	var own *zk.Stat
	if s, err = o.startOf(ctx, l, name); err == nil {
		own, err = s.contender()
	}
	var early time.Duration
	wrong := err == nil && chooser != nil && chooser.learn(time.UnixMilli(own.Ctime))
	if err == nil && !wrong {
		early, err = s.begin(time.UnixMilli(own.Mtime), late)
	}
	if err == nil && early == 0 && !wrong {
		return s, 0, nil
	}
	err = l.Do(ctx, func(context.Context, *recipes.Lease) error { return err })
	// The wait in the variable early begins at our node's last write, and the time in asked is before that write. So the pause may be too
	// short, but never too long.
	return nil, min(early-time.Since(asked), recheck) + stagger(p), err
}

func recordOf(path string) string { return kind.JoinPath(path, kind.Once.Record) }

// resolve finds the declaration, and the name of the slot.
func (o *Once) resolve(ctx context.Context, slot string, newest time.Time) (*kind.OnceParams, string, error) {
	d, err := o.readDeclaration(ctx)
	if err != nil {
		return nil, "", err
	}
	p := d.Params.(*kind.OnceParams)
	if slot == "" && p.Schedule == "" {
		return nil, "", fmt.Errorf("%w: %s has no schedule, and so no newest slot: its program names each slot", ErrNoSlot, o.path)
	}
	if slot == "" {
		times, err := p.Times()
		if err != nil {
			return nil, "", errs.Errorf("recipes: once %s: %w", o.path, err)
		}
		slot = slots.At(times.Prev(newest))
	}
	return p, slot, o.check(p, slot)
}

// check returns the error of a slot that p does not have.
func (o *Once) check(p *kind.OnceParams, slot string) error {
	switch err := p.CheckSlot(slot); {
	case errors.Is(err, slots.ErrUnknownZone):
		return errs.Errorf("recipes: once %s: %w", o.path, err)
	case err != nil:
		return errs.Errorf("%w: %s: %w", ErrNoSlot, o.path, err)
	}
	return nil
}

// lock takes the job's lock. If the record decides the slot before the lock is granted, lock stops with an error.
func (o *Once) lock(ctx context.Context, p *kind.OnceParams, slot string, try bool) (*recipes.Lease, error) {
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
	lock := o.c.Locker(kind.Once, o.path, false, 0, o.opts...)
	take := lock.Lock
	if try {
		take = lock.TryLock
	}
	l, err := take(waiting)
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

// glance looks at the record without the lock. The error says that the slot is decided. The channel changed is closed when the
// caller should glance again. The channel is nil if the record cannot be read: the caller reads the record again once it has the
// lock.
func (o *Once) glance(ctx context.Context, p *kind.OnceParams, slot string) (changed <-chan struct{}, decided error) {
	s, err := o.c.Session(ctx)
	if err != nil {
		return nil, nil
	}
	data, _, changed, err := s.GetW(ctx, recordOf(o.path))
	if err != nil {
		return nil, nil
	}
	record, err := slots.ParseRecord(data)
	if err != nil {
		return nil, nil
	}
	return changed, o.judge(record, slot, p)
}

// judge returns the error of a slot that must not be started.
func (o *Once) judge(r *slots.Record, slot string, p *kind.OnceParams) error {
	rules, _ := p.Rules() // Judge needs no schedule, so the error of Rules does not matter
	switch r.Judge(slot, rules) {
	case slots.Taken, slots.Skip:
		return &SlotError{o.path, slot, r.Run(slot)}
	case slots.Forgotten:
		return fmt.Errorf("%w: %s of %s sorts before the %d slots that are recorded", ErrSlotTooOld, slot, o.path, len(r.Slots))
	}
	return nil
}

func noRecord(node string, err error) error {
	return errs.Errorf("%w: %s, which has the record of its slots, does not exist; run apply: %w", recipes.ErrNotProvisioned, node, err)
}

// Skip records that a slot must not be run, for a person who decides that. If a run has taken the slot (see [ErrSlotTaken]), the
// error is a *SlotError. While the job runs, or a client waits to run it, the error is a *recipes.HeldError. Skip refuses a slot
// if the record would then forget an earlier slot that is still to be run.
func (o *Once) Skip(ctx context.Context, slot string) error {
	_, slot, err := o.resolve(ctx, slot, o.c.Now())
	if err != nil {
		return err
	}
	l, err := o.c.Locker(kind.Once, o.path, false, 0, o.opts...).TryLock(ctx)
	if err != nil {
		return err
	}
	s, err := o.startOf(ctx, l, slot)
	if err != nil {
		return errors.Join(err, l.Unlock(ctx))
	}
	_, err = s.change(ctx, func(r *slots.Record, stat *zk.Stat) (*slots.Record, error) {
		run := slots.Run{Slot: slot, State: slots.Skipped, By: s.d.ID, Started: o.c.Now().UnixMilli()}
		if was := r.Run(slot); was != nil && was.State == slots.Skipped {
			return nil, nil
		}
		if err := o.judge(r, slot, s.params); err != nil {
			return nil, err
		}
		next := r.Put(run, s.params.Keep)
		rules, err := s.params.Rules()
		look := r.Look(rules, countsFrom(r, s.d, stat), o.c.Now(), 0)
		for _, at := range append(look.Due, look.Next) {
			if before := slots.At(at); before < slot && !at.IsZero() && next.Judge(before, rules) == slots.Forgotten {
				return nil, errs.Errorf("recipes: once %s: with keep = %d, skipping %s would forget %s, which is still to be run: run or skip that one first, or declare a larger keep",
					s.Path(), s.params.Keep, slot, before)
			}
		}
		return next, err
	})
	return errors.Join(err, l.Unlock(ctx))
}

// readDeclaration returns the declaration.
func (o *Once) readDeclaration(ctx context.Context) (*recipes.Declaration, error) {
	return o.c.Declaration(ctx, kind.Once, o.path, o.opts...)
}

// startOf makes the Start of a slot under the job's lock, before the record has it. The schedule may have changed during the
// wait.
func (o *Once) startOf(ctx context.Context, l *recipes.Lease, slot string) (*Start, error) {
	d, err := o.readDeclaration(ctx)
	if err != nil {
		return nil, err
	}
	p := d.Params.(*kind.OnceParams)
	return &Start{Lease: l, Slot: slot, o: o, d: d, record: recordOf(l.Path()), params: p}, o.check(p, slot)
}

// record reads the record without the lock.
func (o *Once) record(ctx context.Context) (*slots.Record, *zk.Stat, error) {
	s, err := o.c.Session(ctx)
	if err != nil {
		return nil, nil, err
	}
	data, stat, err := s.Get(ctx, recordOf(o.path))
	if err != nil {
		return nil, nil, err
	}
	record, err := slots.ParseRecord(data)
	return record, stat, err
}
