package once

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/kind"
)

// Start is one start of a slot. Its lease is the job's lock; its token is larger than that of every earlier start.
type Start struct {
	*recipes.Lease
	// Slot is the name of the slot: kind.SlotTime is its instant.
	Slot string

	o      *Once
	d      *recipes.Declaration
	record string // the node
	params *kind.OnceParams
	run    kind.SlotRun
	begun  time.Time
}

// do runs fn, records its result, and gives the job's lock back.
func (s *Start) do(ctx context.Context, fn func(context.Context, *recipes.Lease) error) (unrecorded, err error) {
	err = s.Lease.Do(ctx, func(inner context.Context, l *recipes.Lease) error {
		result := fn(inner, l)
		unrecorded = s.note(ctx, result)
		return errors.Join(result, unrecorded)
	})
	return unrecorded, err
}

// End records the result of the run, nil for success, and gives the job's lock back. If the lease is lost, nothing can be recorded, and
// the error is recipes.ErrLost: with success = "end", somebody else runs the slot.
func (s *Start) End(ctx context.Context, result error) error {
	return errors.Join(s.note(ctx, result), s.Unlock(ctx))
}

// ahead is how much earlier than its instant a slot may be started.
const ahead = 30 * time.Second

// begin writes the start into the record. early is how long it is until that is allowed.
func (s *Start) begin(late bool) (early time.Duration, err error) {
	ctx := s.Context()
	token := s.Token()
	sn, err := s.session(ctx)
	if err != nil {
		return 0, err
	}
	var own *zk.Stat
	if err := retry(ctx, sn, unanswered, func() (err error) { own, err = sn.Exists(ctx, s.Node()); return err }); err != nil {
		return 0, granted(s.failed(ctx, err))
	}
	if own == nil {
		return 0, s.failed(ctx, zk.ErrNoNode)
	}
	now := time.UnixMilli(own.Mtime)
	err = s.change(ctx, func(r *kind.Record, stat *zk.Stat) (*kind.Record, error) {
		if was := r.Run(s.Slot); was != nil && was.Token == token {
			s.run = *was // an answer was lost
			return nil, nil
		}
		if err := s.o.judge(r, s.Slot, s.params); err != nil {
			return nil, err
		}
		if early, err = s.timely(r, stat, now, late); err != nil || early > 0 {
			return nil, err
		}
		s.run = kind.SlotRun{Slot: s.Slot, State: kind.SlotRunning, By: s.d.ID, Token: token, Tries: 1, Started: s.o.c.Now().UnixMilli()}
		if was := r.Run(s.Slot); was != nil {
			s.run.Tries += was.Tries
		}
		return r.Put(s.run, s.params.Keep), nil
	})
	s.begun = time.Now()
	return early, err
}

// countsFrom is the time after which slots count.
func countsFrom(r *kind.Record, d *recipes.Declaration, stat *zk.Stat) time.Time {
	return r.From(d.Since, time.UnixMilli(stat.Ctime))
}

// timely compares the instant of a slot with the ensemble's clock. Of slots from before the schedule was declared, or from before the
// record began, the record says nothing: there may have been another one.
func (s *Start) timely(r *kind.Record, stat *zk.Stat, now time.Time, late bool) (early time.Duration, err error) {
	if s.params.Schedule == "" {
		return 0, nil
	}
	at, _ := kind.SlotTime(s.Slot) // it was checked
	switch {
	case !at.After(countsFrom(r, s.d, stat)):
		return 0, fmt.Errorf("%w: %s is from before %s was declared", ErrSlotTooOld, s.Slot, s.Path())
	case late && now.Sub(at) > s.params.Late():
		return 0, fmt.Errorf("%w: %s of %s is %v ago by the ensemble's clock, and catch_up is %v", ErrSlotTooOld, s.Slot, s.Path(), now.Sub(at).Round(time.Second), s.params.Late())
	}
	return max(0, at.Sub(now)-ahead), nil
}

// note records the result of the run.
func (s *Start) note(ctx context.Context, result error) error {
	ctx, done := context.WithTimeout(context.WithoutCancel(ctx), s.d.Timeout)
	defer done()
	run := s.run
	run.State, run.Took = kind.SlotSucceeded, time.Since(s.begun).Milliseconds()
	if result != nil {
		run.State, run.Result = kind.SlotFailed, result.Error()
	}
	return s.change(ctx, func(r *kind.Record, _ *zk.Stat) (*kind.Record, error) {
		if was := r.Run(s.Slot); was != nil && was.Token == run.Token && was.State == run.State {
			return nil, nil
		}
		return r.Put(run, s.params.Keep), nil
	})
}

// change writes the record as to makes it, in a transaction that fails if the lease is lost, or if somebody else has written it since it
// was read: then to is asked again. It writes nothing if to returns no record.
//
// If the reply to a write is lost, what is read next says whether it was applied: to recognises its own. If it is not there yet it is
// written again, with the same version, so that one of the two is refused.
func (s *Start) change(ctx context.Context, to func(*kind.Record, *zk.Stat) (*kind.Record, error)) error {
	sn, err := s.session(ctx)
	if err != nil {
		return granted(s.failed(ctx, err))
	}
	for try := (tries{}); ; {
		var data []byte
		var stat *zk.Stat
		err := retry(ctx, sn, unanswered, func() (err error) { data, stat, err = sn.Get(ctx, s.record); return err })
		if err != nil {
			return granted(s.failed(ctx, err))
		}
		record, err := kind.ParseRecord(data)
		if err != nil {
			return granted(fmt.Errorf("recipes: once %s: %w", s.Path(), err))
		}
		next, err := to(record, stat)
		if err != nil || next == nil {
			return granted(err)
		}
		_, err = s.Multi(ctx, &zk.SetDataRequest{Path: s.record, Data: next.Encode(), Version: stat.Version})
		if err == nil {
			return nil
		}
		if try.over(ctx, sn, unwritten, &err) {
			return granted(s.failed(ctx, err))
		}
	}
}

// failed explains why the record could not be read or written. A lease that is lost may not know yet.
func (s *Start) failed(ctx context.Context, err error) error {
	if isNoNode(err) {
		if lost := s.Verify(ctx); errors.Is(lost, recipes.ErrLost) {
			return lost
		}
	}
	switch ended := s.over(); {
	case ended != nil:
		return ended
	case isNoNode(err):
		return noRecord(s.record, err)
	}
	return fmt.Errorf("recipes: once %s: its record: %w", s.Path(), err)
}

// session is the client's. A lease of another one is over.
func (s *Start) session(ctx context.Context) (*recipes.Session, error) { return s.o.c.Session(ctx) }

// over says why the lease is over; nil while it is held, also while it is asked back.
func (s *Start) over() error {
	if why := context.Cause(s.Context()); s.Context().Err() != nil && !errors.Is(why, recipes.ErrRevoked) {
		return why
	}
	return nil
}
