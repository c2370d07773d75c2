package apply

import (
	"context"
	"testing"

	"github.com/locktree/locktree/apply/internal/commit"
	"github.com/locktree/locktree/apply/internal/wire"
	"github.com/locktree/locktree/plan"
)

// These internals are all that the tests use; otherwise they are programs like any other.

// All stacks of these tests share one key. The sum in a node's mark contains a slow hash of key and access list; these hashes are cached.
// A sweep makes thousands of stacks with the same few lists. When each stack had its own key, the hashes took a third of its time.
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

func (x *Applier) Among(set *plan.Access) error { return x.checkAdmin(set, fromBlock, "/locks") }

// BeginSending returns the sender of an apply that holds its lock and has sent nothing yet.
func BeginSending(ctx context.Context, x *Applier, p *plan.Plan) (*commit.Sender, error) {
	j := &job{x: x, p: p, own: wire.OwnACL(x.client, nil)}
	_, _, err := j.takeLock(ctx)
	return &commit.Sender{Held: j.held, Plan: p, Own: j.own}, err
}
