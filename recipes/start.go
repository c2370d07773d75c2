package recipes

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/locktree/locktree/recipes/internal/lock"

	"github.com/locktree/locktree/recipes/internal/declare"
	"github.com/locktree/locktree/recipes/internal/held"
	"github.com/locktree/locktree/recipes/internal/znode"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/recipes/kind"
)

// Start is one start of a slot. Its lease is the job's lock; its token is larger than that of every earlier start.
type Start struct {
	*Lease
	// Slot is the name of the slot: kind.SlotTime is its instant.
	Slot string

	record string // the node
	params *kind.OnceParams
	run    kind.SlotRun
	begun  time.Time
}

// do runs fn, records its result, and gives the job's lock back.
func (s *Start) do(ctx context.Context, fn func(context.Context, *Lease) error) (unrecorded, err error) {
	err = s.Lease.do(ctx, func(inner context.Context, l *Lease) error {
		result := fn(inner, l)
		unrecorded = s.note(ctx, result)
		return errors.Join(result, unrecorded)
	})
	return unrecorded, err
}

// End records the result of the run, nil for success, and gives the job's lock back. If the lease is lost, nothing can be recorded, and
// the error is ErrLost: with success = "end", somebody else runs the slot.
func (s *Start) End(ctx context.Context, result error) error {
	return errors.Join(s.note(ctx, result), s.Unlock(ctx))
}

// ahead is how much earlier than its instant a slot may be started.
const ahead = 30 * time.Second

// begin writes the start into the record. early is how long it is until that is allowed.
func (s *Start) begin(late bool, q *queue) (early time.Duration, err error) {
	ctx := s.Context()
	token := s.Token()
	sn := s.u.H.Session().S
	var own *zk.Stat
	if err := znode.Retry(ctx, sn, znode.Unanswered, func() (err error) { own, err = sn.Exists(ctx, s.Node()); return err }); err != nil {
		return 0, held.AfterGrant(s.failed(err))
	}
	if own == nil {
		return 0, s.failed(zk.ErrNoNode)
	}
	now := time.UnixMilli(own.Mtime)
	err = s.change(ctx, func(r *kind.Record, stat *zk.Stat) (*kind.Record, error) {
		if was := r.Run(s.Slot); was != nil && was.Token == token {
			s.run = *was // an answer was lost
			return nil, nil
		}
		if err := judge(q, s.Path(), r, s.Slot, s.params); err != nil {
			return nil, err
		}
		if early, err = s.timely(r, stat, now, late); err != nil || early > 0 {
			return nil, err
		}
		s.run = kind.SlotRun{Slot: s.Slot, State: kind.SlotRunning, By: q.Id, Token: token, Tries: 1, Started: q.c.now().UnixMilli()}
		if was := r.Run(s.Slot); was != nil {
			s.run.Tries += was.Tries
		}
		return r.Counts(s.params, declaredAt(lock.AboutOf(s.u).D, stat)).Put(s.run, s.params.Keep), nil
	})
	s.begun = time.Now()
	return early, err
}

// declaredAt is the time from which a schedule counts that is new to the record.
func declaredAt(d *declare.Declaration, record *zk.Stat) time.Time {
	if created := time.UnixMilli(record.Ctime); created.After(d.Written) {
		return created
	}
	return d.Written
}

// timely compares the instant of a slot with the ensemble's clock. Of slots from before the schedule was declared, or from before the
// record was created, the record says nothing: there may have been another one.
func (s *Start) timely(r *kind.Record, stat *zk.Stat, now time.Time, late bool) (early time.Duration, err error) {
	if s.params.Schedule == "" {
		return 0, nil
	}
	at, _ := kind.SlotTime(s.Slot) // it was checked
	switch {
	case !at.After(r.From(s.params, declaredAt(lock.AboutOf(s.u).D, stat))):
		return 0, fmt.Errorf("%w: %s is from before %s was declared", ErrSlotTooOld, s.Slot, s.Path())
	case late && now.Sub(at) > s.params.Late():
		return 0, fmt.Errorf("%w: %s of %s is %v ago by the ensemble's clock, and catch_up is %v", ErrSlotTooOld, s.Slot, s.Path(), now.Sub(at).Round(time.Second), s.params.Late())
	}
	return max(0, at.Sub(now)-ahead), nil
}

// note records the result of the run.
func (s *Start) note(ctx context.Context, result error) error {
	ctx, done := context.WithTimeout(context.WithoutCancel(ctx), s.u.H.Session().S.Timeout())
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
	sn := s.u.H.Session().S
	for try := (znode.Tries{}); ; {
		var data []byte
		var stat *zk.Stat
		err := znode.Retry(ctx, sn, znode.Unanswered, func() (err error) { data, stat, err = sn.Get(ctx, s.record); return err })
		if err != nil {
			return held.AfterGrant(s.failed(err))
		}
		record, err := kind.ParseRecord(data)
		if err != nil {
			return held.AfterGrant(fmt.Errorf("recipes: once %s: %w", s.Path(), err))
		}
		next, err := to(record, stat)
		if err != nil || next == nil {
			return held.AfterGrant(err)
		}
		_, err = s.Multi(ctx, &zk.SetDataRequest{Path: s.record, Data: next.Encode(), Version: stat.Version})
		if err == nil || try.Over(ctx, sn, znode.Unwritten, &err) {
			return held.AfterGrant(s.failed(err))
		}
	}
}

// failed explains why the record could not be read or written.
func (s *Start) failed(err error) error {
	switch ended := s.u.Ended(); {
	case err == nil:
		return nil
	case ended != nil:
		return ended
	case znode.IsNoNode(err):
		return noRecord(s.record, err)
	}
	return fmt.Errorf("recipes: once %s: its record: %w", s.Path(), err)
}
