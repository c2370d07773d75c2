package apply

import (
	"context"
	"testing"

	"github.com/locktree/locktree/apply/internal/wire"
	"github.com/locktree/locktree/plan"
)

// What the tests, which are programs like any other, know of the inside.

const (
	CommitTries = commitTries
	Suspect     = suspect
	Unanswered  = unanswered
)

var (
	ErrLostAgain  = errLostAgain
	ScaffoldPaths = scaffoldPaths
)

// The stacks of these tests have one key. A list enters a sum through a slow function of it whose results are kept, and a sweep makes
// thousands of stacks with the same few lists: that took a third of its time.
func init() {
	random, one := newKey, newKey()
	newKey = func() string { return one }
	RandomKeys = func(t *testing.T) {
		newKey = random
		t.Cleanup(func() { newKey = func() string { return one } })
	}
}

// RandomKeys gives each stack of the test a key of its own, as programs do.
var RandomKeys func(t *testing.T)

func (x *Applier) Among(set *plan.Access) error { return x.among(set, plan.SetDeclared, "/locks") }

// Begun is an apply that holds its lock and has sent nothing yet.
type Begun struct {
	job *job
	sending
}

func BeginSending(ctx context.Context, x *Applier, p *plan.Plan) (*Begun, error) {
	j := &job{x: x, p: p, own: wire.OwnACL(x.client, nil)}
	l, err := j.lock(ctx)
	return &Begun{j, sending{locked: l}}, err
}

// Readable says whether the servers read so many bytes, and how many are noted to be read.
func (b *Begun) Readable(ctx context.Context, bytes int) (readable bool, noted int) {
	b.size = bytes
	readable = b.readable(ctx)
	return readable, b.longest
}

func (b *Begun) End(ctx context.Context) { b.job.held.unlock(ctx) }
