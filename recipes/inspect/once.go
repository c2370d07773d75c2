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

// Job is what is known about a job that runs once for each slot, apart from the holder of its lock.
type Job struct {
	Record *slots.Record // which slots were started; nil if the record could not be read
	From   time.Time     // slots count only if they are after this time, by the ensemble's clock
	Why    error         // why the record could not be read
}

// NewJob reads the data of a job's record node. The job's schedule was declared at the time declared. The record node was created at the
// time created.
func NewJob(data []byte, declared, created time.Time) *Job {
	j := &Job{}
	if j.Record, j.Why = slots.ParseRecord(data); j.Why == nil {
		j.From = j.Record.From(declared, created)
	}
	return j
}

// ReadJob reads the record of the job at path, whose declaration is p. It returns nil if k is not kind.Once.
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

// Slots says which slots of a job were run, which are due, and which were missed. The parameter now is a time of the caller's clock,
// because the ensemble tells its time only to clients that write. An error means that the record cannot be read, or that this machine does
// not know the job's time zone.
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
