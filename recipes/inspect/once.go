package inspect

import (
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/locktree/locktree/recipes/internal/session"
	"github.com/locktree/locktree/recipes/kind"
	"github.com/locktree/locktree/recipes/kind/slots"
)

// Job is what is known of a job that runs once for each slot, beside who holds its lock.
type Job struct {
	Record *slots.Record // which slots were started; nil if it could not be read
	From   time.Time     // only slots after this time count; it is a time of the ensemble's clock
	Why    error         // why the record could not be read
}

// NewJob reads the data of a job's record node. The parameter declared is the time when the job's schedule was declared, and created the
// time when the record node was created.
func NewJob(data []byte, declared, created time.Time) *Job {
	j := &Job{}
	if j.Record, j.Why = slots.ParseRecord(data); j.Why == nil {
		j.From = j.Record.From(declared, created)
	}
	return j
}

// ReadJob reads the record of the job at path, which has declaration p; nil for other kinds.
func ReadJob(ctx context.Context, s *session.Session, path string, k *kind.Kind, p *kind.Payload) (*Job, error) {
	if k != kind.Once {
		return nil, nil
	}
	data, stat, err := s.Get(ctx, kind.JoinPath(path, k.Record))
	switch {
	case errors.Is(err, zk.ErrNoNode), errors.Is(err, zk.ErrNoAuth):
		return &Job{Why: err}, nil
	case err != nil:
		return nil, err
	}
	declared := int64(0)
	if p != nil {
		declared = p.Since
	}
	return NewJob(data, time.UnixMilli(declared), time.UnixMilli(stat.Ctime)), nil
}

// Slots says which slots of a job were run, are due, and were missed at the caller's time. (The ensemble tells its time only to clients
// that write.) An error means that the record cannot be read, or that this machine does not know the job's time zone.
func (in *Report) Slots(now time.Time) (slots.Outlook, error) {
	switch {
	case in.Job == nil || in.Payload == nil:
		return slots.Outlook{}, nil
	case in.Job.Record == nil:
		return slots.Outlook{}, in.Job.Why
	}
	holder := uint64(0)
	if len(in.Holders) > 0 {
		holder = in.Holders[0].Token
	}
	rules, err := in.Payload.Params.(*kind.OnceParams).Rules()
	return in.Job.Record.Look(rules, in.Job.From, now, holder), err
}
