package read

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/locktree/locktree/recipes/direct"
)

// A ZooKeeper connection is served in order, so many requests under way only hide the network's latency, and save
// the servers and us from waking up for each. More than this helps no further, and servers stop reading from everybody
// while more than 1,000 requests of all clients wait (globalOutstandingLimit).
const (
	together = 32 // indices whose reads are sent in one write
	parallel = 4  // such writes whose answers are waited for
)

// each calls f for every index of paths, several at a time, and returns the first error. reads says what f reads of some of them,
// which is sent ahead. What else f reads costs a round trip while others wait. The first error ends the context of all calls. f must
// be safe for concurrent use. t counts.
func each(ctx context.Context, t *Tally, s *direct.Session, paths []string, reads func(paths []string) direct.Reads,
	f func(ctx context.Context, s *direct.Session, i int) error) error {
	return batches(ctx, t, len(paths), func(ctx context.Context, first, end int) error {
		ahead := s.ReadAhead(ctx, reads(paths[first:end]))
		for i := first; i < end; i++ {
			if err := f(ctx, ahead, i); err != nil {
				return err
			}
		}
		return nil
	})
}

// Tally counts the nodes that are read, for whoever shows how far that is. It is safe for concurrent use.
type Tally struct{ done, all, least atomic.Int64 }

// Count returns how many nodes were read, and how many there are to read as far as that is known: it grows with each level of the tree.
func (t *Tally) Count() (done, all int) {
	return int(t.done.Load()), int(max(t.all.Load(), t.least.Load()))
}

// begin counts anew, with at least so many to read.
func (t *Tally) begin(least int) {
	t.done.Store(0)
	t.all.Store(0)
	t.least.Store(int64(least))
}

// batches is each for what sends its reads by itself: f has the indices from first to before end.
func batches(ctx context.Context, t *Tally, n int, f func(ctx context.Context, first, end int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	t.all.Add(int64(n))
	var taken atomic.Int64
	var wg sync.WaitGroup
	for range min(parallel, (n+together-1)/together) {
		wg.Go(func() {
			for ctx.Err() == nil {
				end := int(taken.Add(together))
				first := end - together
				if first >= n {
					return
				}
				end = min(end, n)
				if err := f(ctx, first, end); err != nil {
					cancel(err)
					return
				}
				t.done.Add(int64(end - first))
			}
		})
	}
	wg.Wait()
	// nil unless a call failed or the caller's context ended: cancel(nil) comes later.
	return context.Cause(ctx)
}
