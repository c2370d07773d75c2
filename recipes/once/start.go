package once

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/recipes"
	"github.com/locktree/locktree/recipes/direct"
	"github.com/locktree/locktree/recipes/internal/errs"
	"github.com/locktree/locktree/recipes/internal/retry"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/kind/slots"
)

// Start is one start of a slot. Its lease is a lease of the job's lock. Its token is larger than the token of every earlier
// start.
type Start struct {
	*recipes.Lease
	// Slot is the name of the slot: slots.Time is its instant.
	Slot string

	o      *Once
	d      *recipes.Declaration
	record string // the path of the record's node
	params *kind.OnceParams
	run    slots.Run
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

// End records the result of the run, nil for success, and gives the job's lock back. If the lease is lost, nothing can be
// recorded, and the error is recipes.ErrLost: with success = "end", another client runs the slot.
func (s *Start) End(ctx context.Context, result error) error {
	noted, released := s.note(ctx, result), s.Unlock(ctx)
	if errors.Is(noted, recipes.ErrLost) && errors.Is(released, recipes.ErrLost) {
		return released // one ErrLost is enough
	}
	return errors.Join(noted, released)
}

// maxEarly is how much earlier than its instant a slot may be started.
const maxEarly = 30 * time.Second

// contender reads the stat of our node in the queue.
func (s *Start) contender() (own *zk.Stat, err error) {
	ctx := s.Context()
	sn, err := s.session(ctx)
	if err == nil {
		err = retry.Do(ctx, sn, isUnanswered, func() (err error) { own, err = sn.Exists(ctx, s.Node()); return err })
	}
	if err == nil && own == nil {
		err = zk.ErrNoNode
	}
	if err != nil {
		return nil, recipes.AfterGrant(s.explainFailure(ctx, err))
	}
	return own, nil
}

// begin writes the start into the record. If it is too early for a start, begin returns how long to wait.
//
// The parameter passed is a past time by the ensemble's clock: the time when our node was last written. It can be as early as the
// moment when the call began to wait for the lock. So a slot that was due then is still due, but it may be too old by now. The
// time of our write in the record shows whether it was too old. If so, begin undoes the write.
func (s *Start) begin(passed time.Time, late bool) (early time.Duration, err error) {
	ctx, token := s.Context(), s.Token()
	var before *slots.Record
	wrote, err := s.change(ctx, func(r *slots.Record, stat *zk.Stat) (*slots.Record, error) {
		if was := r.Run(s.Slot); was != nil && was.Token == token {
			s.run = *was // the reply to this write was lost
			return nil, nil
		}
		if err := s.o.judge(r, s.Slot, s.params); err != nil {
			return nil, err
		}
		if err := s.inTime(countsFrom(r, s.d, stat), passed, late); err != nil {
			return nil, err
		}
		if early = s.untilStart(passed); early > 0 {
			return nil, nil
		}
		s.run = slots.Run{Slot: s.Slot, State: slots.Running, By: s.d.ID, Token: token, Tries: 1, Started: s.o.c.Now().UnixMilli()}
		if was := r.Run(s.Slot); was != nil {
			s.run.Tries += was.Tries
		}
		before = r
		return r.Put(s.run, s.params.Keep), nil
	})
	s.begun = time.Now()
	if err != nil || early > 0 {
		return early, err
	}
	err = s.inTime(time.Time{}, time.UnixMilli(wrote.Mtime), late)
	if err != nil {
		_, undone := s.change(ctx, func(_ *slots.Record, stat *zk.Stat) (*slots.Record, error) {
			if before == nil || stat.Version != wrote.Version { // another program has written the record since
				return nil, nil
			}
			return before, nil
		})
		err = errors.Join(err, undone)
	}
	return 0, err
}

// countsFrom returns the time after which slots count: the schedule was declared and the record was created by then.
func countsFrom(r *slots.Record, d *recipes.Declaration, stat *zk.Stat) time.Time {
	return r.From(d.Since, time.UnixMilli(stat.Ctime))
}

// inTime returns the error of a slot that is too old at moment, a time of the ensemble's clock. A slot that is not after origin
// is too old: the record does not know it, but an earlier record may have known it.
func (s *Start) inTime(origin, moment time.Time, late bool) error {
	if s.params.Schedule == "" {
		return nil
	}
	at, _ := slots.Time(s.Slot) // the slot was checked, so it is the name of an instant
	switch {
	case !at.After(origin):
		return fmt.Errorf("%w: %s is from before %s was declared", ErrSlotTooOld, s.Slot, s.Path())
	case late && moment.Sub(at) > s.params.Late():
		return fmt.Errorf("%w: %s of %s is %v ago by the ensemble's clock, and catch_up is %v", ErrSlotTooOld, s.Slot, s.Path(), moment.Sub(at).Round(time.Second), s.params.Late())
	}
	return nil
}

// untilStart returns how long it is from moment until the slot may be started.
func (s *Start) untilStart(moment time.Time) time.Duration {
	if s.params.Schedule == "" {
		return 0
	}
	at, _ := slots.Time(s.Slot)
	return max(0, at.Sub(moment)-maxEarly)
}

// note records the result of the run.
func (s *Start) note(ctx context.Context, result error) error {
	ctx, done := context.WithTimeout(context.WithoutCancel(ctx), s.d.Timeout)
	defer done()
	run := s.run
	run.State, run.Took = slots.Succeeded, time.Since(s.begun).Milliseconds()
	if result != nil {
		run.State, run.Result = slots.Failed, result.Error()
	}
	_, err := s.change(ctx, func(r *slots.Record, _ *zk.Stat) (*slots.Record, error) {
		if was := r.Run(s.Slot); was != nil && was.Token == run.Token && was.State == run.State {
			return nil, nil
		}
		return r.Put(run, s.params.Keep), nil
	})
	return err
}

// change reads the record, calls edit, and writes the record that edit returns. The transaction fails if the lease is lost, or if
// another program has written the record. In the second case change reads the record and calls edit again. If edit returns nil,
// change writes nothing. The result is the newest stat of the record.
//
// If the reply to a write is lost, change reads again, and edit recognises its own write. If that write is not there, change
// writes again with the same version: ZooKeeper applies one of the two writes at most.
func (s *Start) change(ctx context.Context, edit func(*slots.Record, *zk.Stat) (*slots.Record, error)) (*zk.Stat, error) {
	sn, err := s.session(ctx)
	if err != nil {
		return nil, recipes.AfterGrant(s.explainFailure(ctx, err))
	}
	for try := (retry.Tries{}); ; {
		var data []byte
		var stat *zk.Stat
		err := retry.Do(ctx, sn, isUnanswered, func() (err error) { data, stat, err = sn.Get(ctx, s.record); return err })
		if err != nil {
			return nil, recipes.AfterGrant(s.explainFailure(ctx, err))
		}
		record, err := slots.ParseRecord(data)
		if err != nil {
			return nil, recipes.AfterGrant(errs.Errorf("recipes: once %s: %w", s.Path(), err))
		}
		next, err := edit(record, stat)
		if err != nil || next == nil {
			return stat, recipes.AfterGrant(err)
		}
		done, err := s.Multi(ctx, &zk.SetDataRequest{Path: s.record, Data: next.Encode(), Version: stat.Version})
		if err == nil {
			return done[0].Stat, nil
		}
		if try.Over(ctx, sn, isUnwritten, &err) {
			return nil, recipes.AfterGrant(s.explainFailure(ctx, err))
		}
	}
}

// explainFailure explains why the record could not be read or written. The lease may be lost although the client has not noticed
// it yet: Verify finds out.
func (s *Start) explainFailure(ctx context.Context, err error) error {
	if isNoNode(err) {
		if lost := s.Verify(ctx); errors.Is(lost, recipes.ErrLost) {
			return lost
		}
	}
	switch ended := s.whyOver(); {
	case ended != nil:
		return ended
	case isNoNode(err):
		return noRecord(s.record, err)
	}
	return errs.Errorf("recipes: once %s: its record: %w", s.Path(), err)
}

// session returns the client's session. If that is not the lease's session, the lease is over, and so Multi fails.
func (s *Start) session(ctx context.Context) (currentSession, error) {
	sn, err := s.o.c.Session(ctx)
	return currentSession{sn}, err
}

// currentSession is the session that records a start, for package retry.
type currentSession struct{ *direct.Session }

// Err is the error of a session that is over.
func (currentSession) Err() error { return recipes.ErrSessionLost }

// whyOver returns why the lease is over; nil while it is held, also after it was revoked.
func (s *Start) whyOver() error {
	if why := context.Cause(s.Context()); s.Context().Err() != nil && !errors.Is(why, recipes.ErrRevoked) {
		return why
	}
	return nil
}

// isUnanswered reports whether another try may succeed: no server answered the operation, or the server was overloaded.
func isUnanswered(err error) bool {
	var op *direct.OpError
	switch {
	case !errors.As(err, &op), errors.Is(err, recipes.ErrClosed), errors.Is(err, recipes.ErrSessionLost):
		return false
	case op.Outcome == direct.OutcomeDefinite:
		return errors.Is(err, recipes.ErrThrottled)
	}
	return true
}

// isUnwritten reports whether the write was perhaps not applied. Then the record must be read again.
func isUnwritten(err error) bool { return errors.Is(err, zk.ErrBadVersion) || isUnanswered(err) }

func isNoNode(err error) bool { return errors.Is(err, zk.ErrNoNode) }
